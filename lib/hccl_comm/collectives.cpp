/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/hccl/data_type.h"
#include "lib/hccl_comm/comm.h"

namespace usdma::hccl_comm {
namespace {

using ::hccl::element_bytes;

/* Of all ranks' parts together, so that no offset overflows. */
HcclResult measure(u64 count, HcclDataType type, u32 ranks, u64 *bytes)
{
	const u64 element = element_bytes(type);
	u64 all;

	if (!element || __builtin_mul_overflow(count, element, bytes) ||
	    __builtin_mul_overflow(*bytes, u64(ranks), &all) || all >> 63)
		return HCCL_E_PARA;
	return HCCL_SUCCESS;
}

HcclResult check_reduction(HcclDataType type, HcclReduceOp op)
{
	dma::element is;

	return unsigned(op) > unsigned(HCCL_REDUCE_MIN) ? HCCL_E_PARA : ::hccl::find_element(type, &is);
}

/*
 * Runs an operation after the last one, in whichever stream that is. If only a part of it gets into the stream, the
 * group has failed: the other ranks wait for the rest.
 */
template <class F> HcclResult run(comm *c, aclrtStream stream, F work)
{
	const std::lock_guard hold(c->order);

	if (HcclResult ret = operation_begin(c, stream))
		return ret;
	HcclResult ret = HCCL_SUCCESS;
	if (c->last.stream && c->last.stream != stream)
		if (aclError code = aclrtStreamWaitEvent(stream, c->done))
			ret = acl_failed("aclrtStreamWaitEvent", code);
	if (!ret)
		ret = work();
	if (!ret)
		if (aclError code = aclrtRecordEvent(c->done, stream))
			ret = acl_failed("aclrtRecordEvent", code);
	return operation_end(c, ret);
}

/* Parts of a buffer, one for each rank but this one. */
struct parts {
	transfer list[max_ranks];
	u32 count = 0;

	void add(u32 peer, void *at, u64 bytes) { list[count++] = {peer, static_cast<char *>(at), bytes}; }
};

/* Each rank's part is where it is in the buffer: of elements as equal as may be, of the first ranks the longer ones. */
struct shares {
	u64 count, element;
	u32 ranks;

	u64 begin(u32 rank) const
	{
		const u64 each = count / ranks, more = count % ranks;

		return (each * rank + (rank < more ? rank : more)) * element;
	}
	u64 bytes(u32 rank) const { return begin(rank + 1) - begin(rank); }
};

/* Each rank reduces its share of all ranks', then gives it to all. */
HcclResult all_reduce(comm *c, aclrtStream stream, char *dst, char *src, const shares &s, const reduction &by)
{
	parts give, take, result, others;
	char *own = dst + s.begin(c->rank);

	for (u32 r = 0; r < c->size; r++) {
		if (r == c->rank)
			continue;
		if (s.bytes(r)) {
			give.add(r, src + s.begin(r), s.bytes(r));
			others.add(r, dst + s.begin(r), s.bytes(r));
		}
		if (s.bytes(c->rank)) {
			take.add(r, own, s.bytes(c->rank));
			result.add(r, own, s.bytes(c->rank));
		}
	}
	if (HcclResult ret = copy_local(stream, own, src + s.begin(c->rank), s.bytes(c->rank)))
		return ret;
	if (HcclResult ret = exchange(c, stream, give.list, give.count, take.list, take.count, &by))
		return ret;
	return exchange(c, stream, result.list, result.count, others.list, others.count);
}

/* The k-th transfers of each pair of ranks are in the k-th exchange of both. */
HcclResult batch(comm *c, aclrtStream stream, const HcclSendRecvItem *items, u32 n)
{
	for (u32 k = 0, left = n; left; k++) {
		u32 seen[2][max_ranks] = {};
		parts lists[2];

		for (u32 i = 0; i < n; i++) {
			const HcclSendRecvItem &item = items[i];
			const u32 kind = item.sendRecvType;

			if (seen[kind][item.remoteRank]++ != k)
				continue;
			lists[kind].add(item.remoteRank, item.buf, item.count * element_bytes(item.dataType));
			left--;
		}
		if (HcclResult ret = exchange(c, stream, lists[HCCL_SEND].list, lists[HCCL_SEND].count,
					      lists[HCCL_RECV].list, lists[HCCL_RECV].count))
			return ret;
	}
	return HCCL_SUCCESS;
}

HcclResult check_item(const comm *c, const HcclSendRecvItem &item)
{
	u64 bytes;

	if (!item.buf && item.count)
		return HCCL_E_PTR;
	if (unsigned(item.sendRecvType) > unsigned(HCCL_RECV) || item.remoteRank >= c->size ||
	    item.remoteRank == c->rank)
		return HCCL_E_PARA;
	return measure(item.count, item.dataType, 1, &bytes);
}

/* One side of an exchange of all with all: of each rank, where and how much. */
struct layout {
	const u64 *counts, *offsets; /* null: `each`, one after the other */
	u64 each, element;
	char *base;

	u64 bytes(u32 rank) const { return (counts ? counts[rank] : each) * element; }
	char *at(u32 rank) const { return base + (counts ? offsets[rank] : each * rank) * element; }
};

HcclResult check_layout(const layout &l, u32 ranks)
{
	for (u32 r = 0; r < ranks; r++) {
		u64 end;

		if (l.counts && (__builtin_add_overflow(l.counts[r], l.offsets[r], &end) ||
				 __builtin_mul_overflow(end, l.element, &end) || end >> 63))
			return HCCL_E_PARA;
		if (!l.base && l.bytes(r))
			return HCCL_E_PTR;
	}
	return HCCL_SUCCESS;
}

HcclResult all_to_all(comm *c, aclrtStream stream, const layout &from, const layout &to)
{
	parts give, take;

	for (u32 r = 0; r < c->size; r++) {
		if (r == c->rank)
			continue;
		if (from.bytes(r))
			give.add(r, from.at(r), from.bytes(r));
		if (to.bytes(r))
			take.add(r, to.at(r), to.bytes(r));
	}
	if (HcclResult ret = copy_local(stream, to.at(c->rank), from.at(c->rank), from.bytes(c->rank)))
		return ret;
	return exchange(c, stream, give.list, give.count, take.list, take.count);
}

/* The root's parts for each of the others; own: where another rank receives. */
HcclResult from_root(comm *c, aclrtStream stream, u32 root, const transfer &own, const parts &all)
{
	return c->rank == root ? exchange(c, stream, all.list, all.count, nullptr, 0) :
				 exchange(c, stream, nullptr, 0, &own, 1);
}

char *bytes_at(const void *p, u64 offset = 0)
{
	return static_cast<char *>(const_cast<void *>(p)) + offset;
}

/* What each call checks. missing: a buffer is NULL; bytes: of one rank's part. */
HcclResult prepare(HcclComm handle, aclrtStream stream, bool missing, u64 count, HcclDataType type, comm **c,
		   u64 *bytes)
{
	*c = find_comm(handle);
	if (!*c || !stream || missing)
		return HCCL_E_PTR;
	return measure(count, type, (*c)->size, bytes);
}

} // namespace
} // namespace usdma::hccl_comm

using namespace usdma::hccl_comm;
using hccl::element_bytes;
using usdma::u32;
using usdma::u64;

HcclResult HcclAllReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
			 HcclComm handle, aclrtStream stream)
{
	comm *c;
	u64 bytes;

	if (!count)
		return HCCL_SUCCESS;
	HcclResult ret = prepare(handle, stream, !sendBuf || !recvBuf, count, dataType, &c, &bytes);
	ret = ret ? ret : check_reduction(dataType, op);
	if (ret)
		return ret;
	const u64 element = bytes / count;
	return run(c, stream, [&] {
		return all_reduce(c, stream, bytes_at(recvBuf), bytes_at(sendBuf), {count, element, c->size},
				  {dataType, op, element});
	});
}

HcclResult HcclReduceScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op,
			     HcclComm handle, aclrtStream stream)
{
	comm *c;
	u64 bytes;

	if (!recvCount)
		return HCCL_SUCCESS;
	HcclResult ret = prepare(handle, stream, !sendBuf || !recvBuf, recvCount, dataType, &c, &bytes);
	ret = ret ? ret : check_reduction(dataType, op);
	if (!ret && recvBuf == sendBuf && c->rank)
		return HCCL_E_PARA; /* the own part is elsewhere */
	if (ret)
		return ret;
	return run(c, stream, [&] {
		const reduction by = {dataType, op, bytes / recvCount};
		parts give, take;

		for (u32 r = 0; r < c->size; r++)
			if (r != c->rank) {
				give.add(r, bytes_at(sendBuf, bytes * r), bytes);
				take.add(r, recvBuf, bytes);
			}
		if (HcclResult err = copy_local(stream, recvBuf, bytes_at(sendBuf, bytes * c->rank), bytes))
			return err;
		return exchange(c, stream, give.list, give.count, take.list, take.count, &by);
	});
}

HcclResult HcclAllGather(void *sendBuf, void *recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm handle,
			 aclrtStream stream)
{
	comm *c;
	u64 bytes;

	if (!sendCount)
		return HCCL_SUCCESS;
	const HcclResult ret = prepare(handle, stream, !sendBuf || !recvBuf, sendCount, dataType, &c, &bytes);
	if (ret)
		return ret;
	return run(c, stream, [&] {
		parts give, take;

		for (u32 r = 0; r < c->size; r++)
			if (r != c->rank) {
				give.add(r, sendBuf, bytes);
				take.add(r, bytes_at(recvBuf, bytes * r), bytes);
			}
		if (HcclResult err = copy_local(stream, bytes_at(recvBuf, bytes * c->rank), sendBuf, bytes))
			return err;
		return exchange(c, stream, give.list, give.count, take.list, take.count);
	});
}

HcclResult HcclBroadcast(void *buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm handle,
			 aclrtStream stream)
{
	comm *c;
	u64 bytes;

	if (!count)
		return HCCL_SUCCESS;
	const HcclResult ret = prepare(handle, stream, !buf, count, dataType, &c, &bytes);
	if (ret || root >= c->size)
		return ret ? ret : HCCL_E_PARA;
	return run(c, stream, [&] {
		parts all;

		for (u32 r = 0; r < c->size; r++)
			if (r != root)
				all.add(r, buf, bytes);
		return from_root(c, stream, root, {root, bytes_at(buf), bytes}, all);
	});
}

HcclResult HcclScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
		       HcclComm handle, aclrtStream stream)
{
	comm *c;
	u64 bytes;

	if (!recvCount)
		return HCCL_SUCCESS;
	const HcclResult ret = prepare(handle, stream, !recvBuf, recvCount, dataType, &c, &bytes);
	if (ret || root >= c->size)
		return ret ? ret : HCCL_E_PARA;
	if (c->rank == root && !sendBuf)
		return HCCL_E_PTR;
	return run(c, stream, [&] {
		parts all;

		for (u32 r = 0; r < c->size && c->rank == root; r++)
			if (r != root)
				all.add(r, bytes_at(sendBuf, bytes * r), bytes);
		/* The root's own part last: recvBuf may be a part of sendBuf. */
		if (HcclResult err = from_root(c, stream, root, {root, bytes_at(recvBuf), bytes}, all))
			return err;
		return c->rank == root ? copy_local(stream, recvBuf, bytes_at(sendBuf, bytes * root), bytes) :
					 HCCL_SUCCESS;
	});
}

HcclResult HcclReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
		      uint32_t root, HcclComm handle, aclrtStream stream)
{
	comm *c;
	u64 bytes;

	if (!count)
		return HCCL_SUCCESS;
	HcclResult ret = prepare(handle, stream, !sendBuf, count, dataType, &c, &bytes);
	ret = ret ? ret : root >= c->size ? HCCL_E_PARA : check_reduction(dataType, op);
	if (!ret && c->rank == root && !recvBuf)
		return HCCL_E_PTR;
	if (ret)
		return ret;
	return run(c, stream, [&] {
		const reduction by = {dataType, op, bytes / count};
		const transfer own = {root, bytes_at(sendBuf), bytes};
		parts all;

		if (c->rank != root)
			return exchange(c, stream, &own, 1, nullptr, 0);
		for (u32 r = 0; r < c->size; r++)
			if (r != root)
				all.add(r, recvBuf, bytes);
		if (HcclResult err = copy_local(stream, recvBuf, sendBuf, bytes))
			return err;
		return exchange(c, stream, nullptr, 0, all.list, all.count, &by);
	});
}

HcclResult HcclBarrier(HcclComm handle, aclrtStream stream)
{
	comm *const c = find_comm(handle);

	if (!c || !stream)
		return HCCL_E_PTR;
	return run(c, stream, [&] {
		parts all;

		for (u32 r = 0; r < c->size; r++)
			if (r != c->rank)
				all.add(r, nullptr, 0);
		return exchange(c, stream, all.list, all.count, all.list, all.count);
	});
}

HcclResult HcclBatchSendRecv(HcclSendRecvItem *sendRecvInfo, uint32_t itemNum, HcclComm handle, aclrtStream stream)
{
	comm *const c = find_comm(handle);

	if (!c || !stream || !sendRecvInfo)
		return HCCL_E_PTR;
	for (u32 i = 0; i < itemNum; i++)
		if (HcclResult ret = check_item(c, sendRecvInfo[i]))
			return ret;
	if (!itemNum)
		return HCCL_SUCCESS;
	return run(c, stream, [&] { return batch(c, stream, sendRecvInfo, itemNum); });
}

HcclResult HcclSend(void *sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm handle,
		    aclrtStream stream)
{
	HcclSendRecvItem item = {HCCL_SEND, sendBuf, count, dataType, destRank};

	return count ? HcclBatchSendRecv(&item, 1, handle, stream) : HCCL_SUCCESS;
}

HcclResult HcclRecv(void *recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm handle,
		    aclrtStream stream)
{
	HcclSendRecvItem item = {HCCL_RECV, recvBuf, count, dataType, srcRank};

	return count ? HcclBatchSendRecv(&item, 1, handle, stream) : HCCL_SUCCESS;
}

static HcclResult all_to_all_call(HcclComm handle, aclrtStream stream, const layout &from, const layout &to)
{
	comm *const c = find_comm(handle);

	if (!c || !stream)
		return HCCL_E_PTR;
	if (!from.element || !to.element || (from.base && from.base == to.base))
		return HCCL_E_PARA;
	for (const layout *l : {&from, &to})
		if (HcclResult ret = check_layout(*l, c->size))
			return ret;
	if (from.bytes(c->rank) != to.bytes(c->rank))
		return HCCL_E_PARA;
	return run(c, stream, [&] { return all_to_all(c, stream, from, to); });
}

HcclResult HcclAlltoAll(const void *sendBuf, uint64_t sendCount, HcclDataType sendType, const void *recvBuf,
			uint64_t recvCount, HcclDataType recvType, HcclComm handle, aclrtStream stream)
{
	u64 bytes;

	for (auto [count, type] : {std::pair(sendCount, sendType), std::pair(recvCount, recvType)})
		if (HcclResult ret = measure(count, type, max_ranks, &bytes))
			return ret;
	return all_to_all_call(handle, stream,
			       {nullptr, nullptr, sendCount, element_bytes(sendType), bytes_at(sendBuf)},
			       {nullptr, nullptr, recvCount, element_bytes(recvType), bytes_at(recvBuf)});
}

HcclResult HcclAlltoAllV(const void *sendBuf, const void *sendCounts, const void *sdispls, HcclDataType sendType,
			 const void *recvBuf, const void *recvCounts, const void *rdispls, HcclDataType recvType,
			 HcclComm handle, aclrtStream stream)
{
	const auto words = [](const void *p) { return static_cast<const u64 *>(p); };

	if (!sendCounts || !sdispls || !recvCounts || !rdispls)
		return HCCL_E_PTR;
	return all_to_all_call(handle, stream,
			       {words(sendCounts), words(sdispls), 0, element_bytes(sendType), bytes_at(sendBuf)},
			       {words(recvCounts), words(rdispls), 0, element_bytes(recvType), bytes_at(recvBuf)});
}
