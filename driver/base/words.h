/* SPDX-License-Identifier: BSD-3-Clause */
/* What people write: sizes, and words that are nearly right. One rule each for settings, device strings and tools. */
#pragma once

#include "driver/base/types.h"

#include <string_view>

namespace usdma {

/* What size_parse takes, for messages. */
inline constexpr const char *size_rule = "digits, then K, M, G or T for powers of 1024, such as 64K";

/* False: it is no size, or larger than 64 bits hold. */
bool size_parse(std::string_view text, u64 *out);

/* How much two words differ: less is nearer; a beginning in common counts for something. */
long unlikeness(std::string_view a, std::string_view b);

} // namespace usdma
