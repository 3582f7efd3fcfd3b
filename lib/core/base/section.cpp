/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/base/section.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "lib/core/base/fork.h"
#include "driver/base/immortal.h"

#include <mutex>
#include <new>
#include <pthread.h>

namespace usdma::core {

namespace {

/* A section takes well under a microsecond, unless its thread lost the CPU in it. */
constexpr unsigned quick_looks = 1000;
constexpr u64 nap_ns = 50 * ns_per_us;

struct record_list {
	std::mutex lock;
	section_record *all = nullptr; /* grows only; walked without the lock */
};
constinit immortal<record_list> records;

pthread_key_t key;
int key_error;

/* A child of fork joins anew, if it may. */
void leave_fork()
{
	thread_here()->section = thread_here()->joined = nullptr;
}

/* A later thread takes the record over: it is outside of all sections. */
void leave_thread(void *arg)
{
	std::lock_guard guard(records->lock);

	leave_fork();
	static_cast<section_record *>(arg)->taken = 0;
}

void join_first()
{
	key_error = pthread_key_create(&key, leave_thread);
	if (!key_error)
		key_error = pthread_atfork(nullptr, nullptr, leave_fork);
}

/* With the lock held. */
section_record *take_record()
{
	for (section_record *r = records->all; r; r = r->next)
		if (!r->taken)
			return r;
	auto *made = new (std::nothrow) section_record;
	if (!made)
		return nullptr;
	made->fences = !asym_barrier_ready();
	made->next = records->all;
	/* Release: who walks along sees it whole. */
	store_release(&records->all, made);
	return made;
}

/* nullptr: with a text. */
section_record *join()
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (forked()) {
		fail_forked();
		return nullptr;
	}
	pthread_once(&once, join_first);
	std::lock_guard guard(records->lock);
	section_record *r = take_record();
	if (!r || key_error || pthread_setspecific(key, r)) {
		no_memory("a thread's part in the library");
		return nullptr;
	}
	r->taken = 1;
	if (!r->fences)
		thread_here()->section = r;
	return thread_here()->joined = r;
}

} // namespace

section_record *section_enter()
{
	section_record *r = thread_here()->joined;

	if (!r && !(r = join()))
		return nullptr;
	store_relaxed(&r->depth, load_relaxed(&r->depth) + 1);
	barrier_full();
	return r;
}

int section_error()
{
	return forked() ? -EPERM : -ENOMEM;
}

static void wait_outside(const section_record *r)
{
	const timespec nap = {0, long(nap_ns)};

	/* Acquire: what its thread did inside comes before what follows here. */
	for (unsigned looks = 0; load_acquire(&r->depth); looks++) {
		if (looks < quick_looks)
			cpu_relax();
		else
			nanosleep(&nap, nullptr);
	}
}

void grace_wait()
{
	barrier_or_wait();
	/* Acquire: a record that joined later joined after the handle was cleared. */
	for (const section_record *r = load_acquire(&records->all); r; r = r->next)
		if (r != thread_here()->joined)
			wait_outside(r);
}

} // namespace usdma::core
