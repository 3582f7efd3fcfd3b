/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A report of usdmactl bringup: the accesses to a device's registers, by step, with their values. It comes from another
 * machine, and is checked.
 */
#pragma once

#include "driver/base/types.h"

#include <string>
#include <string_view>
#include <vector>

namespace usdma::sim {

struct recorded_access {
	bool is_write;
	u8 region, width;
	u32 count; /* reads of this value in a row */
	u64 offset, value;
};

struct recorded_step {
	std::string name;
	bool ok = false;
	bool is_partial = false; /* there were more accesses */
	bool in_flight = false;  /* what is written depends on the moment */
	std::vector<recorded_access> list;
};

struct recording {
	std::string driver; /* of the engine, and of the model */
	u32 regions = 0;    /* a bit for each region of which all accesses are recorded */
	std::vector<recorded_step> steps;
};

inline constexpr size_t most_recording = 64 * MiB;

/* -EINVAL with a text that names the step and the access. */
int recording_parse(std::string_view text, recording *out);
/* The same of a regular file; -errno. */
int recording_read(const std::string &path, recording *out);

} // namespace usdma::sim
