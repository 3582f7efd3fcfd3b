/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/base/section.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "lib/core/base/fork.h"
#include "driver/base/no_destructor.h"
#include "driver/base/page.h"

#include <mutex>
#include <new>
#include <pthread.h>

namespace usdma::core {

constinit section_record section_none{.depth = 0};

namespace {

/* Spin first: a section takes well under a microsecond unless its thread is preempted. */
constexpr unsigned spin_polls = 1000, few_polls = 30;
constexpr u64 nap_ns = 50 * ns_per_us;

struct record_list {
	std::mutex lock;
	section_record *all = nullptr;   /* append-only; read without the lock */
	section_record *fresh = nullptr; /* of a page, not yet in the list: from here to its end */
};
constinit no_destructor<record_list> records;

pthread_key_t key;
int key_error;

/* In a child of fork: the thread has no record any more. */
void leave_fork()
{
	thread_here()->section = &section_none;
	thread_here()->joined = nullptr;
}

/* At thread exit: the record, outside of all sections, can be reused by a later thread. */
void leave_thread(void *arg)
{
	std::lock_guard guard(records->lock);

	leave_fork();
	/* Release: the thread's last section was left before. */
	store_release(&static_cast<section_record *>(arg)->taken, 0u);
}

void join_first()
{
	key_error = pthread_key_create(&key, leave_thread);
	if (!key_error)
		key_error = pthread_atfork(nullptr, nullptr, leave_fork);
}

/* With the lock held. nullptr: no memory. */
section_record *fresh_record()
{
	const u64 page = os_page_size();
	section_record *r = records->fresh;

	if (!r && !(r = static_cast<section_record *>(map_wiped(page))))
		return nullptr;
	records->fresh = reinterpret_cast<u64>(r) % page + 2 * sizeof(*r) <= page ? r + 1 : nullptr;
	return new (r) section_record;
}

/* With the lock held. A record that was cleared, in a child of fork, is not reused: it may be next to be made. */
section_record *take_record()
{
	for (section_record *r = records->all; r; r = r->next)
		if (!r->taken && r->depth)
			return r;
	section_record *made = fresh_record();
	if (!made)
		return nullptr;
	made->fences = !asym_barrier_ready();
	made->next = records->all;
	/* Release: readers of the list see it initialized. */
	store_release(&records->all, made);
	return made;
}

/* nullptr: error text set. */
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
		no_memory("a thread's section record");
		return nullptr;
	}
	store_relaxed(&r->taken, 1u);
	if (!r->fences)
		thread_here()->section = r;
	/* Orders taken before what the section loads: see is_alone(). */
	barrier_full();
	return thread_here()->joined = r;
}

} // namespace

section_record *section_enter()
{
	section_record *r = thread_here()->joined;

	/* A depth of 0: a copy of the parent's, in its child. */
	if ((!r || !load_relaxed(&r->depth)) && !(r = join()))
		return nullptr;
	store_relaxed(&r->depth, load_relaxed(&r->depth) + 1);
	barrier_full();
	return r;
}

int section_error()
{
	return forked() ? -EPERM : -ENOMEM;
}

/* Acquire: accesses to a range that is held no more precede what follows. */
static bool overlaps(const held_range &h, u64 first, u64 end)
{
	const u64 h_end = load_acquire(&h.end);

	return load_acquire(&h.first) < end && first < h_end;
}

const held_range *section_holder(u64 first, u64 end)
{
	for (const section_record *r = load_acquire(&records->all); r; r = r->next)
		for (const auto &both : r->held)
			for (const held_range &h : both)
				if (overlaps(h, first, end))
					return &h;
	return nullptr;
}

/* Acquire: the thread's accesses inside the section precede what follows. */
static bool is_outside(const section_record *r)
{
	return load_acquire(&r->depth) <= 1;
}

static void wait_outside(const section_record *r)
{
	const timespec nap = {0, long(nap_ns)};

	for (unsigned polls = 0; !is_outside(r); polls++) {
		if (polls < spin_polls)
			cpu_relax();
		else
			nanosleep(&nap, nullptr);
	}
}

void grace_wait()
{
	barrier_or_wait();
	/* Acquire: a record added later belongs to a thread that sees the handle cleared. */
	for (const section_record *r = load_acquire(&records->all); r; r = r->next)
		if (r != thread_here()->joined)
			wait_outside(r);
}

/*
 * No other thread uses sections. One that joins later executes a barrier after it has stored taken (join()): it sees
 * what the caller has changed.
 */
static bool is_alone()
{
	barrier_full();
	for (const section_record *r = load_acquire(&records->all); r; r = r->next)
		if (r != thread_here()->joined && load_acquire(&r->taken))
			return false;
	return true;
}

void grace_begin()
{
	if (is_alone())
		return;
	barrier_or_wait();
	for (section_record *r = load_acquire(&records->all); r; r = r->next)
		if (r != thread_here()->joined && !is_outside(r))
			r->waited = 1;
}

static bool has_left(const section_record *r)
{
	for (unsigned polls = 0; polls < few_polls; polls++, cpu_relax())
		if (is_outside(r))
			return true;
	return false;
}

bool grace_over()
{
	for (section_record *r = load_acquire(&records->all); r; r = r->next) {
		if (r->waited && !has_left(r))
			return false;
		if (r->waited)
			r->waited = 0;
	}
	return true;
}

} // namespace usdma::core
