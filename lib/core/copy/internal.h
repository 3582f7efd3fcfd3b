/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of lib/core/copy. */
#pragma once

#include "driver/base/error.h"
#include "driver/base/page_guard.h"
#include "lib/core/copy/copy.h"

#include <cinttypes>

namespace usdma::core {

/* ---- bounce.cpp: copies that the engine cannot do by itself ------------------------------------------ */

/*
 * Waits for the stream, then copies synchronously, through the host: one side is unregistered or not accessible
 * by the engine.
 */
int copy_pageable(stream *s, void *dst, const void *src, u64 len);
/* A rectangle that needs more than one request. Waits for the stream; synchronous. */
int copy_2d_rows(stream *s, const endpoints &e, const copy_rect &c, deadline until);

/* ---- cpu.cpp: copies by the CPU ----------------------------------------------------------------------- */

/*
 * Copies to or from device memory, or between that of two devices. 1: the CPU cannot access it all, or should not;
 * a part may have been copied.
 */
int copy_by_cpu(u8 *dst, const u8 *src, u64 len, deadline until);
/*
 * Copies the first of n items by the CPU, in order, and returns how many: those between pageable and device memory. The
 * next one takes another path, which also finds its error. One read section: closing a device waits for all of them.
 * total: bytes of the whole operation, which select the routine.
 */
size_t copy_group_by_cpu(const copy_list &items, size_t n, u64 total, const sides *expected);
/* The CPU makes the copies that the device's engine cannot do directly, of any length. */
bool is_by_cpu(const endpoints &e);
bool is_for_cpu(const copy_item &i, const sides *expected);

/* Pinned or pageable host memory, which the CPU can access. */
inline bool is_host(const translation &p)
{
	return p.cls != mem_class::device;
}

/* Runs f, which accesses two ranges that may be memory of the caller, and unmapped: -EFAULT. */
template <class F> int touch(guarded_range a, guarded_range b, const F &f)
{
	const void *bad;

	return page_guarded(a, b, f, &bad) ? 0 : fail(EFAULT, "the memory at %p cannot be read or written", bad);
}

/* CPU copies honour USDMA_REGISTER_READ_ONLY, as devices do. */
inline int check_writable(const translation &dst, const void *at)
{
	return dst.flags & region_readonly ? fail(EFAULT, "destination %p is registered as read-only", at) : 0;
}

/* ---- checks.cpp --------------------------------------------------------------------------------------- */

int fail_range(const translation &p, u64 addr, u64 len, const char *which);
/* -EFAULT if [addr, addr+len) exceeds the allocated memory; p: the translation of addr. */
int check_range(const translation &p, u64 addr, u64 len, const char *which);
/* Host memory that dev cannot access: one of the devices is isolated. */
inline bool is_apart(const device *dev, const translation &p)
{
	return p.cls == mem_class::host && !reaches(dev, p);
}
/*
 * Translates peer memory into this engine's address space if needed. -EXDEV: not accessible; -ENODEV: peer
 * device lost.
 */
int reach_peer(device *dev, translation *p);
/* Translates len bytes at p for the stream's engine. */
int reachable(stream *s, const void *p, u64 len, const char *which, translation *out);

/* Bytes from addr to the end of the region. */
inline u64 left_in(const translation &p, u64 addr)
{
	return p.base + p.size - addr;
}

inline bool holds(const translation &p, u64 addr, u64 len)
{
	return p.size && left_in(p, addr) >= len;
}

/* ---- requests ------------------------------------------------------------------------------------------ */

inline dma::request copy_request(stream *s, const translation &dst, const translation &src, u64 len, u8 flags = 0)
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
int copy_2d_direct(stream *s, const endpoints &e, const copy_rect &c);

} // namespace usdma::core
