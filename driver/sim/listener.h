/* SPDX-License-Identifier: BSD-3-Clause */
/* The software device on a UNIX socket: one client at a time, each with a fresh device. */
#pragma once

#include "driver/sim/config.h"
#include "driver/sim/console.h"
#include "driver/sim/unix_listener.h"
#include "driver/sim/faults.h"

#include <string>

#pragma GCC visibility push(default)
namespace usdma::sim {

class listener {
public:
	int open(const std::string &path) { return socket_.open(path); }
	int adopt(unique_fd sock) { return socket_.adopt(std::move(sock)); }
	void remove_path() { socket_.remove_path(); }
	void leave_path() { socket_.leave_path(); }

	/* A console may refuse clients. -ECANCELED: stop_fd is readable. */
	int wait_client(int stop_fd, console *control, unique_fd *out);
	/*
	 * Until the client leaves or stop_fd becomes readable: 0. -errno: the device failed. wrong: replaces the fault
	 * rules of the settings. A resource shortage rejects this client only: 0.
	 */
	static int serve(unique_fd client, const config &cfg, int stop_fd, faults *wrong);

	/* Replies to a client's VERSION with err, an errno, as the reason for the rejection. */
	static void reject(int client, int err);

private:
	unix_listener socket_;
};

} // namespace usdma::sim
#pragma GCC visibility pop
