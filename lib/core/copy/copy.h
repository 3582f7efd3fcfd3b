/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies: classify both addresses, choose the path, build requests.
 *   direct   both sides pinned or device memory: posts requests to the stream; asynchronous
 *   bounce   one side pageable, or host memory that the engine cannot access
 *            (isolated device): waits for the stream, moves the data through
 *            staging buffers or the BAR; synchronous
 *   host     neither side device memory: a CPU copy (synchronous callers only)
 *
 * -EFAULT: an unallocated device address, or a range that exceeds its block.
 */
#pragma once

#include "lib/core/stream/stream.h"
#include "lib/core/memory/memory.h"

#pragma GCC visibility push(default)
namespace usdma::core {

/* Translations of destination and source. */
struct endpoints {
	translation dst, src;
};

inline endpoints translate_both(const void *dst, const void *src)
{
	return {translate(dst), translate(src)};
}

/* The device's engine can access this memory directly. */
inline bool reaches(const device *dev, const translation &p)
{
	return dev->reaches & p.reach;
}

inline bool is_pageable(const endpoints &e)
{
	return e.dst.cls == mem_class::unregistered || e.src.cls == mem_class::unregistered;
}

/* -EFAULT unless [p, p+len) is allocated device memory, or pinned; which: names it. */
int check_access(const void *p, u64 len, const char *which);
/*
 * -EFAULT: neither unregistered memory nor a range of allocated device memory or of pinned memory; writes: read-only.
 * -EXDEV: of another machine.
 */
int check_memory(const void *p, u64 len, bool writes);
/* Direct path: neither side unregistered. Returns once the copy is in the ring (or the stream's queue). */
int copy_direct(stream *s, const endpoints &e, void *dst, const void *src, u64 len, u8 flags = 0);
/* The same with a number: numbers->first. */
int copy_numbered(stream *s, const endpoints &e, void *dst, const void *src, u64 len, op_numbers *numbers,
		  u8 flags = 0);
/*
 * Fast path: one request between regions in the thread's translation cache (thread_words.h), which holds no
 * pageable memory. Inside a read section that validated the stream. with_device: one side must be device memory.
 * Returns its cookie; 0: nothing was done, take the slow path.
 */
u64 copy_fast(const void *cache, stream *s, void *dst, const void *src, u64 len, bool with_device);
/*
 * Any memory classes: direct, or waits for the stream and copies synchronously. The APIs try copy_fast()
 * first. numbers->first stays 0 for a copy that is synchronous.
 */
int copy_async(stream *s, void *dst, const void *src, u64 len, op_numbers *numbers);
int copy_async(stream *s, void *dst, const void *src, u64 len);
/* Copies on an internal stream of the device and waits for it; does not wait for other streams. */
int copy_sync(device *dev, void *dst, const void *src, u64 len, deadline until);
/*
 * Before a copy that is synchronous: waits for the stream's work. An error of that stays pending, for the stream's next
 * wait; only a stream that accepts no work is an error.
 */
int sync_before(stream *s, deadline until);
/* Reads src before it returns (staged in pinned memory), then asynchronous. dst: device memory. */
int copy_staged(stream *s, void *dst, const void *src, u64 len);

struct copy_item {
	void *dst;
	const void *src;
	u64 len;
};
struct copy_rect {
	void *dst;
	u64 dst_pitch;
	const void *src;
	u64 src_pitch;
	u64 width, height;
};

/* Copies, or one fill, of memory of other machines: a side of each copy, or both. */
struct remote_work {
	copy_rect rect = {};              /* its rows; of a fill: the first one's dst */
	const copy_item *items = nullptr; /* or these, … */
	u64 n = 1;                        /* … of which there are so many; rows alike */
	u64 pattern = 0;
	unsigned pattern_size = 0; /* 0: copies */
};
/* A layer above moves such memory, if there is any. */
struct remote_ops {
	/* Synchronous. dev: the device of one side. */
	int (*run)(device *dev, const remote_work &w, deadline until);
	/* In the order of the stream; its other memory can be accessed by the stream's device. */
	int (*submit)(stream *s, const remote_work &w, op_numbers *numbers);
};
/* Before the first region of it; stays. */
void copy_set_remote(const remote_ops *ops);

inline bool is_remote(const translation &p)
{
	return p.kind == region_kind::remote;
}
inline bool is_remote(const endpoints &e)
{
	return is_remote(e.dst) || is_remote(e.src);
}

/* Items in memory, as a front end has them: an array of structures or three arrays. */
class copy_list {
public:
	copy_list(void *const *dst, const void *const *src, const u64 *len, size_t stride)
		: dst_(dst), src_(src), len_(len), stride_(stride)
	{
	}
	copy_list(const copy_item *items) : copy_list(&items->dst, &items->src, &items->len, sizeof(*items)) {}

	copy_item operator[](size_t i) const { return {*at(dst_, i), *at(src_, i), *at(len_, i)}; }
	copy_list from(size_t i) const { return {at(dst_, i), at(src_, i), at(len_, i), stride_}; }

private:
	template <class T> const T *at(const T *first, size_t i) const
	{
		return reinterpret_cast<const T *>(reinterpret_cast<const char *>(first) + i * stride_);
	}

	void *const *dst_;
	const void *const *src_;
	const u64 *len_;
	size_t stride_; /* bytes */
};
/* Expected memory of destination and source: a device's slot, or pinned host memory. */
inline constexpr int side_host = -1;
struct sides {
	int dst, src;
};
/*
 * Copies in order, with one doorbell a group of direct items; *done: how many were submitted when it fails.
 * expected: 1: the next item is of other memory, or needs more than one request; nothing was done with it.
 */
int copy_submit(stream *s, const copy_list &items, size_t n, const sides *expected, size_t *done);
/* With numbers: that of item i is numbers->first + i, if any item is asynchronous. Items that are one request fail as
 * the first of them. */
int copy_submit(stream *s, const copy_list &items, size_t n, const sides *expected, size_t *done, op_numbers *numbers);
/* By USDMA_CHECK=race: items that a call submitted which promises no order among them. */
void copy_check_batch(const stream *s, const copy_list &items, size_t n);

int copy_2d_async(stream *s, const copy_rect &r);
int copy_2d_sync(device *dev, const copy_rect &r, deadline until);

/* These do not use staging: -EXDEV if the stream's engine cannot access the memory. */
/* dst: device or pinned memory; pattern of 1, 4 or 8 bytes. */
int fill_async(stream *s, void *dst, u64 pattern, unsigned pattern_size, u64 len);
/* fill_sync() accepts any memory class. */
/* Fills host memory by the CPU, synchronously. -EFAULT: not mapped, or registered as read-only. */
int fill_host(void *dst, u64 pattern, unsigned size, u64 len);
int fill_sync(device *dev, void *dst, u64 pattern, unsigned pattern_size, u64 len, deadline until);
/* Zeroes device memory at a DMA address; synchronous. */
int zero_device(device *dev, u64 dma, u64 len);
int reduce_async(stream *s, void *dst, const void *src, u64 len, dma::element type, dma::reduce_op op);
int write_value_async(stream *s, void *dst, u64 value);
/* Device or pinned memory. -EOPNOTSUPP: the stream shares its channel, and the CPU cannot access the word. */
int wait_value_async(stream *s, const void *addr, dma::compare cmp, u64 value);
/*
 * The stream's engine waits until the word is value, and sets it to 0 in the same access. reported: only devices of
 * this process write it, or waits_wake() or a ring of the bell (ipc/bell.h) comes afterwards. 1: not possible, nothing
 * was done; wait by stream_wait_check().
 */
int take_value_async(stream *s, u64 *word, u64 value, bool reported);
/* A word was stored that rings of the slot's device may wait for (take_value_async). */
void waits_wake(unsigned slot);
int copy_indirect_async(stream *s, const void *desc);
int copy_cells_async(stream *s, void *dst_cell, const void *src_cell, u64 len, u64 dst_off, u64 src_off);

} // namespace usdma::core
#pragma GCC visibility pop
