/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives on a ring of devices, one thread each, out of HCCL's copies,
 * reductions and notifies.
 *
 * Rank r only ever writes to its right neighbour r + 1:
 *
 *	wait for credit from the right     (it has consumed what I sent before)
 *	copy a piece into its memory
 *	set its "arrived" notify
 *	wait for my own "arrived"          (the left neighbour did the same)
 *	use what came
 *	give credit to the left
 *
 * All of it is enqueued at once; the streams run it without the host.
 */
#pragma once

#include <acl/acl.h>
#include <dispatcher.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <memory>
#include <vector>

/* What the ranks of a ring know of each other. */
class ring {
public:
	explicit ring(unsigned ranks) : ends(ranks), meet(std::ptrdiff_t(ranks)) {}

	struct end {
		hccl::DeviceMem data;           /* the rank's own, in which the others write in an all-gather */
		hccl::DeviceMem scratch;        /* one piece from the left */
		HcclRtNotify arrived = nullptr; /* something came from the left; waited for by this rank */
		HcclRtNotify credit = nullptr;  /* the right has consumed; waited for by this rank */
	};
	std::vector<end> ends;
	std::barrier<> meet;
	/* A rank has failed: the others give up too. */
	std::atomic<bool> failed{false};
};

size_t element_bytes(HcclDataType type);

/* One rank; used by its own thread only, which has no other device set. */
class rank {
public:
	rank(ring &r, unsigned index);
	~rank();
	rank(const rank &) = delete;
	rank &operator=(const rank &) = delete;

	/*
	 * Sets the device and gets the memory for up to max_bytes of data; the ring's devices follow each other.
	 * Collective, as the calls below: each rank makes it, and when one fails all do.
	 */
	HcclResult open(s32 device, u64 max_bytes);

	void *data() const { return me().data.ptr(); }
	/* data[i] = op over all ranks of data[i]. */
	HcclResult all_reduce(u64 count, HcclDataType type, HcclReduceOp op);
	/*
	 * Piece i of data is rank i's before, and everyone's after; pieces as all_reduce cuts them.  The left
	 * neighbour writes into data from the start: all ranks have put theirs before one begins.
	 */
	HcclResult all_gather(u64 count, HcclDataType type);
	/* Waits for the rank's stream.  When any rank fails, stops its work and fails. */
	HcclResult wait();

private:
	struct slice {
		u64 offset, bytes;
	};

	ring::end &me() const { return ring_.ends[index_]; }
	ring::end &right() const { return ring_.ends[(index_ + 1) % size_]; }
	ring::end &left() const { return ring_.ends[(index_ + size_ - 1) % size_]; }
	/* Piece (index + by) of the data; by may be negative. */
	slice piece(int by) const;
	HcclResult set_up(s32 device, u64 max_bytes);
	HcclResult send(slice from, hccl::DeviceMem to);
	HcclResult receive();
	HcclResult received();
	HcclResult reduce_scatter(HcclDataType type, HcclReduceOp op);
	HcclResult gather();
	HcclResult fail(HcclResult why);

	ring &ring_;
	unsigned index_, size_;
	u64 count_ = 0, element_ = 1;
	bool sent_ = false; /* once; from then on the right gives credit for each piece */
	s32 device_ = -1;
	HcclDispatcher dispatcher_ = nullptr;
	std::unique_ptr<hccl::Stream> stream_;
};
