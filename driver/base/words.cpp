/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <endian.h>
#include <numeric>

namespace usdma {

bool number_take(std::string_view *text, u64 *out, int base)
{
	u64 v;
	const auto [end, err] = std::from_chars(text->data(), text->data() + text->size(), v, base);

	if (err != std::errc())
		return false;
	text->remove_prefix(size_t(end - text->data()));
	*out = v;
	return true;
}

bool number_parse(std::string_view text, u64 *out, u64 low, u64 high)
{
	const bool hex = text.starts_with("0x");
	u64 v;

	text.remove_prefix(hex ? 2 : 0);
	if (!number_take(&text, &v, hex ? 16 : 10) || !text.empty() || v < low || v > high)
		return false;
	*out = v;
	return true;
}

bool number_parse_signed(std::string_view text, s64 *out, s64 low, s64 high)
{
	const bool minus = text.starts_with('-');
	u64 v;

	if (!number_parse(text.substr(minus), &v, 0, u64(s64_max)))
		return false;
	const s64 n = minus ? -s64(v) : s64(v);
	if (n < low || n > high)
		return false;
	*out = n;
	return true;
}

bool host_id_parse(std::string_view digits, u8 out[16])
{
	static constexpr size_t half = 16;
	u64 value[2];

	if (digits.size() != 2 * half)
		return false;
	for (u64 &v : value) {
		std::string_view part = digits.substr(&v == value ? 0 : half, half);

		if (!number_take(&part, &v, 16) || !part.empty())
			return false;
		v = htobe64(v);
	}
	memcpy(out, value, sizeof(value));
	return value[0] || value[1];
}

bool size_parse(std::string_view text, u64 *out, u64 low, u64 high)
{
	static constexpr std::string_view suffixes = "KMGTkmgt";
	const size_t suffix = text.empty() ? suffixes.npos : suffixes.find(text.back());
	const unsigned shift = suffix == suffixes.npos ? 0 : unsigned(suffix % 4 + 1) * 10;
	u64 v = 0;

	if (shift)
		text.remove_suffix(1);
	/* Digits only: 0x is not a size. */
	if (!number_take(&text, &v) || !text.empty() || v > ~u64(0) >> shift || v << shift < low || v << shift > high)
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
