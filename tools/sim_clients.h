/* SPDX-License-Identifier: BSD-3-Clause */
/* The clients of usdma-sim, one after the other, each served by its own process. */
#pragma once

#include "driver/sim/listener.h"
#include "tools/sim_client_process.h"

namespace usdma::tool {

class clients {
public:
	/* control: nullptr, or the control socket, which is served here as well. */
	clients(sim::listener &socket, const sim::config &cfg, sim::console *control)
		: socket_(socket), cfg_(cfg), control_(control)
	{
	}

	/*
	 * Serves until stop_fd becomes readable, or one client only. The caller has one thread and has entered the
	 * sandbox. -EIO: a client's process ended abnormally; that was logged, and the others were served.
	 */
	int run(int stop_fd, bool once);

private:
	int serve(unique_fd client, int stop_fd);
	[[noreturn]] void serve_alone(client_process &self);
	int wait_end(client_process &p, int stop_fd, bool *killed);
	int judge(int status, bool killed);
	bool may_die();

	sim::listener &socket_;
	const sim::config &cfg_;
	sim::console *control_;
	bool bad_end_ = false;
};

} // namespace usdma::tool
