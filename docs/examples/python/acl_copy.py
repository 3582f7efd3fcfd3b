# SPDX-License-Identifier: BSD-3-Clause
"""The module acl: copies a numpy array to the device and back, like a program for pyACL."""
import acl
import numpy

ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST = 1, 2
ACL_MEM_MALLOC_HUGE_FIRST = 0


def check(ret, what):
    if ret != 0:
        raise RuntimeError(f"{what}: {ret}, {acl.get_recent_err_msg()}")


check(acl.init(), "init")
check(acl.rt.set_device(0), "set_device")
stream, ret = acl.rt.create_stream()
check(ret, "create_stream")

array = numpy.random.default_rng().random((1000, 300), dtype=numpy.float32)
size = array.nbytes

# Pinned memory is copied asynchronously; numpy wraps it as an array.
host, ret = acl.rt.malloc_host(size)
check(ret, "malloc_host")
pinned = acl.util.ptr_to_numpy(host, array.shape, 11)  # 11: NPY_FLOAT32
pinned[:] = array
device, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_HUGE_FIRST)
check(ret, "malloc")
check(acl.rt.memcpy_async(device, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE, stream), "memcpy_async")
check(acl.rt.synchronize_stream(stream), "synchronize_stream")

# Other arrays can be copied, too; the copy is complete when the call returns.
back = numpy.zeros_like(array)
ptr, back = acl.util.numpy_contiguous_to_ptr(back)
check(acl.rt.memcpy(ptr, size, device, size, ACL_MEMCPY_DEVICE_TO_HOST), "memcpy")
if not (back == array).all():
    raise SystemExit("the data read back differ")
print(f"{size} bytes to {acl.get_soc_name()} and back")

check(acl.rt.free(device), "free")
check(acl.rt.free_host(host), "free_host")
check(acl.rt.destroy_stream(stream), "destroy_stream")
check(acl.rt.reset_device(0), "reset_device")
check(acl.finalize(), "finalize")
