/* SPDX-License-Identifier: BSD-3-Clause */
/* Direct copies: both ends can be reached by the engine, so they become requests in the stream. */
#include "lib/core/copy.h"

#include "driver/base/error.h"
#include "lib/core/bounce.h"
#include "lib/core/copy_known.h"
#include "lib/core/section.h"

#include <cinttypes>

namespace usdma::core {

/* ---- checks ----------------------------------------------------------------------------------------- */

[[gnu::cold]] static int fail_range(const place &p, u64 addr, u64 len, const char *which)
{
	if (!p.size)
		return fail(EFAULT, "%s 0x%" PRIx64 " is a device address that is not allocated", which, addr);
	return fail(EFAULT, "%s 0x%" PRIx64 " + %" PRIu64 " bytes leaves its block 0x%" PRIx64 " of %" PRIu64 " bytes", which,
		    addr, len, p.base, p.size);
}

/* Bytes of the region from addr on. */
static inline u64 left_in(const place &p, u64 addr)
{
	return p.base + p.size - addr;
}

static inline bool holds(const place &p, u64 addr, u64 len)
{
	return p.size && left_in(p, addr) >= len;
}

int check_range(const place &p, u64 addr, u64 len, const char *which)
{
	place at = p;

	while (!holds(at, addr, len)) {
		if (!at.size || !(at.flags & region_chains))
			return fail_range(at, addr, len, which);
		len -= left_in(at, addr);
		addr += left_in(at, addr);
		at = locate(addr);
	}
	return 0;
}

/* Pinned memory of a device that is isolated, or any that one does not reach. */
static bool is_apart(const device *dev, const place &p)
{
	return p.cls == mem_class::host && !reaches(dev, p);
}

[[gnu::cold]] static int fail_apart(const device *dev)
{
	return dev->isolated() ? fail(EXDEV, "device %u (%s) is isolated and reaches host memory only that is allocated for it: "
					     "usdma_host_alloc with this device, aclrtMallocHost while it is the current one", dev->slot,
				      dev->spec.c_str()) :
				 fail(EXDEV, "device %u does not reach host memory that was allocated for a device that is isolated",
				      dev->slot);
}

/* Where it does not: the peer's memory in this engine's address space. -EXDEV: not within reach; -ENODEV: that device is gone. */
static int reach_peer(device *dev, place *p)
{
	if (reaches(dev, *p))
		return 0;
	return p->cls == mem_class::device ? peer_place(dev, p) : fail_apart(dev);
}

/* ---- building --------------------------------------------------------------------------------------- */

static inline dma::request copy_request(stream *s, const place &dst, const place &src, u64 len, u8 flags = 0)
{
	dma::request r;

	dma::set_copy(&r, dma::spaces(src.space, dst.space), src.dma, dst.dma, len, reinterpret_cast<u64>(s), flags);
	return r;
}

/* Longer than one request may be, spread over units, or over several regions. */
[[gnu::cold]] static int copy_pieces(stream *s, ends e, u64 dst, u64 src, u64 len, u8 flags)
{
	const u64 most = s->max_len;
	int err = check_range(e.dst, dst, len, "destination");

	if (!err)
		err = check_range(e.src, src, len, "source");
	while (len && !err) {
		if ((err = reach_peer(s->dev, &e.dst)) || (err = reach_peer(s->dev, &e.src)))
			return err;
		u64 n = std::min(len, most);

		n = std::min(n, std::min(left_in(e.dst, dst), left_in(e.src, src)));
		const dma::request r = copy_request(s, e.dst, e.src, n, flags);
		err = n > s->plain_len ? stream_submit_long(s, r) : stream_submit(s, &r, 1);
		dst += n;
		src += n;
		len -= n;
		if (len && !err)
			e = {locate(dst), locate(src)};
	}
	return err;
}

/* Device memory of another device than the stream's, or host memory that is not for it. */
[[gnu::cold]] static int copy_to_peer(stream *s, ends e, void *dst, const void *src, u64 len, u8 flags)
{
	if (is_apart(s->dev, e.dst) || is_apart(s->dev, e.src))
		return copy_between(s, e, dst, src, len);
	int err = reach_peer(s->dev, &e.dst);
	if (!err)
		err = reach_peer(s->dev, &e.src);
	if (!err)
		return copy_pieces(s, e, reinterpret_cast<u64>(dst), reinterpret_cast<u64>(src), len, flags);
	return err == -EXDEV ? copy_between(s, e, dst, src, len) : err;
}

int copy_direct(stream *s, const ends &e, void *dst, const void *src, u64 len, u8 flags)
{
	const u64 d = reinterpret_cast<u64>(dst), f = reinterpret_cast<u64>(src);

	if (unlikely(!len))
		return 0;
	if (unlikely(!reaches(s->dev, e.dst) || !reaches(s->dev, e.src)))
		return copy_to_peer(s, e, dst, src, len, flags);
	if (likely(holds(e.dst, d, len) && holds(e.src, f, len) && len <= s->plain_len)) {
		const dma::request r = copy_request(s, e.dst, e.src, len, flags);

		return stream_submit(s, &r, 1);
	}
	return copy_pieces(s, e, d, f, len, flags);
}

int copy_remembered(stream *s, void *dst, const void *src, u64 len)
{
	const u64 d = reinterpret_cast<u64>(dst), f = reinterpret_cast<u64>(src);
	copy_words c;

	if (unlikely(located_entry(d)->cls != mem_class::device && located_entry(f)->cls != mem_class::device))
		return 1;
	return likely(copy_is_known(s, d, f, len, &c)) ? stream_submit_copy(s, c.spaces, c.src, c.dst, c.len) : 1;
}

int copy_async(stream *s, void *dst, const void *src, u64 len)
{
	const ends e = locate_ends(dst, src);

	return likely(!is_pageable(e)) ? copy_direct(s, e, dst, src, len) : copy_pageable(s, e, dst, src, len);
}

/* ---- batches ---------------------------------------------------------------------------------------- */

static bool batchable(stream *s, const ends &e, const copy_item &i)
{
	return i.len && i.len <= s->plain_len && !is_pageable(e) && reaches(s->dev, e.dst) &&
	       reaches(s->dev, e.src) && holds(e.dst, reinterpret_cast<u64>(i.dst), i.len) &&
	       holds(e.src, reinterpret_cast<u64>(i.src), i.len);
}

static constexpr size_t group = 32; /* one lock and one doorbell for so many */

/* For requests, not cleared: each is made whole. */
union room {
	dma::request r[group];

	room() {}
};

/* The region in which one end of a batch's items lay last, as far as all of them can use it. */
struct run_end {
	u64 base = 0, size = 0, delta = 0;
	dma::space space = dma::space::host;

	bool holds(u64 addr, u64 len) const { return range_within(addr - base, len, size); }
};

struct run {
	stream *s;
	const sides *said; /* nullptr: anywhere */
	u64 generation = region_map->generation();
	run_end dst, src;

	/* What is known of them may be old after a wait for room in the ring. */
	void renew()
	{
		if (unlikely(generation != region_map->generation()))
			*this = run{s, said};
	}
};

static inline bool on_side(const located *l, int side)
{
	return side == side_host ? l->cls == mem_class::host : l->cls == mem_class::device && l->slot == side;
}

[[gnu::noinline]] static bool enter(const run &b, run_end *e, u64 addr, u64 len, const int *side)
{
	const located *l = located_entry(addr);

	if (!remembered(b.s->dev, l, addr, len, b.generation) || (side && !on_side(l, *side)))
		return false;
	*e = {l->base, l->size, l->delta, l->space};
	return true;
}

/* As copy_is_known, but an item beside the one before needs no look at what the thread remembers. */
static inline bool request_in_run(run *b, u64 dst, u64 src, u64 len, dma::request *r)
{
	if (unlikely(len - 1 >= b->s->plain_len))
		return false;
	if (unlikely(!b->dst.holds(dst, len)) && !enter(*b, &b->dst, dst, len, b->said ? &b->said->dst : nullptr))
		return false;
	if (unlikely(!b->src.holds(src, len)) && !enter(*b, &b->src, src, len, b->said ? &b->said->src : nullptr))
		return false;
	dma::set_copy(r, dma::spaces(b->src.space, b->dst.space), src + b->src.delta, dst + b->dst.delta, len,
		      reinterpret_cast<u64>(b->s));
	return true;
}

static inline bool request_in_run(run *b, const copy_item &i, dma::request *r)
{
	return request_in_run(b, reinterpret_cast<u64>(i.dst), reinterpret_cast<u64>(i.src), i.len, r);
}

static bool request_looked_up(stream *s, const ends &e, const copy_item &i, dma::request *r)
{
	if (!batchable(s, e, i))
		return false;
	*r = copy_request(s, e.dst, e.src, i.len);
	return true;
}

/*
 * Requests for the first of n items, as many as make(number, request) makes; *k of them.  On an error: as many as were
 * submitted.
 */
template <class Make> [[gnu::always_inline]] static inline int submit_run(run *b, size_t n, size_t *k, const Make &make)
{
	room q;

	n = std::min(n, group);
	b->renew();
	for (*k = 0; *k < n && likely(make(*k, &q.r[*k]));)
		++*k;
	return likely(*k) ? stream_submit(b->s, q.r, *k, k) : 0;
}

/* Groups of such; what make does not make is copied by itself. */
template <class Make>
[[gnu::always_inline]] static inline int batch(run *b, const copy_item *items, size_t n, size_t *done, const Make &make)
{
	for (*done = 0; *done < n;) {
		const copy_item *const first = items + *done;
		size_t k;
		int err = submit_run(b, n - *done, &k, [&](size_t i, dma::request *r) { return make(*done + i, r); });

		if (!k && !err) {
			err = copy_async(b->s, first->dst, first->src, first->len);
			k = !err;
		}
		*done += k;
		if (err)
			return err;
	}
	return 0;
}

int copy_batch(stream *s, const copy_item *items, size_t n, size_t *done)
{
	run b{s, nullptr};

	return batch(&b, items, n, done, [&](size_t i, dma::request *r) {
		return likely(request_in_run(&b, items[i], r)) ||
		       request_looked_up(s, locate_ends(items[i].dst, items[i].src), items[i], r);
	});
}

int copy_batch_located(stream *s, const copy_item *items, const ends *at, size_t n, size_t *done)
{
	run b{s, nullptr};

	return batch(&b, items, n, done,
		     [&](size_t i, dma::request *r) { return request_looked_up(s, at[i], items[i], r); });
}

size_t copy_batch_remembered(stream *s, const copy_lists &items, size_t n, sides said, int *err)
{
	run b{s, &said};
	size_t done = 0, k = group;

	for (*err = 0; k == group && done < n && !*err; done += k)
		*err = submit_run(&b, n - done, &k, [&](size_t i, dma::request *r) {
			return request_in_run(&b, {items.dst[done + i], items.src[done + i], items.len[done + i]}, r);
		});
	return done;
}

/* ---- other operations ------------------------------------------------------------------------------- */

static int one(stream *s, dma::request r)
{
	r.cookie = reinterpret_cast<u64>(s);
	return stream_submit(s, &r, 1);
}

/* A place that the stream's engine can reach and that holds len bytes. */
int reachable(stream *s, const void *p, u64 len, const char *which, place *out)
{
	*out = locate(p);
	if (out->cls == mem_class::unregistered)
		return fail(EFAULT, "%s %p is ordinary memory: it must be device memory or pinned", which, p);
	if (const int err = reach_peer(s->dev, out))
		return out->cls == mem_class::host ? fail_in(err, "%s %p", which, p) :
						     fail_in(err, "%s %p lies on device %u, the stream runs on device %u", which, p,
							     out->slot, s->dev->slot);
	if (!holds(*out, reinterpret_cast<u64>(p), len))
		return fail_range(*out, reinterpret_cast<u64>(p), len, which);
	return 0;
}

int check_pattern(unsigned pattern_size, u64 len)
{
	if ((pattern_size != 1 && pattern_size != 4 && pattern_size != 8) || len % pattern_size)
		return fail(EINVAL, "a fill of %" PRIu64 " bytes with a pattern of %u", len, pattern_size);
	return 0;
}

int fill_async(stream *s, void *dst, u64 pattern, unsigned pattern_size, u64 len)
{
	const u64 most = align_down<u64>(s->max_len, 8);
	dma::request r;
	place p;
	int err;

	if (!len)
		return 0;
	err = check_pattern(pattern_size, len);
	if (!err)
		err = reachable(s, dst, len, "destination", &p);
	if (err)
		return err;
	r.op = dma::opcode::fill;
	r.spaces = dma::spaces(p.space, p.space);
	r.arg = u8(pattern_size);
	r.a = pattern;
	for (u64 off = 0; off < len && !err; off += r.len) {
		r.dst = p.dma + off;
		r.len = std::min(len - off, most);
		err = one(s, r);
	}
	return err;
}

int reduce_async(stream *s, void *dst, const void *src, u64 len, dma::element type, dma::reduce_op op)
{
	const u64 size = dma::element_size(type);
	const u64 most = align_down<u64>(s->max_len, 8);
	dma::request r;
	place d, f;
	int err;

	if (!size || len % size)
		return fail(EINVAL, "a reduction of %" PRIu64 " bytes is no whole number of elements", len);
	err = reachable(s, dst, len, "destination", &d);
	if (!err)
		err = reachable(s, src, len, "source", &f);
	r.op = dma::opcode::reduce;
	r.arg = dma::reduce_arg(type, op);
	for (u64 off = 0; off < len && !err; off += r.len) {
		r.spaces = dma::spaces(f.space, d.space);
		r.src = f.dma + off;
		r.dst = d.dma + off;
		r.len = std::min(len - off, most);
		err = one(s, r);
	}
	return err;
}

int write_value_async(stream *s, void *dst, u64 value)
{
	dma::request r;
	place p;
	const int err = reachable(s, dst, sizeof(u64), "destination", &p);

	if (err)
		return err;
	if (reinterpret_cast<u64>(dst) % sizeof(u64))
		return fail(EINVAL, "value address %p is not 8-byte aligned", dst);
	r.op = dma::opcode::write;
	r.flags = dma::flag_interrupt; /* a gate on the host may wait for this value */
	r.spaces = dma::spaces(p.space, p.space);
	r.dst = p.dma;
	r.len = sizeof(u64);
	r.a = value;
	return one(s, r);
}

const u64 *word_view(const void *addr)
{
	const place p = locate(addr);
	device *dev = p.cls == mem_class::device && p.size ? device_peek(p.slot) : nullptr;

	if (p.cls == mem_class::host)
		return static_cast<const u64 *>(addr);
	if (!dev || !dev->heap)
		return nullptr;
	const memory_view v = device_memory(dev);
	/* Not where the region is a view of other memory than the device's own. */
	return v.cpu && p.space == v.space && range_within(p.dma - v.dma, sizeof(u64), v.size) ?
		       reinterpret_cast<const u64 *>(v.cpu + (p.dma - v.dma)) : nullptr;
}

static bool cpu_sees(const void *addr)
{
	const read_section in;

	return in && word_view(addr);
}

int wait_value_async(stream *s, const void *addr, dma::compare cmp, u64 value)
{
	dma::request r;
	place p;
	const int err = reachable(s, addr, sizeof(u64), "value", &p);

	if (err)
		return err;
	if (reinterpret_cast<u64>(addr) % sizeof(u64))
		return fail(EINVAL, "value address %p is not 8-byte aligned", addr);
	/* In a ring that several streams share it would hold up the others, perhaps those that are to store the value. */
	if (!s->ln->exclusive)
		return cpu_sees(addr) ? stream_wait_memory(s, addr, cmp, value) :
					fail(EOPNOTSUPP, "the CPU does not see the value %p, and the stream shares its channel: destroy "
							 "streams that are not needed, or open a device with more channels", addr);
	r.op = dma::opcode::wait;
	r.arg = u8(cmp);
	r.spaces = dma::spaces(p.space, p.space);
	r.src = p.dma;
	r.len = sizeof(u64);
	r.a = value;
	return one(s, r);
}

/* Memory that is lent to the device is host memory to it. */
static u8 indirect_arg(dma::indirect_mode mode, const memory_view &v)
{
	return u8(mode) | (v.space == dma::space::host ? dma::indirect_host : 0);
}

int copy_indirect_async(stream *s, const void *desc)
{
	dma::request r;
	place p;
	const int err = reachable(s, desc, 32, "descriptor", &p);

	if (err)
		return err;
	r.op = dma::opcode::copy_indirect;
	r.arg = indirect_arg(dma::indirect_mode::descriptor, device_memory(s->dev));
	r.spaces = dma::spaces(p.space, p.space);
	r.src = p.dma;
	r.len = 32;
	return one(s, r);
}

int copy_cells_async(stream *s, void *dst_cell, const void *src_cell, u64 len, u64 dst_off, u64 src_off)
{
	dma::request r;
	place d, f;
	const memory_view v = device_memory(s->dev);
	const u64 to_dma = v.dma - (window_base + s->dev->slot * window_slot);
	int err = reachable(s, dst_cell, sizeof(u64), "destination cell", &d);

	if (!err)
		err = reachable(s, src_cell, sizeof(u64), "source cell", &f);
	if (err)
		return err;
	r.op = dma::opcode::copy_indirect;
	r.arg = indirect_arg(dma::indirect_mode::cells, v);
	r.spaces = dma::spaces(f.space, d.space);
	r.src = f.dma;
	r.dst = d.dma;
	r.len = len;
	/* The cells hold the addresses that programs use: the offset from those to the device's comes on top. */
	r.a = src_off + to_dma;
	r.b = dst_off + to_dma;
	return one(s, r);
}

/* ---- rectangles ------------------------------------------------------------------------------------- */

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
		err = one(s, r);
	}
	return err;
}

/* Bytes from the first to behind the last of a rectangle; 0: more than fits in 64 bits. */
u64 rect_span(u64 pitch, u64 width, u64 height)
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
		return fail(EINVAL, "a row of %" PRIu64 " bytes does not fit its pitch, or the rectangle is too large", c.width);
	if (rect_direct(s, e, dspan, fspan, c))
		return copy_2d_direct(s, e, c);
	if (e.dst.cls != mem_class::unregistered)
		err = check_range(e.dst, reinterpret_cast<u64>(c.dst), dspan, "destination");
	if (!err && e.src.cls != mem_class::unregistered)
		err = check_range(e.src, reinterpret_cast<u64>(c.src), fspan, "source");
	return err ? err : copy_2d_rows(s, e, c, deadline::at_ns(s->until));
}

} // namespace usdma::core
