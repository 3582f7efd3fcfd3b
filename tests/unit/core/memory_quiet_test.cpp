/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lost device that is not proven to be quiesced: memory that it can access is not allocated until quiesce()
 * succeeds, then it is reused.  Other devices are attached and detached meanwhile.
 */
#include "tests/unit/core/memory_rig.h"
#include "lib/core/memory/memory.h"

#include <cstring>
#include <set>
#include <thread>

using namespace usdma;
using namespace usdma::core;
using test::attached;
using test::epoch_now;
using test::fake;
using test::pages;
using test::pinned;

static void lose(attached &f)
{
	f.vfio().is_lost = true;
	f.vfio().can_quiesce = false;
}

/* Whether the device can access any of these bytes. */
static bool is_accessible(attached &f, const void *p, u64 size)
{
	const u64 from = reinterpret_cast<u64>(p);

	for (const auto &[iova, a] : f.vfio().areas) {
		const u64 at = reinterpret_cast<u64>(a.vaddr);

		if (at < from + size && from < at + a.size)
			return true;
	}
	return false;
}

/* No IOVA of the lost device is mapped to other memory in the other device. */
static bool same_iovas(attached &lost, attached &other)
{
	for (const auto &[iova, a] : other.vfio().areas) {
		const u8 *reached = lost.vfio().reach(iova);

		if (reached && reached != a.vaddr)
			return false;
	}
	return true;
}

/* Allocates pinned blocks of all sizes: the lost device must not be able to access any. */
static void check_allocations(attached &lost, attached &other)
{
	std::vector<void *> got;

	for (u64 size : {u64(64), 4 * KiB, 64 * KiB, 200 * KiB, 2 * MiB})
		for (int i = 0; i < 12; i++) {
			got.push_back(pinned(size));
			assert_false(is_accessible(lost, got.back(), size));
		}
	assert_true(same_iovas(lost, other));
	for (void *p : got)
		assert_int_equal(host_free(p), 0);
}

/* Whether one of n blocks is accessible to the lost device: its memory is reused. */
static bool is_reused(attached &lost, u64 size, unsigned n)
{
	std::vector<void *> got;
	bool again = false;

	for (unsigned i = 0; i < n; i++) {
		got.push_back(pinned(size));
		again |= is_accessible(lost, got.back(), size);
	}
	for (void *p : got)
		assert_int_equal(host_free(p), 0);
	return again;
}

/* Neither free space beside its blocks nor freed blocks are reused, with or without pending work. */
static void blocks_of_an_open_device(void **)
{
	attached b(0), a(1);
	void *live = pinned(64 * KiB), *freed = pinned(64 * KiB), *large = pinned(2 * MiB), *busy = pinned(64 * KiB);

	a.post(1);
	assert_int_equal(host_free(busy), 0);
	lose(a);
	for (void *p : {freed, large})
		assert_int_equal(host_free(p), 0);
	check_allocations(a, b);
	a.complete(); /* the lost device may have written the record: that is no proof */
	memory_reclaim();
	check_allocations(a, b);
	a.vfio().can_quiesce = true;
	memory_reclaim();
	assert_true(is_reused(a, 64 * KiB, 4));
	assert_int_equal(host_free(live), 0);
}

/* Closing the device is no proof. */
static void blocks_of_a_closed_device(void **)
{
	attached b(0), a(1);
	void *freed = pinned(64 * KiB), *later = pinned(64 * KiB), *large = pinned(2 * MiB);

	a.post(1);
	assert_int_equal(host_free(freed), 0);
	lose(a);
	memory_detach(&a.dev);
	assert_true(memory_retained_by(&a.dev) >= 3 * MiB);
	check_allocations(a, b);
	assert_int_equal(host_free(large), 0);
	check_allocations(a, b);
	/* Another device in the same slot proves nothing either. */
	attached c(1);
	check_allocations(a, c);
	c.detach();
	a.vfio().can_quiesce = true;
	memory_forget(&a.dev);
	a.is_attached = false;
	assert_int_equal(memory_retained_by(&a.dev), 0);
	/* More blocks than one arena holds: the order of the arenas is undefined. */
	assert_true(is_reused(a, 64 * KiB, 64));
	assert_int_equal(host_free(later), 0);
}

/* The memory stays registered, for the other devices too, and is unregistered later. */
static void registrations(void **)
{
	attached b(0), a(1);
	u8 *mem = pages(4), *other = pages(4);

	assert_int_equal(host_register(mem, 4 * 4096, host_reg_charged), 0);
	const u64 iova = translate(mem).dma;
	lose(a);
	assert_int_equal(host_unregister(mem), -EBUSY);
	assert_non_null(strstr(error_text(), "stays registered"));
	assert_true(translate(mem).kind == region_kind::registered && translate(mem).dma == iova);
	assert_ptr_equal(b.vfio().reach(iova), mem);
	memory_detach(&a.dev);
	assert_int_equal(host_unregister(mem), -EBUSY);
	assert_ptr_equal(b.vfio().reach(iova), mem);
	assert_int_equal(host_register(other, 4 * 4096, host_reg_charged), 0);
	assert_true(same_iovas(a, b));
	a.vfio().can_quiesce = true;
	memory_forget(&a.dev);
	a.is_attached = false;
	for (u8 *p : {mem, other}) {
		assert_int_equal(host_unregister(p), 0);
		munmap(p, 4 * 4096);
	}
	assert_null(b.vfio().reach(iova));
}

/* The device is lost during the unmap: the registration remains, and the other devices map it again. */
static void lost_during_unmap(void **)
{
	attached b(0), a(1);
	u8 *mem = pages(1);

	assert_int_equal(host_register(mem, 4096, host_reg_charged), 0);
	const u64 iova = translate(mem).dma;
	a.vfio().can_quiesce = false;
	a.vfio().lose_at_unmap = 1;
	assert_int_equal(host_unregister(mem), -EBUSY);
	assert_true(a.vfio().is_lost);
	assert_true(translate(mem).kind == region_kind::registered);
	assert_ptr_equal(b.vfio().reach(iova), mem);
	a.vfio().can_quiesce = true;
	assert_int_equal(host_unregister(mem), 0);
	munmap(mem, 4096);
}

/* Until the devices have unmapped it, its addresses are not free: it can be restored. */
static void unregistration_can_be_undone(void **)
{
	attached f(0);
	u8 *mem = pages(1);
	region *r;

	assert_int_equal(host_register(mem, 4096, host_reg_charged), 0);
	{
		std::lock_guard guard(mem_state().lock);

		r = region_at(reinterpret_cast<u64>(mem));
		region_hide(r);
	}
	assert_true(translate(mem).cls == mem_class::unregistered);
	assert_int_equal(host_unregister(mem), -ENOENT);
	assert_int_equal(host_register(mem, 4096, host_reg_charged), -EEXIST);
	{
		std::lock_guard guard(mem_state().lock);

		region_show(r, mem_class::host);
	}
	assert_true(translate(mem).kind == region_kind::registered && translate(mem).cls == mem_class::host);
	assert_int_equal(host_unregister(mem), 0);
	munmap(mem, 4096);
}

/* The device is lost before it replies to a map: the mapping may exist. */
static void lost_during_map(void **)
{
	attached b(0), a(1);
	u8 *mem = pages(1);

	a.vfio().can_quiesce = false;
	a.vfio().lose_at_map = 1;
	assert_int_equal(host_register(mem, 4096, host_reg_charged), 0); /* for the others */
	assert_ptr_equal(a.vfio().reach(translate(mem).dma), mem);
	assert_int_equal(host_unregister(mem), -EBUSY);
	a.vfio().can_quiesce = true;
	assert_int_equal(host_unregister(mem), 0);
	munmap(mem, 4096);
}

/* Retiring the memory of the lost device does not free an IOVA that waits for another device's work. */
static void quiescing_leaves_deferred_frees_alone(void **)
{
	attached b(0), a(1);
	u8 *mem = pages(1), *next = pages(1), *more = pages(512);
	void *large = pinned(2 * MiB);

	lose(a);
	assert_int_equal(host_free(large), 0); /* retained for a */
	assert_int_equal(host_register(mem, 4096, host_reg_charged), 0);
	const u64 iova = translate(mem).dma;
	b.post(1);
	assert_int_equal(host_unregister(mem), 0); /* b has unmapped it; its work may still use the IOVA */
	a.detach();                                /* all that it retained is retired */
	assert_int_equal(host_register(more, 2 * MiB, host_reg_charged), 0); /* at the IOVA of the large block */
	assert_int_equal(host_register(next, 4096, host_reg_charged), 0);
	assert_true(translate(next).dma != iova);
	b.complete();
	memory_reclaim();
	assert_ptr_equal(b.vfio().reach(translate(next).dma), next);
	for (u8 *p : {next, more})
		assert_int_equal(host_unregister(p), 0);
	for (u8 *p : {mem, next})
		munmap(p, 4096);
	munmap(more, 2 * MiB);
}

/* A thread waits for the work of several devices, and one of them is closed. */
static void closed_while_waited_for(void **)
{
	attached b(1);

	b.vfio().can_quiesce = false;
	for (int i = 0; i < 3; i++) {
		u8 *mem = pages(1);
		fake a(0, test::own_memory);
		int err = 1;

		assert_int_equal(memory_attach(&a.dev), 0);
		assert_int_equal(host_register(mem, 4096, host_reg_charged), 0);
		a.post(1);
		b.post(1);
		const u64 before = epoch_now;
		std::thread t([&] { err = host_unregister(mem); });
		std::this_thread::yield();
		assert_int_equal(epoch_now, before);
		memory_detach(&a.dev);
		memory_forget(&a.dev);
		a.dev.eng.reset(); /* as closing does: the core device itself remains */
		t.join();
		assert_int_equal(err, 0);
		b.complete();
		memory_reclaim();
		munmap(mem, 4096);
	}
}

static int set_up(void **)
{
	test::plain_settings();
	log_set_level(log_level::none);
	return 0;
}

int main()
{
	const CMUnitTest tests[] = {
		unit(blocks_of_an_open_device),
		unit(blocks_of_a_closed_device),
		unit(registrations),
		unit(lost_during_unmap),
		unit(unregistration_can_be_undone),
		unit(lost_during_map),
		unit(quiescing_leaves_deferred_frees_alone),
		unit(closed_while_waited_for),
	};

	return cmocka_run_group_tests_name("memory of a device that may still write", tests, set_up, nullptr);
}
