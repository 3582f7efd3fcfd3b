/* SPDX-License-Identifier: BSD-3-Clause */
/* Rectangles. */
#include "lib/core/copy/internal.h"

namespace usdma::core {

/* Rows of one request, so that it stays within the engine's limit. */
static u64 rows_at_once(const stream *s, const copy_rect &c)
{
	const u64 most = s->max_len;

	return std::max<u64>(1, std::min<u64>(most / c.width, 0xffffffff));
}

int copy_2d_direct(stream *s, const ends &e, const copy_rect &c)
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

/* Bytes from the first to behind the last of a rectangle; 0: more than fits in 64 bits. */
static u64 rect_span(u64 pitch, u64 width, u64 height)
{
	u64 span;

	if (__builtin_mul_overflow(pitch, height - 1, &span) || __builtin_add_overflow(span, width, &span))
		return 0;
	return span;
}

/* Both ends lie in one region each, and the engine reaches both. */
static bool rect_direct(const stream *s, const ends &e, u64 dspan, u64 fspan, const copy_rect &c)
{
	return !is_pageable(e) && reaches(s->dev, e.dst) && reaches(s->dev, e.src) &&
	       holds(e.dst, reinterpret_cast<u64>(c.dst), dspan) && holds(e.src, reinterpret_cast<u64>(c.src), fspan) &&
	       c.width <= s->max_len;
}

int copy_2d_async(stream *s, const copy_rect &c)
{
	const ends e = locate_ends(c.dst, c.src);
	u64 dspan, fspan;
	int err = 0;

	if (!c.width || !c.height)
		return 0;
	dspan = rect_span(c.dst_pitch, c.width, c.height);
	fspan = rect_span(c.src_pitch, c.width, c.height);
	if (c.width > c.dst_pitch || c.width > c.src_pitch || !dspan || !fspan)
		return fail(EINVAL, "a row of %" PRIu64 " bytes does not fit its pitch, or the rectangle is too large",
			    c.width);
	if (rect_direct(s, e, dspan, fspan, c))
		return copy_2d_direct(s, e, c);
	if (e.dst.cls != mem_class::unregistered)
		err = check_range(e.dst, reinterpret_cast<u64>(c.dst), dspan, "destination");
	if (!err && e.src.cls != mem_class::unregistered)
		err = check_range(e.src, reinterpret_cast<u64>(c.src), fspan, "source");
	return err ? err : copy_2d_rows(s, e, c, deadline::at_ns(s->until));
}

} // namespace usdma::core
