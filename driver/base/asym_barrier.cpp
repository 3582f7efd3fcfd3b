/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/asym_barrier.h"

#include <ctime>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace usdma {

static bool ask(int what)
{
	return syscall(SYS_membarrier, what, 0, 0) == 0;
}

bool asym_barrier_ready()
{
	/* Asked once more: a filter may forbid what the kernel can. */
	static const bool ready = ask(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && barrier_for_all();

	return ready;
}

bool barrier_for_all()
{
	return ask(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

void barrier_or_wait()
{
	const timespec ms = {0, 1'000'000};

	if (!barrier_for_all())
		nanosleep(&ms, nullptr);
}

} // namespace usdma
