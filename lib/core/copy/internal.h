/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of copies share. */
#pragma once

#include "driver/base/error.h"
#include "lib/core/copy/copy.h"

#include <cinttypes>

namespace usdma::core {

/* ---- bounce.cpp: copies that the engine cannot do by itself ------------------------------------------ */

/*
 * Waits for the stream, copies, returns when it is done. At least one end is unregistered, or not within the
 * engine's reach.
 */
int copy_pageable(stream *s, const ends &e, void *dst, const void *src, u64 len);
/*
 * Memory out of the stream's device's reach, or of two devices that reach not each other: through the host;
 * done when it returns.
 */
int copy_between(stream *s, const ends &e, void *dst, const void *src, u64 len);
/* A rectangle that no single request can do. Waits for the stream; done when it returns. */
int copy_2d_rows(stream *s, const ends &e, const copy_rect &c, deadline until);

/* ---- checks.cpp --------------------------------------------------------------------------------------- */

int fail_range(const place &p, u64 addr, u64 len, const char *which);
/* -EFAULT where [addr, addr+len) leaves the allocated memory that p is the start of. */
int check_range(const place &p, u64 addr, u64 len, const char *which);
/* Pinned memory of a device that is isolated, or any that one does not reach. */
inline bool is_apart(const device *dev, const place &p)
{
	return p.cls == mem_class::host && !reaches(dev, p);
}
/*
 * Where it does not: the peer's memory in this engine's address space. -EXDEV: not within reach; -ENODEV: that
 * device is gone.
 */
int reach_peer(device *dev, place *p);
/* A place that the stream's engine can reach and that holds len bytes. */
int reachable(stream *s, const void *p, u64 len, const char *which, place *out);

/* Bytes of the region from addr on. */
inline u64 left_in(const place &p, u64 addr)
{
	return p.base + p.size - addr;
}

inline bool holds(const place &p, u64 addr, u64 len)
{
	return p.size && left_in(p, addr) >= len;
}

/* ---- requests ------------------------------------------------------------------------------------------ */

inline dma::request copy_request(stream *s, const place &dst, const place &src, u64 len, u8 flags = 0)
{
	dma::request r;

	dma::set_copy(&r, dma::spaces(src.space, dst.space), src.dma, dst.dma, len, reinterpret_cast<u64>(s), flags);
	return r;
}

inline int submit_one(stream *s, dma::request r)
{
	r.cookie = reinterpret_cast<u64>(s);
	return stream_submit(s, &r, 1);
}

/* -EINVAL unless a pattern of 1, 4 or 8 bytes fills len bytes. */
int check_pattern(unsigned pattern_size, u64 len);
int copy_2d_direct(stream *s, const ends &e, const copy_rect &c);

} // namespace usdma::core
