/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that a copy engine cannot serve: each returns 207000 after its argument checks. */
#include "lib/acl/capture.h"

using namespace usdma;
using namespace usdma::acl;

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
		return bad_arg(call, "a pointer is NULL, a count is 0, or flags or a location are unknown");
	return unsupported(call, "no device here migrates pages on demand: use aclrtMalloc or aclrtMallocHost");
}

static bool valid_location(const aclrtMemManagedLocation &l)
{
	return l.type > ACL_MEM_LOCATIONTYPE_INVALID && l.type <= ACL_MEM_LOCATIONTYPE_HOST_NUMA_CURRENT;
}

extern "C" {

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

aclError aclrtMemManagedPrefetchAsync(const void *ptr, size_t size, aclrtMemManagedLocation location, uint32_t flags,
				      aclrtStream)
{
	return no_migration(__func__, ptr && size && !flags && valid_location(location));
}

aclError aclrtMemManagedPrefetchBatchAsync(const void **ptrs, size_t *sizes, size_t count,
					   aclrtMemManagedLocation *prefetchLocs, size_t *prefetchLocIdxs,
					   size_t numPrefetchLocs, uint64_t flags, aclrtStream)
{
	bool good = ptrs && sizes && prefetchLocs && prefetchLocIdxs && count && numPrefetchLocs && !flags;

	for (size_t i = 0; good && i < numPrefetchLocs; i++)
		good = valid_location(prefetchLocs[i]);
	return no_migration(__func__, good);
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

aclError aclrtMemMapSelectedLink(void *virPtrDst, size_t size, void *virPtrSrc, uint32_t linkIdx)
{
	if (!virPtrDst || !virPtrSrc || !size || linkIdx > ACL_RT_MEM_LINK_IDX_1)
		return bad_arg(__func__, "an address is NULL, size is 0, or linkIdx %u is unknown", linkIdx);
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
	if (!taskInfo || !taskInfo->barrierNum || taskInfo->barrierNum > ACL_RT_CMO_MAX_BARRIER_NUM)
		return bad_arg(__func__, "taskInfo is NULL, or has no barrier or more than %u",
			       ACL_RT_CMO_MAX_BARRIER_NUM);
	return unsupported(__func__, "cache barriers: device memory is coherent and has none");
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t)
{
	stream_guard s;
	const aclError err = get_any_stream(__func__, stream, &s);

	if (!err && captures(s))
		return stream_captured(__func__, s);
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

	if (!activeStream || !stream)
		return bad_arg(__func__, "activeStream or stream is NULL");
	aclError err = get_any_stream(__func__, activeStream, &s);
	if (!err)
		err = get_any_stream(__func__, stream, &s);
	return err ? err : unsupported(__func__, "streams are never inactive here");
}

} // extern "C"
