/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/thread_end.h"

#include <pthread.h>

namespace usdma {

static pthread_key_t end_key;
static bool end_key_made;

/* Entries added while these run are run by another round of key destructors. */
static void run_all(void *list)
{
	for (auto *e = static_cast<thread_end *>(list); e;) {
		thread_end *const next = e->next;

		e->run(e);
		e = next;
	}
}

static void make_end_key()
{
	end_key_made = !pthread_key_create(&end_key, run_all);
}

void at_thread_end(thread_end *e)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_end_key);
	if (!end_key_made)
		return;
	e->next = static_cast<thread_end *>(pthread_getspecific(end_key));
	pthread_setspecific(end_key, e);
}

} // namespace usdma
