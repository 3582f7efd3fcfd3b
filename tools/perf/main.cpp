/* SPDX-License-Identifier: BSD-3-Clause */
/* usdma-perf: measures copies and compares them with the machine's limits. */
#include "driver/base/fd.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/perf/options.h"

#include "usdma/usdma.h"

#include <cerrno>
#include <exception>
#include <fmt/core.h>
#include <stdexcept>
#include <utility>

using namespace usdma;
using namespace usdma::perf;

/*
 * Opened first and held: an invalid device string fails at once, and a server that accepts one client sees only one
 * connection.
 */
class first_device {
public:
	explicit first_device(const options &o)
	{
		if (!o.processes.empty()) {
			check_in_process(0); /* the processes open it, each for itself */
			return;
		}
		const int err = usdma_open_index(0, &dev_);

		if (err == -EINVAL)
			throw std::invalid_argument(usdma_error_text());
		if (err)
			throw std::runtime_error(usdma_error_text());
		if (o.calibrate)
			close(); /* the child processes open it */
	}
	~first_device() { close(); }
	first_device(const first_device &) = delete;

private:
	void close()
	{
		if (dev_)
			usdma_close(std::exchange(dev_, nullptr));
	}

	usdma_device *dev_ = nullptr;
};

static int run(const options &o)
{
	const machine m = set_up(o);
	const first_device opened(o);

	if (o.calibrate)
		return run_calibration(o, m);
	if (o.curves)
		return run_curves(o, m);
	if (o.matrix)
		return run_matrix(o, m);
	if (!o.net.empty())
		return run_net(o, m);
	if (!o.net_listen.empty())
		return run_net_listen(o, m);
	if (o.workload == "weights")
		return run_weights(o, m);
	if (o.workload == "kv-file")
		return run_kv_file(o, m);
	return o.workload.empty() ? run_sweep(o, m) : run_kv_cache(o, m);
}

static int measure(int argc, char **argv)
{
	usdma::open_closed_streams();
	options o;
	const int status = parse(argc, argv, &o);

	if (status)
		return status < 0 ? 0 : status;
	tool::catch_interrupts();
	try {
		const int measured = run(o);

		return measured ? measured : tool::interrupt_status();
	} catch (const std::exception &e) {
		progress(o, "");
		if (tool::flush_output())
			fmt::print(stderr, "usdma-perf: {}\n", e.what());
		/* A wrong device string or node, as other wrong values. */
		return dynamic_cast<const std::invalid_argument *>(&e) ? 2 : 1;
	}
}

int main(int argc, char **argv)
{
	return tool::end_output("usdma-perf", measure(argc, argv));
}
