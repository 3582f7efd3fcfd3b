/* SPDX-License-Identifier: BSD-3-Clause */
/* USDMA_CHECK=race: what the requests of a stream access, by the bytes as the device has them. */
#include "driver/base/grow.h"
#include "lib/core/check/race.h"
#include "lib/core/device/device.h"
#include "lib/core/memory/memory.h"
#include "lib/core/stream/task.h"

namespace usdma::core {

namespace {

struct request_accesses {
	const stream *s;
	std::vector<stream_access> all;

	u64 key(u64 dma, u8 space) const { return memory_key(space == u8(dma::space::host), s->dev->slot, dma); }
	void add(u64 dma, u8 space, u64 len, bool writes)
	{
		const u64 at = key(dma, space);

		all.push_back({{at, at + len}, writes});
	}
	void add_rows(const dma::request &r);
	void add_request(const dma::request &r);
};

u8 space_of_src(const dma::request &r)
{
	return r.spaces & 0xf;
}

u8 space_of_dst(const dma::request &r)
{
	return r.spaces >> 4;
}

/* Rows without a gap are one range. */
void request_accesses::add_rows(const dma::request &r)
{
	for (const bool writes : {false, true}) {
		const u64 first = writes ? r.dst : r.src, pitch = writes ? r.b : r.a;
		const u8 space = writes ? space_of_dst(r) : space_of_src(r);

		if (pitch == r.len)
			add(first, space, r.len * r.height, writes);
		for (u64 row = 0; pitch != r.len && row < r.height; row++)
			add(first + row * pitch, space, r.len, writes);
	}
}

void request_accesses::add_request(const dma::request &r)
{
	switch (r.op) {
	case dma::opcode::copy_2d:
		return add_rows(r);
	case dma::opcode::reduce:
		add(r.src, space_of_src(r), r.len, false);
		add(r.dst, space_of_dst(r), r.len, false);
		break;
	case dma::opcode::copy_indirect:
		/* The addresses are read when it runs. */
		race_writes_anywhere();
		add(r.src, space_of_src(r),
		    r.arg & u8(dma::indirect_mode::cells) ? sizeof(u64) : sizeof(dma::indirect_block), false);
		if (r.arg & u8(dma::indirect_mode::cells))
			add(r.dst, space_of_dst(r), sizeof(u64), false);
		return;
	case dma::opcode::fill:
		break;
	default:
		return;
	}
	add(r.dst, space_of_dst(r), r.len, true);
}

const char *name_of(dma::opcode op)
{
	switch (op) {
	case dma::opcode::copy_2d:
		return "2D copy";
	case dma::opcode::fill:
		return "fill";
	case dma::opcode::reduce:
		return "reduction";
	case dma::opcode::copy_indirect:
		return "indirect copy";
	default:
		return "operation";
	}
}

void check_request(const stream *s, const dma::request &r)
{
	request_accesses a = {s, {}};

	if (likely(r.op == dma::opcode::copy)) {
		const u64 src = a.key(r.src, space_of_src(r)), dst = a.key(r.dst, space_of_dst(r));
		const stream_access both[] = {{{src, src + r.len}, false}, {{dst, dst + r.len}, true}};

		return race_submit(s->order, "copy", both);
	}
	if (r.op == dma::opcode::write)
		return race_word_write(s->order, a.key(r.dst, space_of_dst(r)), r.a);
	if (r.op == dma::opcode::wait)
		return race_word_wait(s->order, a.key(r.src, space_of_src(r)), dma::wait_comparison(r.arg), r.a,
				      r.arg & dma::wait_take);
	if (!fits([&] { a.add_request(r); }))
		return race_no_memory();
	if (!a.all.empty())
		race_submit(s->order, name_of(r.op), a.all);
}

} // namespace

void race_requests(const stream *s, const dma::request *r, size_t n)
{
	for (size_t i = 0; i < n; i++)
		check_request(s, r[i]);
}

void race_gate(const stream *s, const seen_word *seen)
{
	if (seen && !seen->word)
		return;
	const translation p = seen ? translate(seen->word) : translation();
	if (!seen || !p.size)
		return race_unseen_wait(s->order);
	race_word_wait(s->order, memory_key(p), seen->cmp, seen->value, seen->takes);
}

} // namespace usdma::core
