/* SPDX-License-Identifier: BSD-3-Clause */
/* Words in device memory that streams store and wait for; cache hints. */
#include "lib/acl/capture.h"

namespace usdma::acl {

static aclError check_word(const char *call, const void *addr, const core::stream *s)
{
	const core::translation p = core::translate(addr);

	if (reinterpret_cast<u64>(addr) % sizeof(u64))
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "devAddr %p is not aligned to 8 bytes", addr);
	if (p.cls != core::mem_class::device || !p.size || p.slot != s->dev->slot)
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "devAddr %p is not memory of the stream's device", addr);
	return ACL_SUCCESS;
}

static aclError prepare(const char *call, const void *addr, u32 flag, u32 most, aclrtStream stream, stream_guard *s)
{
	aclError err;

	if (!addr)
		return bad_arg(call, "devAddr is NULL");
	if (stream && !stream_live(stream))
		return bad_stream(call, stream);
	if (flag > most)
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "flag %u is unknown", flag);
	err = get_stream(call, stream, s);
	return err ? err : check_word(call, addr, *s);
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclrtValueWrite(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream)
{
	stream_guard s;
	const aclError err = prepare(__func__, devAddr, flag, 0, stream, &s);

	if (err)
		return err;
	const noted_task task(s);
	return submit(__func__, s, [=](core::stream *to) { return core::write_value_async(to, devAddr, value); },
		      {{devAddr, sizeof(value)}});
}

aclError aclrtValueWait(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream)
{
	stream_guard s;
	const aclError err = prepare(__func__, devAddr, flag, ACL_STREAM_WAIT_VALUE_NOR, stream, &s);

	if (err)
		return err;
	const noted_task task(s);
	return submit(__func__, s,
		      [=](core::stream *to) { return core::wait_value_async(to, devAddr, dma::compare(flag), value); },
		      {{devAddr, sizeof(value)}});
}

aclError aclrtCmoAsync(void *src, size_t size, aclrtCmoType cmoType, aclrtStream stream)
{
	stream_guard s;

	if (!src || !size)
		return bad_arg(__func__, "src is NULL or size is 0");
	if (cmoType < ACL_RT_CMO_TYPE_PREFETCH || cmoType > ACL_RT_CMO_TYPE_FLUSH)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "cmoType %d is unknown", cmoType);
	/* A hint only: memory is coherent. */
	return get_stream(__func__, stream, &s);
}

} // extern "C"
