/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/bus_error.h"

#include "driver/base/error.h"

#include <csignal>
#include <sys/mman.h>

namespace usdma::sim {

constinit thread_local u32 bus_errors = 0;

/* Only system calls and a word of this thread: it may interrupt anything. */
static bool put_zeros(void *where)
{
	static constexpr u64 sizes[] = {4 * KiB, 2 * MiB, GiB}; /* a mapping of huge pages is only replaced by whole ones */
	const int err = errno;
	bool done = false;

	for (u64 size : sizes) {
		void *page = reinterpret_cast<void *>(align_down(reinterpret_cast<u64>(where), size));

		done = mmap(page, size, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
		if (done)
			break;
	}
	errno = err;
	return done;
}

static void on_bus_error(int, siginfo_t *info, void *)
{
	/* Beyond the end of a file (sigaction(2)); our own files are sealed, so it is the client's. */
	if (info->si_code == BUS_ADRERR && put_zeros(info->si_addr)) {
		bus_errors = bus_errors + 1;
		return;
	}
	/* Anything else is what it always was: the access is repeated, and ends the process. */
	signal(SIGBUS, SIG_DFL);
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
