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

static void skip_rows(copy_rect *c, u64 n)
{
	c->dst = static_cast<u8 *>(c->dst) + n * c->dst_pitch;
	c->src = static_cast<const u8 *>(c->src) + n * c->src_pitch;
	c->height -= n;
}

/* One request; *c: what is left, at *e. */
static int copy_rows_direct(stream *s, endpoints *e, copy_rect *c, op_numbers *numbers)
{
	dma::request r;

	r.op = dma::opcode::copy_2d;
	r.spaces = dma::spaces(e->src.space, e->dst.space);
	r.len = c->width;
	r.a = c->src_pitch;
	r.b = c->dst_pitch;
	r.height = u32(std::min(c->height, rows_at_once(s, *c)));
	r.src = e->src.dma;
	r.dst = e->dst.dma;
	const int err = submit_between(s, r, *e, numbers);
	if (!err) {
		e->src.dma += r.height * r.a;
		e->dst.dma += r.height * r.b;
		skip_rows(c, r.height);
	}
	return err;
}

static int copy_all_direct(stream *s, endpoints *e, copy_rect *c, op_numbers *numbers)
{
	int err = 0;

	while (c->height && !err)
		err = copy_rows_direct(s, e, c, numbers);
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
static bool rect_direct(const stream *s, const endpoints &e, const copy_rect &c)
{
	return !is_pageable(e) && reaches(s->dev, e.dst) && reaches(s->dev, e.src) &&
	       holds(e.dst, reinterpret_cast<u64>(c.dst), rect_extent(c.dst_pitch, c.width, c.height)) &&
	       holds(e.src, reinterpret_cast<u64>(c.src), rect_extent(c.src_pitch, c.width, c.height)) &&
	       c.width <= s->max_len;
}

int copy_2d_reached(stream *s, copy_rect c)
{
	op_numbers numbers;
	int err = 0;

	while (c.height && err >= 0) {
		endpoints e = translate_both(c.dst, c.src);

		if (rect_direct(s, e, c)) {
			err = copy_all_direct(s, &e, &c, &numbers);
			continue;
		}
		err = copy_async(s, c.dst, c.src, c.width, &numbers);
		skip_rows(&c, 1);
	}
	return err;
}

/* What is not direct goes through the host; *c: what is left. */
static int copy_2d_once(stream *s, copy_rect *rect, op_numbers *numbers)
{
	const copy_rect &c = *rect;
	endpoints e = translate_both(c.dst, c.src);
	const u64 dst_extent = rect_extent(c.dst_pitch, c.width, c.height),
		  src_extent = rect_extent(c.src_pitch, c.width, c.height);
	int err = 0;

	if (rect_direct(s, e, c))
		return copy_all_direct(s, &e, rect, numbers);
	if (e.dst.cls != mem_class::unregistered)
		err = check_range(e.dst, reinterpret_cast<u64>(c.dst), dst_extent, "destination");
	if (!err && e.src.cls != mem_class::unregistered)
		err = check_range(e.src, reinterpret_cast<u64>(c.src), src_extent, "source");
	if (!err && is_remote(e) && !is_pageable(e))
		err = remote_submit(s, {.rect = c, .n = c.height}, numbers);
	else if (!err)
		err = copy_2d_rows(s, e, c, deadline::at_ns(s->until));
	rect->height = 0;
	return err;
}

int copy_2d_async(stream *s, const copy_rect &c)
{
	copy_rect left = c;
	op_numbers numbers;
	int err = 0;

	if (!c.width || !c.height)
		return 0;
	if (c.width > c.dst_pitch || c.width > c.src_pitch || !rect_extent(c.dst_pitch, c.width, c.height) ||
	    !rect_extent(c.src_pitch, c.width, c.height))
		return fail(EINVAL, "a row of %" PRIu64 " bytes does not fit its pitch, or the rectangle is too large",
			    c.width);
	while (left.height && err >= 0)
		err = copy_2d_once(s, &left, &numbers);
	return err;
}

} // namespace usdma::core
