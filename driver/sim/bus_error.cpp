/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/bus_error.h"

#include "driver/base/error.h"
#include "driver/base/immortal.h"

#include <csignal>
#include <sys/mman.h>

namespace usdma::sim {

constinit u32 bus_deaths = 0;

/*
 * Readers take no lock (but where a writer sleeps within a change, which then is another thread): a handler may
 * look.
 */
static constinit immortal<range_map> mappings;

int guard_add(guarded *g)
{
	const int err = mappings->insert(g);

	return err ? fail(-err, "sim: no memory for the list of mappings") : 0;
}

void guard_remove(guarded *g)
{
	mappings->remove(g);
}

/*
 * Only system calls and words of ours: it may interrupt anything.  All of the
 * mapping and nothing beside it, in one piece, so that there are no more of them
 * than before.
 */
static bool replace(u64 where)
{
	u64 base, size;
	auto *g = static_cast<guarded *>(mappings->find(where, &base, &size));

	if (!g)
		return false;
	/*
	 * Told before it is done: whoever moves these zeros finds out behind its copy.  Two engines may be here
	 * at once.
	 */
	if (!__atomic_exchange_n(&g->dead, 1, __ATOMIC_ACQ_REL))
		__atomic_fetch_add(&bus_deaths, 1, __ATOMIC_ACQ_REL);
	return mmap(reinterpret_cast<void *>(base), size, PROT_READ | PROT_WRITE,
		    MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

static void on_bus_error(int, siginfo_t *info, void *)
{
	const int err = errno;
	/* Beyond the end of a file, no page to be had for it, or a page that the machine has lost (sigaction(2)). */
	const bool memory = info->si_code == BUS_ADRERR || info->si_code == BUS_MCEERR_AR;

	/* Anything else is what it always was: the access is repeated, and ends the process. */
	if (!memory || !replace(reinterpret_cast<u64>(info->si_addr)))
		signal(SIGBUS, SIG_DFL);
	errno = err;
}

int guard_bus_errors()
{
	struct sigaction act = {};

	act.sa_sigaction = on_bus_error;
	act.sa_flags = SA_SIGINFO;
	sigemptyset(&act.sa_mask);
	return sigaction(SIGBUS, &act, nullptr) ? fail_errno("cannot take SIGBUS over") : 0;
}

} // namespace usdma::sim
