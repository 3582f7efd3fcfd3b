/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes wrong on a device of the runner's, whichever backend it has; the device has "faults=" among its options. */
#pragma once

#include "tests/integration/native.h"
#include "tests/support/sim_process.h"

#include <sstream>

namespace usdma::test {

/* The device string of the runner's n-th device. */
inline std::string device_string(unsigned n)
{
	std::istringstream all(getenv("USDMA_DEVICES"));
	std::string one;

	for (unsigned i = 0; i <= n; i++)
		assert_true(bool(std::getline(all, one, ',')));
	return one;
}

/* As `usdmactl sim PATH LINE`; the device is a process. */
inline void tell_device(unsigned n, const std::string &line)
{
	const std::string scheme = "vfio-user:", spec = device_string(n);
	const std::string answer = tell_sim(spec.substr(scheme.size()) + ".control", line);

	const bool done = answer.starts_with("{\"ok\": true");

	if (!done)
		print_error("%s: %s\n", line.c_str(), answer.c_str());
	assert_true(done);
}

/* From now on, on the open device; "": nothing any more. */
inline void set_faults(usdma_device *dev, unsigned n, const char *rules)
{
	if (device_string(n).starts_with("sim"))
		WORKS(usdma_device_inject(dev, rules));
	else
		tell_device(n, *rules ? std::string("faults ") + rules : "clear");
}

} // namespace usdma::test
