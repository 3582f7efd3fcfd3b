/* SPDX-License-Identifier: BSD-3-Clause */
/* The result of a calibration for one setting. */
#pragma once

#include "tools/perf/options.h"

namespace usdma::perf {

struct proposal {
	std::string name, now, proposed; /* now == proposed: nothing better was found */
	std::string what, unit;          /* the measured figure ... */
	double before, after;            /* ... with the value in force and with the proposed one */
	bool more_is_better;

	bool changed() const { return now != proposed; }
};

/* A setting that could not be measured, and why. */
struct skipped {
	std::string name, why;
};

} // namespace usdma::perf
