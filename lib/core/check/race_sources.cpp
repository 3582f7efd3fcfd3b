/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/check/race_sources.h"

#include "driver/base/page_guard.h"

#include <bit>
#include <cstring>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace usdma::core {

static constexpr u64 part_size = 4096;

static u64 mix(u64 h, u64 word)
{
	return std::rotl(h ^ word, 27) * 0x9e3779b97f4a7c15;
}

/* ---- digests ---------------------------------------------------------------------------------------- */

using words = u64 __attribute__((vector_size(16)));

/* Of the halves of each word. */
static words product(words x)
{
#ifdef __SSE2__
	return words(_mm_mul_epu32(__m128i(x), __m128i(x >> 32)));
#else
	return (x & 0xffffffff) * (x >> 32);
#endif
}

/* Any change of one word changes the sum, and the key makes it depend on where the word is. */
static words add_words(words sum, words w, words key)
{
	return sum + w + product(w ^ key);
}

static words words_at(const u8 *p)
{
	words w;

	memcpy(&w, p, sizeof(w));
	return w;
}

/* Four sums, so that a CPU adds to them at once: it costs little more than to read the memory. */
static u64 digest(const u8 *p, u64 n)
{
	static constexpr u64 one = sizeof(words), step = 0xc2b2ae3d27d4eb4f;
	words a = {n, 0}, b = {}, c = {}, d = {}, key = {0x9e3779b97f4a7c15, 0xd6e8feb86659fd93}, rest = {};
	u64 h = 0;

	for (; n >= 4 * one; p += 4 * one, n -= 4 * one, key += step) {
		a = add_words(a, words_at(p), key);
		b = add_words(b, words_at(p + one), key);
		c = add_words(c, words_at(p + 2 * one), key);
		d = add_words(d, words_at(p + 3 * one), key);
	}
	for (; n >= one; p += one, n -= one, key += step)
		a = add_words(a, words_at(p), key);
	if (n) {
		memcpy(&rest, p, n);
		a = add_words(a, rest, key);
	}
	for (const words &sum : {a, b, c, d})
		h = mix(mix(h, sum[0]), sum[1]);
	return h;
}

static u64 digest_of_part(u64 address, u64 len, u64 at)
{
	return digest(reinterpret_cast<const u8 *>(address + at), std::min(part_size, len - at));
}

/* False: the memory is not there any more. */
bool race_sources::read(u64 address, u64 len, content *out)
{
	const void *bad;

	if (len > part_size)
		out->others.resize((len - 1) / part_size);
	return page_guarded(
		{reinterpret_cast<const void *>(address), len}, {},
		[&] {
			out->first = digest_of_part(address, len, 0);
			for (u64 at = part_size, i = 0; at < len; at += part_size)
				out->others[i++] = digest_of_part(address, len, at);
		},
		&bad);
}

bool race_sources::is_same(const source &s, page_guard &g)
{
	const u64 len = s.where.end - s.where.begin;
	u64 i = 0;

	g.cover({reinterpret_cast<const void *>(s.address), len}, {});
	for (u64 at = 0; at < len; at += part_size)
		if (digest_of_part(s.address, len, at) != s.was.at(i++))
			return false;
	return true;
}

/* Of the first n, from the one at `from` on: the first that is not as it was, or is not there any more. */
size_t race_sources::find_changed(const std::deque<source> &all, size_t from, size_t n)
{
	volatile size_t i = from; /* a jump keeps it */
	const void *bad;

	page_guarded(
		{}, {},
		[&](page_guard &g) {
			for (size_t k = from; k < n && is_same(all[k], g);)
				i = ++k;
		},
		&bad);
	return i;
}

/* 0: one has not ended, as far as the thread knows; ~0: does not matter. */
static u64 writes_of(const history &order, context_id thread, byte_range r)
{
	u64 h = 1;
	bool passed = true;

	order.each_write(r, [&](byte_range where, const access_stamp &s) {
		passed = passed && (thread == ~0u || order.knows(thread, s.context, s.time));
		h = mix(mix(mix(h, where.begin), s.operation), s.time);
	});
	return passed ? h | 1 : 0;
}

void race_sources::add(const history &order, context_id thread, context_id by, u64 time, const stream_access &a,
		       u64 address, u32 operation)
{
	source s = {time, address, a.where, operation, writes_of(order, thread, a.where), {}};

	/* A device has yet to write what is read. */
	if (!time || !s.writes || order.is_behind())
		return;
	if (count_ >= max_pending) {
		forgotten_++;
		return;
	}
	if (!read(address, a.where.end - a.where.begin, &s.was))
		return;
	pending_[by].push_back(std::move(s));
	count_++;
}

void race_sources::compare(const history &order, const source &s)
{
	content now;
	byte_range where = {0, 0};

	/* A device may have written it since. */
	if (order.is_behind() || writes_of(order, ~0u, s.where) != s.writes ||
	    !read(s.address, s.where.end - s.where.begin, &now))
		return;
	for (u64 i = 0; i <= now.others.size(); i++)
		if (now.at(i) != s.was.at(i)) {
			const u64 begin = s.where.begin + i * part_size;

			where = {where.end ? where.begin : begin, std::min(begin + part_size, s.where.end)};
		}
	if (where.end)
		changed_(arg_, {s.operation, where});
}

void race_sources::verify(const history &order, context_id thread)
{
	for (auto it = pending_.begin(); it != pending_.end();) {
		auto &[by, all] = *it;

		const u64 latest = order.latest(thread, by);
		size_t n = 0;

		while (n < all.size() && all[n].time <= latest)
			n++;
		for (size_t i = find_changed(all, 0, n); i < n; i = find_changed(all, i + 1, n))
			compare(order, all[i]);
		all.erase(all.begin(), all.begin() + long(n));
		count_ -= n;
		it = all.empty() ? pending_.erase(it) : std::next(it);
	}
}

void race_sources::drop(u32 operation)
{
	for (auto &[by, all] : pending_)
		count_ -= std::erase_if(all, [&](const source &s) { return s.operation == operation; });
}

void race_sources::forget(byte_range r)
{
	for (auto &[by, all] : pending_)
		count_ -= std::erase_if(
			all, [&](const source &s) { return s.where.begin < r.end && r.begin < s.where.end; });
}

} // namespace usdma::core
