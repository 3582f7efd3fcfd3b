/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of lib/core/copy. */
#pragma once

#include "driver/base/error.h"
#include "driver/base/page_guard.h"
#include "lib/core/copy/copy.h"
#include "lib/core/memory/hold.h"

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
 * next one takes another path, which also finds its error.
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

/* After stale: -EFAULT: some of it was freed. */
int check_freed(const endpoints &e);

/* Runs f, which accesses two ranges that may be memory of the caller, and unmapped: -EFAULT. */
template <class F> int touch(access_range a, access_range b, const F &f)
{
	const void *bad;

	return page_guarded(a, b, f, &bad) ? 0 : fail(EFAULT, "the memory at %p cannot be read or written", bad);
}

/*
 * As touch(), for what was looked up and, if the library owns it, is not reused meanwhile. -EFAULT also: it was freed.
 */
template <class F> int touch_held(const endpoints &e, access_range a, access_range b, const F &f)
{
	memory_hold held;
	int err = held.take(e.dst, e.src);

	if (err == stale)
		err = check_freed(e);
	/* What was unregistered is the program's own. */
	return err < 0 ? err : touch(a, b, f);
}

/* CPU copies honour USDMA_REGISTER_READ_ONLY, as devices do. */
inline int check_writable(const translation &dst, const void *at)
{
	return dst.flags & region_readonly ? fail(EFAULT, "destination %p is registered as read-only", at) : 0;
}

/* ---- remote.cpp: memory of other machines --------------------------------------------------------------- */

remote_work remote_copy_of(void *dst, const void *src, u64 len);
remote_work remote_fill_of(void *dst, u64 pattern, unsigned pattern_size, u64 len);
/* Checked work, of which e are the first sides. */
int remote_run(const endpoints &e, const remote_work &w, deadline until);
int remote_submit(stream *s, const remote_work &w, op_numbers *numbers);
/* A copy between memory that is not pageable. */
int remote_copy_async(stream *s, const endpoints &e, void *dst, const void *src, u64 len, op_numbers *numbers);
int remote_fill_async(stream *s, const translation &p, void *dst, u64 pattern, unsigned pattern_size, u64 len);
/* The first items of a batch, as long as they are such copies; *done: how many. 1: the first one is of other memory. */
int remote_copy_items(stream *s, const copy_list &items, size_t n, const sides *expected, op_numbers *numbers,
		      size_t *done);

/* ---- checks.cpp --------------------------------------------------------------------------------------- */

int fail_range(const translation &p, u64 addr, u64 len, const char *which);
/* Both ranges are allocated, of devices that are there. */
int check_device_sides(const endpoints &e, const void *dst, const void *src, u64 len);
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
/*
 * As reachable(), of memory that may go on in the next region: *n is cut to the end of this one. len: of the whole, or
 * 1 if it was checked before.
 */
int reachable_part(stream *s, const void *p, u64 len, const char *which, translation *out, u64 *n);

/*
 * As stream_submit(). stale: memory was unregistered, and is looked up once more, as for a call made later. What was
 * freed is an error instead: its address may be that of other memory.
 */
int submit_found(stream *s, dma::request *r, size_t n, const lookups &found, op_numbers *numbers,
		 size_t *posted = nullptr);

/* The generation of both, or none. */
inline u64 generation_of(const translation &dst, const translation &src)
{
	return dst.generation == src.generation ? dst.generation : 0;
}

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

inline dma::request copy_request(const translation &dst, const translation &src, u64 len, u8 flags = 0)
{
	dma::request r;

	dma::set_copy(&r, dma::spaces(src.space, dst.space), src.dma, dst.dma, len, op_cookie(0), flags);
	return r;
}

/* One request of memory on both sides. */
inline int submit_between(stream *s, dma::request r, const endpoints &e, op_numbers *numbers)
{
	const translation both[] = {e.dst, e.src};

	return submit_found(s, &r, 1, {generation_of(e.dst, e.src), both, 2}, numbers);
}

inline bool is_same(const endpoints &a, const endpoints &b)
{
	return a.dst.number == b.dst.number && a.src.number == b.src.number;
}

/* Submits one request. make(&r, &e) looks up its memory, of one side or of both, and builds it. */
template <class Make> int submit_one(stream *s, op_numbers *numbers, const Make &make)
{
	int err;

	do {
		dma::request r;
		endpoints e = {};

		err = make(&r, &e);
		if (err)
			return err;
		err = submit_between(s, r, {e.dst, e.src.size ? e.src : e.dst}, numbers);
	} while (err == stale);
	return err;
}

/* As submit_one(), of an operation of its own. */
template <class Make> int submit_alone(stream *s, const Make &make)
{
	op_numbers numbers;

	return submit_one(s, &numbers, make);
}

/* As submit_one() for len bytes, in parts of at most `most`: make(&r, &e, off) for what is at an offset, or less of it.
 */
template <class Make> int submit_parts(stream *s, u64 len, u64 most, const Make &make)
{
	endpoints first = {};
	op_numbers numbers;
	int err = 0;

	for (u64 off = 0, n = 0; off < len && !err; off += n) {
		err = submit_one(s, &numbers, [&](dma::request *r, endpoints *e) {
			r->len = std::min(len - off, most);
			const int bad = make(r, e, off);
			n = r->len;
			if (!off)
				first = *e;
			/* Other memory at the same address. */
			const int freed = bad || is_same(first, *e) ? bad : check_freed(first);
			return freed == stale ? 0 : freed;
		});
	}
	return err;
}

/* -EINVAL unless a pattern of 1, 4 or 8 bytes fills len bytes. */
int check_pattern(unsigned pattern_size, u64 len);
/* Of memory that the engine can access, which may be freed meanwhile. */
int copy_2d_reached(stream *s, copy_rect c);

} // namespace usdma::core
