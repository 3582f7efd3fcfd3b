/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations other than copies: one request, or several as the engine's limit requires. */
#include "lib/core/base/section.h"
#include "lib/core/copy/internal.h"

namespace usdma::core {

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
	translation p;
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
		err = submit_one(s, r);
	}
	return err;
}

int reduce_async(stream *s, void *dst, const void *src, u64 len, dma::element type, dma::reduce_op op)
{
	const u64 size = dma::element_size(type);
	const u64 most = align_down<u64>(s->max_len, 8);
	dma::request r;
	translation d, f;
	int err;

	if (!size || len % size)
		return fail(EINVAL, "a reduction of %" PRIu64 " bytes is not a whole number of elements", len);
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
		err = submit_one(s, r);
	}
	return err;
}

int write_value_async(stream *s, void *dst, u64 value)
{
	dma::request r;
	translation p;
	const int err = reachable(s, dst, sizeof(u64), "destination", &p);

	if (err)
		return err;
	if (reinterpret_cast<u64>(dst) % sizeof(u64))
		return fail(EINVAL, "value address %p is not 8-byte aligned", dst);
	r.op = dma::opcode::write;
	r.flags = dma::flag_interrupt; /* a gate in the progress thread may wait for this value */
	r.spaces = dma::spaces(p.space, p.space);
	r.dst = p.dma;
	r.len = sizeof(u64);
	r.a = value;
	return submit_one(s, r);
}

static bool cpu_can_access(const void *addr)
{
	const read_section in;

	return in && word_view(addr);
}

int wait_value_async(stream *s, const void *addr, dma::compare cmp, u64 value)
{
	dma::request r;
	translation p;
	const int err = reachable(s, addr, sizeof(u64), "value", &p);

	if (err)
		return err;
	if (reinterpret_cast<u64>(addr) % sizeof(u64))
		return fail(EINVAL, "value address %p is not 8-byte aligned", addr);
	/* In a shared ring a WAIT would block the other streams, perhaps the one that is to store the value. */
	if (!s->ln->exclusive)
		return cpu_can_access(addr) ?
			       stream_wait_memory(s, addr, cmp, value) :
			       fail(EOPNOTSUPP,
				    "the CPU cannot access the value %p, and the stream shares its channel: destroy "
				    "streams that are not needed, or open a device with more channels",
				    addr);
	r.op = dma::opcode::wait;
	r.arg = u8(cmp);
	r.spaces = dma::spaces(p.space, p.space);
	r.src = p.dma;
	r.len = sizeof(u64);
	r.a = value;
	return submit_one(s, r);
}

/* The host memory provided to a device without memory is in space::host. */
static u8 indirect_arg(dma::indirect_mode mode, const memory_view &v)
{
	return u8(mode) | (v.space == dma::space::host ? dma::indirect_host : 0);
}

int copy_indirect_async(stream *s, const void *desc)
{
	dma::request r;
	translation p;
	const int err = reachable(s, desc, 32, "descriptor", &p);

	if (err)
		return err;
	r.op = dma::opcode::copy_indirect;
	r.arg = indirect_arg(dma::indirect_mode::descriptor, device_memory(s->dev));
	r.spaces = dma::spaces(p.space, p.space);
	r.src = p.dma;
	r.len = 32;
	return submit_one(s, r);
}

int copy_cells_async(stream *s, void *dst_cell, const void *src_cell, u64 len, u64 dst_off, u64 src_off)
{
	dma::request r;
	translation d, f;
	const memory_view v = device_memory(s->dev);
	const u64 to_dma = v.dma - v.base;
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
	/* The cells hold device pointers: add the offset to DMA addresses. */
	r.a = src_off + to_dma;
	r.b = dst_off + to_dma;
	return submit_one(s, r);
}

} // namespace usdma::core
