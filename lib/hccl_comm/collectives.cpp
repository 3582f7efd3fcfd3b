/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/hccl/data_type.h"
#include "lib/hccl_comm/comm.h"
#include "lib/hccl_comm/group.h"
#include "lib/hccl_comm/rules.h"
#include "lib/hccl_comm/schedule.h"

#include <algorithm>

namespace usdma::hccl_comm {
namespace {

using ::hccl::element_bytes;

/* Between begin and end: whatever the stream, operations follow each other. */
template <class F> HcclResult submit(comm *c, aclrtStream stream, F f)
{
	work w = {c, stream};

	if (HcclResult ret = wait_for_last(c, stream))
		return ret;
	HcclResult ret = f(&w);
	ret = ret ? ret : drain(&w);
	return ret ? ret : record_done(c, stream);
}

template <class F> HcclResult record(comm *c, aclrtStream stream, F f)
{
	work w = {c, stream};

	HcclResult ret = capture_begin(c, stream);
	ret = ret ? ret : f(&w);
	ret = ret ? ret : drain(&w);
	ret = ret ? ret : capture_end(c, stream);
	return ret ? capture_failed(stream, ret) : HCCL_SUCCESS;
}

/*
 * Runs an operation after the last one, in whichever stream that is. If only a part of it gets into the stream, the
 * group has failed: the other ranks wait for the rest.
 */
template <class F> HcclResult run(HcclComm handle, aclrtStream stream, F f)
{
	const comm_use c(handle);

	if (!c)
		return because(HCCL_E_PTR, "comm is not a communicator of this process");
	const std::lock_guard hold(c->order);
	if (capturing(stream) && c->remote_slot)
		return capture_failed(
			stream,
			because(HCCL_E_NOT_SUPPORT, "a graph cannot record operations of a group on several machines"));
	if (capturing(stream))
		return record(c, stream, f);
	if (HcclResult ret = operation_begin(c, stream))
		return ret;
	return operation_end(c, submit(c, stream, f));
}

/* A call: check(comm), then f(work), now or at the group's end. */
template <class C, class F> HcclResult collective(const char *call, HcclComm handle, aclrtStream stream, C check, F f)
{
	return called(call, [&]() -> HcclResult {
		{
			const comm_use c(handle);

			if (!c || !stream)
				return because(HCCL_E_PTR,
					       c ? "stream is NULL" : "comm is not a communicator of this process");
			if (HcclResult ret = check(const_cast<const comm &>(*c.get())))
				return ret;
		}
		const auto now = [=] { return run(handle, stream, f); };
		return group_open() ? group_add(call, handle, stream, now) : now();
	});
}

/* 0: it is no communicator. */
u64 ranks_of(HcclComm handle)
{
	const comm_use c(handle);

	return c ? c->size : 0;
}

HcclResult check_part(const comm &c, const char *name, const layout &l, u32 rank)
{
	u64 end;

	if (l.counts && (__builtin_add_overflow(l.counts[rank], l.offsets[rank], &end) ||
			 __builtin_mul_overflow(end, l.element, &end) || end >> 63))
		return because(HCCL_E_PARA, "%s: the part of rank %u exceeds 2^63 bytes", name, rank);
	if (!l.bytes(rank))
		return HCCL_SUCCESS;
	return l.base ? check_memory(c, name, l.at(rank), l.bytes(rank)) : because(HCCL_E_PTR, "%s is NULL", name);
}

HcclResult check_layout(const comm &c, const char *name, const layout &l)
{
	for (u32 r = 0; r < c.size; r++)
		if (HcclResult ret = check_part(c, name, l, r))
			return ret;
	return HCCL_SUCCESS;
}

HcclResult check_arrays(const void *counts, const void *offsets)
{
	return counts && offsets ? HCCL_SUCCESS : because(HCCL_E_PTR, "counts or displacements are NULL");
}

HcclResult all_to_all(work *w, const layout &from, const layout &to)
{
	const u32 own = w->c->rank;
	parts give, take;

	for (u32 r = 0; r < w->c->size; r++)
		if (r != own) {
			give.add(r, from.at(r), from.bytes(r));
			take.add(r, to.at(r), to.bytes(r));
		}
	if (HcclResult ret = copy_local(w, to.at(own), from.at(own), from.bytes(own)))
		return ret;
	return exchange(w, give.list, give.count, take.list, take.count);
}

HcclResult check_all_to_all(const comm &c, const layout &from, const layout &to)
{
	if (from.base && from.base == to.base)
		return because(HCCL_E_PARA, "sendBuf and recvBuf are the same");
	if (HcclResult ret = check_layout(c, "sendBuf", from))
		return ret;
	if (HcclResult ret = check_layout(c, "recvBuf", to))
		return ret;
	if (from.bytes(c.rank) != to.bytes(c.rank))
		return because(HCCL_E_PARA, "rank %u sends itself %llu bytes and receives %llu", c.rank,
			       static_cast<unsigned long long>(from.bytes(c.rank)),
			       static_cast<unsigned long long>(to.bytes(c.rank)));
	return HCCL_SUCCESS;
}

/* The root's part for each rank; another rank: its own, at `own`. */
HcclResult from_root(work *w, u32 root, char *own, const layout &all)
{
	const transfer mine = {root, own, all.bytes(w->c->rank)};
	parts give;

	if (w->c->rank != root)
		return exchange(w, nullptr, 0, &mine, 1);
	for (u32 r = 0; r < w->c->size; r++)
		if (r != root)
			give.add(r, all.at(r), all.bytes(r));
	return exchange(w, give.list, give.count, nullptr, 0);
}

HcclResult reduce_at_root(work *w, u32 root, char *dst, char *src, u64 bytes, const reduction &by)
{
	const transfer own = {root, src, bytes};
	parts take;

	if (w->c->rank != root)
		return exchange(w, &own, 1, nullptr, 0);
	for (u32 r = 0; r < w->c->size; r++)
		if (r != root)
			take.add(r, dst, bytes);
	if (HcclResult ret = copy_local(w, dst, src, bytes))
		return ret;
	return exchange(w, nullptr, 0, take.list, take.count, &by);
}

/* The k-th transfers of each pair of ranks are in the k-th exchange of both. */
HcclResult batch(work *w, const HcclSendRecvItem *items, u32 n)
{
	u32 done = 0;

	for (u32 k = 0; done < n; k++) {
		u32 seen[2][max_ranks] = {};
		const HcclSendRecvItem *own[2] = {};
		parts lists[2];

		for (u32 i = 0; i < n; i++) {
			const HcclSendRecvItem &item = items[i];
			const u32 kind = item.sendRecvType;

			if (seen[kind][item.remoteRank]++ != k)
				continue;
			done++;
			if (item.remoteRank == w->c->rank)
				own[kind] = &item;
			else
				lists[kind].add(item.remoteRank, bytes_at(item.buf), item_bytes(item));
		}
		if (own[HCCL_SEND])
			if (HcclResult ret = copy_local(w, own[HCCL_RECV]->buf, own[HCCL_SEND]->buf,
							item_bytes(*own[HCCL_SEND])))
				return ret;
		if (HcclResult ret = exchange(w, lists[HCCL_SEND].list, lists[HCCL_SEND].count, lists[HCCL_RECV].list,
					      lists[HCCL_RECV].count))
			return ret;
	}
	return HCCL_SUCCESS;
}

HcclResult barrier(work *w)
{
	transfer all[max_ranks];
	u32 n = 0;

	for (u32 r = 0; r < w->c->size; r++)
		if (r != w->c->rank)
			all[n++] = {r, nullptr, 0};
	return exchange(w, all, n, all, n);
}

/* What operations with one count have in common. */
HcclResult check_both(const comm &c, const void *from, u64 from_bytes, const void *to, u64 to_bytes)
{
	if (HcclResult ret = check_memory(c, "sendBuf", from, from_bytes))
		return ret;
	return check_memory(c, "recvBuf", to, to_bytes);
}

/* Of reductions: an engine takes whole elements (dma::softop's check of a reduction). */
HcclResult check_alignment(const void *from, const void *to, u64 element)
{
	for (const void *at : {from, to})
		if (reinterpret_cast<u64>(at) % element)
			return because(HCCL_E_PARA, "%p is not aligned to elements of %llu bytes", at,
				       static_cast<unsigned long long>(element));
	return HCCL_SUCCESS;
}

/* HcclSend(), HcclRecv(). */
HcclResult send_or_recv(const char *call, const HcclSendRecvItem &item, HcclComm handle, aclrtStream stream)
{
	const auto check = [&](const comm &c) -> HcclResult {
		if (HcclResult ret = check_item(c, item))
			return ret;
		if (item.remoteRank == c.rank && !group_open())
			return because(HCCL_E_PARA, "rank %u is this one: HcclBatchSendRecv() or a group", c.rank);
		return HCCL_SUCCESS;
	};

	if (!item.count)
		return HCCL_SUCCESS;
	if (!group_open())
		return collective(call, handle, stream, check, [=](work *w) { return batch(w, &item, 1); });
	return called(call, [&]() -> HcclResult {
		const comm_use c(handle);

		if (!c || !stream)
			return because(HCCL_E_PTR, "comm is not a communicator of this process, or stream is NULL");
		const HcclResult ret = check(*c.get());
		return ret ? ret : group_add_item(handle, item, stream);
	});
}

} // namespace

HcclResult batch_send_recv(HcclComm handle, const HcclSendRecvItem *items, u32 n, aclrtStream stream)
{
	const comm_use c(handle);

	if (!c)
		return because(HCCL_E_PTR, "comm was destroyed");
	if (HcclResult ret = check_own_items(*c.get(), items, n))
		return ret;
	return run(handle, stream, [=](work *w) { return batch(w, items, n); });
}

} // namespace usdma::hccl_comm

using namespace usdma::hccl_comm;
using hccl::element_bytes;
using usdma::u32;
using usdma::u64;

HcclResult HcclAllReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
			 HcclComm handle, aclrtStream stream)
{
	const u64 element = element_bytes(dataType), bytes = count * element;

	if (!count)
		return HCCL_SUCCESS;
	return collective(
		__func__, handle, stream,
		[=](const comm &c) {
			HcclResult ret = check_reduction(dataType, op);

			ret = ret ? ret : check_count(count, dataType, c.size);
			ret = ret ? ret : check_alignment(sendBuf, recvBuf, element);
			return ret ? ret : check_both(c, sendBuf, bytes, recvBuf, bytes);
		},
		[=](work *w) {
			return all_reduce(w, bytes_at(recvBuf), bytes_at(sendBuf), count, {dataType, op, element});
		});
}

HcclResult HcclReduceScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op,
			     HcclComm handle, aclrtStream stream)
{
	const u64 element = element_bytes(dataType), bytes = recvCount * element;

	if (!recvCount)
		return HCCL_SUCCESS;
	return collective(
		__func__, handle, stream,
		[=](const comm &c) {
			HcclResult ret = check_reduction(dataType, op);

			ret = ret ? ret : check_count(recvCount, dataType, c.size);
			ret = ret ? ret : check_alignment(sendBuf, recvBuf, element);
			if (!ret && recvBuf && recvBuf == sendBuf && c.rank)
				return because(HCCL_E_PARA, "recvBuf is the part of rank 0; in place it is the own");
			return ret ? ret : check_both(c, sendBuf, bytes * c.size, recvBuf, bytes);
		},
		[=](work *w) {
			return reduce_scatter(w, even(sendBuf, recvCount, dataType), bytes_at(recvBuf),
					      {dataType, op, element});
		});
}

HcclResult HcclReduceScatterV(void *sendBuf, const void *sendCounts, const void *sendDispls, void *recvBuf,
			      uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm handle,
			      aclrtStream stream)
{
	layout from = by_arrays(sendBuf, sendCounts, sendDispls, dataType);

	if (HcclResult ret = keep(__func__, ranks_of(handle), {&from.counts, &from.offsets}))
		return ret;
	return collective(
		__func__, handle, stream,
		[=](const comm &c) {
			HcclResult ret = check_arrays(from.counts, from.offsets);

			ret = ret ? ret : check_reduction(dataType, op, true);
			ret = ret ? ret : check_alignment(sendBuf, recvBuf, from.element);
			ret = ret ? ret : check_layout(c, "sendBuf", from);
			if (!ret && from.counts[c.rank] != recvCount)
				return because(HCCL_E_PARA, "recvCount is %llu, sendCounts has %llu for this rank",
					       static_cast<unsigned long long>(recvCount),
					       static_cast<unsigned long long>(from.counts[c.rank]));
			if (!ret && recvBuf && recvBuf == sendBuf)
				return because(HCCL_E_PARA, "sendBuf and recvBuf are the same");
			if (ret || !recvCount)
				return ret;
			return check_memory(c, "recvBuf", recvBuf, from.bytes(c.rank));
		},
		[=](work *w) {
			return reduce_scatter(w, from, bytes_at(recvBuf), {dataType, op, from.element});
		});
}

HcclResult HcclAllGather(void *sendBuf, void *recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm handle,
			 aclrtStream stream)
{
	const u64 bytes = sendCount * element_bytes(dataType);

	if (!sendCount)
		return HCCL_SUCCESS;
	return collective(
		__func__, handle, stream,
		[=](const comm &c) {
			const HcclResult ret = check_count(sendCount, dataType, c.size);

			return ret ? ret : check_both(c, sendBuf, bytes, recvBuf, bytes * c.size);
		},
		[=](work *w) { return all_gather(w, bytes_at(sendBuf), even(recvBuf, sendCount, dataType)); });
}

HcclResult HcclAllGatherV(void *sendBuf, uint64_t sendCount, void *recvBuf, const void *recvCounts,
			  const void *recvDispls, HcclDataType dataType, HcclComm handle, aclrtStream stream)
{
	layout to = by_arrays(recvBuf, recvCounts, recvDispls, dataType);

	if (HcclResult ret = keep(__func__, ranks_of(handle), {&to.counts, &to.offsets}))
		return ret;
	return collective(
		__func__, handle, stream,
		[=](const comm &c) {
			HcclResult ret = check_arrays(to.counts, to.offsets);

			ret = ret ? ret : check_count(sendCount, dataType, 1);
			ret = ret ? ret : check_layout(c, "recvBuf", to);
			if (!ret && to.counts[c.rank] != sendCount)
				return because(HCCL_E_PARA, "sendCount is %llu, recvCounts has %llu for this rank",
					       static_cast<unsigned long long>(sendCount),
					       static_cast<unsigned long long>(to.counts[c.rank]));
			if (!ret && sendBuf && sendBuf == recvBuf && to.offsets[c.rank])
				return because(HCCL_E_PARA, "sendBuf is the begin of recvBuf, not the own part");
			if (ret || !sendCount)
				return ret;
			return check_memory(c, "sendBuf", sendBuf, to.bytes(c.rank));
		},
		[=](work *w) { return all_gather(w, bytes_at(sendBuf), to); });
}

HcclResult HcclBroadcast(void *buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm handle,
			 aclrtStream stream)
{
	if (!count)
		return HCCL_SUCCESS;
	return collective(
		__func__, handle, stream,
		[=](const comm &c) {
			HcclResult ret = check_count(count, dataType, c.size);

			ret = ret ? ret : check_rank("root", root, c.size);
			return ret ? ret : check_memory(c, "buf", buf, count * element_bytes(dataType));
		},
		[=](work *w) { return broadcast(w, root, bytes_at(buf), count * element_bytes(dataType)); });
}

HcclResult HcclScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
		       HcclComm handle, aclrtStream stream)
{
	const u64 bytes = recvCount * element_bytes(dataType);

	if (!recvCount)
		return HCCL_SUCCESS;
	return collective(
		__func__, handle, stream,
		[=](const comm &c) {
			HcclResult ret = check_count(recvCount, dataType, c.size);

			ret = ret ? ret : check_rank("root", root, c.size);
			ret = ret ? ret : check_memory(c, "recvBuf", recvBuf, bytes);
			return ret || c.rank != root ? ret : check_memory(c, "sendBuf", sendBuf, bytes * c.size);
		},
		[=](work *w) {
			const layout all = even(sendBuf, recvCount, dataType);

			/* The root's own part last: recvBuf may be a part of sendBuf. */
			if (HcclResult ret = from_root(w, root, bytes_at(recvBuf), all))
				return ret;
			return w->c->rank == root ? copy_local(w, recvBuf, all.at(root), bytes) : HCCL_SUCCESS;
		});
}

HcclResult HcclReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
		      uint32_t root, HcclComm handle, aclrtStream stream)
{
	const u64 element = element_bytes(dataType), bytes = count * element;

	if (!count)
		return HCCL_SUCCESS;
	return collective(
		__func__, handle, stream,
		[=](const comm &c) {
			HcclResult ret = check_reduction(dataType, op);

			ret = ret ? ret : check_count(count, dataType, c.size);
			ret = ret ? ret : check_rank("root", root, c.size);
			ret = ret ? ret : check_alignment(sendBuf, c.rank == root ? recvBuf : sendBuf, element);
			ret = ret ? ret : check_memory(c, "sendBuf", sendBuf, bytes);
			return ret || c.rank != root ? ret : check_memory(c, "recvBuf", recvBuf, bytes);
		},
		[=](work *w) {
			return reduce_at_root(w, root, bytes_at(recvBuf), bytes_at(sendBuf), bytes,
					      {dataType, op, element});
		});
}

HcclResult HcclBarrier(HcclComm handle, aclrtStream stream)
{
	return collective(
		__func__, handle, stream, [](const comm &) { return HCCL_SUCCESS; }, barrier);
}

HcclResult HcclBatchSendRecv(HcclSendRecvItem *sendRecvInfo, uint32_t itemNum, HcclComm handle, aclrtStream stream)
{
	const HcclSendRecvItem *items = sendRecvInfo;

	if (!itemNum)
		return HCCL_SUCCESS;
	if (HcclResult ret = keep(__func__, itemNum, {&items}))
		return ret;
	return collective(
		__func__, handle, stream,
		[=](const comm &c) {
			return items ? check_items(c, items, itemNum) : because(HCCL_E_PTR, "sendRecvInfo is NULL");
		},
		[=](work *w) { return batch(w, items, itemNum); });
}

HcclResult HcclSend(void *sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm handle,
		    aclrtStream stream)
{
	return send_or_recv(__func__, {HCCL_SEND, sendBuf, count, dataType, destRank}, handle, stream);
}

HcclResult HcclRecv(void *recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm handle,
		    aclrtStream stream)
{
	return send_or_recv(__func__, {HCCL_RECV, recvBuf, count, dataType, srcRank}, handle, stream);
}

HcclResult HcclAlltoAll(const void *sendBuf, uint64_t sendCount, HcclDataType sendType, const void *recvBuf,
			uint64_t recvCount, HcclDataType recvType, HcclComm handle, aclrtStream stream)
{
	const layout from = even(sendBuf, sendCount, sendType), to = even(recvBuf, recvCount, recvType);

	if (!sendCount && !recvCount)
		return HCCL_SUCCESS;
	return collective(
		__func__, handle, stream,
		[=](const comm &c) {
			HcclResult ret = check_count(sendCount, sendType, c.size);

			ret = ret ? ret : check_count(recvCount, recvType, c.size);
			return ret ? ret : check_all_to_all(c, from, to);
		},
		[=](work *w) { return all_to_all(w, from, to); });
}

HcclResult HcclAlltoAllV(const void *sendBuf, const void *sendCounts, const void *sdispls, HcclDataType sendType,
			 const void *recvBuf, const void *recvCounts, const void *rdispls, HcclDataType recvType,
			 HcclComm handle, aclrtStream stream)
{
	layout from = by_arrays(sendBuf, sendCounts, sdispls, sendType),
	       to = by_arrays(recvBuf, recvCounts, rdispls, recvType);

	if (HcclResult ret = keep(__func__, ranks_of(handle), {&from.counts, &from.offsets, &to.counts, &to.offsets}))
		return ret;
	return collective(
		__func__, handle, stream,
		[=](const comm &c) {
			HcclResult ret = check_arrays(from.counts, from.offsets);

			ret = ret ? ret : check_arrays(to.counts, to.offsets);
			ret = ret ? ret : check_count(0, sendType, 1);
			ret = ret ? ret : check_count(0, recvType, 1);
			return ret ? ret : check_all_to_all(c, from, to);
		},
		[=](work *w) { return all_to_all(w, from, to); });
}

/* The row and the column of this rank, one part after the other. */
struct matrix {
	u64 counts[2][max_ranks], offsets[2][max_ranks];

	matrix(const u64 *all, u32 rank, u32 ranks)
	{
		for (u32 r = 0; r < ranks; r++) {
			counts[0][r] = all[rank * ranks + r];
			counts[1][r] = all[r * ranks + rank];
			for (u32 side = 0; side < 2; side++)
				offsets[side][r] = r ? offsets[side][r - 1] + counts[side][r - 1] : 0;
		}
	}
	layout from(const void *base, HcclDataType type) const { return by_arrays(base, counts[0], offsets[0], type); }
	layout to(const void *base, HcclDataType type) const { return by_arrays(base, counts[1], offsets[1], type); }
};

HcclResult HcclAlltoAllVC(const void *sendBuf, const void *sendCountMatrix, HcclDataType sendType, const void *recvBuf,
			  HcclDataType recvType, HcclComm handle, aclrtStream stream)
{
	const auto *counts = static_cast<const u64 *>(sendCountMatrix);
	const u64 ranks = ranks_of(handle);

	if (HcclResult ret = keep(__func__, ranks * ranks, {&counts}))
		return ret;
	return collective(
		__func__, handle, stream,
		[=](const comm &c) {
			HcclResult ret = counts ? HCCL_SUCCESS : because(HCCL_E_PTR, "sendCountMatrix is NULL");

			ret = ret ? ret : check_count(0, sendType, 1);
			ret = ret ? ret : check_count(0, recvType, 1);
			if (ret)
				return ret;
			const matrix m(counts, c.rank, c.size);
			return check_all_to_all(c, m.from(sendBuf, sendType), m.to(recvBuf, recvType));
		},
		[=](work *w) {
			const matrix m(counts, w->c->rank, w->c->size);

			return all_to_all(w, m.from(sendBuf, sendType), m.to(recvBuf, recvType));
		});
}
