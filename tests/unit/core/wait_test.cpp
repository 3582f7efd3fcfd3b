/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adaptive waits and coalesced interrupts, observed by counters: the devices
 * are so slow that the host's own speed does not matter.
 */
#include "driver/base/cpu.h"
#include "lib/core/copy/copy.h"
#include "lib/core/info.h"
#include "lib/core/config/setting.h"
#include "lib/core/stream/stopped.h"
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
 * The budget is 50 ms: the first device takes 1 ms a copy, the second 400 ms, the third 2 ms. The fourth defers its
 * work until a thread waits for it.
 */
static constexpr const char *devices = "sim:mem=1M:engines=1:channels=4:latency=1000,"
				       "sim:mem=1M:engines=1:channels=4:latency=400000,"
				       "sim:mem=1M:engines=1:channels=4:latency=2000,"
				       "sim:mem=1M:engines=1:channels=4:timing=late";
static constexpr u64 budget = 50 * ns_per_ms;

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
		/* Do not use the engine's CPU: a wait on that CPU would not spin. */
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

static void kind_by_size(void **)
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

static void budget_follows_the_history(void **)
{
	wait_history h;

	assert_int_equal(h.budget(0, 50000), 50000); /* no history: the full budget */
	h.note(0, 2000, false, 50000);
	assert_int_equal(h.budget(0, 50000), 2 * 2000 + 50000 / 4);
	for (int i = 0; i < 20; i++)
		h.note(0, 45000, false, 50000);
	assert_int_equal(h.budget(0, 50000), 50000);
	/* Much longer than the budget: no spinning, except for one wait in probe_every. */
	for (int i = 0; i < 20; i++)
		h.note(0, 900000, true, 50000);
	unsigned spun = 0;
	for (unsigned i = 0; i < 3 * wait_history::probe_every; i++)
		spun += h.budget(0, 50000) != 0;
	assert_int_equal(spun, 3);
	/* Other kinds have their own history. */
	assert_int_equal(h.budget(1, 50000), 50000);
	/* Faster again: the wake-up latency is subtracted from the times of waits that slept. */
	for (int i = 0; i < 40; i++)
		h.note(0, 28000, true, 50000);
	assert_true(h.budget(0, 50000) > 0 && h.budget(0, 50000) < 50000);
	/* A budget of 0 stays 0. */
	assert_int_equal(wait_history().budget(0, 0), 0);
}

static void fast_copies_spin(void **)
{
	rig r(0, wait_mode::hybrid);
	const device_stats st = r.wait_for_each(20);

	/* A pause of the host of 50 ms makes a wait sleep. */
	assert_true(st.spins >= 15);
	assert_true(st.sleeps <= 5);
	assert_true(st.spins <= 20);
}

static void slow_copies_sleep(void **)
{
	rig r(1, wait_mode::hybrid);
	const device_stats st = r.wait_for_each(4);

	assert_int_equal(st.spins, 0);
	assert_true(st.sleeps >= 4);
}

static void fixed_modes(void **)
{
	rig p(0, wait_mode::poll), i(0, wait_mode::interrupt);
	const device_stats polled = p.wait_for_each(10);

	assert_int_equal(polled.sleeps, 0);
	/* On a busy machine work may complete before the wait starts. */
	assert_in_range(polled.spins, 5, 10);
	const device_stats slept = i.wait_for_each(10);
	assert_int_equal(slept.spins, 0);
	assert_true(slept.sleeps >= 5);
}

/* A wait does not spin on the CPU that the device reports as its engine's. */
static void cpu_of_the_engine(void **)
{
	cpu_set_t before, one;
	u32 reported = this_cpu();

	if (!reported) {
		print_message("# the current CPU is unavailable\n");
		skip();
	}
	ok(sched_getaffinity(0, sizeof(before), &before));
	CPU_ZERO(&one);
	CPU_SET(reported - 1, &one);
	ok(sched_setaffinity(0, sizeof(one), &one));
	rig h(0, wait_mode::hybrid), p(0, wait_mode::poll);
	h.s->ln->ch->engine_cpu = p.s->ln->ch->engine_cpu = &reported;
	const device_stats slept = h.wait_for_each(20), polled = p.wait_for_each(20);
	assert_int_equal(slept.spins, 0);
	assert_true(slept.sleeps >= 10);
	assert_int_equal(polled.sleeps, 0);
	for (const u32 other : {reported + 1, dma::cpu_unknown, ~0u}) {
		reported = other;
		assert_true(h.wait_for_each(20).spins >= 10);
	}
	h.s->ln->ch->engine_cpu = p.s->ln->ch->engine_cpu = &dma::cpu_unknown;
	ok(sched_setaffinity(0, sizeof(before), &before));
}

/* One interrupt for 16 completions; a timer signals the remainder. */
static void interrupts_are_coalesced(void **)
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

/* The first arm is lost, as if replaced before the device has read it. */
static void lose_first_arm(dma::channel *ch, unsigned slot, u64 seq)
{
	if (slot != dma::irq_waiter || arms++)
		real_ops->arm(ch, slot, seq);
}

static void spinning_thread_arms_again(void **)
{
	rig r(3, wait_mode::poll);
	dma::channel_ops ops = *r.s->ln->ch->ops;

	real_ops = r.s->ln->ch->ops;
	ops.arm = lose_first_arm;
	r.copy();
	r.s->ln->ch->ops = &ops;
	ok(stream_sync(r.s, soon()));
	r.s->ln->ch->ops = real_ops;
	assert_true(arms >= 2);
}

/* The device would defer the request that signals a coalesced interrupt, too. */
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

/* ---- a failure stops a stream that waits in its ring --------------------------------------------------- */

static std::atomic<unsigned> stops;

/* As while the channel is reset. */
static int stop_the_third_time(dma::channel *ch)
{
	return ++stops < 3 ? fail(EBUSY, "channel %u is being reset", ch->index) : real_ops->stop(ch);
}

static void a_failed_stop_is_repeated(void **)
{
	static dma::channel_ops ops;
	rig r(0, wait_mode::hybrid);
	stream_owner owner;
	stream_options opt;
	stream *waiting, *failing;

	opt.owner = &owner;
	ok(stream_create(r.dev, opt, &waiting));
	ok(stream_create(r.dev, opt, &failing));
	real_ops = waiting->ln->ch->ops;
	ops = *real_ops;
	ops.stop = stop_the_third_time;
	waiting->ln->ch->ops = &ops;
	store_release(reinterpret_cast<u64 *>(r.host), u64(0));
	ok(wait_value_async(waiting, r.host, dma::compare::eq, 1));
	assert_true(waiting->ln->exclusive);
	streams_stop_at_failures(&owner);
	failing->ln->lock.lock();
	stream_stop_owned(failing, {EIO});
	failing->ln->lock.unlock();
	assert_int_equal(stream_sync(waiting, soon()), -EIO);
	assert_int_equal(stops, 3);
	waiting->ln->lock.lock();
	waiting->ln->ch->ops = real_ops;
	waiting->ln->lock.unlock();
	stream_destroy(waiting);
	stream_destroy(failing);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(kind_by_size),
		cmocka_unit_test(budget_follows_the_history),
		cmocka_unit_test(fast_copies_spin),
		cmocka_unit_test(slow_copies_sleep),
		cmocka_unit_test(fixed_modes),
		cmocka_unit_test(cpu_of_the_engine),
		cmocka_unit_test(interrupts_are_coalesced),
		cmocka_unit_test(spinning_thread_arms_again),
		cmocka_unit_test(no_interrupt_is_coalesced),
		cmocka_unit_test(a_failed_stop_is_repeated),
	};

	setenv("USDMA_CONFIG", "/dev/null", 1);
	setenv("USDMA_DEVICES", devices, 1);
	setenv("USDMA_SPIN_US", std::to_string(budget / ns_per_us).c_str(), 1);
	setenv("USDMA_TEST_COALESCE_COUNT", "16", 1);
	setenv("USDMA_TEST_COALESCE_US", "65535", 1);
	for (const char *name : {"USDMA_WAIT", "USDMA_TEST_IO_URING"})
		unsetenv(name);
	return cmocka_run_group_tests_name("wait", tests, nullptr, nullptr);
}
