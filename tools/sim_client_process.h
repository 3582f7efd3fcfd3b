/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that serves one client and exits with it: an attacker who takes it over gets the memory of that
 * client, which was the attacker's own, and none of the next one's. Forked from a process of one thread, before
 * any input of the client is read.
 */
#pragma once

#include "driver/base/unique_fd.h"

#include <sys/types.h>

namespace usdma::tool {

class client_process {
public:
	client_process() = default;
	/* Kills the process if it still runs. */
	~client_process();
	client_process(const client_process &) = delete;
	client_process &operator=(const client_process &) = delete;

	static constexpr int in_child = 1;
	/*
	 * 0, -errno, or in_child: this is the child, which has no other descriptors than the client's, the standard
	 * ones and stop_fd, dies with its parent, and calls exit().
	 */
	int start(unique_fd client);

	/* In the child: readable when it must exit. */
	int stop_fd() const { return own_.get(); }
	unique_fd take_client() { return std::move(client_); }

	/* In the parent: POLLHUP once the child has ended; POLLRDHUP once the client has left. */
	int over_fd() const { return end_.get(); }
	int client_fd() const { return client_.get(); }
	void report_end();
	void kill_it();
	/* After the end: the status of waitpid(2). Only then the client sees the end of the connection. */
	int reap();

private:
	void become_child(pid_t parent);

	unique_fd client_;    /* held open by the parent, which never reads it */
	unique_fd end_, own_; /* a pair of sockets: the parent's, the child's */
	pid_t pid_ = -1;
};

} // namespace usdma::tool
