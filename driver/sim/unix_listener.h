/* SPDX-License-Identifier: BSD-3-Clause */
/* A UNIX socket that listens at a path, for this user only. */
#pragma once

#include "driver/base/unique_fd.h"

#include <string>
#include <sys/stat.h>

namespace usdma::sim {

class unix_listener {
public:
	unix_listener() = default;
	/* Removes the socket, if it is still the one that open made. */
	~unix_listener();
	unix_listener(const unix_listener &) = delete;
	unix_listener &operator=(const unix_listener &) = delete;

	/*
	 * Listens on path, mode 0600; a socket that nobody serves any more is replaced.
	 * -EADDRINUSE: somebody serves it; -EEXIST: something else stands there.
	 */
	int open(const std::string &path);
	/*
	 * Takes a listening UNIX stream socket over (from systemd, say).  Its path and
	 * who may connect are the business of whoever made it.
	 */
	int adopt(unique_fd sock);
	/* As the destructor; and: the path is somebody else's to remove. */
	void remove_path();
	void leave_path() { path_.clear(); }

	int fd() const { return sock_.get(); }
	/*
	 * 0: a client, not blocking; -EAGAIN: nobody there, or somebody turned away, whom refuse told so; -errno: no
	 * more socket.
	 */
	int accept(unique_fd *out, int flags = 0, void (*refuse)(int sock) = nullptr);

private:
	std::string path_;
	unique_fd sock_;
	struct stat made_ = {};
	bool anyone_ = false; /* the socket's own mode says who may come */
};

} // namespace usdma::sim
