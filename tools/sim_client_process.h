/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that serves one client and ends with it: whoever takes it over has that
 * client's memory, which was his, and nothing of the next one's.  Forked from a
 * process of one thread, before anything of the client's was read.
 */
#pragma once

#include "driver/base/unique_fd.h"

#include <sys/types.h>

namespace usdma::tool {

class client_process {
public:
	client_process() = default;
	/* Killed, if it is still there. */
	~client_process();
	client_process(const client_process &) = delete;
	client_process &operator=(const client_process &) = delete;

	static constexpr int in_child = 1;
	/*
	 * 0, -errno, or in_child: then this is it, has no other descriptors than the client's, the standard ones
	 * and stop_fd, dies with its parent, and ends by exit().
	 */
	int start(unique_fd client);

	/* In the child: readable once it is to end. */
	int stop_fd() const { return own_.get(); }
	unique_fd take_client() { return std::move(client_); }

	/* In the parent: POLLHUP once it is over; whether the client is there (POLLRDHUP). */
	int over_fd() const { return end_.get(); }
	int client_fd() const { return client_.get(); }
	void tell_end();
	void kill_it();
	/* When it is over: the status of waitpid(2).  Only then the client sees the end of the connection. */
	int reap();

private:
	void become_child(pid_t parent);

	unique_fd client_;    /* the parent keeps it, and never reads it */
	unique_fd end_, own_; /* a pair of sockets: the parent's, the child's */
	pid_t pid_ = -1;
};

} // namespace usdma::tool
