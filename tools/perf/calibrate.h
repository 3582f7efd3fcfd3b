/* SPDX-License-Identifier: BSD-3-Clause */
/* What a calibration found for one setting. */
#pragma once

#include "tools/perf/options.h"

namespace usdma::perf {

struct proposal {
	std::string name, now, proposed; /* the same: nothing better was found */
	std::string what, unit;          /* the figure ... */
	double before, after;            /* ... with what is in force, and with what is proposed */
	bool more_is_better;

	bool changed() const { return now != proposed; }
};

/* A setting that could not be measured, and why. */
struct skipped {
	std::string name, why;
};

} // namespace usdma::perf
