/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies: classify both addresses, choose the path, build requests.
 *   direct   both sides pinned or device: requests into the stream; returns at once
 *   bounce   one side pageable, or host memory that the engine does not reach
 *            (a device that is isolated): waits for the stream, moves the data through
 *            staging (or straight through the BAR), returns when it is done
 *   host     neither side a device: a plain memory copy (synchronous callers only)
 *
 * -EFAULT: a device address that is not allocated, or a range that leaves its block.
 */
#pragma once

#include "lib/core/stream/stream.h"
#include "lib/core/memory/memory.h"

#pragma GCC visibility push(default)
namespace usdma::core {

/* The classes of both ends, each looked up once. */
struct ends {
	place dst, src;
};

inline ends locate_ends(const void *dst, const void *src)
{
	return {locate(dst), locate(src)};
}

/* The device's engine reaches this place as it stands. */
inline bool reaches(const device *dev, const place &p)
{
	return dev->reaches & p.reach;
}

inline bool is_pageable(const ends &e)
{
	return e.dst.cls == mem_class::unregistered || e.src.cls == mem_class::unregistered;
}

/* Direct path: neither side unregistered. Returns when it is in the ring (or the stream's queue). */
int copy_direct(stream *s, const ends &e, void *dst, const void *src, u64 len, u8 flags = 0);
/*
 * The same, for who wants one end to be a device's.  Inside a read section.  1: not both ends lie where this thread
 * was before, or something else is not as usual, and nothing was done.  cache: the thread's (thread_words.h).
 */
int copy_known_device(const void *cache, stream *s, void *dst, const void *src, u64 len);
/*
 * Any classes: direct, or waits for the stream and copies before it returns.  Front ends try copy_known() first
 * (copy_known.h): most copies end there.
 */
int copy_async(stream *s, void *dst, const void *src, u64 len);
/* Without a stream: copies on the device's internal stream and waits; does not wait for other streams. */
int copy_sync(device *dev, void *dst, const void *src, u64 len, deadline until);
/* src is read before it returns, whatever its class (staged in pinned memory); dst a device's; asynchronous else. */
int copy_staged(stream *s, void *dst, const void *src, u64 len);

struct copy_item {
	void *dst;
	const void *src;
	u64 len;
};
/* Direct items only, one doorbell for all; *done = how many are submitted when it fails. */
int copy_batch(stream *s, const copy_item *items, size_t n, size_t *done);
/* The same for items whose ends the caller has looked up. */
int copy_batch_located(stream *s, const copy_item *items, const ends *at, size_t n, size_t *done);

struct copy_lists {
	void *const *dst, *const *src;
	const size_t *len;
};
/* Which memory the ends of copies are said to lie in: a device's slot, or host memory. */
inline constexpr int side_host = -1;
struct sides {
	int dst, src;
};
/*
 * The first of n items, as long as both ends lie where this thread was before and on the sides
 * that are said, of which one is the host's.  Returns how many are submitted; the next one is
 * another kind of item, or has failed: *err.
 */
size_t copy_batch_remembered(stream *s, const copy_lists &items, size_t n, sides said, int *err);

struct copy_rect {
	void *dst;
	u64 dst_pitch;
	const void *src;
	u64 src_pitch;
	u64 width, height;
};
int copy_2d_async(stream *s, const copy_rect &r);
int copy_2d_sync(device *dev, const copy_rect &r, deadline until);

/* None of these is staged: -EXDEV where the stream's engine does not reach the memory. */
/* dst: device or pinned memory; pattern of 1, 4 or 8 bytes. */
int fill_async(stream *s, void *dst, u64 pattern, unsigned pattern_size, u64 len);
/* Any class. */
/* Host memory, by the CPU, now.  -EFAULT: it is not there, or registered as read-only. */
int fill_host(void *dst, u64 pattern, unsigned size, u64 len);
int fill_sync(device *dev, void *dst, u64 pattern, unsigned pattern_size, u64 len, deadline until);
/* Zeros in the device's own memory, named as requests name it; done when it returns. */
int zero_device(device *dev, u64 dma, u64 len);
int reduce_async(stream *s, void *dst, const void *src, u64 len, dma::element type, dma::reduce_op op);
int write_value_async(stream *s, void *dst, u64 value);
/* Device or pinned memory. -EOPNOTSUPP: the stream shares its channel, and the CPU does not see the word. */
int wait_value_async(stream *s, const void *addr, dma::compare cmp, u64 value);
int copy_indirect_async(stream *s, const void *desc);
int copy_cells_async(stream *s, void *dst_cell, const void *src_cell, u64 len, u64 dst_off, u64 src_off);

} // namespace usdma::core
#pragma GCC visibility pop
