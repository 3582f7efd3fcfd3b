/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/sim_client_process.h"

#include "driver/base/error.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

namespace usdma::tool {

client_process::~client_process()
{
	if (pid_ <= 0)
		return;
	kill_it();
	reap();
}

/* Closes all but a, b and the standard streams: a list of what to close would miss some. */
static void close_others(int a, int b)
{
	const int low = std::min(a, b), high = std::max(a, b);

	if (low > 3)
		close_range(3, unsigned(low) - 1, 0);
	if (high > low + 1)
		close_range(unsigned(low) + 1, unsigned(high) - 1, 0);
	close_range(unsigned(high) + 1, ~0u, 0);
}

void client_process::become_child(pid_t parent)
{
	pid_ = -1;
	(void)end_.release();
	close_others(client_.get(), own_.get());
	/* If the parent is killed, the whole device is: the child dies with it. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || getppid() != parent)
		_exit(1);
}

int client_process::start(unique_fd client)
{
	const pid_t parent = getpid();
	int pair[2];

	client_ = std::move(client);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return fail_errno("a socket to a client's process");
	end_.reset(pair[0]);
	own_.reset(pair[1]);
	pid_ = fork();
	if (pid_ < 0)
		return fail_errno("cannot start a client's process");
	if (!pid_) {
		become_child(parent);
		return in_child;
	}
	own_.reset();
	return 0;
}

void client_process::report_end()
{
	shutdown(end_.get(), SHUT_WR);
}

/* Not reaped yet, so the pid is still valid. */
void client_process::kill_it()
{
	if (pid_ > 0)
		kill(pid_, SIGKILL);
}

int client_process::reap()
{
	int status = 0;

	while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
	}
	pid_ = -1;
	client_.reset();
	return status;
}

} // namespace usdma::tool
