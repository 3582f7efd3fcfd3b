/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/hccl_comm/comm.h"

#include <dispatcher.h>

#include <algorithm>

namespace usdma::hccl_comm {
namespace {

HcclResult record(aclrtNotify notify, aclrtStream stream)
{
	if (aclError code = aclrtRecordNotify(notify, stream))
		return acl_failed("aclrtRecordNotify", code);
	return HCCL_SUCCESS;
}

/* Without a time limit, which is the monitor's. */
HcclResult wait(aclrtNotify notify, aclrtStream stream)
{
	if (aclError code = aclrtWaitAndResetNotify(notify, stream, 0))
		return acl_failed("aclrtWaitAndResetNotify", code);
	return HCCL_SUCCESS;
}

/* The part of a transfer that the round moves; a transfer of no bytes has one round, as a signal. */
bool in_round(const comm *c, const transfer &t, u64 from, u64 *len)
{
	*len = t.bytes > from ? std::min(t.bytes - from, c->slot_bytes) : 0;
	return *len || (!t.bytes && !from);
}

HcclResult put(comm *c, aclrtStream stream, const transfer &t, u64 from)
{
	const peer &p = c->peers[t.peer];
	u64 len;

	if (!in_round(c, t, from, &len))
		return HCCL_SUCCESS;
	if (HcclResult ret = copy_local(stream, p.slot, t.at + from, len))
		return ret;
	return record(p.arrived, stream);
}

HcclResult get(comm *c, aclrtStream stream, const transfer &t, u64 from, const reduction *by)
{
	const peer &p = c->peers[t.peer];
	const char *slot = c->memory + c->own.slot_bytes * t.peer;
	u64 len;

	if (!in_round(c, t, from, &len))
		return HCCL_SUCCESS;
	if (HcclResult ret = wait(p.mine.arrived, stream))
		return ret;
	if (HcclResult ret = by ? reduce_into(c, stream, t.at + from, slot, len, *by) :
				  copy_local(stream, t.at + from, slot, len))
		return ret;
	return record(p.taken, stream);
}

/* Until the peer has taken what put() put. */
HcclResult put_end(comm *c, aclrtStream stream, const transfer &t, u64 from)
{
	u64 len;

	return in_round(c, t, from, &len) ? wait(c->peers[t.peer].mine.taken, stream) : HCCL_SUCCESS;
}

HcclResult round(comm *c, aclrtStream stream, const transfer *out, u32 outs, const transfer *in, u32 ins,
		 const reduction *by, u64 from)
{
	for (u32 i = 0; i < outs; i++)
		if (HcclResult ret = put(c, stream, out[i], from))
			return ret;
	for (u32 i = 0; i < ins; i++)
		if (HcclResult ret = get(c, stream, in[i], from, by))
			return ret;
	for (u32 i = 0; i < outs; i++)
		if (HcclResult ret = put_end(c, stream, out[i], from))
			return ret;
	return HCCL_SUCCESS;
}

} // namespace

HcclResult copy_local(aclrtStream stream, void *dst, const void *src, u64 bytes)
{
	if (dst == src || !bytes)
		return HCCL_SUCCESS;
	if (aclError code = aclrtMemcpyAsync(dst, bytes, src, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream))
		return acl_failed("aclrtMemcpyAsync", code);
	return HCCL_SUCCESS;
}

HcclResult reduce_into(comm *c, aclrtStream stream, char *dst, const char *src, u64 bytes, const reduction &by)
{
	::hccl::Stream wrapped(stream);

	return HcclReduceAsync(c->reducer, const_cast<char *>(src), bytes / by.element, by.type, by.op, wrapped, dst,
			       INVALID_VALUE_RANKID, ::hccl::LinkType::LINK_ONCHIP, INLINE_REDUCE_BIT);
}

/*
 * Rank by rank, round by round: a round's puts wait for nothing, since the slots were taken at the end of the one
 * before, so data for each get comes whatever the order in which the ranks get here.
 */
HcclResult exchange(comm *c, aclrtStream stream, const transfer *out, u32 outs, const transfer *in, u32 ins,
		    const reduction *by)
{
	u64 most = 0, from = 0;

	for (u32 i = 0; i < outs; i++)
		most = std::max(most, out[i].bytes);
	for (u32 i = 0; i < ins; i++)
		most = std::max(most, in[i].bytes);
	do {
		if (HcclResult ret = round(c, stream, out, outs, in, ins, by, from))
			return ret;
		from += c->slot_bytes;
	} while (from < most);
	return HCCL_SUCCESS;
}

} // namespace usdma::hccl_comm
