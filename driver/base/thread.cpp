/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/thread.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"

#include <csignal>
#include <cstring>
#include <initializer_list>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace usdma {

static int create(pthread_t *thread, const pthread_attr_t *how, const char *name, void *(*main)(void *), void *arg,
		  int deliver)
{
	sigset_t all, before;

	sigfillset(&all);
	for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL})
		sigdelset(&all, own);
	if (deliver)
		sigdelset(&all, deliver);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	const int err = pthread_create(thread, how, main, arg);

	pthread_sigmask(SIG_SETMASK, &before, nullptr);
	return err ? fail(err, "start thread %s: %s", name, strerrordesc_np(err)) : 0;
}

int thread_start(pthread_t *thread, const char *name, void *(*main)(void *), void *arg, int deliver)
{
	const int err = create(thread, nullptr, name, main, arg, deliver);

	if (!err)
		pthread_setname_np(*thread, name);
	return err;
}

int thread_start_detached(const char *name, void *(*main)(void *), void *arg)
{
	pthread_attr_t detached;
	pthread_t thread;

	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	const int err = create(&thread, &detached, name, main, arg, 0);

	pthread_attr_destroy(&detached);
	return err;
}

void thread_name(const char *name)
{
	pthread_setname_np(pthread_self(), name);
}

namespace {

/* Version 0 of struct sched_attr, which glibc has since 2.41 only. */
struct slice_attr {
	u32 size, policy;
	u64 flags;
	s32 nice;
	u32 priority;
	u64 runtime, deadline, period; /* ns */
};

} // namespace

void thread_short_slice()
{
	slice_attr a = {};

	/* A kernel without slices of threads reports a runtime of 0. */
	if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0) || a.policy != SCHED_OTHER || !a.runtime)
		return;
	a.runtime = 100 * ns_per_us;
	syscall(SYS_sched_setattr, 0, &a, 0);
}

} // namespace usdma
