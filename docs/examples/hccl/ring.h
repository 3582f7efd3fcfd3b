/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives on a ring of devices, one thread each, out of HCCL's copies,
 * reductions and notifies.
 *
 * Rank r only ever writes to its right neighbour r + 1:
 *
 *	wait for credit from the right     (it has consumed the previous piece)
 *	copy a piece into its memory
 *	set its "arrived" notify
 *	wait for my own "arrived"          (the left neighbour did the same)
 *	use the received piece
 *	give credit to the left
 *
 * Everything is enqueued at once; the streams run without the host.
 */
#pragma once

#include <acl/acl.h>
#include <dispatcher.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <memory>
#include <vector>

/* State shared by the ranks of a ring. */
class ring {
public:
	explicit ring(unsigned ranks) : members(ranks), meet(std::ptrdiff_t(ranks)) {}

	struct member {
		hccl::DeviceMem data;           /* the rank's data, written by the others in an all-gather */
		hccl::DeviceMem scratch;        /* one piece from the left */
		HcclRtNotify arrived = nullptr; /* a piece came from the left; this rank waits for it */
		HcclRtNotify credit = nullptr;  /* the right has consumed; this rank waits for it */
	};
	std::vector<member> members;
	std::barrier<> meet;
	/* A rank has failed: the others abort, too. */
	std::atomic<bool> failed{false};
};

size_t element_bytes(HcclDataType type);

/* One rank; used by its own thread only, which sets no other device. */
class rank {
public:
	rank(ring &r, unsigned index);
	~rank();
	rank(const rank &) = delete;
	rank &operator=(const rank &) = delete;

	/*
	 * Sets the device and allocates memory for up to max_bytes of data; the ring's devices have consecutive
	 * numbers. Collective, like the calls below: each rank calls it, and if one fails all fail.
	 */
	HcclResult open(s32 device, u64 max_bytes);

	void *data() const { return me().data.ptr(); }
	/* data[i] = op over all ranks of data[i]. */
	HcclResult all_reduce(u64 count, HcclDataType type, HcclReduceOp op);
	/*
	 * Copies piece i of rank i's data to all ranks; the pieces are those of all_reduce.  The left neighbour
	 * writes into data from the start: all ranks must have stored theirs before one begins.
	 */
	HcclResult all_gather(u64 count, HcclDataType type);
	/* Waits for the rank's stream.  When any rank fails, stops its work and fails. */
	HcclResult wait();

private:
	struct slice {
		u64 offset, bytes;
	};

	ring::member &me() const { return ring_.members[index_]; }
	ring::member &right() const { return ring_.members[(index_ + 1) % size_]; }
	ring::member &left() const { return ring_.members[(index_ + size_ - 1) % size_]; }
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
	bool sent_ = false; /* the first piece needs no credit from the right */
	s32 device_ = -1;
	HcclDispatcher dispatcher_ = nullptr;
	std::unique_ptr<hccl::Stream> stream_;
};
