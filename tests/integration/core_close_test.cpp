/* SPDX-License-Identifier: BSD-3-Clause */
/* A device closes while other threads read the queues; run under sanitizers. */
#include "lib/core/copy/copy.h"
#include "lib/core/stream/event.h"
#include "lib/core/stream/stream.h"
#include "tests/support/core.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>
#include <set>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma;
using namespace usdma::core;
using usdma::test::soon;

static device *dev0;

static stream *new_stream(device *dev)
{
	stream *s;

	ok(stream_create(dev, {}, &s));
	return s;
}

static void no_op(void *, call_token *) {}

/* Closing the device drops a gated stream, while other threads walk the list of gated streams. */
static void close_once(std::vector<int> *fds)
{
	const u64 word = 0;
	device *closing;
	u8 *mem;

	ok(device_get(1, &closing));
	ok(host_alloc(64 * KiB, -1, reinterpret_cast<void **>(&mem)));
	stream *s = new_stream(closing), *t = new_stream(closing);
	ok(copy_async(s, mem, mem + 32 * KiB, 32 * KiB));
	ok(stream_call(s, no_op, nullptr, false));
	ok(stream_wait_word(t, &word, dma::compare::eq, 1, deadline::never()));
	ok(stream_destroy(s));
	ok(stream_destroy_force(t));
	device_put(closing);
	ok(host_free(mem));
	/* These fds reuse the numbers of the device's: no thread may still read the device's. */
	for (int i = 0; i < 16; i++)
		fds->push_back(eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC));
}

/* Each check walks the whole list, which takes a hundred times as long under TSan. */
#if defined(__SANITIZE_THREAD__)
static constexpr size_t gated_streams = 400;
#else
static constexpr size_t gated_streams = 4000;
#endif

static void close_during_checks(void **)
{
	const size_t n = test::sized(gated_streams, 100);
	std::vector<stream *> many;
	std::atomic<bool> stop{false};
	std::atomic<int> seen_done{0};
	std::vector<std::thread> checkers(std::thread::hardware_concurrency() + 2);
	std::vector<int> fds;
	const u64 word = 0;
	u64 count;

	for (size_t i = 0; i < n; i++) {
		many.push_back(new_stream(dev0));
		ok(stream_wait_word(many.back(), &word, dma::compare::eq, 1, deadline::never()));
	}
	/* More threads than cores, so that some are preempted in the middle of a walk. */
	for (std::thread &t : checkers)
		t = std::thread([&] {
			while (!stop)
				seen_done += stream_gated_posted(dev0) >= stream_gated_last();
		});
	for (int i = 0; i < 2; i++)
		close_once(&fds);
	stop = true;
	for (std::thread &t : checkers)
		t.join();
	assert_int_equal(seen_done, 0);
	for (stream *s : many)
		ok(stream_destroy_force(s));
	for (const int fd : fds) {
		assert_int_equal(read(fd, &count, sizeof(count)), sizeof(count));
		close(fd);
	}
}

/* Streams are created and destroyed during device_sync: no stream object is in use twice. */
static void destroy_while_synchronised(void **)
{
	constexpr int makers = 3;
	std::atomic<bool> stop{false};
	std::atomic<int> twice{0}, failed{0};
	std::mutex lock;
	std::set<stream *> live;
	std::vector<std::thread> all;

	for (int i = 0; i < makers; i++)
		all.emplace_back([&] {
			for (stream *s; !stop;) {
				failed += stream_create(dev0, {}, &s) != 0;
				{
					std::lock_guard guard(lock);
					twice += !live.insert(s).second;
				}
				{
					std::lock_guard guard(lock);
					live.erase(s);
				}
				failed += stream_destroy(s) != 0;
			}
		});
	for (u64 i = 0; i < test::sized(2000, 50); i++)
		ok(device_sync(dev0, soon()));
	stop = true;
	for (std::thread &t : all)
		t.join();
	assert_int_equal(failed, 0);
	assert_int_equal(twice, 0);
	assert_int_equal(stream_live(), 0);
}

/*
 * A stream waits for an event record of a device that closes before the wait begins; by then the event
 * has been recorded again, or destroyed.
 */
static void record_of_closed_device(void **)
{
	for (const bool destroyed : {false, true}) {
		const u64 n = test::sized(32 * MiB, 64 * KiB);
		u64 word = 0;
		device *closing;
		event *e;
		u8 *mem;

		ok(device_get(1, &closing));
		ok(host_alloc(n, -1, reinterpret_cast<void **>(&mem)));
		stream *before = new_stream(closing), *s = new_stream(dev0), *other = new_stream(dev0);
		ok(event_create(dev0, 0, &e));
		ok(stream_wait_word(s, &word, dma::compare::eq, 1, deadline::never()));
		ok(copy_async(before, mem, mem + n / 2, n / 2));
		ok(event_record(e, before));
		ok(stream_wait_event(s, e, deadline::never()));
		ok(copy_async(s, mem, mem + n / 2, 64));
		ok(destroyed ? event_destroy(e) : event_record(e, other));
		ok(stream_destroy(before));
		device_put(closing);
		__atomic_store_n(&word, 1, __ATOMIC_RELEASE);
		ok(stream_sync(s, soon()));
		ok(stream_destroy(s));
		ok(stream_destroy(other));
		if (!destroyed)
			ok(event_destroy(e));
		ok(host_free(mem));
	}
}

static stream *reference_to(stream *s)
{
	size_t at = 0;

	return stream_next(
		&at, [](const stream *it, const void *arg) { return it == arg; }, s);
}

/* Overwrites the freed memory of a call group, so that a use after free reads 0x7f. */
static void overwrite_freed(std::vector<void *> *taken)
{
	constexpr size_t size = 12, n = 64;

	for (size_t i = 0; i < n; i++)
		memset(taken->emplace_back(malloc(size)), 0x7f, size);
}

/* An abort of all streams references one that is destroyed meanwhile, then drops and waits for its functions. */
static void functions_of_ended_stream(void **)
{
	for (const bool has_functions : {true, false}) {
		stream *s = new_stream(dev0);
		std::vector<void *> taken;

		if (has_functions)
			call_group_unref(call_group_of(s));
		assert_ptr_equal(reference_to(s), s);
		ok(stream_destroy(s));
		overwrite_freed(&taken);
		call_group_drop(s);
		ok(call_group_wait(s, deadline::in_ms(0)));
		stream_unref(s);
		for (void *p : taken)
			free(p);
	}
	assert_int_equal(stream_live(), 0);
}

static void host_no_op(void *) {}

/* Streams are destroyed with their work before the progress thread has checked them. */
static void destroy_before_progress(bool blocks)
{
	std::atomic<bool> stop{false};
	std::atomic<int> failed{0};
	std::vector<std::thread> all;

	for (int i = 0; i < 3; i++)
		all.emplace_back([&] {
			for (stream *s; !stop;) {
				if (stream_create(dev0, {}, &s)) {
					failed++;
					break;
				}
				const int err = stream_host_func(s, host_no_op, nullptr, blocks);
				failed += err && err != -ECANCELED;
				failed += stream_destroy_force(s) != 0;
			}
		});
	for (u64 i = 0; i < test::sized(800, 50); i++)
		ok(device_abort(dev0, soon()));
	stop = true;
	for (std::thread &t : all)
		t.join();
	assert_int_equal(failed, 0);
}

/* The same with real threads; run under sanitizers. */
static void destroy_while_aborted(void **)
{
	const u64 end = now_ns() + 10 * ns_per_s;

	destroy_before_progress(true);
	destroy_before_progress(false);
	/* The progress thread holds a reference while it checks a stream. */
	while (stream_live() && now_ns() < end)
		sched_yield();
	assert_int_equal(stream_live(), 0);
}

static int open_first(void **)
{
	return device_get(0, &dev0);
}

static int close_it(void **)
{
	device_put(dev0);
	return 0;
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(close_during_checks),        cmocka_unit_test(record_of_closed_device),
		cmocka_unit_test(destroy_while_synchronised), cmocka_unit_test(functions_of_ended_stream),
		cmocka_unit_test(destroy_while_aborted),
	};

	return cmocka_run_group_tests_name("core close", tests, open_first, close_it);
}
