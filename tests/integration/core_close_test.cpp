/* SPDX-License-Identifier: BSD-3-Clause */
/* A device closes while other threads look at what is queued: for a sanitizer to watch. */
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

static device *stays;

static stream *new_stream(device *dev)
{
	stream *s;

	ok(stream_create(dev, {}, &s));
	return s;
}

static void nothing(void *, call_token *) {}

/* A gated stream is dropped with its device, while the list of the gated ones is walked. */
static void close_once(std::vector<int> *fds)
{
	const u64 word = 0;
	device *goes;
	u8 *mem;

	ok(device_get(1, &goes));
	ok(host_alloc(64 * KiB, -1, reinterpret_cast<void **>(&mem)));
	stream *s = new_stream(goes), *t = new_stream(goes);
	ok(copy_async(s, mem, mem + 32 * KiB, 32 * KiB));
	ok(stream_call(s, nothing, nullptr, false));
	ok(stream_wait_word(t, &word, dma::compare::eq, 1, deadline::never()));
	ok(stream_destroy(s));
	ok(stream_destroy_force(t));
	device_put(goes);
	ok(host_free(mem));
	/* Their numbers were the device's: nobody may still read from them. */
	for (int i = 0; i < 16; i++)
		fds->push_back(eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC));
}

/* Each look walks along all of them, which the race checker makes a hundred times as long. */
#if defined(__SANITIZE_THREAD__)
static constexpr size_t gated_streams = 400;
#else
static constexpr size_t gated_streams = 4000;
#endif

static void close_while_looked_at(void **)
{
	const size_t n = test::sized(gated_streams, 100);
	std::vector<stream *> many;
	std::atomic<bool> stop{false};
	std::atomic<int> seen_done{0};
	std::vector<std::thread> lookers(std::thread::hardware_concurrency() + 2);
	std::vector<int> fds;
	const u64 word = 0;
	u64 count;

	for (size_t i = 0; i < n; i++) {
		many.push_back(new_stream(stays));
		ok(stream_wait_word(many.back(), &word, dma::compare::eq, 1, deadline::never()));
	}
	/* More of them than cores: one that is not running is in the middle of its walk for long. */
	for (std::thread &t : lookers)
		t = std::thread([&] {
			while (!stop)
				seen_done += stream_gated_work().all_posted();
		});
	for (int i = 0; i < 2; i++)
		close_once(&fds);
	stop = true;
	for (std::thread &t : lookers)
		t.join();
	assert_int_equal(seen_done, 0);
	for (stream *s : many)
		ok(stream_destroy_force(s));
	for (const int fd : fds) {
		assert_int_equal(read(fd, &count, sizeof(count)), sizeof(count));
		close(fd);
	}
}

/* Streams come and go while others wait for all of the device's: none is given out twice. */
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
				failed += stream_create(stays, {}, &s) != 0;
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
		ok(device_sync(stays, soon()));
	stop = true;
	for (std::thread &t : all)
		t.join();
	assert_int_equal(failed, 0);
	assert_int_equal(twice, 0);
	assert_int_equal(stream_live(), 0);
}

/*
 * A stream is yet to wait for a record of a device that closes meanwhile, and the event has another
 * record by then, or is destroyed.
 */
static void record_of_closed_device(void **)
{
	for (const bool destroyed : {false, true}) {
		const u64 n = test::sized(32 * MiB, 64 * KiB);
		u64 word = 0;
		device *goes;
		event *e;
		u8 *mem;

		ok(device_get(1, &goes));
		ok(host_alloc(n, -1, reinterpret_cast<void **>(&mem)));
		stream *there = new_stream(goes), *s = new_stream(stays), *other = new_stream(stays);
		ok(event_create(stays, 0, &e));
		ok(stream_wait_word(s, &word, dma::compare::eq, 1, deadline::never()));
		ok(copy_async(there, mem, mem + n / 2, n / 2));
		ok(event_record(e, there));
		ok(stream_wait_event(s, e, deadline::never()));
		ok(copy_async(s, mem, mem + n / 2, 64));
		ok(destroyed ? event_destroy(e) : event_record(e, other));
		ok(stream_destroy(there));
		device_put(goes);
		__atomic_store_n(&word, 1, __ATOMIC_RELEASE);
		ok(stream_sync(s, soon()));
		ok(stream_destroy(s));
		ok(stream_destroy(other));
		if (!destroyed)
			ok(event_destroy(e));
		ok(host_free(mem));
	}
}

static stream *held(stream *s)
{
	size_t at = 0;

	return stream_next(
		&at, [](const stream *it, const void *arg) { return it == arg; }, s);
}

/* Whatever looks at freed memory of a group of functions sees this instead. */
static void use_again(std::vector<void *> *taken)
{
	constexpr size_t size = 12, n = 64;

	for (size_t i = 0; i < n; i++)
		memset(taken->emplace_back(malloc(size)), 0x7f, size);
}

/* Who aborts all streams of a device holds one that is destroyed meanwhile, and still asks for its functions. */
static void functions_of_ended_stream(void **)
{
	for (const bool has_functions : {true, false}) {
		stream *s = new_stream(stays);
		std::vector<void *> taken;

		if (has_functions)
			call_group_unref(call_group_of(s));
		assert_ptr_equal(held(s), s);
		ok(stream_destroy(s));
		use_again(&taken);
		call_group_drop(s);
		ok(call_group_wait(s, deadline::in_ms(0)));
		stream_unref(s);
		for (void *p : taken)
			free(p);
	}
	assert_int_equal(stream_live(), 0);
}

static void nothing_to_do(void *) {}

/* Streams whose work is dropped come and go faster than the progress thread looks at them. */
static void ends_before_it_is_looked_at(bool blocks)
{
	std::atomic<bool> stop{false};
	std::atomic<int> failed{0};
	std::vector<std::thread> all;

	for (int i = 0; i < 3; i++)
		all.emplace_back([&] {
			for (stream *s; !stop;) {
				if (stream_create(stays, {}, &s)) {
					failed++;
					break;
				}
				const int err = stream_host_func(s, nothing_to_do, nullptr, blocks);
				failed += err && err != -ECANCELED;
				failed += stream_destroy_force(s) != 0;
			}
		});
	for (u64 i = 0; i < test::sized(800, 50); i++)
		ok(device_abort(stays, soon()));
	stop = true;
	for (std::thread &t : all)
		t.join();
	assert_int_equal(failed, 0);
}

/* The same as it happens, for a sanitizer to watch. */
static void destroy_while_aborted(void **)
{
	const u64 end = now_ns() + 10 * ns_per_s;

	ends_before_it_is_looked_at(true);
	ends_before_it_is_looked_at(false);
	/* The progress thread's look holds a reference. */
	while (stream_live() && now_ns() < end)
		sched_yield();
	assert_int_equal(stream_live(), 0);
}

static int open_first(void **)
{
	return device_get(0, &stays);
}

static int close_it(void **)
{
	device_put(stays);
	return 0;
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(close_while_looked_at),      cmocka_unit_test(record_of_closed_device),
		cmocka_unit_test(destroy_while_synchronised), cmocka_unit_test(functions_of_ended_stream),
		cmocka_unit_test(destroy_while_aborted),
	};

	return cmocka_run_group_tests_name("core close", tests, open_first, close_it);
}
