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

/* Work of the stream was lost with its device: each call returns that, also after others have. */
inline void assert_stays_lost(usdma_stream *s)
{
	usdma_error_info info = {};

	info.struct_size = sizeof(info);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(usdma_stream_sync(s, long_ms), -ENODEV);
		assert_int_equal(usdma_stream_query(s), -ENODEV);
		WORKS(usdma_stream_take_error(s, &info));
		assert_int_equal(info.error, -ENODEV);
	}
}

} // namespace usdma::test
