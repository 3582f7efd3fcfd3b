/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waits that learn, and interrupts that are coalesced: told by counters, over
 * devices that are so slow that the host's own speed does not matter.
 */
#include "driver/base/cpu.h"
#include "lib/core/copy/copy.h"
#include "lib/core/info.h"
#include "lib/core/config/setting.h"
#include "lib/core/stream/stream.h"
#include "lib/core/stream/task.h"
#include "tests/support/core.h"

#include <atomic>
#include <cstdlib>
#include <sched.h>
#include <thread>
#include <vector>

using namespace usdma;
using namespace usdma::core;
using test::soon;

/*
 * The budget is 50 ms: the first device takes 1 ms a copy, the second 400 ms, the third 2 ms. The fourth holds its work
 * until somebody waits for it.
 */
static constexpr const char *devices = "sim:mem=1M:engines=1:channels=4:latency=1000,"
				       "sim:mem=1M:engines=1:channels=4:latency=400000,"
				       "sim:mem=1M:engines=1:channels=4:latency=2000,"
				       "sim:mem=1M:engines=1:channels=4:timing=late";
static constexpr u64 most = 50 * ns_per_ms;

struct rig {
	device *dev;
	stream *s;
	u64 mem;
	u8 *host;

	rig(unsigned slot, wait_mode mode)
	{
		stream_options opt;

		opt.wait = int(mode);
		ok(device_get(slot, &dev));
		ok(stream_create(dev, opt, &s));
		/* Wherever the kernel puts the engine: a wait on its CPU would not spin. */
		s->ln->ch->engine_cpu = &dma::cpu_unknown;
		ok(device_alloc(dev, 64 * KiB, page_policy::huge_first, &mem));
		ok(host_alloc(64 * KiB, -1, reinterpret_cast<void **>(&host)));
	}
	~rig()
	{
		ok(stream_destroy(s));
		ok(host_free(host));
		ok(device_free(mem));
		device_put(dev);
	}
	void copy() { ok(copy_async(s, test::ptr(mem), host, 64)); }
	device_stats wait_for_each(unsigned n)
	{
		const device_stats before = device_stats_get(dev);
		device_stats after;

		while (n--) {
			copy();
			ok(stream_sync(s, soon()));
		}
		after = device_stats_get(dev);
		after.sleeps -= before.sleeps;
		after.spins -= before.spins;
		return after;
	}
};

static void kinds_by_size(void **)
{
	assert_int_equal(wait_history::kind_of(0), 0);
	assert_int_equal(wait_history::kind_of(64), 0);
	assert_int_equal(wait_history::kind_of(4 * KiB), 0);
	assert_int_equal(wait_history::kind_of(4 * KiB + 1), 1);
	assert_int_equal(wait_history::kind_of(32 * KiB), 1);
	assert_int_equal(wait_history::kind_of(MiB), 3);
	assert_int_equal(wait_history::kind_of(GiB), 6);
	assert_int_equal(wait_history::kind_of(GiB + 1), 7);
	assert_int_equal(wait_history::kind_of(~u64(0)), wait_history::kinds - 1);
}

static void budget_follows_what_was_seen(void **)
{
	wait_history h;

	assert_int_equal(h.budget(0, 50000), 50000); /* nothing is known: all of it */
	h.note(0, 2000, false, 50000);
	assert_int_equal(h.budget(0, 50000), 2 * 2000 + 50000 / 4);
	for (int i = 0; i < 20; i++)
		h.note(0, 45000, false, 50000);
	assert_int_equal(h.budget(0, 50000), 50000);
	/* Far above: no spinning at all, but for one in probe_every. */
	for (int i = 0; i < 20; i++)
		h.note(0, 900000, true, 50000);
	unsigned spun = 0;
	for (unsigned i = 0; i < 3 * wait_history::probe_every; i++)
		spun += h.budget(0, 50000) != 0;
	assert_int_equal(spun, 3);
	/* Other kinds know nothing of it. */
	assert_int_equal(h.budget(1, 50000), 50000);
	/* It gets fast again: what sleepers see is the wake-up, which is taken off. */
	for (int i = 0; i < 40; i++)
		h.note(0, 28000, true, 50000);
	assert_true(h.budget(0, 50000) > 0 && h.budget(0, 50000) < 50000);
	/* No budget is none. */
	assert_int_equal(wait_history().budget(0, 0), 0);
}

static void fast_ones_are_spun_for(void **)
{
	rig r(0, wait_mode::hybrid);
	const device_stats st = r.wait_for_each(20);

	/* A host that stops for 50 ms may make one of them sleep. */
	assert_true(st.spins >= 15);
	assert_true(st.sleeps <= 5);
	assert_true(st.spins <= 20);
}

static void slow_ones_are_slept_for(void **)
{
	rig r(1, wait_mode::hybrid);
	const device_stats st = r.wait_for_each(4);

	assert_int_equal(st.spins, 0);
	assert_true(st.sleeps >= 4);
}

static void modes_that_do_not_learn(void **)
{
	rig p(0, wait_mode::poll), i(0, wait_mode::interrupt);
	const device_stats polled = p.wait_for_each(10);

	assert_int_equal(polled.sleeps, 0);
	/* On a busy machine work may be done before anybody waits for it. */
	assert_in_range(polled.spins, 5, 10);
	const device_stats slept = i.wait_for_each(10);
	assert_int_equal(slept.spins, 0);
	assert_true(slept.sleeps >= 5);
}

/* The device says, truly or not, that its engine runs on this CPU, or on another one. */
static void the_engines_cpu(void **)
{
	cpu_set_t before, one;
	u32 said = this_cpu();

	if (!said) {
		print_message("# the CPU is not known here\n");
		skip();
	}
	ok(sched_getaffinity(0, sizeof(before), &before));
	CPU_ZERO(&one);
	CPU_SET(said - 1, &one);
	ok(sched_setaffinity(0, sizeof(one), &one));
	rig h(0, wait_mode::hybrid), p(0, wait_mode::poll);
	h.s->ln->ch->engine_cpu = p.s->ln->ch->engine_cpu = &said;
	const device_stats slept = h.wait_for_each(20), polled = p.wait_for_each(20);
	assert_int_equal(slept.spins, 0);
	assert_true(slept.sleeps >= 10);
	assert_int_equal(polled.sleeps, 0);
	for (const u32 other : {said + 1, dma::cpu_unknown, ~0u}) {
		said = other;
		assert_true(h.wait_for_each(20).spins >= 10);
	}
	h.s->ln->ch->engine_cpu = p.s->ln->ch->engine_cpu = &dma::cpu_unknown;
	ok(sched_setaffinity(0, sizeof(before), &before));
}

/* One interrupt for 16 ends; the rest that is no whole 16 comes by time. */
static void coalesced(void **)
{
	static constexpr unsigned n = 250;
	static std::atomic<unsigned> called, wrong;
	rig r(2, wait_mode::interrupt);
	const u64 before = progress_interrupts();

	for (u64 i = 0; i < n; i++) {
		r.copy();
		ok(stream_host_func(
			r.s, [](void *arg) { wrong += called++ != reinterpret_cast<u64>(arg); },
			reinterpret_cast<void *>(i), false));
	}
	for (const deadline until = soon(); called < n && !until.passed();)
		std::this_thread::yield();
	assert_int_equal(called, n);
	assert_int_equal(wrong, 0);
	const u64 interrupts = progress_interrupts() - before;
	assert_true(interrupts >= 1);
	if (interrupts > n / 2)
		print_error("%llu interrupts for %u calls\n", static_cast<unsigned long long>(interrupts), n);
	assert_true(interrupts <= n / 2);
}

/* ---- timing late ------------------------------------------------------------------------------------- */

static const dma::channel_ops *real_ops;
static std::atomic<unsigned> arms;

/* The first number is replaced before the device has read it. */
static void arm_but_the_first(dma::channel *ch, unsigned slot, u64 seq)
{
	if (slot != dma::irq_waiter || arms++)
		real_ops->arm(ch, slot, seq);
}

static void a_spinning_thread_demands_again(void **)
{
	rig r(3, wait_mode::poll);
	dma::channel_ops ops = *r.s->ln->ch->ops;

	real_ops = r.s->ln->ch->ops;
	ops.arm = arm_but_the_first;
	r.copy();
	r.s->ln->ch->ops = &ops;
	ok(stream_sync(r.s, soon()));
	r.s->ln->ch->ops = real_ops;
	assert_true(arms >= 2);
}

/* What signals it would be held as well. */
static void no_interrupt_is_coalesced(void **)
{
	static std::atomic<unsigned> called;
	rig r(3, wait_mode::interrupt);

	r.copy();
	const u64 posted = r.s->ln->ch->posted;
	ok(stream_host_func(
		r.s, [](void *) { called++; }, nullptr, false));
	assert_int_equal(r.s->ln->ch->posted, posted);
	for (const deadline until = soon(); !called && !until.passed();)
		std::this_thread::yield();
	assert_int_equal(called, 1);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(kinds_by_size),
		cmocka_unit_test(budget_follows_what_was_seen),
		cmocka_unit_test(fast_ones_are_spun_for),
		cmocka_unit_test(slow_ones_are_slept_for),
		cmocka_unit_test(modes_that_do_not_learn),
		cmocka_unit_test(the_engines_cpu),
		cmocka_unit_test(coalesced),
		cmocka_unit_test(a_spinning_thread_demands_again),
		cmocka_unit_test(no_interrupt_is_coalesced),
	};

	setenv("USDMA_CONFIG", "/dev/null", 1);
	setenv("USDMA_DEVICES", devices, 1);
	setenv("USDMA_SPIN_US", std::to_string(most / ns_per_us).c_str(), 1);
	setenv("USDMA_COALESCE_COUNT", "16", 1);
	setenv("USDMA_COALESCE_US", "65535", 1);
	for (const char *name : {"USDMA_WAIT", "USDMA_IO_URING"})
		unsetenv(name);
	return cmocka_run_group_tests_name("wait", tests, nullptr, nullptr);
}
