/* SPDX-License-Identifier: BSD-3-Clause */
/* The software device on a UNIX socket: a client at a time, each with a device of its own that nobody used before. */
#pragma once

#include "driver/base/unique_fd.h"
#include "driver/sim/config.h"
#include "driver/sim/faults.h"

#include <string>
#include <sys/stat.h>

namespace usdma::sim {

class listener {
public:
	listener() = default;
	/* Removes the socket, if it is still the one that open made. */
	~listener();
	listener(const listener &) = delete;
	listener &operator=(const listener &) = delete;

	/*
	 * Listens on path, mode 0600; a socket that nobody serves any more is replaced.
	 * -EADDRINUSE: somebody serves it; -EEXIST: something else stands there.
	 */
	int open(const std::string &path);
	/* As the destructor; and: the path is somebody else's to remove. */
	void remove_path();
	void leave_path() { path_.clear(); }
	/*
	 * Takes a listening UNIX stream socket over (from systemd, say).  Its path and
	 * who may connect are the business of whoever made it.
	 */
	int adopt(unique_fd sock);
	/* Serves clients until stop_fd becomes readable (0), or one only.  -errno: no device or no socket any more. */
	int run(const config &cfg, int stop_fd, bool once, faults *wrong = nullptr);

private:
	int wait_client(int stop_fd, unique_fd *out);
	int serve(unique_fd client, const config &cfg, int stop_fd, faults *wrong);

	std::string path_;
	unique_fd sock_;
	struct stat made_ = {};
	bool anyone_ = false; /* the socket's own mode says who may come */
};

} // namespace usdma::sim
