/* SPDX-License-Identifier: BSD-3-Clause */
/* 2D copies. */
#include "lib/core/copy/internal.h"

namespace usdma::core {

/* Rows a request, limited by the engine's longest request. */
static u64 rows_at_once(const stream *s, const copy_rect &c)
{
	const u64 most = s->max_len;

	return std::max<u64>(1, std::min<u64>(most / c.width, 0xffffffff));
}

int copy_2d_direct(stream *s, const endpoints &e, const copy_rect &c)
{
	dma::request r;
	int err = 0;

	r.op = dma::opcode::copy_2d;
	r.spaces = dma::spaces(e.src.space, e.dst.space);
	r.len = c.width;
	r.a = c.src_pitch;
	r.b = c.dst_pitch;
	for (u64 row = 0; row < c.height && !err; row += r.height) {
		r.height = u32(std::min(c.height - row, rows_at_once(s, c)));
		r.src = e.src.dma + row * c.src_pitch;
		r.dst = e.dst.dma + row * c.dst_pitch;
		err = submit_one(s, r);
	}
	return err;
}

/* Bytes from the first to the last byte of a rectangle; 0: overflow. */
static u64 rect_extent(u64 pitch, u64 width, u64 height)
{
	u64 extent;

	if (__builtin_mul_overflow(pitch, height - 1, &extent) || __builtin_add_overflow(extent, width, &extent))
		return 0;
	return extent;
}

/* Each side lies in one region that the engine can access. */
static bool rect_direct(const stream *s, const endpoints &e, u64 dst_extent, u64 src_extent, const copy_rect &c)
{
	return !is_pageable(e) && reaches(s->dev, e.dst) && reaches(s->dev, e.src) &&
	       holds(e.dst, reinterpret_cast<u64>(c.dst), dst_extent) &&
	       holds(e.src, reinterpret_cast<u64>(c.src), src_extent) && c.width <= s->max_len;
}

int copy_2d_async(stream *s, const copy_rect &c)
{
	const endpoints e = translate_both(c.dst, c.src);
	u64 dst_extent, src_extent;
	int err = 0;

	if (!c.width || !c.height)
		return 0;
	dst_extent = rect_extent(c.dst_pitch, c.width, c.height);
	src_extent = rect_extent(c.src_pitch, c.width, c.height);
	if (c.width > c.dst_pitch || c.width > c.src_pitch || !dst_extent || !src_extent)
		return fail(EINVAL, "a row of %" PRIu64 " bytes does not fit its pitch, or the rectangle is too large",
			    c.width);
	if (rect_direct(s, e, dst_extent, src_extent, c))
		return copy_2d_direct(s, e, c);
	if (e.dst.cls != mem_class::unregistered)
		err = check_range(e.dst, reinterpret_cast<u64>(c.dst), dst_extent, "destination");
	if (!err && e.src.cls != mem_class::unregistered)
		err = check_range(e.src, reinterpret_cast<u64>(c.src), src_extent, "source");
	return err ? err : copy_2d_rows(s, e, c, deadline::at_ns(s->until));
}

} // namespace usdma::core
