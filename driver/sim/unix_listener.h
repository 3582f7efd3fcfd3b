/* SPDX-License-Identifier: BSD-3-Clause */
/* A UNIX socket that listens at a path, for this user only. */
#pragma once

#include "driver/base/unique_fd.h"

#include <string>
#include <sys/stat.h>

#pragma GCC visibility push(default)
namespace usdma::sim {

class unix_listener {
public:
	unix_listener() = default;
	/* Removes the socket, if it is still the one that open made. */
	~unix_listener();
	unix_listener(const unix_listener &) = delete;
	unix_listener &operator=(const unix_listener &) = delete;

	/*
	 * Listens on path, mode 0600; replaces a socket that no process serves. -EADDRINUSE: a process serves it;
	 * -EEXIST: the path is not a socket.
	 */
	int open(const std::string &path);
	/*
	 * Takes over a listening UNIX stream socket (for example systemd's). Its creator owns its path and decides who
	 * may connect.
	 */
	int adopt(unique_fd sock);
	/* As the destructor; or leaves the path for another process to remove. */
	void remove_path();
	void leave_path() { path_.clear(); }

	int fd() const { return sock_.get(); }
	/*
	 * Never blocks. 0: a client; -EAGAIN: none, or one that was rejected, which refuse has answered; -errno: the
	 * socket failed.
	 */
	int accept(unique_fd *out, int flags = 0, void (*refuse)(int sock) = nullptr);

private:
	std::string path_;
	unique_fd sock_;
	struct stat made_ = {};
	bool any_peer_ = false; /* the socket's mode decides who may connect */
};

} // namespace usdma::sim
#pragma GCC visibility pop
