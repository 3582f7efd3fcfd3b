/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device that was lost and is not proven to be quiet: nothing that it could reach is handed out, at no time, until
 * there is proof; then all of it is.  The lists of what is kept stand the coming and going of others meanwhile.
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
	f.vfio().gone = true;
	f.vfio().quiet = false;
}

/* Whether it reaches a byte of these. */
static bool in_reach(attached &f, const void *p, u64 size)
{
	const u64 from = reinterpret_cast<u64>(p);

	for (const auto &[iova, a] : f.vfio().areas) {
		const u64 at = reinterpret_cast<u64>(a.vaddr);

		if (at < from + size && from < at + a.size)
			return true;
	}
	return false;
}

/* Another device has none of its IOVAs for other memory. */
static bool same_iovas(attached &lost, attached &other)
{
	for (const auto &[iova, a] : other.vfio().areas) {
		const u8 *reached = lost.vfio().reach(iova);

		if (reached && reached != a.vaddr)
			return false;
	}
	return true;
}

/* Much pinned memory, small and large; none of it in the lost device's reach. */
static void take_much(attached &lost, attached &other)
{
	std::vector<void *> got;

	for (u64 size : {u64(64), 4 * KiB, 64 * KiB, 200 * KiB, 2 * MiB})
		for (int i = 0; i < 12; i++) {
			got.push_back(pinned(size));
			assert_false(in_reach(lost, got.back(), size));
		}
	assert_true(same_iovas(lost, other));
	for (void *p : got)
		assert_int_equal(host_free(p), 0);
}

/* Some of so many blocks lie where the lost device reaches: its memory is used again. */
static bool is_used_again(attached &lost, u64 size, unsigned n)
{
	std::vector<void *> got;
	bool again = false;

	for (unsigned i = 0; i < n; i++) {
		got.push_back(pinned(size));
		again |= in_reach(lost, got.back(), size);
	}
	for (void *p : got)
		assert_int_equal(host_free(p), 0);
	return again;
}

/* Free room beside its blocks, blocks that are freed, with work pending or not: none of it. */
static void blocks_of_an_open_device(void **)
{
	attached b(0), a(1);
	void *kept = pinned(64 * KiB), *freed = pinned(64 * KiB), *large = pinned(2 * MiB), *busy = pinned(64 * KiB);

	a.post(1);
	assert_int_equal(host_free(busy), 0);
	lose(a);
	for (void *p : {freed, large})
		assert_int_equal(host_free(p), 0);
	take_much(a, b);
	a.complete(); /* a record that it may have written is no proof */
	memory_reclaim();
	take_much(a, b);
	a.vfio().quiet = true;
	memory_reclaim();
	assert_true(is_used_again(a, 64 * KiB, 4));
	assert_int_equal(host_free(kept), 0);
}

/* Closing it proves nothing. */
static void blocks_of_a_closed_device(void **)
{
	attached b(0), a(1);
	void *freed = pinned(64 * KiB), *later = pinned(64 * KiB), *large = pinned(2 * MiB);

	a.post(1);
	assert_int_equal(host_free(freed), 0);
	lose(a);
	memory_detach(&a.dev);
	assert_true(memory_retained_by(&a.dev) >= 3 * MiB);
	take_much(a, b);
	assert_int_equal(host_free(large), 0);
	take_much(a, b);
	/* One that comes to its slot is another one. */
	attached c(1);
	take_much(a, c);
	c.detach();
	a.vfio().quiet = true;
	memory_forget(&a.dev);
	a.in = false;
	assert_int_equal(memory_retained_by(&a.dev), 0);
	/* More than one arena holds: which one comes first is unused to say. */
	assert_true(is_used_again(a, 64 * KiB, 64));
	assert_int_equal(host_free(later), 0);
}

/* It stays registered, for the others too, and is given back later. */
static void registrations(void **)
{
	attached b(0), a(1);
	u8 *mem = pages(4), *other = pages(4);

	assert_int_equal(host_register(mem, 4 * 4096, 0), 0);
	const u64 iova = translate(mem).dma;
	lose(a);
	assert_int_equal(host_unregister(mem), -EBUSY);
	assert_non_null(strstr(error_text(), "stays registered"));
	assert_true(translate(mem).kind == region_kind::registered && translate(mem).dma == iova);
	assert_ptr_equal(b.vfio().reach(iova), mem);
	memory_detach(&a.dev);
	assert_int_equal(host_unregister(mem), -EBUSY);
	assert_ptr_equal(b.vfio().reach(iova), mem);
	assert_int_equal(host_register(other, 4 * 4096, 0), 0);
	assert_true(same_iovas(a, b));
	a.vfio().quiet = true;
	memory_forget(&a.dev);
	a.in = false;
	for (u8 *p : {mem, other}) {
		assert_int_equal(host_unregister(p), 0);
		munmap(p, 4 * 4096);
	}
	assert_null(b.vfio().reach(iova));
}

/* Lost at the very question: the registration stays, and others that released it have it again. */
static void lost_while_it_lets_go(void **)
{
	attached b(0), a(1);
	u8 *mem = pages(1);

	assert_int_equal(host_register(mem, 4096, 0), 0);
	const u64 iova = translate(mem).dma;
	a.vfio().quiet = false;
	a.vfio().lose_at_unmap = 1;
	assert_int_equal(host_unregister(mem), -EBUSY);
	assert_true(a.vfio().gone);
	assert_true(translate(mem).kind == region_kind::registered);
	assert_ptr_equal(b.vfio().reach(iova), mem);
	a.vfio().quiet = true;
	assert_int_equal(host_unregister(mem), 0);
	munmap(mem, 4096);
}

/* Lost before it answers that it has mapped something: it may have. */
static void lost_while_it_maps(void **)
{
	attached b(0), a(1);
	u8 *mem = pages(1);

	a.vfio().quiet = false;
	a.vfio().lose_at_map = 1;
	assert_int_equal(host_register(mem, 4096, 0), 0); /* for the others */
	assert_ptr_equal(a.vfio().reach(translate(mem).dma), mem);
	assert_int_equal(host_unregister(mem), -EBUSY);
	a.vfio().quiet = true;
	assert_int_equal(host_unregister(mem), 0);
	munmap(mem, 4096);
}

/* What waits for work to end before its IOVA is free is not freed by the end of something else. */
static void quiescing_leaves_deferred_frees_alone(void **)
{
	attached b(0), a(1);
	u8 *mem = pages(1), *next = pages(1), *more = pages(512);
	void *large = pinned(2 * MiB);

	lose(a);
	assert_int_equal(host_free(large), 0); /* kept for a */
	assert_int_equal(host_register(mem, 4096, 0), 0);
	const u64 iova = translate(mem).dma;
	b.post(1);
	assert_int_equal(host_unregister(mem), 0);            /* from b it is gone; its IOVA may still be named */
	a.detach();                                           /* all that it kept is settled */
	assert_int_equal(host_register(more, 2 * MiB, 0), 0); /* where the large one was */
	assert_int_equal(host_register(next, 4096, 0), 0);
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

/* Who waits for the work of several devices stands the end of one of them. */
static void one_goes_while_others_are_waited_for(void **)
{
	attached b(1);

	b.vfio().quiet = false;
	for (int i = 0; i < 3; i++) {
		u8 *mem = pages(1);
		fake a(0, test::own_memory);
		int err = 1;

		assert_int_equal(memory_attach(&a.dev), 0);
		assert_int_equal(host_register(mem, 4096, 0), 0);
		a.post(1);
		b.post(1);
		const u64 asked = epoch_now;
		std::thread t([&] { err = host_unregister(mem); });
		std::this_thread::yield();
		assert_int_equal(epoch_now, asked);
		memory_detach(&a.dev);
		memory_forget(&a.dev);
		a.dev.eng.reset(); /* as of a device that was closed: its place lives on */
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
		unit(lost_while_it_lets_go),
		unit(lost_while_it_maps),
		unit(quiescing_leaves_deferred_frees_alone),
		unit(one_goes_while_others_are_waited_for),
	};

	return cmocka_run_group_tests_name("memory of a device that may still write", tests, set_up, nullptr);
}
