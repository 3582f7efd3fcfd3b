/* SPDX-License-Identifier: BSD-3-Clause */
/* The interrupt of a hardware queue in a ring of the program, over a channel whose interrupts the test raises. */
#include "driver/base/eventfd.h"
#include "lib/core/copy/copy.h"
#include "lib/core/queue/ring_signal.h"
#include "lib/core/stream/ring.h"
#include "lib/core/stream/task.h"
#include "tests/support/core.h"
#include "tests/support/preempt.h"
#include "tests/unit/core/fake_engine.h"

#include <semaphore>
#include <thread>

using namespace usdma;
using namespace usdma::core;
using namespace usdma::test;

static int device_fd;
static u64 armed;

/* Requests are posted, and completed with or without the interrupt. */
struct rig : fake {
	hw_queue *l;
	u64 count = 0;

	rig() : fake(0, 0)
	{
		device_fd = eventfd_make_for_ring();
		armed = ring_signal::nothing;
		ops.completion_fd = [](dma::channel *c) { return c->irq_fd[dma::irq_completion] = device_fd; };
		ops.arm = [](dma::channel *, unsigned slot, u64 seq) {
			if (slot == dma::irq_completion)
				armed = seq;
		};
		ops.withdraw = [](dma::channel *, u64 seq) {
			return std::exchange(armed, ring_signal::nothing) == seq;
		};
		l = dev.hw_queues[1].get();
		dev.opening = 1;
		l->monitored = true; /* by the test */
		signal_prepare(l);
	}
	~rig()
	{
		signal_close(l);
		close(device_fd);
	}
	/* As the device does. */
	void interrupt()
	{
		armed = ring_signal::nothing;
		assert_true(eventfd_signal(device_fd));
	}
	bool signalled() const { return eventfd_ready(device_fd, POLLIN); }
	signalling arm(u64 seq, ring_signal **out)
	{
		std::lock_guard guard(l->lock);

		return signal_arm(l, seq, &count, out);
	}
	void rearm()
	{
		std::lock_guard guard(l->lock);

		signal_rearm(l);
	}
	/* Until the check has found that the signal is late. */
	void check()
	{
		while (signal_check(l) == signal_state::late)
			std::this_thread::yield();
	}
	ring_signal *hold()
	{
		std::lock_guard guard(l->lock);

		return signal_hold(l);
	}
};

static void a_completion(void **)
{
	rig r;
	ring_signal *s = nullptr, *other = nullptr;

	r.post(2);
	assert_true(r.arm(2, &s) == signalling::armed);
	assert_int_equal(armed, 2);
	assert_true(r.arm(2, &other) == signalling::none);
	assert_false(signal_end(s));
	r.complete();
	r.interrupt();
	assert_true(signal_end(s));
	assert_true(r.arm(2, &s) == signalling::done);
	r.post(1);
	assert_true(r.arm(3, &s) == signalling::armed);
	/* The ring's read took it. */
	r.complete();
	r.interrupt();
	eventfd_clear(device_fd);
	store_release(&r.count, u64(1));
	assert_true(signal_end(s));
}

/* One that is lost is replaced, and has to come before the next use. */
static void a_lost_interrupt(void **)
{
	rig r;
	ring_signal *s = nullptr;

	r.post(1);
	assert_true(r.arm(1, &s) == signalling::armed);
	r.complete();
	r.check();
	assert_true(signal_end(s));
	r.post(1);
	assert_true(r.arm(2, &s) == signalling::none);
	r.interrupt();
	assert_true(r.arm(2, &s) == signalling::armed);
	r.complete();
	r.interrupt();
	assert_true(signal_end(s));
}

/* After a reset the device owes nothing, and raises what it was to raise. */
static void a_reset(void **)
{
	rig r;
	ring_signal *s = nullptr;

	r.post(1);
	assert_true(r.arm(1, &s) == signalling::armed);
	r.complete();
	r.check();
	assert_true(signal_end(s));
	r.rearm();
	r.post(1);
	assert_true(r.arm(2, &s) == signalling::armed);
	armed = ring_signal::nothing;
	r.rearm();
	assert_int_equal(armed, 2);
	r.complete();
	armed = ring_signal::nothing;
	/* It has completed without the interrupt. */
	r.ops.withdraw = [](dma::channel *, u64) { return true; };
	r.rearm();
	assert_true(signal_end(s));
	r.post(1);
	assert_true(r.arm(3, &s) == signalling::armed);
	r.complete();
	r.interrupt();
	/* It came before the reset. */
	r.rearm();
	assert_int_equal(armed, ring_signal::nothing);
	assert_true(signal_end(s));
	r.post(1);
	assert_true(r.arm(4, &s) == signalling::armed);
	r.complete();
	r.interrupt();
	assert_true(signal_end(s));
}

static void a_reset_of_a_set(void **)
{
	rig r;
	ring_signal *const s = r.hold();

	r.post(1);
	assert_true(signal_next(r.l, s, 1) == signalling::armed);
	armed = ring_signal::nothing;
	r.rearm();
	assert_int_equal(armed, 1);
	assert_true(r.signalled());
	/* That signal is the library's: the device's is still to come. */
	assert_true(signal_next(r.l, s, 1) == signalling::later);
	r.interrupt();
	r.complete();
	assert_true(signal_next(r.l, s, 1) == signalling::done);
	r.post(1);
	assert_true(signal_next(r.l, s, 2) == signalling::armed);
	r.complete();
	r.interrupt();
	signal_nothing(s);
	signal_release(s);
	r.post(1);
	ring_signal *next = nullptr;
	assert_true(r.arm(3, &next) == signalling::armed);
	r.complete();
	r.interrupt();
	assert_true(signal_end(next));
}

/* A signal of the library's before the number has completed says nothing about that of the device. */
static void a_lost_interrupt_of_a_set(void **)
{
	rig r;
	ring_signal *const s = r.hold();

	r.post(1);
	assert_true(signal_next(r.l, s, 1) == signalling::armed);
	signal_raise(s);
	/* The program has read it, and waits for the next one. */
	assert_int_equal(eventfd_clear(device_fd), 1);
	r.complete();
	r.check();
	assert_true(r.signalled());
	r.interrupt();
	signal_nothing(s);
	signal_release(s);
}

struct set_rig : rig {
	set_signals set;

	set_rig()
	{
		set.by_device = hold();
		set.dev = &dev;
		set.ln = l;
		set.opening = dev.opening;
	}
	~set_rig() { signal_release(set.by_device); }
};

/* What consumes the signal of a delivery lets the next one signal. */
static void a_consumed_notice(void **)
{
	set_rig r;

	set_notify(&r.set);
	assert_true(r.signalled());
	set_notify(&r.set);
	set_await_nothing(&r.set);
	assert_false(r.signalled());
	set_notify(&r.set);
	assert_true(r.signalled());
	r.post(1);
	assert_true(set_await(&r.set, 1) == signalling::armed);
	assert_false(r.signalled());
	set_notify(&r.set);
	assert_true(r.signalled());
	r.complete();
	r.interrupt();
	set_await_nothing(&r.set);
	assert_false(r.signalled());
}

/* The first completion arms while the check finds that the queue has none. */
static void the_first_is_monitored(void **)
{
	rig r;
	std::atomic<bool> ended{false};
	ring_signal *s = nullptr;

	r.post(1);
	r.l->lock.lock();
	std::thread checks([&] {
		signal_check(r.l);
		ended = true;
	});
	/* It may have to wait for the lock. */
	for (unsigned i = 0; i < 1000 && !ended; i++)
		poll_pause(i);
	assert_true(signal_arm(r.l, 1, &r.count, &s) == signalling::armed);
	r.l->lock.unlock();
	checks.join();
	assert_true(r.l->monitored);
	r.complete();
	r.interrupt();
	assert_true(signal_end(s));
}

/* ---- a real device ------------------------------------------------------------------------------------ */

/* The last lock by which a queue becomes monitored: that of the list. */
static const void *lock_of_monitored(hw_queue *l)
{
	const void *last = nullptr;
	const lock_hooks hooks = {[&](const void *m) { last = m; }, {}};

	hook_locks(&hooks);
	const int err = monitor_add(l);
	hook_locks(nullptr);
	/* The progress thread may have begun to sleep before. */
	progress_kick();
	assert_int_equal(err, 0);
	return last;
}

/* A thread that awaits a set's mark has the queue monitored after the close has removed it. */
static void none_is_monitored_after_the_close(void **)
{
	std::binary_semaphore is_there(0), go_on(0);
	set_signals set;
	set_entry e;
	device *dev;
	stream *s;
	void *word;

	ok(device_get(0, &dev));
	ok(stream_create(dev, {}, &s));
	ok(host_alloc(64, -1, &word, dev));
	memset(word, 0, 64);
	ok(set_signals_open(s, &set));
	assert_non_null(set.by_device);
	const void *const list = lock_of_monitored(s->ln);
	ok(wait_value_async(s, word, dma::compare::eq, 1));
	ok(set_mark(s, &set, &e));
	/* It is not used, as the mark is not awaited. */
	for (unsigned i = 0; monitor_any(); i++)
		poll_pause(i);
	std::thread other([&] {
		const lock_hooks hooks = {[&](const void *m) {
						  if (m != list)
							  return;
						  is_there.release();
						  go_on.acquire();
					  },
					  {}};

		hook_locks(&hooks);
		set_await(&set, e.mark.seq);
		hook_locks(nullptr);
	});
	is_there.acquire();
	bool first = true;
	const lock_hooks hooks = {{}, [&](const void *m) {
					  if (m == list && std::exchange(first, false))
						  go_on.release();
				  }};
	hook_locks(&hooks);
	device_put(dev);
	hook_locks(nullptr);
	other.join();
	assert_false(monitor_any());
	assert_int_equal(set_result(&e, nullptr), -ECANCELED);
	set_signals_close(&set);
	ok(host_free(word));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(a_completion),
		cmocka_unit_test(a_lost_interrupt),
		cmocka_unit_test(a_reset),
		cmocka_unit_test(a_reset_of_a_set),
		cmocka_unit_test(a_lost_interrupt_of_a_set),
		cmocka_unit_test(a_consumed_notice),
		cmocka_unit_test(the_first_is_monitored),
		cmocka_unit_test(none_is_monitored_after_the_close),
	};

	setenv("USDMA_CONFIG", "/dev/null", 1);
	setenv("USDMA_DEVICES", "sim:mem=1M:engines=1:channels=4", 1);
	return cmocka_run_group_tests_name("ring-signal", tests, nullptr, nullptr);
}
