/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parsing of user input shared by settings, device strings and tools: sizes, and the closest match of a
 * misspelt word.
 */
#pragma once

#include "driver/base/types.h"

#include <string_view>

namespace usdma {

/* The syntax of size_parse, for messages. */
inline constexpr const char *size_rule = "digits, then K, M, G or T for powers of 1024, such as 64K";

/* False: not a size, or more than 64 bits. */
bool size_parse(std::string_view text, u64 *out);

/* How much two words differ: lower is more similar; a common prefix counts. */
long unlikeness(std::string_view a, std::string_view b);

} // namespace usdma
