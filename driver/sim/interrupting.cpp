/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/interrupting.h"

#include "driver/base/barrier.h"
#include "driver/base/error.h"

#include <csignal>

namespace usdma::sim {

static constinit bool allowed = false;

/* Without SA_RESTART: the signal only has to interrupt system calls. */
int allow_interrupting()
{
	struct sigaction act = {};

	act.sa_handler = [](int) {};
	sigemptyset(&act.sa_mask);
	if (sigaction(SIGUSR1, &act, nullptr))
		return fail_errno("cannot install a SIGUSR1 handler");
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
