/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parsing of text shared by settings, device strings and tools: numbers, sizes, and the closest match of a
 * misspelt word.
 */
#pragma once

#include "driver/base/types.h"

#include <limits>
#include <string_view>

namespace usdma {

inline constexpr s64 s64_min = std::numeric_limits<s64>::min(), s64_max = std::numeric_limits<s64>::max();

/* The syntax of size_parse, for messages. */
inline constexpr const char *size_rule = "digits, then K, M, G or T for powers of 1024, such as 64K";

#pragma GCC visibility push(default)
/* All of these return false, and leave *out as it is, if the text is malformed or out of range. */

/* The whole text is decimal digits, or 0x and hexadecimal ones. */
bool number_parse(std::string_view text, u64 *out, u64 low = 0, u64 high = ~u64(0));
/* The same with an optional minus. */
bool number_parse_signed(std::string_view text, s64 *out, s64 low = s64_min, s64 high = s64_max);
/* Removes a number's digits from the start of the text. False: no digit, or more than 64 bits; *text is unchanged. */
bool number_take(std::string_view *text, u64 *out, int base = 10);
/* Identity of a machine: 32 hexadecimal digits, not all of them 0. */
bool host_id_parse(std::string_view digits, u8 out[16]);
bool size_parse(std::string_view text, u64 *out, u64 low = 0, u64 high = ~u64(0));
/* How much two words differ: lower is more similar; a common prefix counts. */
long unlikeness(std::string_view a, std::string_view b);
#pragma GCC visibility pop

} // namespace usdma
