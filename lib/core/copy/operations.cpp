/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations other than copies: one request, or several as the engine's limit requires. */
#include "lib/core/copy/internal.h"
#include "lib/core/queue/recover.h"
#include "lib/core/queue/submit.h"
#include "lib/core/stream/guard.h"
#include "lib/core/stream/listen.h"
#include "lib/core/stream/stopped.h"

namespace usdma::core {

int check_pattern(unsigned pattern_size, u64 len)
{
	if ((pattern_size != 1 && pattern_size != 4 && pattern_size != 8) || len % pattern_size)
		return fail(EINVAL, "a fill of %" PRIu64 " bytes with a pattern of %u", len, pattern_size);
	return 0;
}

static int reach_both(stream *s, const void *dst, const void *src, u64 len, const char *to, const char *from,
		      endpoints *out)
{
	const int err = reachable(s, dst, len, to, &out->dst);

	return err ? err : reachable(s, src, len, from, &out->src);
}

int fill_async(stream *s, void *dst, u64 pattern, unsigned pattern_size, u64 len)
{
	u8 *const at = static_cast<u8 *>(dst);

	if (!len)
		return 0;
	if (const int err = check_pattern(pattern_size, len))
		return err;
	if (const translation p = translate(dst); unlikely(is_remote(p)))
		return remote_fill_async(s, p, dst, pattern, pattern_size, len);
	return submit_parts(s, len, align_down<u64>(s->max_len, 8), [=](dma::request *r, endpoints *e, u64 off) {
		if (const int err = reachable_part(s, at + off, off ? 1 : len, "destination", &e->dst, &r->len))
			return err;
		r->op = dma::opcode::fill;
		r->spaces = dma::spaces(e->dst.space, e->dst.space);
		r->dst = e->dst.dma;
		r->arg = u8(pattern_size);
		r->a = pattern;
		return 0;
	});
}

int reduce_async(stream *s, void *dst, const void *src, u64 len, dma::element type, dma::reduce_op op)
{
	const u64 size = dma::element_size(type);
	u8 *const to = static_cast<u8 *>(dst);
	const u8 *const from = static_cast<const u8 *>(src);
	endpoints all;

	if (!size || len % size)
		return fail(EINVAL, "a reduction of %" PRIu64 " bytes is not a whole number of elements", len);
	if (!len)
		return reach_both(s, to, from, 0, "destination", "source", &all);
	return submit_parts(s, len, align_down<u64>(s->max_len, 8), [=](dma::request *r, endpoints *e, u64 off) {
		const u64 rest = off ? 1 : len;
		int err = reachable_part(s, to + off, rest, "destination", &e->dst, &r->len);

		if (!err)
			err = reachable_part(s, from + off, rest, "source", &e->src, &r->len);
		if (err)
			return err;
		r->op = dma::opcode::reduce;
		r->spaces = dma::spaces(e->src.space, e->dst.space);
		r->src = e->src.dma;
		r->dst = e->dst.dma;
		r->arg = dma::reduce_arg(type, op);
		return 0;
	});
}

int write_value_async(stream *s, void *dst, u64 value)
{
	return submit_alone(s, [=](dma::request *r, endpoints *e) {
		if (const int err = reachable(s, dst, sizeof(u64), "destination", &e->dst))
			return err;
		if (reinterpret_cast<u64>(dst) % sizeof(u64))
			return fail(EINVAL, "value address %p is not 8-byte aligned", dst);
		r->op = dma::opcode::write;
		r->flags = dma::flag_interrupt; /* a gate in the progress thread may wait for this value */
		r->spaces = dma::spaces(e->dst.space, e->dst.space);
		r->dst = e->dst.dma;
		r->len = sizeof(u64);
		r->a = value;
		return 0;
	});
}

static bool cpu_can_access(const translation &p, const void *addr)
{
	const slot_guard dev(p.cls == mem_class::device ? p.slot : max_devices);

	return word_view(p, addr, dev.get());
}

static int wait_in_ring(stream *s, const void *addr, u8 how, u64 value)
{
	const int err = submit_alone(s, [=](dma::request *r, endpoints *e) {
		if (const int bad = reachable(s, addr, sizeof(u64), "value", &e->dst))
			return bad;
		r->op = dma::opcode::wait;
		r->arg = how;
		r->spaces = dma::spaces(e->dst.space, e->dst.space);
		r->src = e->dst.dma;
		r->len = sizeof(u64);
		r->a = value;
		return 0;
	});

	if (!err)
		rings_note_wait();
	return err;
}

int wait_value_async(stream *s, const void *addr, dma::compare cmp, u64 value)
{
	translation p;

	if (const int err = reachable(s, addr, sizeof(u64), "value", &p))
		return err;
	if (reinterpret_cast<u64>(addr) % sizeof(u64))
		return fail(EINVAL, "value address %p is not 8-byte aligned", addr);
	if (stream_stops_with_others(s) && cpu_can_access(translate(addr), addr))
		return stream_wait_memory(s, addr, cmp, value);
	/* In a shared ring a WAIT would block the other streams, perhaps the one that is to store the value. */
	if (!s->ln->exclusive)
		return cpu_can_access(translate(addr), addr) ?
			       stream_wait_memory(s, addr, cmp, value) :
			       fail(EOPNOTSUPP,
				    "the CPU cannot access the value %p, and the stream shares its channel: destroy "
				    "streams that are not needed, or open a device with more channels",
				    addr);
	return wait_in_ring(s, addr, u8(cmp), value);
}

/* Where descriptors have a timing of their own, gates make what they wait for run. */
static bool takes_in_ring(const stream *s, const u64 *word)
{
	return s->ln->exclusive && !stream_stops_with_others(s) && s->dev->timing == check_timing::plain &&
	       s->dev->eng->limits().caps & dma::cap_wait_takes && reaches(s->dev, translate(word));
}

int take_value_async(stream *s, u64 *word, u64 value, bool reported)
{
	if (!takes_in_ring(s, word))
		return 1;
	return wait_in_ring(s, word, u8(u8(dma::compare::eq) | dma::wait_take | (reported ? dma::wait_reported : 0)),
			    value);
}

void waits_wake(unsigned slot)
{
	device *dev = device_enter(slot);

	for (hw_queue *l = dev ? load_acquire(&dev->opened) : nullptr; l; l = l->next_open)
		if (hwq_in_wait(l))
			hwq_wake(l);
	if (dev)
		device_leave(dev);
}

/* The host memory provided to a device without memory is in space::host. */
static u8 indirect_arg(dma::indirect_mode mode, const memory_view &v)
{
	return u8(mode) | (v.space == dma::space::host ? dma::indirect_host : 0);
}

int copy_indirect_async(stream *s, const void *desc)
{
	return submit_alone(s, [=](dma::request *r, endpoints *e) {
		if (const int err = reachable(s, desc, 32, "descriptor", &e->dst))
			return err;
		r->op = dma::opcode::copy_indirect;
		r->arg = indirect_arg(dma::indirect_mode::descriptor, device_memory(s->dev));
		r->spaces = dma::spaces(e->dst.space, e->dst.space);
		r->src = e->dst.dma;
		r->len = 32;
		return 0;
	});
}

int copy_cells_async(stream *s, void *dst_cell, const void *src_cell, u64 len, u64 dst_off, u64 src_off)
{
	const memory_view v = device_memory(s->dev);
	const u64 to_dma = v.dma - v.base;

	return submit_alone(s, [=](dma::request *r, endpoints *e) {
		if (const int err = reach_both(s, dst_cell, src_cell, sizeof(u64), "destination cell", "source cell",
					       e))
			return err;
		r->op = dma::opcode::copy_indirect;
		r->arg = indirect_arg(dma::indirect_mode::cells, v);
		r->spaces = dma::spaces(e->src.space, e->dst.space);
		r->src = e->src.dma;
		r->dst = e->dst.dma;
		r->len = len;
		/* The cells hold device pointers: add the offset to DMA addresses. */
		r->a = src_off + to_dma;
		r->b = dst_off + to_dma;
		return 0;
	});
}

} // namespace usdma::core
