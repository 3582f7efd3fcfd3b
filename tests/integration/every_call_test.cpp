/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes every call of <usdma/usdma.h> and <usdma/uring.h> in a child of fork, while other threads of the parent make
 * calls, and in threads that are being cancelled.
 */
#include "tests/integration/every_call.h"
#include "tests/integration/native.h"
#include "tests/support/sanitizer.h"
#include "tests/support/until.h"
#include "usdma/file.h"
#include "usdma/uring.h"

#include <atomic>
#include <liburing.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <thread>

TEST_LEAKS

TEST_TSAN_SUPPRESSIONS(TEST_RINGS_OF_THREADS)

using namespace usdma::test;

static constexpr size_t size = 1 << 16;

static void nothing(void *) {}

namespace {

/* The objects that the calls use. */
struct world : memory_for_results {
	usdma_device *dev = nullptr;
	usdma_stream *stream = nullptr;
	usdma_event *event = nullptr;
	usdma_completion *completion = nullptr;
	usdma_completion_set *set = nullptr;
	char *mem, *host, *plain, *registered;
	void *mem_to_free, *host_to_free;
	usdma_copy_item item;
	usdma_copy_rect rect;
	usdma_file_item file_item;
	char text[256] = "", key[64] = "";
	usdma_file *file = nullptr;
	int fd, file_fd;

	world()
	{
		WORKS(usdma_open_index(0, &dev));
		WORKS(usdma_stream_create(dev, nullptr, &stream));
		WORKS(usdma_event_create(dev, USDMA_EVENT_TIMING, &event));
		WORKS(usdma_event_record(event, stream));
		WORKS(usdma_completion_create(&completion));
		WORKS(usdma_completion_set_create(stream, &set));
		WORKS(usdma_device_alloc(dev, size, reinterpret_cast<void **>(&mem)));
		WORKS(usdma_device_alloc(dev, size, &mem_to_free));
		WORKS(usdma_host_alloc(dev, size, reinterpret_cast<void **>(&host)));
		WORKS(usdma_host_alloc(dev, size, &host_to_free));
		plain = static_cast<char *>(aligned_alloc(4096, size));
		registered = static_cast<char *>(aligned_alloc(4096, size));
		WORKS(usdma_host_register(registered, size, 0));
		WORKS(usdma_fill_sync(dev, mem, 0, 8, size, long_ms));
		WORKS(usdma_stream_sync(stream, long_ms));
		item = {mem, host, 64};
		rect = {mem, 64, host, 64, 64, 2};
		fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		file_fd = memfd_create("file", MFD_CLOEXEC);
		assert_int_equal(ftruncate(file_fd, size), 0);
		WORKS(usdma_file_import(dev, file_fd, 0, &file));
		file_item = {file, mem, 0, 64, nullptr, nullptr, USDMA_FILE_READ, 0};
	}
	/* A call may have destroyed any of these: errors are ignored. */
	~world()
	{
		usdma_stream_sync(stream, long_ms);
		usdma_stream_destroy(stream);
		usdma_event_destroy(event);
		usdma_completion_finish(completion);
		usdma_completion_destroy(completion);
		usdma_completion_finish_many(set, out<usdma_completed>(), 1);
		usdma_completion_set_destroy(set);
		usdma_device_free(mem);
		usdma_host_free(host);
		usdma_host_unregister(registered);
		usdma_host_unregister(plain);
		free(plain);
		free(registered);
		usdma_file_close(file);
		close(file_fd);
		close(fd);
	}
	world(const world &) = delete;
	world &operator=(const world &) = delete;
};

} // namespace

static const std::vector<named_call<world>> calls = {
#include "native_calls.inc"
};

/* Calls that access no device, so that they work in a child as well. */
static const std::set<std::string> need_no_device = {
	"usdma_version",      "usdma_error_text",  "usdma_log_set_callback", "usdma_log_set_level",
	"usdma_device_count", "usdma_setting_get", "usdma_setting_set",      "usdma_setting_describe",
};

/* Opens and closes a device. A child holds the kernel's file of the device open until it exits: then -EBUSY. */
static void open_and_close()
{
	usdma_device *d;
	const int ret = usdma_open_index(1, &d);

	if (ret == -EBUSY)
		return;
	WORKS(ret);
	WORKS(usdma_close(d));
}

static void make_calls(const world &w, usdma_device *dev, bool of_world)
{
	stream own(dev);
	void *p;

	open_and_close();
	WORKS(usdma_copy(of_world ? w.stream : static_cast<usdma_stream *>(own), w.mem, w.host, 64));
	WORKS(usdma_stream_sync(own, long_ms));
	WORKS(usdma_host_alloc(dev, 64, &p));
	WORKS(usdma_host_free(p));
}

static void in_children(void **)
{
	device dev;
	world w;

	refuse_in_children(w, calls, need_no_device, -EPERM, [&](int i) { make_calls(w, dev, i); });
	/* One of the busy threads leaves copies of w.host in this stream. */
	WORKS(usdma_stream_sync(w.stream, long_ms));
	/* The parent can still use the device. */
	memset(w.host, 0x5a, size);
	WORKS(usdma_copy(w.stream, w.mem, w.host, size));
	WORKS(usdma_copy(w.stream, w.plain, w.mem, size));
	WORKS(usdma_stream_sync(w.stream, long_ms));
	assert_memory_equal(w.plain, w.host, size);
	assert_int_equal(usdma_event_query(w.event), 1);
	assert_int_equal(usdma_close(w.dev), 0);
}

/* Results of calls that create something, in a child that shares the memory. */
static int results_of_sharing[8];

static int create_all(void *arg)
{
	const world &w = *static_cast<world *>(arg);
	usdma_completion *completion;
	usdma_completion_set *set;
	usdma_stream *stream;
	usdma_event *event;
	usdma_device *dev;
	usdma_file *file;
	void *block;

	results_of_sharing[0] = usdma_open_index(0, &dev);
	results_of_sharing[1] = usdma_host_alloc(nullptr, size, &block);
	results_of_sharing[2] = usdma_stream_create(w.dev, nullptr, &stream);
	results_of_sharing[3] = usdma_completion_create(&completion);
	results_of_sharing[4] = usdma_completion_set_create(w.stream, &set);
	results_of_sharing[5] = usdma_device_alloc(w.dev, size, &block);
	results_of_sharing[6] = usdma_event_create(w.dev, 0, &event);
	results_of_sharing[7] = usdma_file_import(w.dev, STDIN_FILENO, 0, &file);
	return 0;
}

/* As a child of vfork: what it would create would be its own descriptors, in the parent's memory. */
static void in_a_child_that_shares_the_memory(void **)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip();
#endif
	alignas(16) static char stack[1 << 17];
	device dev;
	world w;
	int status;
	const pid_t child = clone(create_all, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, &w);

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	for (const int result : results_of_sharing)
		assert_int_equal(result, -EPERM);
	WORKS(usdma_stream_sync(w.stream, long_ms));
	assert_int_equal(usdma_close(w.dev), 0);
}

/* A child that was forked before the first device was opened can use devices. */
static void child_forked_before_the_first_device(void **)
{
	const pid_t child = fork();
	int status;

	if (!child) {
		device dev;
		stream s(dev);

		WORKS(usdma_stream_sync(s, long_ms));
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The name that a text begins with, or nothing. */
static std::string name_in(const std::string &text)
{
	const size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_");

	return end != text.npos && !text.compare(end, 2, ": ") ? text.substr(0, end) : "";
}

/* Of calls with handles of what was destroyed: no text begins with the name of another function. */
static void texts_name_their_call(void **)
{
	world w;
	int wrong = 0;

	usdma_completion_destroy(w.completion);
	usdma_completion_set_destroy(w.set);
	WORKS(usdma_event_destroy(w.event));
	WORKS(usdma_stream_destroy(w.stream));
	WORKS(usdma_file_close(w.file));
	WORKS(usdma_close(w.dev));
	for (const auto &c : calls)
		if (c.call(w) < 0 && !name_in(usdma_error_text()).empty() && name_in(usdma_error_text()) != c.name) {
			print_error("%s: %s\n", c.name.c_str(), usdma_error_text());
			wrong++;
		}
	assert_int_equal(wrong, 0);
}

/* ---- cancellation ----------------------------------------------------------------------------------- */

/* The first call of the process reads the settings. */
static const std::vector<named_call<const char>> first_calls = {
	{"usdma_device_count", [](const char &) { return long(usdma_device_count()); }},
	{"usdma_open_index",
	 [](const char &) {
		 usdma_device *d;
		 return long(usdma_open_index(0, &d));
	 }},
	{"usdma_setting_get",
	 [](const char &) {
		 char v[64];
		 return long(usdma_setting_get("spin_us", v, sizeof(v)));
	 }},
	{"usdma_setting_describe",
	 [](const char &) {
		 usdma_setting_info i = {sizeof(i)};
		 return long(usdma_setting_describe(0, &i));
	 }},
};

static void cancelled_in_the_first_call(void **)
{
	char path[] = "/tmp/usdma-calls-XXXXXX";
	const int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(dprintf(fd, "spin_us = 20\n"), 13);
	close(fd);
	for (const auto &c : first_calls) {
		const pid_t child = fork();
		int status;

		if (!child) {
			const char none = 0;
			const named_call<const char> call = c;
			cancelled_call<const char> one{&none, &call};

			alarm(unsigned(patience_ms(20000) / 1000));
			signal(SIGABRT, SIG_DFL);
			setenv("USDMA_CONFIG", path, 1);
			const bool good = one.run() && one.value >= 0;
			device dev; /* the library still works for other threads */
			stream s(dev);
			_exit(!good);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		if (status)
			print_error("%s: status 0x%x\n", c.name.c_str(), unsigned(status));
		assert_int_equal(status, 0);
	}
	unlink(path);
}

/*
 * Memory whose free was deferred, for copies that have ended: the next call that checks completes it, and unmaps the
 * memory, of a device in another process by a message.
 */
static void leave_something_to_reclaim(const world &w, usdma_stream *opener)
{
	void *host;

	WORKS(usdma_host_alloc(nullptr, size, &host));
	WORKS(usdma_wait_value(w.stream, w.mem, USDMA_EQ, 1));
	WORKS(usdma_copy(w.stream, w.mem + 64, host, 64));
	WORKS(usdma_host_free(host));
	WORKS(usdma_write_value(opener, w.mem, 1));
	until("the copy has ended", [&] { return WORKS(usdma_stream_query(w.stream)) == 1; });
}

static void with_a_cancel_pending(void **)
{
	device dev;
	stream s(dev), opener(dev);
	int wrong = 0;

	for (const auto &c : calls) {
		world w;
		cancelled_call<world> one{&w, &c};

		leave_something_to_reclaim(w, opener);
		if (!one.run()) {
			print_error("%s: a cancelled thread %s\n", c.name.c_str(),
				    one.returned ? "went on" : "ended in the call");
			wrong++;
		}
		/* The library still works for other threads. */
		WORKS(usdma_copy(s, w.mem_to_free, w.host_to_free, 64) == -EFAULT ? 0 : usdma_stream_sync(s, long_ms));
		if (c.name != "usdma_close")
			WORKS(usdma_close(w.dev));
	}
	assert_int_equal(wrong, 0);
}

namespace {

/* A call that waits until the word is 1. */
struct blocking_call {
	const char *name;
	long (*call)(usdma_device *dev, usdma_stream *s, usdma_event *e, const block &host, const block &mem);
};

/* A thread that is cancelled in a blocking call. */
struct blocked {
	const blocking_call *what;
	usdma_device *dev;
	usdma_stream *s;
	usdma_event *e;
	const block *host, *mem;
	std::atomic<bool> entered{false}, returned{false};
	long value = 0;

	static void *main(void *arg)
	{
		auto *b = static_cast<blocked *>(arg);

		b->entered = true;
		b->value = b->what->call(b->dev, b->s, b->e, *b->host, *b->mem);
		b->returned = true;
		pthread_testcancel();
		return nullptr;
	}
};

} // namespace

static const blocking_call blocking[] = {
	{"usdma_stream_sync", [](auto, auto s, auto, auto &, auto &) { return long(usdma_stream_sync(s, -1)); }},
	{"usdma_stream_sync, limited",
	 [](auto, auto s, auto, auto &, auto &) { return long(usdma_stream_sync(s, long_ms)); }},
	{"usdma_event_sync", [](auto, auto, auto e, auto &, auto &) { return long(usdma_event_sync(e, -1)); }},
	{"usdma_device_sync", [](auto d, auto, auto, auto &, auto &) { return long(usdma_device_sync(d, -1)); }},
	{"usdma_copy, pageable",
	 [](auto, auto s, auto, auto &h, auto &m) { return long(usdma_copy(s, m.data(), h.data(), 64)); }},
	{"usdma_stream_destroy", [](auto, auto s, auto, auto &, auto &) { return long(usdma_stream_destroy(s)); }},
};

/* The stream is gated by the CPU, by its ring, or by an event in another ring: the kinds of wait differ. */
static void cancel_once(const blocking_call &what, usdma_device *dev, bool in_ring, uint32_t wait_mode,
			std::mt19937_64 &gen)
{
	block word(dev, kind::device, 4096), host(dev, kind::pageable, 4096), mem(dev, kind::device, 4096);
	stream opener(dev), first(dev);
	usdma_stream_options opt = {sizeof(opt), wait_mode, 0, 0};
	usdma_stream *s;
	usdma_event *e;
	pthread_t t;
	void *end;

	WORKS(usdma_fill_sync(dev, word.data(), 0, 8, 4096, long_ms));
	WORKS(usdma_stream_create(dev, &opt, &s));
	WORKS(usdma_event_create(dev, 0, &e));
	WORKS(usdma_wait_value(in_ring ? static_cast<usdma_stream *>(first) : s, word.data(), USDMA_EQ, 1));
	if (in_ring) {
		WORKS(usdma_event_record(e, first));
		WORKS(usdma_stream_wait_event(s, e));
	}
	WORKS(usdma_event_record(e, s));
	blocked b{&what, dev, s, e, &host, &mem};
	assert_int_equal(pthread_create(&t, nullptr, blocked::main, &b), 0);
	while (!b.entered)
		std::this_thread::yield();
	for (uint64_t n = gen() % 3000; n--;)
		std::atomic_signal_fence(std::memory_order_seq_cst);
	if (gen() % 2)
		std::this_thread::yield();
	assert_int_equal(pthread_cancel(t), 0);
	assert_false(b.returned);
	/* Other threads can wait for the same event, and open the gate. */
	assert_int_equal(usdma_event_sync(e, 1), -ETIMEDOUT);
	WORKS(usdma_write_value(opener, word.data(), 1));
	assert_int_equal(pthread_join(t, &end), 0);
	if (!b.returned)
		print_error("%s: a cancelled thread ended in the call\n", what.name);
	assert_true(b.returned);
	assert_int_equal(b.value, 0);
	assert_ptr_equal(end, PTHREAD_CANCELED);
	WORKS(usdma_event_sync(e, long_ms));
	WORKS(usdma_device_sync(dev, long_ms));
	const int ended = usdma_stream_destroy(s);
	assert_true(ended == 0 || ended == -EBADF);
	WORKS(usdma_event_destroy(e));
}

static void cancelled_while_they_wait(void **)
{
	device dev;
	auto gen = rng(3);

	for (const auto &what : blocking)
		for (const bool in_ring : {false, true})
			for (const uint32_t mode : {USDMA_WAIT_INTERRUPT, USDMA_WAIT_HYBRID, USDMA_WAIT_POLL})
				for (unsigned i = 0; i < scale(); i++)
					cancel_once(what, dev, in_ring, mode, gen);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(child_forked_before_the_first_device),
		cmocka_unit_test(cancelled_in_the_first_call),
		cmocka_unit_test(in_children),
		cmocka_unit_test(texts_name_their_call),
		cmocka_unit_test(in_a_child_that_shares_the_memory),
		cmocka_unit_test(with_a_cancel_pending),
		cmocka_unit_test(cancelled_while_they_wait),
	};

	return cmocka_run_group_tests_name("every call", tests, nullptr, nullptr);
}
