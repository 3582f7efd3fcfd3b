/* SPDX-License-Identifier: BSD-3-Clause */
/* Injects faults into the runner's devices, for either backend; the device options must have "faults=". */
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

/* The same as `usdmactl sim PATH LINE`; the device is a process. */
inline void send_command(unsigned n, const std::string &line)
{
	const std::string scheme = "vfio-user:", spec = device_string(n);
	const std::string answer = send_control_line(spec.substr(scheme.size()) + ".control", line);

	const bool done = answer.starts_with("{\"ok\": true");

	if (!done)
		print_error("%s: %s\n", line.c_str(), answer.c_str());
	assert_true(done);
}

/* Replaces the fault rules of the open device; "": no faults. */
inline void set_faults(usdma_device *dev, unsigned n, const char *rules)
{
	if (device_string(n).starts_with("sim"))
		WORKS(usdma_device_inject(dev, rules));
	else
		send_command(n, *rules ? std::string("faults ") + rules : "clear");
}

} // namespace usdma::test
