/* SPDX-License-Identifier: BSD-3-Clause */
/* Freed memory that waits until no device can reach it any more, and threads that race for all of it. */
#include "tests/unit/core/memory_rig.h"
#include "lib/core/memory/memory.h"

#include <cstring>
#include <thread>

using namespace usdma;
using namespace usdma::core;
using test::attached;
using test::epoch_done;
using test::epoch_now;
using test::fake;
using test::on_device;
using test::own_memory;
using test::pages;
using test::pinned;

/*
 * ---- what waits among the deferred frees
 * -----------------------------------------------------------------------------
 */

static void freed_while_busy(void **)
{
	attached f(0);
	const u64 d = on_device(f, own_memory);
	void *p = pinned(2 * MiB);
	const size_t before = f.vfio().count();
	u64 again;

	f.post(10);
	assert_int_equal(device_free(d), 0);
	assert_int_equal(host_free(p), 0);
	assert_int_equal(translate(d).size, 0);
	assert_true(translate(p).cls == mem_class::unregistered);
	assert_int_equal(device_free(d), -EINVAL);
	assert_int_equal(device_heap_info(&f.dev).free, own_memory);
	memory_reclaim();
	assert_int_equal(f.vfio().count(), before);
	assert_int_equal(device_alloc(&f.dev, own_memory, page_policy::normal_only, &again), -ENOMEM);
	f.complete();
	f.post(1); /* later work does not hold it */
	memory_reclaim();
	assert_int_equal(f.vfio().count(), before - 1);
	assert_int_equal(device_alloc(&f.dev, own_memory, page_policy::normal_only, &again), 0);
	assert_int_equal(again, d);
	f.complete();
	assert_int_equal(device_free(again), 0);
}

/* What an isolated device has in flight holds up no memory that it does not reach, and the other way round. */
static void isolated_holds_nothing_of_others(void **)
{
	attached f(0), alone(1, own_memory, true);
	void *p = pinned(2 * MiB), *own = nullptr, *small = nullptr;
	const u64 d = on_device(f, MiB);
	const size_t before = f.vfio().count();

	assert_int_equal(host_alloc(2 * MiB, -1, &own, &alone.dev), 0);
	assert_int_equal(f.vfio().count(), before);
	const size_t its = alone.vfio().count();
	alone.post(3);
	assert_int_equal(host_free(p), 0);
	assert_int_equal(device_free(d), 0);
	assert_int_equal(f.vfio().count(), before - 1);
	assert_int_equal(host_free(own), 0);
	assert_int_equal(alone.vfio().count(), its);
	f.post(3);
	alone.complete();
	memory_reclaim();
	assert_int_equal(alone.vfio().count(), its - 1);
	f.complete();
	/* The arena for small ones goes with its device. */
	assert_int_equal(host_alloc(64, -1, &small, &alone.dev), 0);
	assert_int_equal(host_free(small), 0);
	assert_int_equal(host_free(pinned(64)), 0);
}

/* Work behind a gate is not in a ring yet: it is waited for, and then for the rings. */
static void freed_behind_a_gate(void **)
{
	attached f(0);
	void *p = pinned(2 * MiB);
	const size_t before = f.vfio().count();

	const u64 gate = ++epoch_now;
	assert_int_equal(host_free(p), 0);
	memory_reclaim();
	assert_int_equal(f.vfio().count(), before);
	f.post(3);
	epoch_now++; /* later gates do not hold it */
	epoch_done = gate;
	memory_reclaim();
	assert_int_equal(f.vfio().count(), before);
	f.complete();
	memory_reclaim();
	assert_int_equal(f.vfio().count(), before - 1);
}

/* A free does not wait for a WAIT that was posted before a later free, also if more batches wait than there are. */
static void a_later_free_prolongs_none(void **)
{
	static constexpr unsigned frees = 3 * grace_most;
	attached f(0);
	core::hw_queue *const l = f.dev.hw_queues[1].get();
	void *p[frees];
	size_t before;

	for (void *&one : p)
		one = pinned(2 * MiB);
	before = f.vfio().count();
	for (void *one : p) {
		f.post(1);
		l->wait_seq = f.ch.posted;
		assert_int_equal(host_free(one), 0);
	}
	for (u64 i = 1; i <= grace_most; i++) {
		store_release(&f.record.completed, i);
		memory_reclaim();
		assert_int_equal(f.vfio().count(), before - i);
	}
	f.complete();
	memory_reclaim();
	assert_int_equal(f.vfio().count(), before - frees);
}

/* Frees between copies share batches: an older WAIT holds up the first ones only. */
static void copies_join_a_batch(void **)
{
	attached f(0);
	core::hw_queue *const l = f.dev.hw_queues[1].get();
	void *p[3 * grace_most];
	size_t before;

	for (void *&one : p)
		one = pinned(2 * MiB);
	before = f.vfio().count();
	for (void *one : p) {
		f.post(1);
		assert_int_equal(host_free(one), 0);
	}
	const u64 last = f.ch.posted;
	f.post(1);
	l->wait_seq = f.ch.posted;
	store_release(&f.record.completed, last);
	memory_reclaim();
	assert_int_equal(f.vfio().count(), before - std::size(p));
	f.complete();
}

/*
 * A hardware queue whose lock is held for long, or by the caller, is not waited for: the memory stays among the
 * deferred frees.
 */
static void freed_under_a_queue_lock(void **)
{
	attached f(0);
	void *p = pinned(2 * MiB);
	const size_t before = f.vfio().count();
	core::hw_queue *l = f.dev.hw_queues[1].get();

	l->lock.lock();
	assert_int_equal(host_free(p), 0);
	memory_reclaim();
	assert_int_equal(f.vfio().count(), before);
	l->lock.unlock();
	f.post(1);
	memory_reclaim(); /* took its marks only now */
	assert_int_equal(f.vfio().count(), before);
	f.complete();
	memory_reclaim();
	assert_int_equal(f.vfio().count(), before - 1);
}

/* Room that comes free while an allocation waits for it. */
static void alloc_waits_for_deferred_frees(void **)
{
	attached f(0);
	const u64 d = on_device(f, own_memory);
	u64 again = 0;

	f.post(1);
	assert_int_equal(device_free(d), 0);
	std::thread device([&f] { f.complete(); });
	const int err = device_alloc(&f.dev, own_memory, page_policy::normal_only, &again);
	device.join();
	if (err) /* the thread was late by more than an allocation waits */
		again = on_device(f, own_memory, page_policy::normal_only);
	assert_int_equal(again, d);
	assert_int_equal(device_free(again), 0);
}

static void detach_ends_deferred_frees(void **)
{
	attached a(0);
	auto b = std::make_unique<attached>(1);
	void *p = pinned(2 * MiB);
	const u64 d = on_device(*b, 512);
	const size_t before = a.vfio().count();

	b->post(1);
	assert_int_equal(host_free(p), 0);
	assert_int_equal(device_free(d), 0);
	memory_reclaim();
	assert_int_equal(a.vfio().count(), before);
	b.reset();
	assert_int_equal(a.vfio().count(), before - 1);
}

/* ---- threads ----------------------------------------------------------------------------------------- */

static void pound(fake *f, unsigned number, const u8 *shared, std::atomic<bool> *stop)
{
	auto gen = test::rng(100 + number);
	u8 *mem = pages(16);
	void *p;
	u64 d;

	for (unsigned i = 0; i < test::sized(500, 60) * test::scale(); i++) {
		const u64 size = 1 + gen() % 300000;

		assert_int_equal(host_alloc(size, -1, &p), 0);
		assert_int_equal(device_alloc(&f->dev, size, page_policy::huge_first, &d), 0);
		assert_int_equal(host_register(mem + gen() % 4096, 8 * 4096, 0), 0);
		assert_int_equal(translate(p).size, size);
		assert_int_equal(translate(d + size - 1).base, d);
		assert_int_equal(translate(shared + gen() % 4096).base, reinterpret_cast<u64>(shared));
		const translation at = translate(mem + 4096);
		assert_true(at.kind == region_kind::registered);
		f->post(1);
		assert_int_equal(host_unregister(reinterpret_cast<void *>(at.base)), 0);
		assert_int_equal(host_free(p), 0);
		assert_int_equal(device_free(d), 0);
		memory_reclaim();
	}
	munmap(mem, 16 * 4096);
	*stop = true;
}

static void threads_race(void **)
{
	attached a(0), b(1);
	auto *shared = static_cast<u8 *>(pinned(4096));
	std::atomic<bool> stop[3] = {};
	std::vector<std::thread> threads;

	for (unsigned i = 0; i < 3; i++)
		threads.emplace_back(pound, i ? &b : &a, i, shared, &stop[i]);
	threads.emplace_back([&] { /* the devices, and others that come and go */
				   while (!stop[0] || !stop[1] || !stop[2]) {
					   for (attached *f : {&a, &b}) {
						   std::lock_guard guard(f->dev.hw_queues[1]->lock);
						   f->complete();
					   }
					   attached c(5);
				   }
	});
	for (std::thread &t : threads)
		t.join();
	a.complete();
	b.complete();
	memory_reclaim();
	assert_int_equal(mem_state().deferred.size(), 0);
	assert_int_equal(device_heap_info(&a.dev).free, own_memory);
	assert_int_equal(device_heap_info(&b.dev).free, own_memory);
	assert_int_equal(host_free(shared), 0);
}

int main()
{
	const CMUnitTest tests[] = {
		unit(freed_while_busy),
		unit(isolated_holds_nothing_of_others),
		unit(freed_behind_a_gate),
		unit(a_later_free_prolongs_none),
		unit(copies_join_a_batch),
		unit(freed_under_a_queue_lock),
		unit(alloc_waits_for_deferred_frees),
		unit(detach_ends_deferred_frees),
		unit(threads_race),
	};

	test::plain_settings();
	return cmocka_run_group_tests_name("memory-deferred", tests, nullptr, nullptr);
}
