/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that a copy engine cannot serve: each returns 207000 after its argument checks. */
#include "lib/acl/state.h"

using namespace usdma;
using namespace usdma::acl;

static aclError no_cores(const char *call)
{
	return unsupported(call, "a copy engine has no compute cores to limit");
}

static aclError no_symbols(const char *call, const void *a, const void *b, size_t count)
{
	if (!count)
		return ACL_SUCCESS;
	if (!a || !b)
		return bad_arg(call, "an address or the symbol is NULL");
	return unsupported(call, "there are no kernels here, so no symbols");
}

static aclError no_migration(const char *call, bool args_good)
{
	if (!args_good)
		return bad_arg(call, "a pointer is NULL");
	return unsupported(call, "no device here migrates pages on demand: use aclrtMalloc or aclrtMallocHost");
}

extern "C" {

aclError aclrtGetDeviceResLimit(int32_t, aclrtDevResLimitType, uint32_t *)
{
	return no_cores(__func__);
}

aclError aclrtSetDeviceResLimit(int32_t, aclrtDevResLimitType, uint32_t)
{
	return no_cores(__func__);
}

aclError aclrtResetDeviceResLimit(int32_t)
{
	return no_cores(__func__);
}

aclError aclrtGetResInCurrentThread(aclrtDevResLimitType, uint32_t *)
{
	return no_cores(__func__);
}

aclError aclrtMemcpyFromSymbol(void *dst, size_t, const void *symbol, size_t count, size_t, aclrtMemcpyKind)
{
	return no_symbols(__func__, dst, symbol, count);
}

aclError aclrtMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t, aclrtMemcpyKind)
{
	return no_symbols(__func__, symbol, src, count);
}

aclError aclrtMemcpyFromSymbolAsync(void *dst, size_t, const void *symbol, size_t count, size_t, aclrtMemcpyKind,
				    aclrtStream)
{
	return no_symbols(__func__, dst, symbol, count);
}

aclError aclrtMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count, size_t, aclrtMemcpyKind,
				  aclrtStream)
{
	return no_symbols(__func__, symbol, src, count);
}

aclError aclrtMemAllocManaged(void **ptr, uint64_t size, uint32_t flag)
{
	if (!ptr)
		return bad_arg(__func__, "ptr is NULL");
	if (flag != ACL_RT_MEM_ATTACH_GLOBAL)
		return bad_arg(__func__, "flag is %u, it must be ACL_RT_MEM_ATTACH_GLOBAL (1)", flag);
	if (!size)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "size is 0");
	return no_migration(__func__, true);
}

aclError aclrtMemManagedAdvise(const void *const ptr, uint64_t, aclrtMemManagedAdviseType, aclrtMemManagedLocation)
{
	return no_migration(__func__, ptr);
}

aclError aclrtMemManagedPrefetchAsync(const void *ptr, size_t, aclrtMemManagedLocation, uint32_t, aclrtStream)
{
	return no_migration(__func__, ptr);
}

aclError aclrtMemManagedPrefetchBatchAsync(const void **ptrs, size_t *sizes, size_t,
					   aclrtMemManagedLocation *prefetchLocs, size_t *prefetchLocIdxs, size_t,
					   uint64_t, aclrtStream)
{
	return no_migration(__func__, ptrs && sizes && prefetchLocs && prefetchLocIdxs);
}

aclError aclrtMemManagedGetAttr(aclrtMemManagedRangeAttribute, const void *ptr, size_t, void *data, size_t)
{
	return no_migration(__func__, ptr && data);
}

aclError aclrtMemManagedGetAttrs(aclrtMemManagedRangeAttribute *attributes, size_t, const void *ptr, size_t,
				 void **data, size_t *dataSizes)
{
	return no_migration(__func__, attributes && ptr && data && dataSizes);
}

aclError aclrtReserveMemAddressNoUCMemory(void **virPtr, size_t size, size_t, void *, uint64_t)
{
	if (!virPtr || !size)
		return bad_arg(__func__, "virPtr is NULL or size is 0");
	return unsupported(__func__, "there are no such addresses here: use aclrtReserveMemAddress");
}

aclError aclrtMemMapSelectedLink(void *virPtrDst, size_t size, void *virPtrSrc, uint32_t)
{
	if (!virPtrDst || !virPtrSrc || !size)
		return bad_arg(__func__, "an address is NULL or size is 0");
	return unsupported(__func__, "there is one link between devices, it cannot be selected");
}

aclError aclrtMemMapSetLink(aclrtDrvMemHandle handle, aclrtMemLinkType)
{
	if (!handle)
		return bad_arg(__func__, "handle is NULL");
	return unsupported(__func__, "there is one link between devices, it cannot be selected");
}

aclError aclrtCmoAsyncWithBarrier(void *src, size_t size, aclrtCmoType, uint32_t, aclrtStream)
{
	if (!src || !size)
		return bad_arg(__func__, "src is NULL or size is 0");
	return unsupported(__func__, "cache barriers: device memory is coherent and has none");
}

aclError aclrtCmoWaitBarrier(aclrtBarrierTaskInfo *taskInfo, aclrtStream, uint32_t)
{
	if (!taskInfo)
		return bad_arg(__func__, "taskInfo is NULL");
	return unsupported(__func__, "cache barriers: device memory is coherent and has none");
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t)
{
	stream_guard s;
	const aclError err = get_any_stream(__func__, stream, &s);

	return err ? err : unsupported(__func__, "copies do no arithmetic that could overflow");
}

aclError aclrtPersistentTaskClean(aclrtStream stream)
{
	stream_guard s;
	const aclError err = get_any_stream(__func__, stream, &s);

	return err ? err : unsupported(__func__, "streams retain no tasks after they have run");
}

aclError aclrtActiveStream(aclrtStream activeStream, aclrtStream stream)
{
	stream_guard s;
	aclError err = get_any_stream(__func__, activeStream, &s);

	if (!err)
		err = get_any_stream(__func__, stream, &s);
	return err ? err : unsupported(__func__, "streams are never inactive here");
}

} // extern "C"
