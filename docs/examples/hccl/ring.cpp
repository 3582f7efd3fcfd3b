/* SPDX-License-Identifier: BSD-3-Clause */
#include "ring.h"

namespace {

constexpr int poll_ms = 20;   /* interval in which a waiting rank checks whether another one has failed */
constexpr s32 give_up_s = 60; /* timeout of a notify */

} // namespace

size_t element_bytes(HcclDataType type)
{
	switch (type) {
	case HCCL_DATA_TYPE_INT8:
	case HCCL_DATA_TYPE_UINT8:
		return 1;
	case HCCL_DATA_TYPE_INT16:
	case HCCL_DATA_TYPE_UINT16:
	case HCCL_DATA_TYPE_FP16:
	case HCCL_DATA_TYPE_BFP16:
		return 2;
	case HCCL_DATA_TYPE_INT32:
	case HCCL_DATA_TYPE_UINT32:
	case HCCL_DATA_TYPE_FP32:
		return 4;
	default:
		return 8;
	}
}

rank::rank(ring &r, unsigned index) : ring_(r), index_(index), size_(unsigned(r.members.size())) {}

rank::~rank()
{
	stream_.reset();
	me().data.free();
	me().scratch.free();
	if (me().arrived)
		(void)aclrtDestroyNotify(me().arrived);
	if (me().credit)
		(void)aclrtDestroyNotify(me().credit);
	(void)HcclDispatcherDestroy(dispatcher_);
	if (device_ >= 0)
		(void)aclrtResetDevice(device_);
}

/* Notifies the other ranks, which may wait for this one's data, and aborts its stream, which may wait for theirs. */
HcclResult rank::fail(HcclResult why)
{
	ring_.failed.store(true);
	if (stream_ && *stream_)
		(void)aclrtStreamAbort(stream_->ptr());
	return why;
}

HcclResult rank::set_up(s32 device, u64 max_bytes)
{
	const u64 piece_max = (max_bytes + size_ - 1) / size_ + 8; /* pieces end at element boundaries */

	if (aclrtSetDevice(device) != ACL_SUCCESS)
		return HCCL_E_RUNTIME;
	device_ = device;
	if (HcclResult ret = HcclDispatcherInit(DispatcherType::DISPATCHER_NORMAL, device, &dispatcher_))
		return ret;
	if (HcclResult ret = HcclSetExecTimeOut(dispatcher_, give_up_s))
		return ret;
	if (HcclResult ret = hccl::DeviceMem::alloc(me().data, max_bytes))
		return ret;
	if (HcclResult ret = hccl::DeviceMem::alloc(me().scratch, piece_max))
		return ret;
	stream_ = std::make_unique<hccl::Stream>(hccl::StreamType::STREAM_TYPE_ONLINE);
	if (!*stream_)
		return HCCL_E_RUNTIME;
	if (aclrtCreateNotify(&me().arrived, 0) != ACL_SUCCESS || aclrtCreateNotify(&me().credit, 0) != ACL_SUCCESS)
		return HCCL_E_RUNTIME;
	for (unsigned peer = 0; peer < size_; peer++) {
		const s32 other = device - s32(index_) + s32(peer);

		if (other != device && aclrtDeviceEnablePeerAccess(other, 0) != ACL_SUCCESS)
			return HCCL_E_RUNTIME;
	}
	return HCCL_SUCCESS;
}

HcclResult rank::open(s32 device, u64 max_bytes)
{
	HcclResult ret = set_up(device, max_bytes);

	if (ret != HCCL_SUCCESS)
		fail(ret);
	ring_.meet.arrive_and_wait(); /* the neighbours' memory and notifies exist */
	return ret == HCCL_SUCCESS && ring_.failed ? HCCL_E_REMOTE : ret;
}

rank::slice rank::piece(int by) const
{
	const u64 n = u64(int(index_ + size_) + by) % size_;
	const u64 each = (count_ + size_ - 1) / size_; /* the last pieces may be shorter, or empty */
	const u64 from = std::min(n * each, count_), to = std::min(from + each, count_);

	return {from * element_, (to - from) * element_};
}

HcclResult rank::send(slice from, hccl::DeviceMem to)
{
	hccl::DeviceMem src = me().data.range(from.offset, from.bytes);
	const u32 peer = (index_ + 1) % size_;

	if (sent_) {
		if (HcclResult ret = HcclSignalWait(dispatcher_, me().credit, *stream_, index_, peer,
						    INVALID_VALUE_STAGE, true))
			return ret;
	}
	sent_ = true;
	if (HcclResult ret = HcclD2DMemcpyAsync(dispatcher_, to, src, *stream_, peer, hccl::LinkType::LINK_HCCS))
		return ret;
	return HcclSignalRecord(dispatcher_, right().arrived, *stream_, index_, 0, INVALID_VALUE_STAGE, true, 0);
}

HcclResult rank::receive()
{
	return HcclSignalWait(dispatcher_, me().arrived, *stream_, index_, (index_ + size_ - 1) % size_,
			      INVALID_VALUE_STAGE, true);
}

HcclResult rank::received()
{
	return HcclSignalRecord(dispatcher_, left().credit, *stream_, index_, 0, INVALID_VALUE_STAGE, true, 0);
}

/* Each piece travels around the ring and is reduced at each rank; in the end rank r has all of piece r + 1. */
HcclResult rank::reduce_scatter(HcclDataType type, HcclReduceOp op)
{
	for (int step = 0; step < int(size_) - 1; step++) {
		const slice mine = piece(-step), next = piece(-step - 1);

		if (HcclResult ret = send(mine, right().scratch))
			return ret;
		if (HcclResult ret = receive())
			return ret;
		if (HcclResult ret = HcclReduceAsync(dispatcher_, me().scratch.ptr(), next.bytes / element_, type, op,
						     *stream_, static_cast<char *>(me().data.ptr()) + next.offset,
						     INVALID_VALUE_RANKID, hccl::LinkType::LINK_ONCHIP,
						     INLINE_REDUCE_BIT))
			return ret;
		if (HcclResult ret = received())
			return ret;
	}
	return HCCL_SUCCESS;
}

/* Sends the complete pieces around, starting with piece r + 1. */
HcclResult rank::gather()
{
	for (int step = 0; step < int(size_) - 1; step++) {
		const slice mine = piece(1 - step);

		if (HcclResult ret = send(mine, right().data.range(mine.offset, mine.bytes)))
			return ret;
		if (HcclResult ret = receive())
			return ret;
		if (HcclResult ret = received())
			return ret;
	}
	return HCCL_SUCCESS;
}

HcclResult rank::all_reduce(u64 count, HcclDataType type, HcclReduceOp op)
{
	count_ = count;
	element_ = element_bytes(type);
	if (HcclResult ret = reduce_scatter(type, op))
		return fail(ret);
	if (HcclResult ret = gather())
		return fail(ret);
	return HCCL_SUCCESS;
}

HcclResult rank::all_gather(u64 count, HcclDataType type)
{
	count_ = count;
	element_ = element_bytes(type);
	for (int step = 0; step < int(size_) - 1; step++) {
		const slice mine = piece(-step);

		if (HcclResult ret = send(mine, right().data.range(mine.offset, mine.bytes)))
			return fail(ret);
		if (HcclResult ret = receive())
			return fail(ret);
		if (HcclResult ret = received())
			return fail(ret);
	}
	return HCCL_SUCCESS;
}

HcclResult rank::wait()
{
	while (!ring_.failed) {
		aclError err = aclrtSynchronizeStreamWithTimeout(stream_->ptr(), poll_ms);

		if (err == ACL_SUCCESS)
			return HCCL_SUCCESS;
		if (err != ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)
			return fail(HCCL_E_RUNTIME);
	}
	return fail(HCCL_E_REMOTE);
}
