/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/hccl/table.h"

#include <cstring>

namespace hccl {
namespace {

constexpr u64 piece = u64(1) << 32; /* longer copies are split into pieces of this size */

bool on_device(const void *ptr)
{
	aclrtPtrAttributes at = {};

	/* the lookup fails only for an unallocated device address */
	return aclrtPointerGetAttributes(ptr, &at) != ACL_SUCCESS || at.location.type == ACL_MEM_LOCATION_TYPE_DEVICE;
}

bool overlap(const DeviceMem &dst, const DeviceMem &src)
{
	uintptr_t d = uintptr_t(dst.ptr()), s = uintptr_t(src.ptr());

	return d != s && d < s + src.size() && s < d + src.size();
}

/* A stream object without a stream: a synchronous copy of host memory. */
HcclResult copy_now(DeviceMem &dst, const DeviceMem &src)
{
	if (!dst.size() || dst.size() < src.size() || overlap(dst, src))
		return HCCL_E_INTERNAL;
	if (on_device(dst.ptr()) || on_device(src.ptr())) {
		log_warn("hccl: a copy of device memory needs a stream; this stream object has none");
		return HCCL_E_INTERNAL;
	}
	if (dst.ptr() != src.ptr())
		std::memcpy(dst.ptr(), src.ptr(), size_t(src.size()));
	return HCCL_SUCCESS;
}

HcclResult copy_in_pieces(DeviceMem &dst, const DeviceMem &src, aclrtStream stream)
{
	for (u64 done = 0; done < src.size(); done += piece) {
		u64 len = src.size() - done < piece ? src.size() - done : piece;
		char *to = static_cast<char *>(dst.ptr()) + done;
		const char *from = static_cast<const char *>(src.ptr()) + done;

		if (aclError code = aclrtMemcpyAsync(to, size_t(dst.size()), from, size_t(len),
						     ACL_MEMCPY_DEVICE_TO_DEVICE, stream))
			return acl_failed("aclrtMemcpyAsync", code);
	}
	return HCCL_SUCCESS;
}

HcclResult record_copy(Stream &stream, void *dst, u64 dst_max, const void *src, u64 count, HcclRtMemcpyKind kind)
{
	TaskLogicInfo info(0, TaskLogicType::DISPATCHER_TYPE, TaskLogicFuncType::DISPATCHER_MEMCPYASYNC_TYPE);

	info.taskLogicPara.dispatcherTaskLogicPara.memAsync = {dst, dst_max, const_cast<void *>(src), count, kind};
	return stream.AddTaskLogicInfo(info);
}

aclrtMemcpyKind acl_kind(HcclRtMemcpyKind kind)
{
	return kind == HCCL_RT_MEMCPY_ADDR_DEVICE_TO_DEVICE ? ACL_MEMCPY_DEVICE_TO_DEVICE : aclrtMemcpyKind(kind);
}

} // namespace
} // namespace hccl

HcclResult hrtMemAsyncCopy(void *dst, uint64_t destMax, const void *src, uint64_t count, HcclRtMemcpyKind kind,
			   rtStream_t stream)
{
	if (!dst || !src || !stream)
		return HCCL_E_PTR;
	if (unsigned(kind) >= unsigned(HCCL_RT_MEMCPY_KIND_RESERVED) || destMax < count)
		return HCCL_E_PARA;
	if (!count)
		return HCCL_SUCCESS;
	if (aclError code = aclrtMemcpyAsync(dst, destMax, src, count, hccl::acl_kind(kind), stream))
		return hccl::acl_failed("aclrtMemcpyAsync", code);
	return HCCL_SUCCESS;
}

/* HCCL defines the order of the checks; it is part of the interface. */
HcclResult HcclD2DMemcpyAsync(HcclDispatcher dispatcherPtr, hccl::DeviceMem &dst, const hccl::DeviceMem &src,
			      hccl::Stream &stream, u32, hccl::LinkType)
{
	hccl::dispatcher *d = hccl::find_dispatcher(dispatcherPtr);

	if (!d || !dst.ptr() || !src.ptr() || dst.size() < src.size())
		return HCCL_E_PTR;
	if (d->records_tasks())
		return hccl::record_copy(stream, dst.ptr(), dst.size(), src.ptr(), src.size(),
					 HCCL_RT_MEMCPY_KIND_DEVICE_TO_DEVICE);
	if (!stream.ptr())
		return hccl::copy_now(dst, src);
	if (!src.size() || dst.ptr() == src.ptr())
		return HCCL_SUCCESS;
	return hccl::copy_in_pieces(dst, src, stream.ptr());
}

HcclResult HcclMemcpyAsync(HcclDispatcher dispatcherPtr, void *dst, const uint64_t destMax, const void *src,
			   const uint64_t count, const HcclRtMemcpyKind kind, hccl::Stream &stream, const u32,
			   hccl::LinkType)
{
	hccl::dispatcher *d = hccl::find_dispatcher(dispatcherPtr);

	if (!d || !dst || !src)
		return HCCL_E_PTR;
	if (!d->records_tasks() && !stream.ptr()) {
		hccl::DeviceMem to = hccl::DeviceMem::create(dst, destMax);

		return hccl::copy_now(to, hccl::DeviceMem::create(const_cast<void *>(src), count));
	}
	if (!d->records_tasks() && (!count || dst == src))
		return HCCL_SUCCESS;
	if (destMax < count)
		return HCCL_E_PARA;
	if (d->records_tasks())
		return hccl::record_copy(stream, dst, destMax, src, count, kind);
	return hrtMemAsyncCopy(dst, destMax, src, count, kind, stream.ptr());
}
