/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/bus_error.h"

#include "driver/base/error.h"
#include "driver/base/no_destructor.h"

#include <csignal>
#include <sys/mman.h>

namespace usdma::sim {

constinit u32 bus_deaths = 0;

/*
 * Lookups are lock-free (they wait only while a writer, necessarily another thread, sleeps within an update): the
 * signal handler may call them.
 */
static constinit no_destructor<range_map> mappings;

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
 * Async-signal-safe: only system calls and our own data. Replaces exactly one whole mapping, so that the number of
 * mappings does not grow.
 */
static bool replace(u64 where)
{
	u64 base, size;
	auto *g = static_cast<guarded *>(mappings->find(where, &base, &size));

	if (!g)
		return false;
	/*
	 * Set before the mapping is replaced: an engine that copies the zeros sees it after its copy. Two engines may
	 * get here at once.
	 */
	if (!exchange_acq_rel(&g->dead, 1))
		fetch_add_acq_rel(&bus_deaths, 1);
	return mmap(reinterpret_cast<void *>(base), size, PROT_READ | PROT_WRITE,
		    MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

static void on_bus_error(int, siginfo_t *info, void *)
{
	const int err = errno;
	/* Access beyond the end of a file, no page available, or a page lost to a memory error (sigaction(2)). */
	const bool memory = info->si_code == BUS_ADRERR || info->si_code == BUS_MCEERR_AR;

	/* Any other SIGBUS gets the default action: the access is repeated and terminates the process. */
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
	return sigaction(SIGBUS, &act, nullptr) ? fail_errno("cannot install a SIGBUS handler") : 0;
}

} // namespace usdma::sim
