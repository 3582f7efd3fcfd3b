/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/check/race_words.h"

#include <algorithm>

namespace usdma::core {

static bool meets(const word_wait &w, u64 value)
{
	return dma::compares(w.cmp, value, w.value);
}

/* What is forgotten makes waits pass by means unseen. */
race_words::word &race_words::at(u64 key)
{
	if (words_.size() >= max_words && !words_.contains(key))
		words_.erase(words_.begin());
	return words_[key];
}

std::vector<signal_ref> race_words::write(u64 key, u64 value)
{
	word &w = at(key);
	std::vector<signal_ref> gives;
	bool taken = false;

	for (auto it = w.waits.begin(); it != w.waits.end() && !taken;) {
		if (!meets(it->what, value)) {
			++it;
			continue;
		}
		taken = it->what.takes;
		gives.push_back(it->given);
		it = w.waits.erase(it);
	}
	if (taken) {
		w.writes.clear();
		return gives;
	}
	w.writes.push_back({value, std::make_shared<order_signal>()});
	gives.push_back(w.writes.back().given);
	if (w.writes.size() > max_writes)
		w.writes.pop_front();
	return gives;
}

std::vector<signal_ref> race_words::wait(u64 key, const word_wait &what)
{
	word &w = at(key);
	std::vector<signal_ref> from;

	if (w.writes.empty() || !meets(what, w.writes.back().value)) {
		from.push_back(std::make_shared<order_signal>());
		w.waits.push_back({what, from.back()});
		if (w.waits.size() > max_waits)
			w.waits.pop_front();
		return from;
	}
	/* Those that were reached; a later one may itself wait for this wait. */
	for (const bool given : {true, false})
		for (const written &one : w.writes)
			if (meets(what, one.value) && one.given->given() == given && (given || from.empty()))
				from.push_back(one.given);
	if (what.takes)
		std::erase_if(w.writes,
			      [&](const written &one) { return std::ranges::find(from, one.given) != from.end(); });
	return from;
}

void race_words::forget(byte_range r)
{
	for (auto it = words_.lower_bound(r.begin); it != words_.end() && it->first < r.end;)
		it = it->second.waits.empty() ? words_.erase(it) : (it->second.writes.clear(), std::next(it));
}

} // namespace usdma::core
