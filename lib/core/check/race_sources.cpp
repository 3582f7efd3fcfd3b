/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/check/race_sources.h"

#include "driver/base/page_guard.h"

#include <bit>
#include <cstring>

namespace usdma::core {

static constexpr u64 part_size = 4096;

static u64 mix(u64 h, u64 word)
{
	return std::rotl(h ^ word, 27) * 0x9e3779b97f4a7c15;
}

/* Four sums, so that a CPU adds to them at once. */
static u64 digest(const u8 *p, u64 n)
{
	u64 a = n, b = 1, c = 2, d = 3, w[4] = {};

	for (; n >= sizeof(w); p += sizeof(w), n -= sizeof(w)) {
		memcpy(w, p, sizeof(w));
		a = mix(a, w[0]);
		b = mix(b, w[1]);
		c = mix(c, w[2]);
		d = mix(d, w[3]);
	}
	memset(w, 0, sizeof(w));
	memcpy(w, p, n);
	return mix(mix(mix(mix(mix(mix(mix(a, b), c), d), w[0]), w[1]), w[2]), w[3]);
}

/* False: the memory is not there any more. */
bool race_sources::read(u64 address, u64 len, content *out)
{
	const auto *const p = reinterpret_cast<const u8 *>(address);
	const void *bad;

	if (len > part_size)
		out->others.resize((len - 1) / part_size);
	return page_guarded(
		[&] {
			out->first = digest(p, std::min(part_size, len));
			for (u64 at = part_size, i = 0; at < len; at += part_size)
				out->others[i++] = digest(p + at, std::min(part_size, len - at));
		},
		&bad);
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

		while (!all.empty() && order.knows(thread, by, all.front().time)) {
			compare(order, all.front());
			all.pop_front();
			count_--;
		}
		it = all.empty() ? pending_.erase(it) : std::next(it);
	}
}

void race_sources::forget(byte_range r)
{
	for (auto &[by, all] : pending_)
		count_ -= std::erase_if(
			all, [&](const source &s) { return s.where.begin < r.end && r.begin < s.where.end; });
}

} // namespace usdma::core
