/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams, events, gates and calls of lib/core over a real device (USDMA_DEVICES). */
#include "lib/core/copy/copy.h"
#include "lib/core/stream/event.h"
#include "lib/core/stream/stream.h"
#include "tests/support/core.h"
#include "tests/support/far.h"

#include <atomic>
#include <cstring>
#include <malloc.h>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma;
using namespace usdma::core;
using usdma::test::by_messages;
using usdma::test::soon;

static device *dev;

struct buffers {
	u64 size;
	u8 *a, *b;
	u64 d;

	explicit buffers(u64 n) : size(n)
	{
		ok(host_alloc(n, -1, reinterpret_cast<void **>(&a)));
		ok(host_alloc(n, -1, reinterpret_cast<void **>(&b)));
		ok(device_alloc(dev, n, page_policy::huge_first, &d));
	}
	~buffers()
	{
		ok(host_free(a));
		ok(host_free(b));
		ok(device_free(d));
	}
	void *device() const { return reinterpret_cast<void *>(d); }
};

static stream *new_stream()
{
	stream *s;

	ok(stream_create(dev, {}, &s));
	return s;
}

/* A wait for a host word blocks its stream only. */
static void word_gate(void **)
{
	buffers m(4096);
	stream *held = new_stream(), *free_one = new_stream();
	u64 word = 0;

	memset(m.a, 1, m.size);
	memset(m.b, 0, m.size);
	ok(stream_wait_word(held, &word, dma::compare::eq, 7, deadline::never()));
	ok(copy_async(held, m.b, m.a, m.size / 2));
	ok(copy_async(free_one, m.device(), m.a, m.size));
	ok(stream_sync(free_one, soon()));
	assert_int_equal(stream_query(held), 1);
	assert_int_equal(m.b[0], 0);
	assert_int_equal(stream_sync(held, deadline::in_ms(1)), -ETIMEDOUT);
	__atomic_store_n(&word, 7, __ATOMIC_RELEASE);
	ok(stream_sync(held, soon()));
	assert_int_equal(m.b[0], 1);
	assert_int_equal(m.b[m.size / 2], 0);
	ok(stream_destroy(held));
	ok(stream_destroy(free_one));
}

/* Event waits that are executed by the rings, not by the host. */
static void event_ring_waits(void **)
{
	const u64 big = test::sized(by_messages(8 * MiB), 16 * KiB);
	auto gen = test::rng(3);
	buffers m(big);

	for (int round = 0; round < 50; round++) {
		stream *a = new_stream(), *b = new_stream();
		event *e;

		ok(event_create(dev, 0, &e));
		test::fill_random(m.a, 4096, gen);
		memcpy(m.a + big - 4096, m.a, 4096);
		memset(m.b, 0, 4096);
		ok(copy_async(a, m.device(), m.a, big));
		ok(event_record(e, a));
		ok(stream_wait_event(b, e, deadline::never()));
		ok(copy_async(b, m.b, reinterpret_cast<void *>(m.d + big - 4096), 4096));
		ok(stream_sync(b, soon()));
		assert_memory_equal(m.b, m.a, 4096);
		ok(stream_destroy(a));
		ok(stream_destroy(b));
		ok(event_destroy(e));
	}
}

/* Two streams share a ring: a stream that waits for the other's event is not done before it. */
static void event_in_shared_ring(void **)
{
	const u64 big = test::sized(by_messages(16 * MiB), 64 * KiB);
	buffers m(big);
	std::vector<stream *> all;
	stream *a = nullptr, *b = nullptr;
	event *e;

	while (!b) {
		all.push_back(new_stream());
		for (size_t i = 0; i + 1 < all.size() && !b; i++)
			if (all[i]->ln == all.back()->ln) {
				a = all[i];
				b = all.back();
			}
	}
	ok(event_create(dev, 0, &e));
	for (int round = 0; round < 20; round++) {
		u8 word = 0;

		m.a[big - 1] = u8(round + 1);
		ok(copy_async(a, m.device(), m.a, big));
		ok(event_record(e, a));
		ok(stream_wait_event(b, e, deadline::never()));
		/* Pageable memory: the host reads it as soon as b is done. */
		ok(copy_async(b, &word, reinterpret_cast<void *>(m.d + big - 1), 1));
		assert_int_equal(word, round + 1);
		assert_int_equal(event_query(e), int(event_state::done));
	}
	ok(event_destroy(e));
	for (stream *s : all)
		ok(stream_destroy(s));
}

/* A task that timed out is not reported as a timeout of the wait for the event. */
static void event_of_expired_task(void **)
{
	stream *s = new_stream();
	const u64 word = 0;
	event *e;

	ok(event_create(dev, 0, &e));
	assert_int_equal(event_wait(e, soon()), 0);
	ok(stream_wait_word(s, &word, dma::compare::eq, 1, deadline::in_ms(1)));
	ok(event_record(e, s));
	ok(event_wait(e, soon()));
	assert_int_equal(event_see_error(e), -ETIME);
	assert_int_equal(stream_take_error(s, nullptr), -ETIME);
	ok(event_see_error(e));
	ok(stream_wait_word(s, &word, dma::compare::eq, 1, deadline::never()));
	ok(event_record(e, s));
	assert_int_equal(event_wait(e, deadline::in_ms(1)), -ETIMEDOUT);
	ok(event_see_error(e));
	ok(stream_destroy_force(s));
	ok(event_wait(e, soon()));
	ok(event_destroy(e));
}

/* A refused record does not change the event: it is not recorded again, and waits for it do not return. */
static void refused_record(void **)
{
	event *e, *future;
	stream *s = new_stream(), *dead = new_stream(), *waits = new_stream();
	const u64 word = 0;

	ok(event_create(dev, 0, &e));
	ok(event_create(dev, event_wait_future, &future));
	ok(stream_wait_event(waits, future, deadline::never()));
	ok(stream_wait_word(s, &word, dma::compare::eq, 1, deadline::never()));
	ok(event_record(e, s));
	ok(stream_abort(dead));
	assert_int_equal(event_record(e, dead), -ECANCELED);
	assert_int_equal(event_query(e), int(event_state::pending));
	assert_int_equal(event_record(future, dead), -ECANCELED);
	assert_int_equal(event_query(future), int(event_state::never));
	assert_int_equal(stream_query(waits), 1);
	ok(stream_destroy_force(dead));
	ok(stream_destroy_force(s));
	s = new_stream();
	ok(event_record(future, s));
	ok(stream_sync(waits, soon()));
	for (stream *one : {s, waits})
		ok(stream_destroy(one));
	ok(event_destroy(e));
	ok(event_destroy(future));
}

/* The delivered calls, in the order of delivery. */
struct deliveries {
	std::mutex lock;
	std::vector<int> order;
	size_t count()
	{
		std::lock_guard guard(lock);

		return order.size();
	}
};

struct numbered_call {
	deliveries *to;
	int number;
};

static void note_delivery(void *arg, call_token *done)
{
	auto *c = static_cast<numbered_call *>(arg);

	c->to->lock.lock();
	c->to->order.push_back(c->number);
	c->to->lock.unlock();
	call_done(done);
}

static void assert_in_order(deliveries &d, size_t n)
{
	for (const auto until = soon(); d.count() < n && !until.passed();)
		sched_yield();
	assert_int_equal(d.count(), n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(d.order[i], i);
}

/* A stream's calls are delivered in order, whether they block or not. */
static void calls_in_order(void **)
{
	auto gen = test::rng(21);
	buffers m(64 * KiB);
	stream *s = new_stream();
	const int n = int(test::sized(2000, 200));
	std::vector<numbered_call> calls;
	deliveries d;

	for (int i = 0; i < n; i++)
		calls.push_back({&d, i});
	for (int i = 0; i < n; i++) {
		if (gen() % 2)
			ok(copy_async(s, m.device(), m.a, 1 + gen() % m.size));
		ok(stream_call(s, note_delivery, &calls[size_t(i)], i % 3 == 2));
	}
	ok(stream_sync(s, soon()));
	assert_in_order(d, size_t(n));
	ok(stream_destroy(s));
}

/* A wait keeps the later calls in the stream's queue; the progress thread already has the first call. */
static void calls_in_order_when_dropped(void **)
{
	buffers m(test::sized(by_messages(16 * MiB), 1 * MiB));

	for (int round = 0; round < 50; round++) {
		stream *s = new_stream();
		const u64 word = 0;
		deliveries d;
		numbered_call calls[] = {{&d, 0}, {&d, 1}, {&d, 2}, {&d, 3}};

		ok(copy_async(s, m.device(), m.a, m.size));
		ok(stream_call(s, note_delivery, &calls[0], false));
		ok(stream_wait_word(s, &word, dma::compare::eq, 1, deadline::never()));
		for (int i = 1; i < 4; i++)
			ok(stream_call(s, note_delivery, &calls[i], i % 2));
		ok(stream_abort(s));
		assert_in_order(d, 4);
		ok(stream_destroy(s));
	}
}

struct locking_call {
	stream *s;
	std::atomic<int> n{0}, locked{0};
};

static void lock_queue(void *arg, call_token *done)
{
	auto *c = static_cast<locking_call *>(arg);

	if (c->s->ln->lock_until(deadline::in_ms(test::patience_ms(1000)))) {
		c->s->ln->lock.unlock();
		c->locked++;
	}
	call_done(done);
	c->n++;
}

/* A delivery may be a system call, and there may be thousands: other threads use the hardware queue meanwhile. */
static void dropped_calls_are_delivered_without_the_lock(void **)
{
	for (int (*const end)(stream *) :
	     {+[](stream *s) { return stream_abort(s); }, +[](stream *s) { return stream_destroy_force(s); }}) {
		const u64 word = 0;
		locking_call c{new_stream()};
		constexpr int n = 5;

		ok(stream_wait_word(c.s, &word, dma::compare::eq, 1, deadline::never()));
		for (int i = 0; i < n; i++)
			ok(stream_call(c.s, lock_queue, &c, i % 2));
		stream *const s = c.s;
		ok(end(s));
		for (const auto until = soon(); c.n < n && !until.passed();)
			sched_yield();
		assert_int_equal(c.n, n);
		assert_int_equal(c.locked, n);
		if (stream_valid(stream_handle(s)))
			ok(stream_destroy(s));
	}
}

/* Blocking calls free all memory that they allocate.  (With a sanitizer the count is always 0.) */
static void calls_leave_no_memory(void **)
{
	stream *s = new_stream();
	const int n = int(test::sized(4000, 200));
	size_t before = 0;

	for (int turn = 0; turn < 2; turn++) {
		before = mallinfo2().uordblks;
		for (int i = 0; i < n; i++) {
			deliveries d;
			numbered_call c{&d, 0};

			ok(stream_call(s, note_delivery, &c, true));
			ok(stream_sync(s, soon()));
		}
	}
	assert_true(mallinfo2().uordblks < before + size_t(n) * 16);
	ok(stream_destroy(s));
}

static void many_streams(void **)
{
	const size_t n = test::sized(2000, 200);
	buffers m(n * 64);
	std::vector<stream *> s(n);
	auto gen = test::rng(4);

	test::fill_random(m.a, m.size, gen);
	memset(m.b, 0, m.size);
	for (size_t i = 0; i < n; i++) {
		s[i] = new_stream();
		ok(copy_async(s[i], reinterpret_cast<void *>(m.d + i * 64), m.a + i * 64, 64));
		ok(copy_async(s[i], m.b + i * 64, reinterpret_cast<void *>(m.d + i * 64), 64));
	}
	ok(device_sync(dev, soon()));
	assert_memory_equal(m.a, m.b, m.size);
	for (stream *x : s)
		ok(stream_destroy(x));
}

static void full_ring(void **)
{
	const size_t n = test::sized(by_messages(100000), 1000);
	buffers m(4096);
	stream *s = new_stream();

	memset(m.a, 0x11, 4096);
	for (size_t i = 0; i < n; i++)
		ok(copy_async(s, m.device(), m.a, 64));
	ok(copy_async(s, m.b, m.device(), 64));
	ok(stream_sync(s, soon()));
	assert_memory_equal(m.a, m.b, 64);
	ok(stream_destroy(s));
}

/* Several threads submit to one stream, and many wait for it. */
static void shared_stream(void **)
{
	buffers m(64 * 64);
	stream *s = new_stream();
	std::vector<std::thread> all;
	std::atomic<int> bad{0};

	memset(m.a, 0x77, m.size);
	for (size_t t = 0; t < 4; t++)
		all.emplace_back([&, t] {
			for (int i = 0; i < 300; i++) {
				if (copy_async(s, m.b + t * 1024, m.a + t * 1024, 1024))
					bad++;
				if (i % 3 == 0 && stream_sync(s, soon()))
					bad++;
			}
		});
	for (auto &t : all)
		t.join();
	assert_int_equal(bad, 0);
	ok(stream_sync(s, soon()));
	assert_memory_equal(m.a, m.b, 4096);
	ok(stream_destroy(s));
}

static int open_first(void **)
{
	return device_get(0, &dev);
}

static int close_it(void **)
{
	device_put(dev);
	return 0;
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(word_gate),
		cmocka_unit_test(event_ring_waits),
		cmocka_unit_test(event_in_shared_ring),
		cmocka_unit_test(event_of_expired_task),
		cmocka_unit_test(refused_record),
		cmocka_unit_test(calls_in_order),
		cmocka_unit_test(calls_in_order_when_dropped),
		cmocka_unit_test(dropped_calls_are_delivered_without_the_lock),
		cmocka_unit_test(calls_leave_no_memory),
		cmocka_unit_test(many_streams),
		cmocka_unit_test(full_ring),
		cmocka_unit_test(shared_stream),
	};

	return cmocka_run_group_tests_name("core streams", tests, open_first, close_it);
}
