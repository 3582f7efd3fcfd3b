/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/asym_barrier.h"

#include <ctime>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace usdma {

static bool membarrier_cmd(int cmd)
{
	return syscall(SYS_membarrier, cmd, 0, 0) == 0;
}

bool asym_barrier_ready()
{
	/* Also issue the barrier itself: a seccomp filter may forbid it although the kernel supports it. */
	static const bool ready = membarrier_cmd(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && barrier_for_all();

	return ready;
}

bool barrier_for_all()
{
	return membarrier_cmd(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

void barrier_or_wait()
{
	const timespec ms = {0, 1'000'000};

	/* It may be the first use: membarrier(2) fails until the process is registered. */
	if (!asym_barrier_ready() || !barrier_for_all())
		nanosleep(&ms, nullptr);
}

} // namespace usdma
