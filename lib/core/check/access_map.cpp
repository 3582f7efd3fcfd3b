/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/check/access_map.h"

namespace usdma::core {

static bool happened_before(const access_stamp &a, const access_stamp &by, const vector_clock &clock)
{
	return !a.time || a.context == by.context || clock.at(a.context) >= a.time;
}

/* The first range not wholly below begin. */
access_map::map::const_iterator access_map::find(u64 begin) const
{
	if (const entry *e = index_.empty() ? nullptr : &index_[entry_of(begin)]; likely(e && e->begin == begin))
		return e->at;
	auto it = ranges_.upper_bound(begin);
	if (it != ranges_.begin() && std::prev(it)->second.end > begin)
		--it;
	return it;
}

access_map::map::iterator access_map::erase(map::iterator it)
{
	if (entry *e = index_.empty() ? nullptr : &index_[entry_of(it->first)]; e && e->begin == it->first)
		*e = entry();
	return ranges_.erase(it);
}

void access_map::erase(map::iterator from, map::iterator to)
{
	while (from != to)
		from = erase(from);
}

/* Divides the range at `at`; both parts have the same accesses. */
bool access_map::split(map::iterator it, u64 at)
{
	const bool done = fits([&] {
		range rest = it->second;

		ranges_.emplace_hint(std::next(it), at, std::move(rest));
		it->second.end = at;
	});

	counts_.no_memory += !done;
	return done;
}

/* Makes ranges begin and end where r does; fill: also where none is. first: the first one in r. */
bool access_map::prepare(byte_range r, bool fill, map::iterator *first)
{
	const auto found = find(r.begin);
	auto it = ranges_.erase(found, found); /* the same, and no const_iterator */

	*first = it;
	if (it != ranges_.end() && it->first == r.begin) {
		if (unlikely(index_.empty()) && !try_resize(index_, entries))
			counts_.no_memory++;
		else
			index_[entry_of(r.begin)] = {r.begin, it};
		if (likely(it->second.end == r.end))
			return true;
	}
	if (it != ranges_.end() && it->first < r.begin) {
		if (!split(it, r.begin))
			return false;
		++it;
	}
	auto from = it;
	for (u64 at = r.begin; at < r.end;) {
		const u64 next = it == ranges_.end() ? r.end : std::min(it->first, r.end);

		if (at < next && fill) {
			map::iterator made;

			if (!fits([&] { made = ranges_.emplace_hint(it, at, range{next, {}, {}}); })) {
				counts_.no_memory++;
				return false;
			}
			from = at == r.begin ? made : from;
		}
		if (next == r.end)
			break;
		if (it->second.end > r.end && !split(it, r.end))
			return false;
		at = it->second.end;
		++it;
	}
	*first = from;
	return true;
}

/* Those that happened before the new one are implied by it. */
void access_map::add_reader(range *e, const access_stamp &by, const vector_clock &clock)
{
	if (likely(e->readers.size() == 1 && e->readers[0].context == by.context)) {
		e->readers[0] = by;
		return;
	}
	std::erase_if(e->readers, [&](const access_stamp &r) { return happened_before(r, by, clock); });
	if (e->readers.size() == max_readers) {
		e->readers.erase(e->readers.begin());
		counts_.readers_forgotten++;
	}
	if (!try_push(e->readers, by))
		counts_.no_memory++;
}

void access_map::read(byte_range r, const access_stamp &by, const vector_clock &clock, report found, void *arg)
{
	map::iterator it;

	if (r.begin >= r.end || !prepare(r, true, &it))
		return;
	/* Its neighbours may not be in the CPU's caches: none is visited behind the last one. */
	for (;; ++it) {
		range *const e = &it->second;

		if (!happened_before(e->written, by, clock))
			found(arg, {{it->first, e->end}, true, false, e->written, by});
		add_reader(e, by, clock);
		if (e->end == r.end)
			break;
	}
	limit();
}

void access_map::write(byte_range r, const access_stamp &by, const vector_clock &clock, report found, void *arg)
{
	map::iterator first, it;

	if (r.begin >= r.end || !prepare(r, false, &first))
		return;
	const bool one = first != ranges_.end() && first->first == r.begin && first->second.end == r.end;
	for (it = first; it != ranges_.end() && it->first < r.end; ++it) {
		const range &e = it->second;

		if (!happened_before(e.written, by, clock))
			found(arg, {{it->first, e.end}, true, true, e.written, by});
		for (const access_stamp &reader : e.readers)
			if (!happened_before(reader, by, clock))
				found(arg, {{it->first, e.end}, false, true, reader, by});
		if (one)
			break;
	}
	/* One range replaces them all. */
	if (first != ranges_.end() && first->first == r.begin) {
		if (!one)
			erase(std::next(first), it);
		first->second.end = r.end;
		first->second.written = by;
		first->second.readers.clear();
	} else {
		erase(first, it);
		if (!fits([&] { ranges_.emplace_hint(it, r.begin, range{r.end, by, {}}); }))
			counts_.no_memory++;
	}
	limit();
}

void access_map::forget(byte_range r)
{
	map::iterator it;

	if (r.begin >= r.end || !prepare(r, false, &it))
		return;
	while (it != ranges_.end() && it->first < r.end)
		it = erase(it);
}

/* In turns over the addresses, so that what a program uses often is learned again soon. */
void access_map::limit()
{
	if (likely(ranges_.size() <= max_ranges_))
		return;
	const size_t n = max_ranges_ / 8 + 1;
	auto it = ranges_.lower_bound(next_victim_);

	for (size_t i = 0; i < n && !ranges_.empty(); i++) {
		if (it == ranges_.end())
			it = ranges_.begin();
		it = erase(it);
	}
	next_victim_ = it == ranges_.end() ? 0 : it->first;
	counts_.ranges_forgotten += n;
}

} // namespace usdma::core
