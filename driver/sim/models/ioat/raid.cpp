/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XOR and PQ, and their validation ([L] hw.h, prep.c): P is the exclusive or of the sources; Q that of each source
 * times its coefficient in GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1, as in Linux's RAID-6.
 */
#include "driver/sim/models/ioat/ioat_model.h"

#include <algorithm>
#include <cstring>

namespace usdma::sim {

using namespace ioat;

static constexpr u32 most_sources = 8, block = 4 * KiB;

/* A RAID descriptor, with its extension. */
struct ioat_model::raid {
	u64 src[most_sources];
	u8 coefficient[most_sources];
	u32 sources;
	bool is_pq, validates, has_p, has_q;
	u64 p, q;
};

static u8 times(u8 a, u8 b)
{
	u8 product = 0;

	for (; b; b >>= 1) {
		if (b & 1)
			product ^= a;
		a = u8(a << 1 ^ (a & 0x80 ? 0x1d : 0));
	}
	return product;
}

static void add_scaled(u8 *to, const u8 *from, u64 n, u8 coefficient)
{
	u8 table[256];

	for (unsigned i = 0; i < 256; i++)
		table[i] = times(u8(i), coefficient);
	for (u64 i = 0; i < n; i++)
		to[i] ^= table[from[i]];
}

/* 0, or why the extension cannot be read. */
u32 ioat_model::read_raid(const descriptor &d, raid *r, outcome *o)
{
	const u32 op = d.control >> desc_op_shift;
	extension e = {};

	r->is_pq = op == op_pq || op == op_pq_val;
	r->validates = op == op_xor_val || op == op_pq_val;
	r->sources = (d.control >> desc_sources_shift & 7) + 2;
	if (r->sources > most_sources)
		return err_control;
	const u32 own = r->is_pq ? 3 : 5;
	if (r->sources > own) {
		if (d.next % sizeof(e))
			return err_descriptor;
		if (!memory_.read(d.next, &e, sizeof(e)))
			return err_next_address;
		o->next = e.next;
		o->counted = 2;
	}
	r->src[0] = d.src;
	memcpy(r->src + 1, d.more, (own - 1) * sizeof(u64));
	std::copy_n(e.src, std::min<size_t>(3, most_sources - own), r->src + own);
	if (r->is_pq)
		memcpy(r->src + own + 3, e.more, 2 * sizeof(u64));
	memcpy(r->coefficient, &d.more[2], sizeof(r->coefficient));
	r->p = d.dst;
	r->q = d.more[3];
	r->has_p = !r->is_pq || !(d.control & desc_p_disable);
	r->has_q = r->is_pq && !(d.control & desc_q_disable);
	return 0;
}

/* Writes a result, or compares it with what is there; wrong: the error of a difference. */
u32 ioat_model::put_parity(const raid &r, u64 at, const u8 *parity, u64 n, u32 wrong)
{
	u8 there[block];

	if (!r.validates)
		return memory_.write(at, parity, n) ? 0 : u32(err_write_data);
	if (!memory_.read(at, there, n))
		return err_read_data;
	return memcmp(there, parity, n) ? wrong : 0;
}

/* Differences are collected over all of it; other errors end it. */
u32 ioat_model::execute_raid(const descriptor &d, outcome *o)
{
	u8 from[block], p[block], q[block];
	u32 found = 0;
	raid r;

	if (const u32 err = read_raid(d, &r, o))
		return err;
	for (u64 at = 0, n; at < d.size; at += n) {
		n = std::min<u64>(d.size - at, block);
		memset(p, 0, n);
		memset(q, 0, n);
		for (u32 i = 0; i < r.sources; i++) {
			if (!memory_.read(r.src[i] + at, from, n))
				return err_read_data;
			add_scaled(p, from, n, 1);
			if (r.has_q)
				add_scaled(q, from, n, r.coefficient[i]);
		}
		if (r.has_p)
			found |= put_parity(r, r.p + at, p, n, err_xor_p);
		if (r.has_q)
			found |= put_parity(r, r.q + at, q, n, err_xor_q);
		if (found & ~(err_xor_p | err_xor_q))
			return found;
		memory_.reader().pass();
	}
	return found;
}

} // namespace usdma::sim
