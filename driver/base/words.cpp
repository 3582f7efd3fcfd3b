/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>

namespace usdma {

bool size_parse(std::string_view text, u64 *out)
{
	static constexpr std::string_view suffixes = "KMGTkmgt";
	const size_t suffix = text.empty() ? suffixes.npos : suffixes.find(text.back());
	const unsigned shift = suffix == suffixes.npos ? 0 : unsigned(suffix % 4 + 1) * 10;
	u64 v = 0;

	if (shift)
		text.remove_suffix(1);
	const auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), v);
	if (text.empty() || err != std::errc() || end != text.data() + text.size() || v > ~u64(0) >> shift)
		return false;
	*out = v << shift;
	return true;
}

/* Levenshtein distance. */
static size_t distance(std::string_view a, std::string_view b)
{
	std::array<size_t, 64> row;

	b = b.substr(0, row.size() - 1);
	std::iota(row.begin(), row.end(), 0);
	for (const char ch : a) {
		size_t diagonal = row[0]++;

		for (size_t j = 0; j < b.size(); j++) {
			const size_t best = std::min({row[j + 1] + 1, row[j] + 1, diagonal + (ch != b[j])});

			diagonal = row[j + 1];
			row[j + 1] = best;
		}
	}
	return row[b.size()];
}

long unlikeness(std::string_view a, std::string_view b)
{
	const size_t same = size_t(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());

	return 2 * long(distance(a, b)) - long(same);
}

} // namespace usdma
