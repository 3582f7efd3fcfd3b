/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/hccl_comm/comm.h"

#include <dispatcher.h>

#include <algorithm>
#include <bit>

namespace usdma::hccl_comm {
namespace {

/*
 * The bytes of a piece: small transfers have several, so that a rank takes one while the next is put; those of large
 * ones are large, as the notifies of a piece cost as much as the copy of some 100 KiB.
 */
constexpr u64 least_piece = 512 << 10, most_piece = 2 << 20, pieces = 8;

HcclResult record(work *w, aclrtNotify notify)
{
	if (aclError code = aclrtRecordNotify(notify, w->stream))
		return acl_failed("aclrtRecordNotify", code);
	w->c->touched = true;
	return HCCL_SUCCESS;
}

/* Without a time limit, which is the monitor's. */
HcclResult wait(work *w, aclrtNotify notify)
{
	if (aclError code = aclrtWaitAndResetNotify(notify, w->stream, 0))
		return acl_failed("aclrtWaitAndResetNotify", code);
	w->c->touched = true;
	return HCCL_SUCCESS;
}

/* The same on both ranks of a transfer. */
u64 piece_of(const comm *c, const transfer &t)
{
	const u64 most = c->peers[t.peer].remote ? c->remote_slot : c->slot_bytes;

	return std::min(most, std::clamp(std::bit_floor(t.bytes / pieces), least_piece, most_piece));
}

/* The part of a transfer that the round moves; a transfer of no bytes has one round, as a signal. */
bool in_round(const comm *c, const transfer &t, u64 round, u64 *from, u64 *len)
{
	const u64 piece = piece_of(c, t);

	*from = round * piece;
	*len = t.bytes > *from ? std::min(t.bytes - *from, piece) : 0;
	return *len || (!t.bytes && !round);
}

u32 depth_of(const hccl_comm::peer &p)
{
	return p.remote ? remote_depth : depth;
}

/* What a rank of another machine has taken is waited for when its slot is needed: there is no end of an operation. */
flow &flow_of(work *w, u32 peer)
{
	hccl_comm::peer &p = w->c->peers[peer];

	return p.remote ? p.pieces : w->flows[peer];
}

HcclResult wait_taken(work *w, u32 peer, u32 slot)
{
	const hccl_comm::peer &p = w->c->peers[peer];

	if (HcclResult ret = p.remote ? remote_wait_taken(w, p, slot) : wait(w, p.mine.slots[slot].taken))
		return ret;
	flow_of(w, peer).owed &= u8(~(1u << slot));
	return HCCL_SUCCESS;
}

HcclResult set_taken(work *w, u32 peer, u32 slot)
{
	const hccl_comm::peer &p = w->c->peers[peer];

	return p.remote ? remote_set_taken(w, p, slot) : record(w, p.taken[slot]);
}

HcclResult put_at(work *w, const hccl_comm::peer &p, u32 slot, char *at, u64 len)
{
	if (p.remote)
		return remote_put(w, p, slot, at, len);
	if (HcclResult ret = copy_local(w, p.slots + p.is.slot_bytes * slot, at, len))
		return ret;
	return record(w, p.arrived[slot]);
}

HcclResult put(work *w, u32 peer, char *at, u64 len)
{
	flow &f = flow_of(w, peer);
	const hccl_comm::peer &p = w->c->peers[peer];
	const u32 slot = f.sent;

	if (f.owed >> slot & 1)
		if (HcclResult ret = wait_taken(w, peer, slot))
			return ret;
	if (HcclResult ret = put_at(w, p, slot, at, len))
		return ret;
	f.owed |= u8(1u << slot);
	f.sent = u8((slot + 1) % depth_of(p));
	return HCCL_SUCCESS;
}

/* The own slot that holds the peer's next piece, when it has come. */
HcclResult arrive(work *w, u32 peer, u32 *slot, char **at)
{
	flow &f = flow_of(w, peer);
	const comm *c = w->c;
	const hccl_comm::peer &p = c->peers[peer];

	*slot = f.got;
	*at = p.remote ? remote_arrived(c, p, *slot) :
			 c->memory + c->own.slot_bytes * (index_of(peer, c->rank) * depth + *slot);
	if (HcclResult ret = p.remote ? remote_wait_arrived(w, p, *slot) : wait(w, p.mine.slots[*slot].arrived))
		return ret;
	f.got = u8((*slot + 1) % depth_of(p));
	return HCCL_SUCCESS;
}

HcclResult reduce_into(work *w, char *dst, char *src, u64 bytes, const reduction &by)
{
	::hccl::Stream wrapped(w->stream);

	w->c->touched = true;
	if (w->c->remote)
		return remote_reduce(w, dst, src, bytes, by);
	return HcclReduceAsync(w->c->reducer, src, bytes / by.element, by.type, by.op, wrapped, dst,
			       INVALID_VALUE_RANKID, ::hccl::LinkType::LINK_ONCHIP, INLINE_REDUCE_BIT) ?
		       because(HCCL_E_RUNTIME, "a reduction could not be submitted") :
		       HCCL_SUCCESS;
}

HcclResult get(work *w, u32 peer, char *at, u64 len, const reduction *by)
{
	char *from;
	u32 slot;

	if (HcclResult ret = arrive(w, peer, &slot, &from))
		return ret;
	if (HcclResult ret = by ? reduce_into(w, at, from, len, *by) : copy_local(w, at, from, len))
		return ret;
	return set_taken(w, peer, slot);
}

HcclResult put_round(work *w, const transfer *out, u32 outs, u64 round)
{
	u64 from, len;

	for (u32 i = 0; i < outs; i++)
		if (in_round(w->c, out[i], round, &from, &len))
			if (HcclResult ret = put(w, out[i].peer, out[i].at + from, len))
				return ret;
	return HCCL_SUCCESS;
}

HcclResult get_round(work *w, const transfer *in, u32 ins, u64 round, const reduction *by)
{
	u64 from, len;

	for (u32 i = 0; i < ins; i++)
		if (in_round(w->c, in[i], round, &from, &len))
			if (HcclResult ret = get(w, in[i].peer, in[i].at + from, len, by))
				return ret;
	return HCCL_SUCCESS;
}

u64 rounds_of(const comm *c, const transfer *all, u32 n)
{
	u64 most = 1;

	for (u32 i = 0; i < n; i++) {
		const u64 piece = piece_of(c, all[i]);

		most = std::max(most, (all[i].bytes + piece - 1) / piece);
	}
	return n ? most : 0;
}

/* The one rank's bytes are the sum so far, at `sum`: in its slot, or where the result belongs. */
HcclResult add_in_order(work *w, char *sum, char *src, u64 bytes, const reduction &by)
{
	const comm *c = w->c;

	for (u32 r = 1; r < c->size; r++) {
		if (HcclResult ret = r == c->rank ? reduce_into(w, sum, src, bytes, by) : get(w, r, sum, bytes, &by))
			return ret;
	}
	return HCCL_SUCCESS;
}

} // namespace

HcclResult copy_local(work *w, void *dst, const void *src, u64 bytes)
{
	if (dst == src || !bytes)
		return HCCL_SUCCESS;
	/* Slots for other machines are host memory. */
	const auto kind = w->c->remote ? ACL_MEMCPY_DEFAULT : ACL_MEMCPY_DEVICE_TO_DEVICE;
	if (aclError code = aclrtMemcpyAsync(dst, bytes, src, bytes, kind, w->stream))
		return acl_failed("aclrtMemcpyAsync", code);
	w->c->touched = true;
	return HCCL_SUCCESS;
}

/*
 * Round by round; a round's pieces are put before those of the one before are taken, so that a rank waits for what the
 * others had to do a round ago. A put of round n waits for a take of round n - depth, a take of round n for a put of
 * round n: whatever the order in which the ranks get here, the smallest round that is not complete can go on.
 */
HcclResult exchange(work *w, const transfer *out, u32 outs, const transfer *in, u32 ins, const reduction *by)
{
	const u64 puts = rounds_of(w->c, out, outs), gets = rounds_of(w->c, in, ins);

	for (u64 round = 0; round < puts || round <= gets; round++) {
		if (HcclResult ret = put_round(w, out, outs, round))
			return ret;
		if (round)
			if (HcclResult ret = get_round(w, in, ins, round - 1, by))
				return ret;
	}
	return HCCL_SUCCESS;
}

HcclResult reduce_in_slots(work *w, char *dst, char *src, u64 bytes, const reduction &by)
{
	const comm *c = w->c;
	char *sum = dst;
	u32 slot = 0;

	for (u32 r = 0; r < c->size; r++)
		if (r != c->rank)
			if (HcclResult ret = put(w, r, src, bytes))
				return ret;
	/* The order of additions is that of the ranks on each of them: the same bits. */
	if (HcclResult ret = c->rank ? arrive(w, 0, &slot, &sum) : copy_local(w, dst, src, bytes))
		return ret;
	if (HcclResult ret = add_in_order(w, sum, src, bytes, by))
		return ret;
	if (!c->rank)
		return HCCL_SUCCESS;
	const HcclResult ret = copy_local(w, dst, sum, bytes);
	return ret ? ret : set_taken(w, 0, slot);
}

HcclResult drain(work *w)
{
	for (u32 r = 0; r < w->c->size; r++)
		for (u32 slot = 0; slot < depth; slot++)
			if (w->flows[r].owed >> slot & 1)
				if (HcclResult ret = wait_taken(w, r, slot))
					return ret;
	return HCCL_SUCCESS;
}

} // namespace usdma::hccl_comm
