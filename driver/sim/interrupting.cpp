/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/interrupting.h"

#include "driver/base/barrier.h"
#include "driver/base/error.h"

#include <csignal>

namespace usdma::sim {

static constinit bool allowed = false;

/* Without SA_RESTART: that a system call ends is all that is wanted. */
int allow_interrupting()
{
	struct sigaction act = {};

	act.sa_handler = [](int) {};
	sigemptyset(&act.sa_mask);
	if (sigaction(SIGUSR1, &act, nullptr))
		return fail_errno("cannot take SIGUSR1");
	store_relaxed(&allowed, true);
	return 0;
}

bool interrupting_allowed()
{
	return load_relaxed(&allowed);
}

void interrupt_thread(pthread_t thread)
{
	if (interrupting_allowed())
		pthread_kill(thread, SIGUSR1);
}

} // namespace usdma::sim
