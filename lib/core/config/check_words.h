/* SPDX-License-Identifier: BSD-3-Clause */
/* The words of the setting check (USDMA_CHECK). */
#pragma once

#include "driver/base/timing.h"

#include <string>
#include <string_view>

namespace usdma::core {

using check_timing = timing_kind;

struct check_words {
	check_timing timing = check_timing::plain;
	bool race = false;
	bool unwritten = false; /* with race: reads of device memory that nothing wrote */
	bool implied = false;   /* the timing: of race, on devices that have it */
	bool drawn = false;     /* shuffle without a seed: it was drawn */
	bool guard = false;     /* with race: pages in use are protected */
	bool strict = false;    /* what documents forbid and the interface accepts */
	u64 seed = 0;
	std::string report, suppressions; /* files; "": none */
	u32 exit = 66;                    /* status of a program of which something was reported; 0: its own */
};

/*
 * "race" and one of "late", "early", "shuffle" and "shuffle:SEED", or one of them; "unwritten" and "guard" with
 * "race"; "strict" with any; "report=FILE", "suppressions=FILE" and "exit=N" with any. -EINVAL with a text.
 */
int check_parse(std::string_view text, check_words *out);
/* The device string with what an embedded software device has to know of the checks. */
std::string check_device(const check_words &c, const std::string &spec);
/* -EINVAL with a text: they need a software device, and the string is not that of one. */
int check_allows(const check_words &c, std::string_view spec);
/* The timing in a software device's string. */
check_timing check_timing_of(std::string_view spec);

} // namespace usdma::core
