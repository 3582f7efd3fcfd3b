/* SPDX-License-Identifier: BSD-3-Clause */
/* When a software device runs its work (docs/checking.md): a driver that holds work needs to know it, too. */
#pragma once

#include "driver/base/types.h"

#include <string_view>

namespace usdma {

/* Legal but hostile: as soon as possible, as late as possible, or late and in a random order. */
enum class timing_kind : u8 { plain, early, late, shuffle };

/* As in a device string, where a seed follows shuffle behind timing_seed_mark. */
inline constexpr std::string_view timing_names[] = {"plain", "early", "late", "shuffle"};
inline constexpr char timing_seed_mark = '@';

/* False: the text names none; *out is unchanged. */
inline bool timing_named(std::string_view text, timing_kind *out)
{
	for (size_t i = 0; i < sizeof(timing_names) / sizeof(timing_names[0]); i++)
		if (timing_names[i] == text) {
			*out = timing_kind(i);
			return true;
		}
	return false;
}

} // namespace usdma
