/* SPDX-License-Identifier: BSD-3-Clause */
/* The program's definitions of these functions come before those of the C library, for the libraries too. */
#include "tests/support/preempt.h"

#include <dlfcn.h>

using usdma::test::lock_hooks;

static thread_local const lock_hooks *hooked;

void usdma::test::hook_locks(const lock_hooks *hooks)
{
	hooked = hooks;
}

using mutex_function = int(pthread_mutex_t *);

static mutex_function *next_of(const char *name)
{
	return reinterpret_cast<mutex_function *>(dlsym(RTLD_NEXT, name));
}

extern "C" [[gnu::visibility("default")]] int pthread_mutex_lock(pthread_mutex_t *m) noexcept
{
	static mutex_function *const real = next_of("pthread_mutex_lock");

	if (hooked && hooked->before_lock)
		hooked->before_lock(m);
	return real(m);
}

extern "C" [[gnu::visibility("default")]] int pthread_mutex_unlock(pthread_mutex_t *m) noexcept
{
	static mutex_function *const real = next_of("pthread_mutex_unlock");
	const int err = real(m);

	if (hooked && hooked->after_unlock)
		hooked->after_unlock(m);
	return err;
}
