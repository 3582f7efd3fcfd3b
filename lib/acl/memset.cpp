/* SPDX-License-Identifier: BSD-3-Clause */
/* Memset with bytes and with 32-bit words. */
#include "lib/acl/capture.h"

namespace usdma::acl {

static aclError beyond(const char *call, size_t count, size_t max)
{
	return fault(call, ACL_ERROR_RT_PARAM_INVALID, "count %zu is more than maxCount %zu", count, max);
}

static bool on_device(const void *p)
{
	return core::translate(p).cls == core::mem_class::device;
}

static aclError check_words(const char *call, const void *p, size_t size, size_t n)
{
	if (!p)
		return bad_arg(call, "ptr is NULL");
	if (reinterpret_cast<u64>(p) % sizeof(u32))
		return bad_arg(call, "ptr %p is not aligned to 4 bytes", p);
	if (size / sizeof(u32) < n)
		return bad_arg(call, "memSize %zu does not hold %zu words", size, n);
	if (core::translate(p).cls == core::mem_class::unregistered)
		return bad_arg(call, "ptr %p is ordinary memory: it must be device memory or pinned", p);
	return ACL_SUCCESS;
}

static aclError fill(const char *call, core::stream *s, void *p, u64 pattern, unsigned width, size_t len)
{
	const noted_task task(s);
	return submit(call, s, [=](core::stream *to) { return core::fill_async(to, p, pattern, width, len); },
		      {{p, len}});
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count)
{
	if (!count)
		return ACL_SUCCESS;
	if (!devPtr)
		return bad_arg(__func__, "devPtr is NULL");
	if (count > maxCount)
		return beyond(__func__, count, maxCount);
	const context_guard c;
	if (!c)
		return no_context(__func__);
	if (const aclError refused = capture_allows(__func__))
		return refused;
	return check(__func__, core::fill_sync(c->dev, devPtr, u8(value), 1, count, deadline::never()), at::copy);
}

aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream)
{
	stream_guard s;
	aclError err;

	if (!count)
		return ACL_SUCCESS;
	if (!devPtr)
		return bad_arg(__func__, "devPtr is NULL");
	if (stream && !stream_live(stream))
		return bad_stream(__func__, stream);
	if (count > maxCount)
		return beyond(__func__, count, maxCount);
	err = get_stream(__func__, stream, &s);
	if (err)
		return err;
	if (on_device(devPtr))
		return fill(__func__, s, devPtr, u8(value), 1, count);
	return check(__func__, core::fill_host(devPtr, u8(value), 1, count), at::copy);
}

aclError aclrtMemsetD32(void *ptr, size_t memSize, uint32_t value, size_t N)
{
	aclError err;

	if (!N)
		return ACL_SUCCESS;
	err = check_words(__func__, ptr, memSize, N);
	if (err)
		return err;
	const context_guard c;
	if (!c)
		return no_context(__func__);
	return check(__func__, core::fill_sync(c->dev, ptr, value, 4, N * sizeof(u32), deadline::never()), at::copy);
}

aclError aclrtMemsetD32Async(void *ptr, size_t memSize, uint32_t value, size_t N, aclrtStream stream)
{
	stream_guard s;
	aclError err;

	if (!N)
		return ACL_SUCCESS;
	err = check_words(__func__, ptr, memSize, N);
	if (!err)
		err = get_stream(__func__, stream, &s);
	if (err)
		return err;
	if (on_device(ptr))
		return fill(__func__, s, ptr, value, 4, N * sizeof(u32));
	return check(__func__, core::fill_host(ptr, value, 4, N * sizeof(u32)), at::copy);
}

} // extern "C"
