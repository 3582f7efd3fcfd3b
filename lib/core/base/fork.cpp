/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/base/fork.h"

#include "driver/base/barrier.h"
#include "driver/base/error.h"

#include <pthread.h>

namespace usdma::core {

static u32 in_child;

static void note_fork()
{
	store_relaxed(&in_child, 1u);
}

void install_fork_handlers()
{
	static const int once = pthread_atfork(nullptr, nullptr, note_fork);

	(void)once;
}

bool forked()
{
	return load_relaxed(&in_child) != 0;
}

int fail_forked()
{
	return fail(EPERM, "this process is a fork of one that uses usdma: the device stays with the parent; "
			   "call exec, or open the device only in the child");
}

} // namespace usdma::core
