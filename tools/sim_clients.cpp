/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/sim_clients.h"

#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/base/thread.h"
#include "driver/sim/fault_plan.h"
#include "tools/sim_sandbox.h"

#include <csignal>
#include <cstdlib>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace usdma::tool {

/* A sanitizer checks for leaks at exit, which takes time; killed, it would report nothing. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static constexpr u64 leave_ms = 20000;
#else
/* Time for a process to exit after its client has left. */
static constexpr u64 leave_ms = 1000;
#endif
/* Time to exit after SIGTERM, or after the device vanishes. */
static constexpr u64 stop_ms = 8000;
/* Exit status of a client's process: cannot create a device. */
static constexpr int no_device = 3;

void clients::serve_alone(client_process &self)
{
	sim::fault_plan plan(true);

	/* Engines inherit it. */
	prctl(PR_SET_TIMERSLACK, 1000);
	thread_short_slice();
	int err = sandbox_confine();

	if (!err && control_)
		plan.follow(control_->page());
	if (!err)
		err = sim::listener::serve(self.take_client(), cfg_, self.stop_fd(), control_ ? &plan : nullptr);
	if (err)
		log_error("%s", error_text());
	exit(err ? no_device : 0);
}

/* Waits until the process has ended; kills it when its time to exit has passed. */
int clients::wait_end(client_process &p, int stop_fd, bool *killed)
{
	deadline until = deadline::never();
	bool stopping = false, left = false;

	for (;;) {
		pollfd f[3 + sim::console::poll_fds] = {{p.over_fd(), 0, 0},
							{stopping ? -1 : stop_fd, POLLIN, 0},
							{left ? -1 : p.client_fd(), POLLRDHUP, 0}};
		if (const int err = sim::wait_any(f, 3, control_, until))
			return err;
		if (f[0].revents)
			return 0;
		if (f[2].revents) {
			left = true;
			until = deadline::sooner(until, deadline::in_ms(leave_ms));
		}
		if (f[1].revents || (!stopping && control_ && control_->is_dropping())) {
			stopping = true;
			p.report_end();
			until = deadline::sooner(until, deadline::in_ms(stop_ms));
		}
		if (until.passed()) {
			*killed = true;
			until = deadline::never();
			p.kill_it();
		}
	}
}

/* The fault "die" kills the whole device, not only the process of one client. */
bool clients::may_die()
{
	sim::fault_plan plan(true);

	if (control_)
		return control_->plan().has_die();
	return cfg_.faulty && !plan.set(cfg_.faults) && plan.has_die();
}

int clients::judge(int status, bool killed)
{
	const int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	if (WIFEXITED(status) && WEXITSTATUS(status) == no_device)
		return fail(EIO, "no device can be made for a client");
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (killed) {
		log_warn_limited("a client's process did not end in time, and was killed");
		return 0;
	}
	if (sig == SIGKILL && may_die())
		kill(getpid(), SIGKILL);
	bad_end_ = true;
	if (sig == SIGSYS)
		log_error("a client's process made a system call that is not on its list (see the kernel's log), "
			  "and was killed");
	else if (sig)
		log_error("a client's process was ended by signal %d", sig);
	else
		log_error("a client's process ended with status %d", WEXITSTATUS(status));
	return 0;
}

int clients::serve(unique_fd client, int stop_fd)
{
	client_process p;
	bool killed = false;
	int err = p.start(std::move(client));

	if (err == client_process::in_child)
		serve_alone(p);
	/* A resource shortage rejects this client only. */
	if (err == -EAGAIN || err == -ENOMEM || err == -EMFILE || err == -ENFILE) {
		log_warn_limited("client rejected: %s", error_text());
		sim::listener::reject(p.client_fd(), -err);
		return 0;
	}
	if (!err)
		err = wait_end(p, stop_fd, &killed);
	if (err)
		return err;
	/* Also a process that has closed its socket but still runs. */
	p.kill_it();
	return judge(p.reap(), killed);
}

int clients::run(int stop_fd, bool once)
{
	int err = control_ ? control_->share() : 0;

	while (!err) {
		unique_fd client;

		err = socket_.wait_client(stop_fd, control_, &client);
		if (err)
			break;
		err = serve(std::move(client), stop_fd);
		if (control_)
			control_->client_left();
		if (once)
			break;
	}
	if (err && err != -ECANCELED)
		return err;
	return bad_end_ ? fail(EIO, "a client's process did not end as it should") : 0;
}

} // namespace usdma::tool
