/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device is closed in the middle of other calls: what they counted as submitted is made, those that wait for work
 * which only the close drops return, and other devices can be opened meanwhile.
 */
#include "tests/integration/faults.h"
#include "tests/support/preempt.h"
#include "tests/support/until.h"

#include <atomic>
#include <csignal>
#include <fstream>
#include <functional>
#include <semaphore>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>

using namespace usdma::test;

/* ---- a call in progress ------------------------------------------------------------------------------- */

static constexpr size_t each = 1 << 20;
/* On the first page of the items, and on the second, which the call reaches when the test allows it. */
static constexpr size_t n_early = 4096 / sizeof(usdma_copy_item), n_late = 24, n_items = n_early + n_late;

static std::binary_semaphore is_there{0}, go_on{0};
static void *late_page;

/* In the thread that copies, when it reads the second page. */
static void on_fault(int, siginfo_t *, void *)
{
	is_there.release();
	go_on.acquire();
	if (mprotect(late_page, 4096, PROT_READ | PROT_WRITE))
		abort();
}

static void take_faults()
{
	struct sigaction act = {};

	act.sa_sigaction = on_fault;
	act.sa_flags = SA_SIGINFO;
	assert_int_equal(sigaction(SIGSEGV, &act, nullptr), 0);
}

/* A batch of copies that stops before the late items until end(). */
struct paused_batch {
	usdma_stream *s = nullptr;
	block src, early, late;
	usdma_copy_item *items;
	size_t done = 0;
	int result = 1;
	std::thread caller;

	explicit paused_batch(usdma_device *dev)
		: src(dev, kind::pinned, each), early(dev, kind::pinned, n_early * 64),
		  late(dev, kind::pinned, n_late * each)
	{
		items = static_cast<usdma_copy_item *>(
			mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		assert_ptr_not_equal(items, MAP_FAILED);
		memset(src.data(), 0x5a, each);
		memset(early.data(), 0, early.size());
		memset(late.data(), 0, late.size());
		for (size_t i = 0; i < n_early; i++)
			items[i] = {early.data() + i * 64, src.data() + i % 2 * 64, 64};
		for (size_t i = 0; i < n_late; i++)
			items[n_early + i] = {late.data() + i * each, src.data(), each};
		take_faults();
		late_page = reinterpret_cast<char *>(items) + 4096;
		assert_int_equal(mprotect(late_page, 4096, PROT_NONE), 0);
		WORKS(usdma_stream_create(dev, nullptr, &s));
		caller = std::thread([this] { result = usdma_copy_batch(s, items, n_items, &done); });
		is_there.acquire();
	}
	~paused_batch() { munmap(items, 8192); }
	void end()
	{
		go_on.release();
		caller.join();
	}
	/* *done is exact. */
	void is_made() const
	{
		for (size_t i = 0; i < done; i++)
			assert_true(all_are(static_cast<unsigned char *>(items[i].dst), items[i].len, 0x5a));
		assert_true(result == 0 ? done == n_items : result == -EBADF);
	}
};

/* The handle is invalid from the start of the close. */
static void until_closing(usdma_device *dev)
{
	until("the device closes", [=] { return usdma_device_sync(dev, 0) == -EBADF; });
}

static void copies_of_a_call_in_progress_are_made(void **)
{
	usdma_device *dev;

	WORKS(usdma_open_index(0, &dev));
	{
		paused_batch b(dev);
		std::atomic<bool> closed{false};
		std::thread closer([&] {
			WORKS(usdma_close(dev));
			closed = true;
		});

		until_closing(dev);
		/* Opening another device does not wait for the close. */
		{
			device other(1);
			assert_false(closed);
		}
		b.end();
		closer.join();
		b.is_made();
	}
}

static void copies_during_a_destroy_are_made(void **)
{
	device dev;
	paused_batch b(dev);
	std::thread destroyer([&] { WORKS(usdma_stream_destroy(b.s)); });

	until("the stream is destroyed", [&] { return usdma_stream_query(b.s) == -EBADF; });
	b.end();
	destroyer.join();
	b.is_made();
}

/* A call in the middle of which its stream gets a gate, which the close drops: nothing that follows may run. */
static void nothing_passes_a_dropped_gate(void **)
{
	device other(1);
	stream never(other);
	gate g(other);
	event e(other);
	usdma_device *dev;

	g.close(never);
	WORKS(usdma_event_record(e, never));
	WORKS(usdma_open_index(0, &dev));
	{
		paused_batch b(dev);
		WORKS(usdma_stream_wait_event(b.s, e));
		std::thread closer([&] { WORKS(usdma_close(dev)); });

		until("the stream is invalid", [&] { return usdma_stream_query(b.s) == -EBADF; });
		b.end();
		closer.join();
		b.is_made();
		assert_int_equal(b.result, -EBADF);
		assert_true(all_are(b.late.data(), b.late.size(), 0));
	}
	g.open();
}

/* ---- a destroyer beside the close ----------------------------------------------------------------------- */

/* The first lock that a destroy takes: the one under which it invalidates the handle. */
static const void *lock_of_handles(usdma_device *dev)
{
	const void *first = nullptr;
	const lock_hooks hooks = {[&](const void *m) { first = first ? first : m; }, {}};
	usdma_stream *s;

	WORKS(usdma_stream_create(dev, nullptr, &s));
	hook_locks(&hooks);
	const int err = usdma_stream_destroy(s);
	hook_locks(nullptr);
	assert_int_equal(err, 0);
	return first;
}

/* Stops when the handle is invalid, in the middle of the destroy. */
static void destroy_in_two_steps(usdma_stream *s, int *result)
{
	bool first = true;
	const lock_hooks hooks = {{}, [&](const void *) {
					  if (std::exchange(first, false)) {
						  is_there.release();
						  go_on.acquire();
					  }
				  }};

	hook_locks(&hooks);
	*result = usdma_stream_destroy(s);
	hook_locks(nullptr);
}

/*
 * A thread invalidates the handle of a stream after the close has waited for calls in progress, and before it takes
 * the streams. The close comes to the lock of handles again, as it waits for that thread, which goes on only then.
 */
static void close_waits_for_a_late_destroyer(void **)
{
	usdma_device *dev;
	usdma_stream *s;
	int result = 1, times = 0;
	std::thread destroyer;

	WORKS(usdma_open_index(0, &dev));
	const void *const handles = lock_of_handles(dev);
	WORKS(usdma_stream_create(dev, nullptr, &s));
	const lock_hooks hooks = {[&](const void *m) {
					  if (m != handles)
						  return;
					  if (++times == 1) {
						  destroyer = std::thread(destroy_in_two_steps, s, &result);
						  is_there.acquire();
					  } else if (times == 2) {
						  go_on.release();
					  }
				  },
				  {}};
	hook_locks(&hooks);
	const int err = usdma_close(dev);
	hook_locks(nullptr);
	/* Else the destroyer is still there, with what the close has freed. */
	if (times == 1)
		destroyer.detach();
	assert_true(times >= 2);
	destroyer.join();
	assert_int_equal(err, 0);
	assert_int_equal(result, 0);
}

/* ---- calls that wait for what only the close drops ------------------------------------------------------ */

static bool sleeps(pid_t thread)
{
	std::ifstream in("/proc/self/task/" + std::to_string(thread) + "/stat");
	std::string line;

	std::getline(in, line);
	const size_t at = line.rfind(')');
	return at != line.npos && line.substr(at, 4).find('S') != line.npos;
}

struct waiting {
	usdma_device *dev;
	usdma_stream *s;
	unsigned char *host, *mem;
};

using waiting_call = std::function<int(const waiting &)>;

static const std::pair<const char *, waiting_call> waiting_calls[] = {
	{"usdma_stream_destroy", [](const waiting &w) { return usdma_stream_destroy(w.s); }},
	{"usdma_device_sync", [](const waiting &w) { return usdma_device_sync(w.dev, -1); }},
	{"usdma_stream_sync", [](const waiting &w) { return usdma_stream_sync(w.s, -1); }},
	{"usdma_copy",
	 [](const waiting &w) {
		 char plain[64] = {};

		 return usdma_copy(w.s, w.mem, plain, sizeof(plain));
	 }},
};

static void close_during(const char *name, const waiting_call &call, bool in_ring)
{
	waiting w = {};
	void *p;
	std::atomic<pid_t> tid{0};
	int result = 1;

	WORKS(usdma_open_index(0, &w.dev));
	WORKS(usdma_stream_create(w.dev, nullptr, &w.s));
	block host(w.dev, kind::pinned, 64);
	WORKS(usdma_device_alloc(w.dev, 4096, &p));
	w.host = host.data();
	w.mem = static_cast<unsigned char *>(p);
	memset(w.host, 0, 64);
	WORKS(usdma_fill_sync(w.dev, w.mem, 0, 8, 4096, long_ms));
	WORKS(usdma_wait_value(w.s, in_ring ? w.mem : w.host, USDMA_EQ, 1));
	std::thread caller([&] {
		tid = gettid();
		result = call(w);
	});
	until("the call waits", [&] { return tid && sleeps(tid); });
	WORKS(usdma_close(w.dev));
	caller.join();
	/* Before the call began, if it was slow. */
	if (result != -EBADF)
		print_error("%s: %d\n", name, result);
	assert_int_equal(result, -EBADF);
}

static void close_wakes_waits(void **)
{
	for (const bool in_ring : {false, true})
		for (const auto &[name, call] : waiting_calls)
			close_during(name, call, in_ring);
}

/* ---- errors and times --------------------------------------------------------------------------------- */

static void close_reports_failures(void **)
{
	usdma_device *dev;
	usdma_stream *s;

	for (const bool reported : {false, true}) {
		WORKS(usdma_open_index(0, &dev));
		{
			block host(dev, kind::pinned, 4096);

			WORKS(usdma_stream_create(dev, nullptr, &s));
			set_faults(dev, 0, "fail%1");
			WORKS(usdma_copy(s, host.data(), host.data() + 2048, 2048));
			until("the copy fails", [=] { return WORKS(usdma_stream_query(s)) == 1; });
			set_faults(dev, 0, "");
			if (reported)
				assert_int_equal(usdma_stream_sync(s, long_ms), -EIO);
			assert_int_equal(usdma_close(dev), reported ? 0 : -EIO);
			assert_int_equal(usdma_close(dev), -EBADF);
		}
	}
}

/* A word that has the time of an earlier mark is used again. */
static void use_a_time(usdma_device *dev, usdma_stream *s)
{
	event e(dev, USDMA_EVENT_TIMING);

	WORKS(usdma_event_record(e, s));
	WORKS(usdma_event_sync(e, long_ms));
}

static void dropped_marks_have_no_time(void **)
{
	for (const bool closes : {false, true})
		for (const bool in_ring : {false, true}) {
			device base(1);
			stream on_base(base);
			usdma_device *dev;
			usdma_stream *s;
			void *p;
			int64_t ns;

			WORKS(usdma_open_index(0, &dev));
			WORKS(usdma_stream_create(dev, nullptr, &s));
			WORKS(usdma_device_alloc(dev, 4096, &p));
			WORKS(usdma_fill_sync(dev, p, 0, 8, 4096, long_ms));
			block host(base, kind::pinned, 64);
			memset(host.data(), 0, 64);
			use_a_time(dev, s);
			event first(base, USDMA_EVENT_TIMING), dropped(base, USDMA_EVENT_TIMING);
			WORKS(usdma_event_record(first, s));
			WORKS(usdma_event_sync(first, long_ms));
			WORKS(usdma_wait_value(s, in_ring ? p : host.data(), USDMA_EQ, 1));
			WORKS(usdma_event_record(dropped, s));
			assert_int_equal(usdma_event_elapsed(first, dropped, &ns), -EAGAIN);
			if (!closes)
				WORKS(usdma_stream_abort(s));
			WORKS(usdma_close(dev));
			assert_int_equal(usdma_event_elapsed(first, dropped, &ns), -ECANCELED);
			assert_int_equal(usdma_event_elapsed(dropped, first, &ns), -ECANCELED);
			WORKS(usdma_event_elapsed(first, first, &ns));
		}
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(copies_of_a_call_in_progress_are_made),
		cmocka_unit_test(copies_during_a_destroy_are_made),
		cmocka_unit_test(nothing_passes_a_dropped_gate),
		cmocka_unit_test(close_waits_for_a_late_destroyer),
		cmocka_unit_test(close_wakes_waits),
		cmocka_unit_test(close_reports_failures),
		cmocka_unit_test(dropped_marks_have_no_time),
	};

	return cmocka_run_group_tests_name("closing", tests, nullptr, nullptr);
}
