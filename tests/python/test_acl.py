# SPDX-License-Identifier: BSD-3-Clause
"""Module acl: the effects of the calls, and the error codes of misuse."""
import mmap
import os
import subprocess
import sys
import threading

import acl
import numpy
import pytest
from acl_names import *  # noqa: F403 (numbers, as a program would write them)

util = acl.util


def random_bytes(size, seed=1):
    return numpy.random.default_rng(seed).integers(0, 256, size, dtype=numpy.uint8)


def view(ptr, size):
    return util.ptr_to_numpy(ptr, (size,), 2)


# ---- base -------------------------------------------------------------------------------------------------


def test_init_counts():
    assert acl.init() == 0
    assert acl.init() == REPEAT_INIT
    assert acl.finalize_reference() == (1, 0)
    assert acl.finalize() == 0
    assert acl.finalize() == REPEAT_FINALIZE
    assert acl.init("/nonexistent/acl.json") == 100003
    assert acl.finalize_reference() == (0, REPEAT_FINALIZE)


def test_init_config(tmp_path):
    bad, good = tmp_path / "bad.json", tmp_path / "good.json"
    bad.write_text("{")
    good.write_text("{}")
    # A process of its own: the configuration of the first init counts.
    program = f"import acl; print(acl.init({str(bad)!r}), acl.init({str(good)!r}), acl.finalize())"
    out = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert out.stdout.split() == ["100006", "0", "0"]


def test_base():
    assert acl.get_version() == (1, 17, 0, 0)
    assert acl.get_soc_name().startswith("Ascend")
    assert [acl.data_type_size(t) for t in (0, 1, 2, 3, 9, 27)] == [4, 2, 1, 4, 8, 2]
    assert acl.float_to_float16(1.5) == 0x3E00
    assert acl.float16_to_float(0xC000) == -2.0


def test_log():
    program = 'import acl\n\ndef speak(): acl.app_log(3, "100% said")\n\nspeak()\nacl.app_log(0, "not shown")'
    out = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "<string>:3: speak: 100% said" in out.stderr and "not shown" not in out.stderr
    assert acl.app_log(0, "") is None
    for wrong in ((), (0,), (0, 1), ("0", "text")):
        with pytest.raises(TypeError):
            acl.app_log(*wrong)


def test_data_buffer():
    buffer = acl.create_data_buffer(4096, 100)
    assert acl.get_data_buffer_addr(buffer) == 4096
    assert acl.get_data_buffer_size(buffer) == acl.get_data_buffer_size_v2(buffer) == 100
    assert acl.update_data_buffer(buffer, 8192, 5) == 0
    assert (acl.get_data_buffer_addr(buffer), acl.get_data_buffer_size_v2(buffer)) == (8192, 5)
    assert acl.destroy_data_buffer(buffer) == 0
    assert acl.destroy_data_buffer(0) == PARAM
    assert acl.get_data_buffer_addr(0) == 0


def test_error_text(rt):
    acl.get_recent_err_msg()
    rt.get_last_error(0)  # what earlier tests left
    assert acl.get_recent_err_msg() is None
    assert rt.memcpy(0, 8, 0, 8, H2D) == PARAM
    assert "aclrtMemcpy" in acl.get_recent_err_msg()
    assert rt.peek_at_last_error(0) == 0  # argument errors do not count
    assert rt.destroy_stream(12345) == RT_HANDLE
    assert rt.peek_at_last_error(0) == RT_HANDLE
    assert rt.get_last_error(0) == RT_HANDLE
    assert rt.get_last_error(0) == 0
    assert rt.get_last_error(1) == PARAM


# ---- devices and contexts ----------------------------------------------------------------------------------


def test_device(rt):
    count, ret = rt.get_device_count()
    assert ret == 0 and count >= 2
    assert rt.get_device() == (0, 0)
    assert rt.get_run_mode() == (1, 0)
    assert rt.set_device(count) == RT_DEVICE_ID
    assert rt.set_device(-1) == RT_DEVICE_ID
    assert rt.query_device_status(0) == (0, 0)
    assert rt.device_get_stream_priority_range() == (7, 0, 0)
    assert rt.synchronize_device() == 0
    assert rt.synchronize_device_with_timeout(0) == RT_PARAM
    total, ret = rt.get_device_info(0, 301)
    assert ret == 0 and total > 0
    assert rt.device_get_bare_tgid() == (os.getpid(), 0)
    rates, ret = rt.get_device_utilization_rate(0)
    assert ret == 0 and rates == {"cube_utilization": -1, "vector_utilization": -1, "aicpu_utilization": -1,
                                  "memory_utilization": -1, "utilization_extend": 0}
    assert rt.get_device_utilization_rate(count)[1] == RT_DEVICE_ID


def test_context(rt):
    first, ret = rt.get_context()
    assert ret == 0
    context, ret = rt.create_context(0)
    assert ret == 0 and rt.get_context() == (context, 0)
    stream, ret = rt.create_stream()
    assert rt.set_context(first) == 0
    assert rt.destroy_stream(stream) == RT_OTHER_CONTEXT
    assert rt.destroy_context(context) == 0
    assert rt.set_context(context) == RT_PARAM
    assert rt.destroy_context(first) == RT_NO_CONTEXT
    assert rt.get_primary_ctx_state(0) == (1, 0, 0)
    default, ret = rt.ctx_get_current_default_stream()
    assert ret == 0 and rt.stream_query(default)[1] == 0


def test_thread_without_context(rt):
    seen = []
    t = threading.Thread(target=lambda: seen.extend([rt.get_context(), rt.malloc(8, 0), rt.create_stream()]))
    t.start()
    t.join()
    assert seen == [(0, RT_NO_CONTEXT)] * 3


def test_peers(rt):
    assert rt.device_can_access_peer(0, 0)[1] == PARAM
    assert rt.device_can_access_peer(0, 1) == (1, 0)
    assert rt.device_enable_peer_access(1, 1) == FLAG_UNSUPPORTED
    assert rt.device_enable_peer_access(0, 0) == PARAM
    assert rt.device_peer_access_status(0, 1) == (0, 0)
    assert rt.device_enable_peer_access(1, 0) == 0
    assert rt.device_peer_access_status(0, 1) == (1, 0)
    assert rt.device_peer_access_status(1, 0) == (0, 0)
    assert rt.device_disable_peer_access(1) == 0


# ---- memory ------------------------------------------------------------------------------------------------


def test_malloc(rt):
    for make in (rt.malloc, rt.malloc_align32, lambda s, p: rt.malloc_cached(s, NORMAL_ONLY),
                 lambda s, p: rt.malloc_for_task_scheduler(s, p, {}),
                 lambda s, p: rt.malloc_with_cfg(s, p, {}),
                 lambda s, p: rt.malloc_with_cfg(s, p, {"attrs": [{"attr": 1, "value": {"moduleId": 3}}]})):
        ptr, ret = make(1000, HUGE_FIRST)
        assert ret == 0 and ptr >= 0x100000000000
        attributes, ret = rt.pointer_get_attributes(ptr + 999)
        assert ret == 0 and attributes["location"] == {"id": 0, "type": 1} and attributes["page_size"] > 0
        assert len(attributes["rsv"]) == 4
        assert rt.free(ptr + 64) == RT_PARAM
        assert rt.free(ptr) == 0
        assert rt.free(ptr) == RT_PARAM
    assert rt.malloc(0, 0) == (0, PARAM)
    assert rt.malloc(1 << 50, 0) == (0, RT_MEMORY)
    assert rt.malloc_cached(100, HUGE_ONLY)[1] == RT_NOT_SUPPORTED
    assert rt.malloc_with_cfg(8, 0, {"attrs": [{"attr": 9, "value": {}}]})[1] == RT_PARAM
    with pytest.raises(TypeError):
        rt.malloc_with_cfg(8, 0, {"attrs": [1]})
    assert rt.free(0) == PARAM
    free, total, ret = rt.get_mem_info(0)
    assert ret == 0 and 0 < free <= total
    assert rt.get_mem_info(99)[2] == RT_MEMORY_TYPE


def test_malloc_host(rt, memory):
    ptr, ret = rt.malloc_host_with_cfg(4096, {})
    assert ret == 0
    assert rt.pointer_get_attributes(ptr)[0]["location"]["type"] == 0
    assert rt.free_host(ptr) == 0
    assert rt.free_host(ptr) == RT_PARAM
    assert rt.free_host(memory.device(64)) == RT_PARAM
    assert rt.malloc_host(0) == (0, PARAM)


def test_register(rt):
    array = numpy.frombuffer(mmap.mmap(-1, 1 << 16), numpy.uint8)
    ptr, _ = util.numpy_contiguous_to_ptr(array)
    assert rt.pointer_get_attributes(ptr)[0]["location"]["type"] == 2
    assert rt.host_register(ptr + 1, 4096, 0)[1] == RT_DRIVER
    assert rt.host_register(ptr, array.nbytes, 1)[1] == RT_NOT_SUPPORTED
    dev, ret = rt.host_register(ptr, array.nbytes, 0)
    assert ret == 0 and dev
    assert rt.pointer_get_attributes(ptr)[0]["location"]["type"] == 0
    assert rt.host_register_v2(ptr, 4096, 0x10000000) == RT_REGISTERED
    assert rt.host_get_device_pointer(ptr, 0) == (dev, 0)
    assert rt.host_get_device_pointer(ptr, 1)[1] == PARAM
    assert rt.host_unregister(ptr) == 0
    assert rt.host_unregister(ptr) == RT_NOT_REGISTERED
    assert rt.host_register_v2(ptr, array.nbytes, 0) == RT_PARAM
    assert rt.host_register_v2(ptr, array.nbytes, 0x10000000) == 0
    assert rt.host_unregister(ptr) == 0


def test_memset(rt, memory, acl_stream):
    dev, host = memory.device(1000), memory.host(1000)
    assert rt.memset(dev, 1000, 0x1AB, 1000) == 0
    assert rt.memcpy(host, 1000, dev, 1000, D2H) == 0
    assert (view(host, 1000) == 0xAB).all()
    assert rt.memset_async(dev, 1000, 7, 500, acl_stream) == 0
    assert rt.memcpy_async(host, 1000, dev, 1000, D2H, acl_stream) == 0
    assert rt.synchronize_stream(acl_stream) == 0
    assert (view(host, 500) == 7).all() and (view(host + 500, 500) == 0xAB).all()
    assert rt.memset(dev, 10, 0, 11) == RT_PARAM
    assert rt.memset(0, 0, 0, 0) == 0
    assert rt.memset(0, 10, 0, 1) == PARAM
    assert rt.mem_flush(dev, 10) == rt.mem_invalidate(dev, 10) == 0
    assert rt.mem_flush(0, 10) == rt.mem_invalidate(dev, 0) == PARAM


def test_virtual_memory(rt):
    prop = {"handleType": 0, "allocationType": 0, "memAttr": 4, "location": {"id": 0, "type": 1}}
    granularity, ret = rt.mem_get_allocation_granularity(prop, 0)
    assert ret == 0 and granularity == 2 << 20
    va, ret = rt.reserve_mem_address(granularity, 0, 0, 1)
    assert ret == 0
    handle, ret = rt.malloc_physical(granularity, prop, 0)
    assert ret == 0
    assert rt.map_mem(va, granularity, 0, handle, 0) == 0
    data = random_bytes(granularity)
    ptr, _ = util.numpy_contiguous_to_ptr(data)
    assert rt.memcpy(va, granularity, ptr, granularity, H2D) == 0
    back = numpy.zeros_like(data)
    assert rt.memcpy(util.numpy_contiguous_to_ptr(back)[0], granularity, va, granularity, D2H) == 0
    assert (back == data).all()
    assert rt.unmap_mem(va) == 0
    assert rt.unmap_mem(va) == RT_PARAM
    assert rt.free_physical(handle) == 0
    assert rt.release_mem_address(va) == 0
    assert rt.release_mem_address(va) == RT_PARAM
    assert rt.malloc_physical(granularity, dict(prop, handleType=5), 0) == (0, PARAM)
    assert rt.malloc_physical(granularity, dict(prop, location={"id": 77, "type": 1}), 0) == (0, RT_DEVICE_ID)
    with pytest.raises(TypeError):
        rt.malloc_physical(granularity, {"memAttr": "4"}, 0)


# ---- copies ------------------------------------------------------------------------------------------------


def test_memcpy(rt, memory):
    size = 100_001
    data = random_bytes(size)
    dev, dev2, host = memory.device(size), memory.device(size), memory.host(size)
    ptr, _ = util.numpy_contiguous_to_ptr(data)
    assert rt.memcpy(dev, size, ptr, size, H2D) == 0
    assert rt.memcpy(dev2, size, dev, size, D2D) == 0
    assert rt.memcpy(host, size, dev2, size, D2H) == 0
    assert (view(host, size) == data).all()
    assert rt.memcpy(dev, 0, 0, 0, 99) == 0  # a size of 0 succeeds before the kind is checked
    assert rt.memcpy(dev, size, 0, size, H2D) == PARAM
    assert rt.memcpy(dev, size, ptr, size, INNER) == PARAM
    assert rt.memcpy(dev, size - 1, ptr, size, H2D) == RT_PARAM


@pytest.mark.parametrize("copy", ["memcpy_async", "memcpy_async_with_condition"])
def test_memcpy_async(rt, memory, acl_stream, copy):
    size = 70_007
    copy = getattr(rt, copy)
    dev, src, dst = memory.device(size), memory.host(size), memory.host(size)
    view(src, size)[:] = random_bytes(size)
    assert copy(dev, size, src, size, H2D, acl_stream) == 0
    assert copy(dst, size, dev, size, D2H, acl_stream) == 0
    assert rt.synchronize_stream(acl_stream) == 0
    assert (view(src, size) == view(dst, size)).all()
    assert copy(dst, size, src, size, H2H, acl_stream) == RT_NOT_SUPPORTED
    assert copy(dev, size, src, size, 7, acl_stream) == PARAM
    assert copy(0, size, src, size, H2D, acl_stream) == PARAM
    assert copy(dev, size - 1, src, size, H2D, acl_stream) == RT_PARAM
    assert copy(dev, size, src, size, H2D, acl_stream + 64) == RT_HANDLE
    task, ret = rt.get_thread_last_task_id()
    assert ret == 0 and copy(dev, size, src, size, H2D, acl_stream) == 0
    assert rt.get_thread_last_task_id() == (task + 1, 0)
    array = random_bytes(size)  # pageable: D2H is invalid
    assert copy(dev, size, util.numpy_contiguous_to_ptr(array)[0], size, D2H, acl_stream) == RT_PARAM
    assert copy(dev, size, src, size, H2D, 0) == 0  # the default stream
    assert rt.synchronize_stream(0) == 0


def test_refused_copies():
    """The copies that keep the GIL are refused as well."""
    program = """if 1:
        import acl
        rt = acl.rt
        assert rt.set_device(0) == 0
        dev, host = rt.malloc(64, 0)[0], rt.malloc_host(64)[0]
        codes = [f(dev, 64, host, 64, 1, 0) for f in (rt.memcpy_async, rt.memcpy_async_with_condition) for _ in range(3)]
        assert rt.synchronize_stream(0) == 0
        print(codes)"""
    out = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=60, check=True,
                         env={**os.environ, "USDMA_REFUSE": "aclrtMemcpyAsync"})
    assert out.stdout == f"{[RT_NOT_SUPPORTED] * 3 + [0] * 3}\n"


def test_memcpy2d(rt, memory, acl_stream):
    rows, width, pitch = 37, 100, 128
    dev, src, dst = memory.device(rows * pitch), memory.host(rows * pitch), memory.host(rows * pitch)
    view(src, rows * pitch)[:] = random_bytes(rows * pitch)
    view(dst, rows * pitch)[:] = 0
    assert rt.memcpy2d(dev, pitch, src, pitch, width, rows, H2D) == 0
    assert rt.memcpy2d_async(dst, pitch, dev, pitch, width, rows, D2H, acl_stream) == 0
    assert rt.synchronize_stream(acl_stream) == 0
    a = view(src, rows * pitch).reshape(rows, pitch)
    b = view(dst, rows * pitch).reshape(rows, pitch)
    assert (a[:, :width] == b[:, :width]).all() and not b[:, width:].any()
    assert rt.memcpy2d(dev, width - 1, src, pitch, width, rows, H2D) == PARAM
    assert rt.memcpy2d(dst, pitch, src, pitch, width, rows, H2H) == PARAM


def test_descriptor(rt, memory, acl_stream):
    size, ret = rt.get_memcpy_desc_size(INNER)
    assert (size, ret) == (32, 0)
    assert rt.get_memcpy_desc_size(D2D)[1] == RT_NOT_SUPPORTED
    dev, dev2, host = memory.device(4096), memory.device(4096), memory.host(4096)
    desc = memory.device(64)
    view(host, 4096)[:] = data = random_bytes(4096)
    assert rt.memcpy(dev, 4096, host, 4096, H2D) == 0
    assert rt.set_memcpy_desc(desc, INNER, dev, dev2, 4096, 0) == (desc, 0)
    assert rt.set_memcpy_desc(desc, INNER, dev, dev2, 4096) == (desc, 0)
    assert rt.set_memcpy_desc(desc, INNER, 0, dev2, 4096) == (desc, PARAM)
    assert rt.memcpy_async_with_desc(desc, INNER, acl_stream) == 0
    assert rt.synchronize_stream(acl_stream) == 0
    assert rt.memcpy(host, 4096, dev2, 4096, D2H) == 0
    assert (view(host, 4096) == data).all()
    assert rt.memcpy_async_with_desc(desc, INNER, 0) == PARAM


def test_reduce(rt, memory, acl_stream):
    a, b = numpy.arange(1000, dtype=numpy.float32), numpy.arange(1000, dtype=numpy.float32)[::-1].copy()
    dev, dev2 = memory.device(4000), memory.device(4000)
    for kind, expected in ((10, a + b), (11, numpy.maximum(a, b)), (12, numpy.minimum(a, b))):
        assert rt.memcpy(dev, 4000, util.numpy_contiguous_to_ptr(a)[0], 4000, H2D) == 0
        assert rt.memcpy(dev2, 4000, util.numpy_contiguous_to_ptr(b)[0], 4000, H2D) == 0
        assert rt.reduce_async(dev, dev2, 4000, kind, 0, acl_stream, 0) == 0
        assert rt.synchronize_stream(acl_stream) == 0
        out = numpy.zeros_like(a)
        assert rt.memcpy(util.numpy_contiguous_to_ptr(out)[0], 4000, dev, 4000, D2H) == 0
        assert (out == expected).all()
    assert rt.reduce_async(dev, dev2, 0, 10, 0, acl_stream, 0) == RT_PARAM
    assert rt.reduce_async(dev, dev2, 4000, 9, 0, acl_stream, 0) == RT_PARAM
    assert rt.reduce_async(dev, dev2, 4000, 10, 99, acl_stream, 0) == PARAM
    assert rt.reduce_async(dev, dev2, 4000, 10, 0, acl_stream, 1) == PARAM


# ---- streams and events ------------------------------------------------------------------------------------


def test_stream(rt):
    a, ret = rt.create_stream()
    b, ret2 = rt.create_stream_with_config(3, 3)
    assert ret == ret2 == 0
    assert rt.stream_get_id(a)[0] != rt.stream_get_id(b)[0]
    assert rt.stream_query(a) == (0, 0)
    assert rt.synchronize_stream_with_timeout(a, 0) == RT_PARAM
    assert rt.get_stream_available_num()[0] > 0
    assert rt.get_stream_attribute(b, 5)[0]["streamPriority"] == 3
    assert rt.set_stream_attribute(a, 1, {"failureMode": 1}) == 0
    assert rt.get_stream_attribute(a, 1)[0]["failureMode"] == 1
    assert rt.set_stream_attribute(a, 77, {}) == RT_PARAM
    assert rt.set_stream_failure_mode(b, 1) == 0
    assert rt.set_stream_failure_mode(b, 0) == RT_NOT_SUPPORTED
    assert rt.destroy_stream(a) == 0
    assert rt.destroy_stream(a) == RT_HANDLE
    assert rt.stream_query(a)[1] == RT_HANDLE
    assert rt.stream_abort(b) == 0
    assert rt.synchronize_stream(b) == RT_STREAM_ABORT
    assert rt.destroy_stream_force(b) == 0
    assert rt.destroy_stream(0) == PARAM


def test_timeout_leaves_stream_usable(rt, memory, acl_stream):
    word = memory.device(8)
    assert rt.memset(word, 8, 0, 8) == 0
    assert rt.value_wait(word, 5, 1, acl_stream) == 0
    assert rt.stream_query(acl_stream) == (1, 0)
    assert rt.synchronize_stream_with_timeout(acl_stream, 10) == RT_STREAM_TIMEOUT
    other, _ = rt.create_stream()
    assert rt.value_write(word, 5, 0, other) == 0
    assert rt.synchronize_stream(acl_stream) == 0
    assert rt.value_wait(word, 5, 4, acl_stream) == RT_PARAM
    assert rt.value_write(0, 5, 0, acl_stream) == PARAM
    assert rt.destroy_stream(other) == 0
    assert rt.cmo_async(word, 8, 0, acl_stream) == 0
    assert rt.cmo_async(0, 8, 0, acl_stream) == PARAM


def test_event(rt, memory, acl_stream):
    start, ret = rt.create_event()
    end, _ = rt.create_event()
    assert ret == 0
    assert rt.query_event_status(start) == (0, 0)
    assert rt.event_elapsed_time(start, end)[1] == 507000
    dev, host = memory.device(1 << 20), memory.host(1 << 20)
    assert rt.record_event(start, acl_stream) == 0
    assert rt.memcpy_async(dev, 1 << 20, host, 1 << 20, H2D, acl_stream) == 0
    assert rt.record_event(end, acl_stream) == 0
    assert rt.synchronize_event(end) == 0
    assert rt.synchronize_event_with_timeout(end, 1000) == 0
    assert rt.synchronize_event_with_timeout(end, 0) == RT_PARAM
    assert rt.query_event_status(end) == (1, 0)
    assert rt.query_event(end) == (0, 0)
    assert rt.query_event_wait_status(end) == (0, 0)
    ms, ret = rt.event_elapsed_time(start, end)
    assert ret == 0 and isinstance(ms, float) and ms >= 0
    us, ret = rt.event_get_timestamp(end)
    assert ret == 0 and us > 0
    assert rt.reset_event(end, acl_stream) == 0
    assert rt.get_event_id(start)[1] == 0 and rt.get_event_avail_num()[0] > 0
    assert rt.create_event_with_flag(0) == (0, RT_PARAM)
    ex, ret = rt.create_event_ex_with_flag(1)
    assert ret == 0 and rt.query_event_status(ex) == (1, 0)
    assert rt.reset_event(ex, acl_stream) == RT_NOT_SUPPORTED
    for e in (start, end, ex):
        assert rt.destroy_event(e) == 0
        assert rt.destroy_event(e) == RT_HANDLE


def test_stream_wait_event(rt, memory, acl_stream):
    word, other = memory.device(16), rt.create_stream()[0]
    event, _ = rt.create_event_ex_with_flag(1)
    assert rt.memset(word, 16, 0, 16) == 0
    assert rt.value_wait(word, 1, 1, acl_stream) == 0
    assert rt.record_event(event, acl_stream) == 0
    assert rt.stream_wait_event(other, event) == 0
    assert rt.stream_query(other) == (1, 0)
    third, _ = rt.create_stream()
    assert rt.value_write(word, 1, 0, third) == 0
    assert rt.synchronize_stream(other) == 0
    for s in (other, third):
        assert rt.destroy_stream(s) == 0
    assert rt.destroy_event(event) == 0
    assert rt.set_op_wait_timeout(0) == 0


def test_notify(rt, acl_stream):
    other = rt.create_stream()[0]
    n, ret = rt.create_notify(0)
    assert ret == 0 and rt.get_notify_id(n)[1] == 0
    assert rt.create_notify(2) == (0, RT_PARAM)
    assert rt.wait_and_reset_notify(n, acl_stream, 60) == 0
    assert rt.record_notify(n, other) == 0
    assert rt.synchronize_stream(acl_stream) == 0
    for wrong in (-1, 1 << 32):
        with pytest.raises(TypeError):
            rt.wait_and_reset_notify(n, acl_stream, wrong)
    assert rt.notify_batch_reset([n]) == 0
    assert rt.notify_batch_reset([]) in (PARAM, RT_PARAM)
    with pytest.raises(TypeError):
        rt.notify_batch_reset(n)
    key, ret = rt.notify_get_export_key(n, 65, 2)
    assert ret == 0 and len(key) == 64
    with pytest.raises(TypeError):
        rt.notify_get_export_key(n, 1024, 2)
    assert rt.notify_set_import_pid(n, [1]) == 0
    assert rt.notify_import_by_key("nonsense", 0)[1] == RT_PARAM
    assert rt.destroy_notify(n) == 0
    assert rt.record_notify(n, acl_stream) == RT_HANDLE
    assert rt.destroy_stream(other) == 0


def test_ipc_key(rt, memory):
    dev = memory.device(4096)
    key, ret = rt.ipc_mem_get_export_key(dev, 4096, 65, 1)
    assert ret == 0 and len(key) == 64
    assert rt.ipc_mem_set_import_pid(key, [1, 2]) == 0
    assert rt.ipc_mem_close(key) == 0
    assert rt.ipc_mem_close("nonsense") == RT_PARAM
    with pytest.raises(TypeError):
        rt.ipc_mem_get_export_key(dev, 4096, 1024, 1)


# ---- callbacks ---------------------------------------------------------------------------------------------


def test_callbacks(rt, acl_stream):
    calls, ready, stop = [], threading.Event(), threading.Event()
    failures = []

    def serve():
        rt.set_device(0)
        ready.set()
        while not stop.is_set():
            ret = rt.process_report(50)
            if ret not in (0, RT_REPORT_TIMEOUT, RT_NOT_SUBSCRIBED):
                failures.append(ret)

    t = threading.Thread(target=serve)
    t.start()
    ready.wait()
    assert rt.launch_callback(print, 0, 0, acl_stream) == RT_NO_CALLBACKS
    assert rt.subscribe_report(t.ident, acl_stream) == 0
    assert rt.process_report(10) == RT_NOT_SUBSCRIBED  # not subscribed: the other thread is
    assert rt.process_report(0) == PARAM

    for i in range(200):
        payload = {"n": i}
        assert rt.launch_callback(lambda data: calls.append((data["n"], threading.get_ident())), payload, i % 2, acl_stream) == 0
    assert rt.launch_callback(print, 0, 2, acl_stream) == PARAM
    done = threading.Event()
    assert rt.launch_callback(lambda _: done.set(), None, 1, acl_stream) == 0
    assert rt.synchronize_stream(acl_stream) == 0
    assert done.is_set()  # the last callback is blocking: the stream waited for it, and it waited for the earlier ones
    stop.set()
    t.join()
    assert calls == [(i, t.ident) for i in range(200)] and not failures
    # Each callback waits for the stream's earlier work; later work waits for blocking callbacks only.
    assert [n for n, _ in calls if n % 2] == list(range(1, 200, 2))
    assert rt.unsubscribe_report(t.ident, acl_stream) == 0
    with pytest.raises(TypeError, match="^parameter must be callable$"):
        rt.launch_callback(7, 0, 0, acl_stream)


def test_copy_that_waits_for_a_callback(rt, memory, acl_stream):
    """A copy of pageable memory waits for the stream, which waits for a Python callback: the copy has to release the GIL."""
    dev, data, stop, order = memory.device(1000), random_bytes(1000), threading.Event(), []
    ready = threading.Event()

    def serve():
        rt.set_device(0)
        ready.set()
        while not stop.is_set():
            rt.process_report(50)

    t = threading.Thread(target=serve)
    t.start()
    ready.wait()
    assert rt.subscribe_report(t.ident, acl_stream) == 0
    for copy in (rt.memcpy_async, rt.memcpy_async_with_condition):
        assert rt.launch_callback(lambda _: order.append("function"), None, 1, acl_stream) == 0
        assert copy(dev, 1000, util.numpy_contiguous_to_ptr(data)[0], 1000, H2D, acl_stream) == 0
        order.append("copy")
    stop.set()
    t.join()
    assert order == ["function", "copy"] * 2
    assert rt.unsubscribe_report(t.ident, acl_stream) == 0


def test_callback_that_raises(rt, acl_stream, monkeypatch):
    seen = []
    monkeypatch.setattr("sys.unraisablehook", lambda u: seen.append(u.exc_type))
    assert rt.subscribe_report(threading.get_ident(), acl_stream) == 0
    assert rt.launch_callback(lambda _: 1 / 0, None, 1, acl_stream) == 0
    assert rt.process_report(60000) == 0
    assert seen == [ZeroDivisionError]
    assert rt.synchronize_stream(acl_stream) == 0
    assert rt.unsubscribe_report(threading.get_ident(), acl_stream) == 0


def test_exception_callback(rt):
    assert rt.set_exception_info_callback(lambda info: None) == 0
    assert rt.set_exception_info_callback(None) == 0
    assert rt.set_exception_info_callback() == 0
    with pytest.raises(TypeError, match="^parameter must be callable$"):
        rt.set_exception_info_callback(1)


def test_exception_info():
    """A process of its own: the device fails its first descriptor."""
    program = """if 1:
        import acl, threading
        rt, seen = acl.rt, []
        def failed(info):
            seen.append([rt.get_error_code_from_exception_info(info), rt.get_stream_id_from_exception_info(info),
                         rt.get_device_id_from_exception_info(info), rt.get_thread_id_from_exception_info(info),
                         rt.get_task_id_from_exception_info(info)])
        assert rt.set_device(0) == 0 and rt.set_exception_info_callback(failed) == 0
        stream, dev, host = rt.create_stream()[0], rt.malloc(64, 0)[0], rt.malloc_host(64)[0]
        assert rt.memcpy_async(dev, 64, host, 64, 1, stream) == 0
        task = rt.get_thread_last_task_id()[0]
        code = rt.synchronize_stream(stream)
        assert code and seen == [[code, rt.stream_get_id(stream)[0], 0, threading.get_native_id(), task]], seen
        assert rt.set_exception_info_callback() == 0
        print("seen")"""
    out = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=60, check=False,
                         env={**os.environ, "USDMA_DEVICES": "sim:faults=fail@1", "USDMA_CLEAR_MEMORY": "never", "USDMA_LOG": "none"})
    assert out.stdout == "seen\n", out.stderr


def test_operator_timeouts(rt):
    interval, ret = rt.get_op_timeout_interval()
    assert ret == 0 and interval > 0
    assert rt.set_op_execute_timeout_v2(interval + 1) == (2 * interval, 0)
    assert rt.set_op_execute_timeout(3) == 0
    assert rt.get_op_execute_timeout() == (3000, 0)
    assert rt.set_op_execute_timeout(0) == 0


def test_memory_errors(rt):
    assert rt.get_mem_uce_info(0, 20) == ([], 0)
    assert rt.get_mem_uce_info(0, 0) == ([], PARAM)
    assert rt.get_mem_uce_info(99, 20)[1] == RT_DEVICE_ID
    assert rt.mem_uce_repair(0, [{"addr": 0, "len": 1, "reserved": [0] * 14}]) == RT_NOT_SUPPORTED
    with pytest.raises(TypeError):
        rt.mem_uce_repair(0, [{"addr": "0"}])


# ---- util --------------------------------------------------------------------------------------------------


def test_bytes(rt, memory):
    data = bytes(random_bytes(1000))
    dev = memory.device(1000)
    assert rt.memcpy(dev, 1000, util.bytes_to_ptr(data), 1000, H2D) == 0
    into = bytes(1000)
    assert rt.memcpy(util.bytes_to_ptr(into), 1000, dev, 1000, D2H) == 0
    assert into == data == util.ptr_to_bytes(util.bytes_to_ptr(data), 1000)
    for wrong in (bytearray(3), "x", 1, None):
        with pytest.raises(ValueError):
            util.bytes_to_ptr(wrong)
    for wrong in (0, dev):
        with pytest.raises(ValueError):  # instead of a crash
            util.ptr_to_bytes(wrong, 4)
        with pytest.raises(ValueError):
            util.ptr_to_numpy(wrong, (4,), 2)


def test_numpy(rt, memory):
    a = numpy.arange(12, dtype=numpy.int64).reshape(3, 4)
    ptr, same = util.numpy_contiguous_to_ptr(a)
    assert ptr == a.ctypes.data and same is a
    ptr, copy = util.numpy_contiguous_to_ptr(a.T)
    assert ptr == copy.ctypes.data and copy.flags.c_contiguous and (copy == a.T).all()
    with pytest.warns(DeprecationWarning):
        assert util.numpy_to_ptr(a) == a.ctypes.data
    with pytest.warns(UserWarning, match="not contiguous"):
        util.numpy_to_ptr(a.T)
    with pytest.raises(ValueError):
        util.numpy_to_ptr([1])
    with pytest.raises(ValueError):
        util.numpy_contiguous_to_ptr(b"x")
    host = memory.host(96)
    for number, dtype in ((0, "?"), (1, "i1"), (2, "u1"), (3, "i2"), (4, "u2"), (5, "i4"), (6, "u4"), (7, "i8"),
                          (8, "u8"), (11, "f4"), (12, "f8"), (23, "f2")):
        assert util.ptr_to_numpy(host, (2, 3), number).dtype == numpy.dtype(dtype)
    v = util.ptr_to_numpy(host, (3, 4), 7)
    v[:] = a
    assert util.ptr_to_bytes(host, 96) == a.tobytes()  # a view, not a copy
    for wrong in ([3, 4], 3, (3, None), (-1,)):
        with pytest.raises(TypeError):
            util.ptr_to_numpy(host, wrong, 7)


def test_threads():
    seen = []
    t, ret = util.start_thread(lambda args: seen.append((args, threading.get_ident())), [1, 2])
    assert ret == 0 and util.stop_thread(t) == 0
    assert seen == [([1, 2], t)]
    t, ret = util.start_thread(lambda: seen.append("bare"), None)
    assert util.stop_thread(t) == 0 and seen[-1] == "bare"
    assert util.stop_thread(t) == PARAM  # joined already
    t, ret = util.start_thread(lambda: 1 / 0, None)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        util.stop_thread(t)
    with pytest.raises(TypeError):
        util.start_thread(1, None)
