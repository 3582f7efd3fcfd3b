/* SPDX-License-Identifier: BSD-3-Clause */
/* The software device on a UNIX socket: a client at a time, each with a device of its own that nobody used before. */
#pragma once

#include "driver/sim/config.h"
#include "driver/sim/console.h"
#include "driver/sim/unix_listener.h"
#include "driver/sim/faults.h"

#include <string>

namespace usdma::sim {

class listener {
public:
	int open(const std::string &path) { return socket_.open(path); }
	int adopt(unique_fd sock) { return socket_.adopt(std::move(sock)); }
	void remove_path() { socket_.remove_path(); }
	void leave_path() { socket_.leave_path(); }

	/*
	 * Serves clients, one at a time, until stop_fd becomes readable (0), or one only.  -errno: no device or
	 * no socket any more.
	 */
	int run(const config &cfg, int stop_fd, bool once, faults *wrong = nullptr);

	/* The two halves of it.  A console may send clients away.  -ECANCELED: stop_fd is readable. */
	int wait_client(int stop_fd, console *desk, unique_fd *out);
	/*
	 * wrong: else the settings' own rules strike.  A client that is turned away for want of something is
	 * none to end for: 0.
	 */
	static int serve(unique_fd client, const config &cfg, int stop_fd, faults *wrong);

	/* Answers a client's VERSION with err, an errno: it hears why nobody serves it. */
	static void turn_away(int client, int err);

private:
	unix_listener socket_;
};

} // namespace usdma::sim
