/* SPDX-License-Identifier: BSD-3-Clause */
/* The clients of usdma-sim, one after the other, each served by a process of its own. */
#pragma once

#include "driver/sim/listener.h"
#include "tools/sim_client_process.h"

namespace usdma::tool {

class clients {
public:
	/* desk: nullptr, or the control socket, which is served from here as well. */
	clients(sim::listener &socket, const sim::config &cfg, sim::console *desk)
		: socket_(socket), cfg_(cfg), desk_(desk)
	{
	}

	/*
	 * Until stop_fd becomes readable, or for one client only.  From a process of one thread, which has entered
	 * its sandbox.  -EIO: a client's process ended as none should; that was logged, and the others were served.
	 */
	int run(int stop_fd, bool once);

private:
	int serve(unique_fd client, int stop_fd);
	[[noreturn]] void serve_alone(client_process &self);
	int watch(client_process &p, int stop_fd, bool *killed);
	int judge(int status, bool killed);
	bool may_die();

	sim::listener &socket_;
	const sim::config &cfg_;
	sim::console *desk_;
	bool bad_end_ = false;
};

} // namespace usdma::tool
