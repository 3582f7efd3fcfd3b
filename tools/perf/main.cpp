/* SPDX-License-Identifier: BSD-3-Clause */
/* usdma-perf: what copies cost, and how far that is from what the machine allows. */
#include "driver/base/fd.h"
#include "tools/perf/options.h"

#include <exception>
#include <fmt/core.h>

using namespace usdma::perf;

static int run(const options &o)
{
	const machine m = set_up(o);

	if (o.calibrate)
		return run_calibration(o, m);
	if (o.curves)
		return run_curves(o, m);
	return o.workload.empty() ? run_sweep(o, m) : run_kv_cache(o, m);
}

int main(int argc, char **argv)
{
	usdma::open_closed_streams();
	options o;
	const int status = parse(argc, argv, &o);

	if (status)
		return status < 0 ? 0 : status;
	try {
		return run(o);
	} catch (const std::exception &e) {
		progress(o, "");
		fmt::print(stderr, "usdma-perf: {}\n", e.what());
		return 1;
	}
}
