/* SPDX-License-Identifier: BSD-3-Clause */
/* Freed memory that waits until no device can access it, and concurrent threads. */
#include "tests/unit/core/memory_rig.h"
#include "lib/core/base/section.h"
#include "lib/core/memory/hold.h"
#include "lib/core/memory/memory.h"
#include "tests/support/preempt.h"

#include <cstring>
#include <thread>

using namespace usdma;
using namespace usdma::core;
using test::attached;
using test::epoch_now;
using test::fake;
using test::on_device;
using test::own_memory;
using test::pages;
using test::pinned;

/* ---- deferred frees ---------------------------------------------------------------------------------- */

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
	f.post(1); /* later work does not delay it */
	memory_reclaim();
	assert_int_equal(f.vfio().count(), before - 1);
	assert_int_equal(device_alloc(&f.dev, own_memory, page_policy::normal_only, &again), 0);
	assert_int_equal(again, d);
	f.complete();
	assert_int_equal(device_free(again), 0);
}

/* Work of an isolated device does not delay frees of memory that it cannot access, and vice versa. */
static void isolated_does_not_delay_others(void **)
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
	/* The arena for small blocks is freed with its device. */
	assert_int_equal(host_alloc(64, -1, &small, &alone.dev), 0);
	assert_int_equal(host_free(small), 0);
	assert_int_equal(host_free(pinned(64)), 0);
}

/* Work behind a gate is not in a ring yet: the free waits for the gate, then for the rings. */
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
	epoch_now++; /* later gates do not delay it */
	test::open_gates(gate);
	memory_reclaim();
	assert_int_equal(f.vfio().count(), before);
	f.complete();
	memory_reclaim();
	assert_int_equal(f.vfio().count(), before - 1);
}

/* A free does not wait for a WAIT posted before a later free, even with more frees than batches. */
static void later_frees_do_not_delay_earlier_ones(void **)
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
		store_relaxed(&l->wait_seq, f.ch.posted);
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

/* Frees between copies share batches: only those before a WAIT are freed before it ends. */
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
	store_relaxed(&l->wait_seq, f.ch.posted);
	store_release(&f.record.completed, last);
	memory_reclaim();
	assert_int_equal(f.vfio().count(), before - std::size(p));
	f.complete();
}

/* Neither a free nor its end needs the lock of a hardware queue. */
static void freed_under_a_queue_lock(void **)
{
	attached f(0);
	void *p = pinned(2 * MiB);
	const size_t before = f.vfio().count();
	core::hw_queue *l = f.dev.hw_queues[1].get();

	f.post(1);
	l->lock.lock();
	assert_int_equal(host_free(p), 0);
	memory_reclaim();
	assert_int_equal(f.vfio().count(), before);
	f.complete();
	memory_reclaim();
	assert_int_equal(f.vfio().count(), before - 1);
	l->lock.unlock();
}

/* Work of a device delays no free of another device's memory that it was never given. */
static void others_are_not_waited_for(void **)
{
	attached a(0), b(1);
	const u64 d = on_device(b, MiB), e = on_device(a, MiB);

	a.post(1);
	assert_int_equal(device_free(e), 0);
	assert_int_equal(device_free(d), 0);
	assert_int_equal(mem_state().deferred_count, 1);
	b.post(1);
	a.complete();
	memory_reclaim();
	assert_int_equal(mem_state().deferred_count, 0);
	b.complete();
}

/* However many frees wait, a call checks the first; one that need not run the lists takes no step at all. */
static void many_frees_cost_nothing(void **)
{
	static constexpr unsigned count = 500;
	attached f(0);
	u64 d[count], again;

	for (u64 &one : d)
		one = on_device(f, 512);
	f.post(1);
	for (u64 one : d)
		assert_int_equal(device_free(one), 0);
	assert_int_equal(mem_state().deferred_count, count);
	u64 before = test::gated_queries;
	for (int i = 0; i < 100; i++)
		memory_reclaim();
	assert_int_equal(test::gated_queries, before);
	assert_int_equal(device_alloc(&f.dev, 512, page_policy::normal_only, &again), 0);
	assert_in_range(test::gated_queries - before, 0, 4);
	f.complete();
	memory_reclaim();
	assert_int_equal(mem_state().deferred_count, 0);
	assert_int_equal(device_free(again), 0);
}

/* Memory that passed while the CPU accesses it: the lists run again when it does not any more. */
static void held_memory_costs_nothing(void **)
{
	attached f(0);
	void *p = pinned(2 * MiB);
	memory_hold held;
	const size_t before = f.vfio().count();
	unsigned locked = 0;
	const test::lock_hooks hooks = {{}, [&](const void *m) { locked += m == &mem_state().lock; }};

	assert_int_equal(held.take(translate(p)), 0);
	assert_int_equal(host_free(p), 0);
	memory_reclaim();
	assert_non_null(mem_state().held.first);
	test::hook_locks(&hooks);
	for (int i = 0; i < 100; i++) {
		f.post(1);
		f.complete();
		memory_reclaim();
	}
	test::hook_locks(nullptr);
	assert_int_equal(locked, 0);
	assert_int_equal(f.vfio().count(), before);
	held.drop();
	memory_reclaim();
	assert_int_equal(f.vfio().count(), before - 1);
	assert_int_equal(mem_state().deferred_count, 0);
}

/* A thread that has found the memory posts its request after the free: the memory is not reused before. */
static void freed_while_a_reader_posts(void **)
{
	attached f(0);
	void *p = pinned(2 * MiB);
	const size_t before = f.vfio().count();
	std::atomic<int> step = 0;
	std::thread reader([&] {
		{
			const read_section in;

			assert_true(translate(p).size);
			step = 1;
			while (step != 2)
				std::this_thread::yield();
			f.post(1);
		}
		step = 3;
		while (step != 4)
			std::this_thread::yield();
	});

	while (step != 1)
		std::this_thread::yield();
	assert_int_equal(host_free(p), 0);
	memory_reclaim();
	assert_int_equal(f.vfio().count(), before);
	step = 2;
	while (step != 3)
		std::this_thread::yield();
	memory_reclaim();
	assert_int_equal(f.vfio().count(), before);
	f.complete();
	memory_reclaim();
	assert_int_equal(f.vfio().count(), before - 1);
	step = 4;
	reader.join();
}

/* ---- unregistration ------------------------------------------------------------------------------------- */

/* It waits for work that uses the memory, and for no other work, of whatever device. */
static void unregistration_waits_for_its_users(void **)
{
	attached a(0), b(1);
	u8 *mem = pages(1), *other = pages(1);
	std::atomic<bool> used = true;
	const u64 before = test::waits;

	assert_int_equal(host_register(mem, 4096, host_reg_charged), 0);
	assert_int_equal(host_register(other, 4096, host_reg_charged), 0);
	a.post_use(translate(mem).dma + 4095);
	b.post(1); /* never completes */
	b.complete();
	b.post(1);
	assert_int_equal(host_unregister(other), 0);
	assert_int_equal(test::waits, before);
	std::thread device([&] {
		std::this_thread::yield();
		used = false;
		a.complete();
	});
	assert_int_equal(host_unregister(mem), 0);
	assert_false(used);
	device.join();
	b.complete();
	memory_reclaim();
	munmap(mem, 4096);
	munmap(other, 4096);
}

/* An allocation waits for space that a deferred free releases. */
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
	if (err) /* the thread was slower than the allocation's timeout */
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

/* A device that answers late delays the allocation that it is mapped by, but none in another device. */
static void late_device_delays_no_other(void **)
{
	attached late(0), f(1);
	void *small = pinned(64), *large = nullptr;
	std::atomic<int> step = 0;

	late.vfio().on_map = [&] {
		step = 1;
		while (step != 2)
			std::this_thread::yield();
	};
	std::thread waiting([&] { large = pinned(2 * MiB); });
	while (step != 1)
		std::this_thread::yield();
	assert_int_equal(device_free(on_device(f, 512)), 0);
	assert_int_equal(host_free(pinned(64)), 0);
	memory_reclaim();
	step = 2;
	waiting.join();
	late.vfio().on_map = nullptr;
	assert_int_equal(host_free(large), 0);
	assert_int_equal(host_free(small), 0);
}

/* ---- threads ----------------------------------------------------------------------------------------- */

static void allocate_and_free(fake *f, unsigned number, const u8 *shared, std::atomic<bool> *stop)
{
	auto gen = test::rng(100 + number);
	u8 *mem = pages(16);
	void *p;
	u64 d;

	for (unsigned i = 0; i < test::sized(500, 60) * test::scale(); i++) {
		const u64 size = 1 + gen() % 300000;

		assert_int_equal(host_alloc(size, -1, &p), 0);
		assert_int_equal(device_alloc(&f->dev, size, page_policy::huge_first, &d), 0);
		assert_int_equal(host_register(mem + gen() % 4096, 8 * 4096, host_reg_charged), 0);
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
		threads.emplace_back(allocate_and_free, i ? &b : &a, i, shared, &stop[i]);
	threads.emplace_back([&] { /* completes work, and attaches and detaches a device */
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
	assert_int_equal(mem_state().deferred_count, 0);
	assert_int_equal(device_heap_info(&a.dev).free, own_memory);
	assert_int_equal(device_heap_info(&b.dev).free, own_memory);
	assert_int_equal(host_free(shared), 0);
}

int main()
{
	const CMUnitTest tests[] = {
		unit(freed_while_busy),
		unit(isolated_does_not_delay_others),
		unit(freed_behind_a_gate),
		unit(later_frees_do_not_delay_earlier_ones),
		unit(copies_join_a_batch),
		unit(freed_under_a_queue_lock),
		unit(others_are_not_waited_for),
		unit(many_frees_cost_nothing),
		unit(held_memory_costs_nothing),
		unit(freed_while_a_reader_posts),
		unit(unregistration_waits_for_its_users),
		unit(alloc_waits_for_deferred_frees),
		unit(detach_ends_deferred_frees),
		unit(late_device_delays_no_other),
		unit(threads_race),
	};

	test::plain_settings();
	return cmocka_run_group_tests_name("memory-deferred", tests, nullptr, nullptr);
}
