/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/thread.h"

#include "driver/base/error.h"

#include <csignal>
#include <cstring>

namespace usdma {

int thread_start(pthread_t *thread, const char *name, void *(*main)(void *), void *arg)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(thread, nullptr, main, arg);
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
	if (err)
		return fail(err, "start thread %s: %s", name, strerrordesc_np(err));
	pthread_setname_np(*thread, name);
	return 0;
}

} // namespace usdma
