/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guarantees of <usdma/usdma.h> about the library, settings, devices, handles and memory (complete list:
 * docs/reliability.md).
 */
#include "tests/integration/native.h"
#include "tests/support/level.h"
#include "usdma/uring.h"

#include <algorithm>
#include <dirent.h>
#include <mutex>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma::test;

/* ---- before the first device ------------------------------------------------------------------------ */

static void error_text_stays_until_the_next_failure(void **)
{
	std::string none = "?";
	char value[64];

	std::thread([&] {
		none = usdma_error_text();
		usdma_log_set_level(99); /* sets the error text of this thread only */
	}).join();
	assert_string_equal(none.c_str(), "");
	assert_int_equal(usdma_setting_get("no such thing", value, sizeof(value)), -ENOENT);
	const char *const text = usdma_error_text();
	const std::string was = text;
	assert_non_null(strstr(text, "no such thing"));
	std::thread([] { usdma_log_set_level(98); }).join();
	WORKS(usdma_setting_get("spin_us", value, sizeof(value)));
	assert_string_equal(text, was.c_str());
	assert_int_equal(usdma_log_set_level(97), -EINVAL);
	assert_string_not_equal(usdma_error_text(), was.c_str());
}

static void the_version_has_three_numbers(void **)
{
	unsigned major, minor, patch;
	int end = 0;

	assert_int_equal(sscanf(usdma_version(), "%u.%u.%u%n", &major, &minor, &patch, &end), 3);
	assert_int_equal(usdma_version()[end], 0);
	/* This program is built with the headers of the library that it runs with. */
	assert_int_equal(USDMA_VERSION, USDMA_VERSION_OF(major, minor, patch));
}

static void reading_settings_does_not_fix_them(void **)
{
	usdma_setting_info info = {};
	char value[64];
	unsigned n = 0;

	info.struct_size = sizeof(info);
	while (usdma_setting_describe(n, &info) == 0) {
		WORKS(usdma_setting_get(info.name, value, 0) == -ENOSPC ? 0 : -1);
		assert_true(*info.meaning && info.unit && (!info.words == (strcmp(info.type, "choice") != 0)));
		n++;
	}
	assert_true(n > 10);
	assert_int_equal(usdma_setting_describe(n, &info), -ENOENT);
	WORKS(usdma_setting_set("spin_us", "3"));
	WORKS(usdma_setting_set("spin_us", "4"));
	WORKS(usdma_setting_get("spin_us", value, sizeof(value)));
	assert_string_equal(value, "4");
}

#define CHECK(what)                                                                                                    \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #what, usdma_error_text());                    \
			_exit(1);                                                                                      \
		}                                                                                                      \
	} while (0)

/* Runs fn in a child process with these devices. */
template <class F> static void in_child_with_devices(const std::string &list, F fn)
{
	int status = -1;
	const pid_t child = fork();

	if (!child) {
		alarm(unsigned(long_ms / 1000));
		setenv("USDMA_DEVICES", list.c_str(), 1);
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static unsigned own_threads()
{
	unsigned n = 0;
	DIR *d = opendir("/proc/self/task");

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void device_count_opens_no_device(void **)
{
	in_child_with_devices("sim:mem=1M,sim:mem=2M,vfio-user:/nowhere", [] {
		const unsigned fds = open_fds(), threads = own_threads();

		CHECK(usdma_device_count() == 3);
		CHECK(open_fds() == fds && own_threads() == threads);
	});
	/* By default, without a PCI device. */
	in_child_with_devices(
		"", [] { CHECK(usdma_device_count() == 4 || !access("/sys/bus/pci/drivers/vfio-pci", F_OK)); });
	in_child_with_devices("no such scheme", [] {
		usdma_device *dev;

		CHECK(usdma_device_count() == -EINVAL && *usdma_error_text());
		CHECK(usdma_open(nullptr, &dev) == -EINVAL);
	});
}

static void sixteen_devices(void **)
{
	std::string list;

	for (int i = 0; i < 16; i++)
		list += list.empty() ? "sim:mem=1M:engines=1:channels=1" : ",sim:mem=1M:engines=1:channels=1";
	in_child_with_devices(list, [] {
		usdma_device *dev;

		CHECK(usdma_device_count() == 16);
		CHECK(usdma_open("sim:mem=3M", &dev) == -ENOSPC && !dev);
		CHECK(usdma_device_count() == 16);
		CHECK(!usdma_open("15", &dev) && !usdma_close(dev));
	});
}

enum class peer { deaf, silent, wrong };

/* Creates a socket without a listener, without replies, or with a server of another protocol version. */
static void serve(const std::string &path, peer type)
{
	sockaddr_un at = {AF_UNIX, {}};
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(at.sun_path, path.c_str(), path.size() + 1);
	CHECK(!bind(fd, reinterpret_cast<sockaddr *>(&at), sizeof(at)));
	CHECK(type == peer::deaf || !listen(fd, 8));
	if (type == peer::wrong)
		std::thread([fd] {
			const int client = accept(fd, nullptr, nullptr);
			struct {
				uint16_t id, command;
				uint32_t size, flags, error;
				uint16_t major, minor;
			} m = {};

			recv(client, &m, 16, MSG_WAITALL); /* the reply repeats the id of the request */
			m.size = sizeof(m);
			m.flags = 1;
			m.major = 77;
			send(client, &m, sizeof(m), MSG_NOSIGNAL);
			pause();
		}).detach();
}

static void *use_on_small_stack(void *memory)
{
	usdma_device *dev;
	usdma_stream *s;
	usdma_event *e;
	void *mem, *host;

	CHECK(!usdma_open("sim:mem=20M", &dev) && !usdma_stream_create(dev, nullptr, &s));
	CHECK(!usdma_device_alloc(dev, 1 << 20, &mem) && !usdma_host_alloc(dev, 1 << 20, &host));
	CHECK(!usdma_host_register(memory, 1 << 20, 0) && !usdma_copy(s, mem, memory, 1 << 20));
	CHECK(!usdma_copy(s, host, mem, 1 << 20) && !usdma_stream_sync(s, long_ms));
	CHECK(!usdma_host_unregister(memory) && !usdma_copy(s, memory, mem, 1 << 20));
	CHECK(!usdma_copy_sync(dev, mem, memory, 1 << 20, long_ms));
	CHECK(!usdma_event_create(dev, USDMA_EVENT_TIMING, &e) && !usdma_event_record(e, s));
	CHECK(!usdma_event_sync(e, long_ms) && usdma_copy(s, mem, reinterpret_cast<void *>(64), 8) == -EFAULT);
	CHECK(!usdma_close(dev) && usdma_open("vfio-user:/nowhere", &dev) == -ENOENT);
	return memory;
}

/* The first calls of the process, too, which read the settings and load a library. */
static void a_stack_of_64_kib(void **)
{
	if (sanitized)
		skip(); /* its own frames are larger */
	in_child_with_devices("", [] {
		std::vector<unsigned char> memory(1 << 20, 1);
		pthread_attr_t small;
		pthread_t t;
		void *done;

		pthread_attr_init(&small);
		CHECK(!pthread_attr_setstacksize(&small, 64 << 10));
		CHECK(!pthread_create(&t, &small, use_on_small_stack, memory.data()));
		CHECK(!pthread_join(t, &done) && done == memory.data());
	});
}

static void open_good_and_bad(unsigned n)
{
	const std::string good = "sim:mem=" + std::to_string(2 + n) + "M:engines=1:channels=1";
	usdma_device *dev;

	for (unsigned i = 0; i < 40; i++) {
		const std::string bad = "vfio-user:/nowhere/" + std::to_string(n) + "-" + std::to_string(i);

		CHECK(usdma_open(bad.c_str(), &dev) == -ENOENT && !dev);
		CHECK(usdma_open("vfio-user:/nowhere/all", &dev) == -ENOENT);
		CHECK(usdma_open("sim:mem=", &dev) == -EINVAL);
		if (i % 8 == n % 8)
			CHECK(!usdma_open(good.c_str(), &dev) && !usdma_close(dev));
	}
}

/* A name that cannot be opened does not stay in the list; another one does, also when it is closed. */
static void names_that_cannot_be_opened(void **)
{
	in_child_with_devices("sim:mem=1M", [] {
		std::vector<std::thread> all;
		usdma_device *dev;

		open_good_and_bad(0);
		CHECK(usdma_device_count() == 2);
		for (unsigned n = 1; n < 8; n++)
			all.emplace_back(open_good_and_bad, n);
		for (std::thread &t : all)
			t.join();
		/* Names that fail while another one is added may be between them. */
		const int count = usdma_device_count();
		CHECK(count >= 9 && count <= 16);
		for (unsigned n = 20; n < 20 + 16 - 9; n++)
			CHECK(!usdma_open(("sim:mem=" + std::to_string(n) + "M:engines=1:channels=1").c_str(), &dev));
		CHECK(usdma_open("sim:mem=99M", &dev) == -ENOSPC);
		CHECK(usdma_device_count() == 16);
	});
}

static void unreachable_devices(void **)
{
	char folder[] = "/tmp/usdma-promises-XXXXXX";

	assert_non_null(mkdtemp(folder));
	const std::string in = std::string(folder) + "/";
	in_child_with_devices("sim:mem=1M", [&] {
		usdma_device *dev;

		CHECK(!usdma_setting_set("reply_ms", "200"));
		serve(in + "deaf", peer::deaf);
		serve(in + "silent", peer::silent);
		serve(in + "wrong", peer::wrong);
		CHECK(usdma_open(("vfio-user:" + in + "none").c_str(), &dev) == -ENOENT && !dev);
		CHECK(usdma_open(("vfio-user:" + in + "deaf").c_str(), &dev) == -ECONNREFUSED && !dev);
		CHECK(usdma_open(("vfio-user:" + in + "silent").c_str(), &dev) == -ETIMEDOUT && !dev);
		CHECK(usdma_open(("vfio-user:" + in + "wrong").c_str(), &dev) == -EPROTO && !dev);
		CHECK(!chmod(folder, 0));
		CHECK(geteuid() || (!setgid(65534) && !setuid(65534)));
		CHECK(usdma_open(("vfio-user:" + in + "deaf").c_str(), &dev) == -EACCES && !dev);
	});
	assert_int_equal(chmod(folder, 0700), 0);
	for (const char *name : {"deaf", "silent", "wrong"})
		assert_int_equal(unlink((in + name).c_str()), 0);
	assert_int_equal(rmdir(folder), 0);
}

/* ---- the log ---------------------------------------------------------------------------------------- */

namespace {

struct lines {
	std::mutex lock;
	std::vector<std::pair<int, std::string>> all;
};

void add_line(int level, const char *text, void *arg)
{
	auto *l = static_cast<lines *>(arg);
	const std::lock_guard guard(l->lock);

	l->all.emplace_back(level, text);
}

/* Number of log lines while a device is opened and closed. */
size_t lines_at(lines &l, int level)
{
	WORKS(usdma_log_set_level(level));
	{
		device dev;
		const std::lock_guard guard(l.lock);

		l.all.clear();
	}
	{
		device dev;
		stream s(dev);
	}
	const std::lock_guard guard(l.lock);
	for (const auto &[of, text] : l.all) {
		assert_true(of >= USDMA_LOG_ERROR && of <= level);
		assert_true(!text.empty() && text.find('\n') == text.npos);
	}
	return l.all.size();
}

} // namespace

static void log_levels(void **)
{
	lines l;

	usdma_log_set_callback(add_line, &l);
	assert_true(lines_at(l, USDMA_LOG_DEBUG) > 0);
	assert_int_equal(lines_at(l, USDMA_LOG_NONE), 0);
	usdma_log_set_callback(nullptr, nullptr);
	WORKS(usdma_log_set_level(USDMA_LOG_WARN));
}

/* ---- handles and arguments -------------------------------------------------------------------------- */

namespace {

struct objects {
	usdma_device *dev;
	usdma_stream *stream;
	usdma_event *event;
	usdma_completion *completion;
	usdma_completion_set *set;
};

struct named {
	const char *name;
	int (*call)(const objects &o);
};

usdma_copy_rect some_rect;
usdma_copy_item some_item;
usdma_completed some_completed;
usdma_error_info some_error = {sizeof(usdma_error_info), 0, 0, 0, "", 0, 0};
usdma_device_info device_info = {sizeof(device_info), 0, "", "", "", 0, 0, 0, 0, 0, 0, 0, 0, 0};
usdma_device_stats device_stats;
usdma_error_info error_info;
usdma_stream_stats stream_stats;
void *allocated;
usdma_stream *made_stream;
usdma_event *made_event;
alignas(8) char sqe[64];
int64_t ns;

void nothing(void *) {}
void nothing_with_status(void *, int) {}

#define ON(call)                                                                                                       \
	{                                                                                                              \
#call, [](const objects &o) -> int { (void)o; return call; }                                                           \
	}

const named on_devices[] = {
	ON(usdma_close(o.dev)),
	ON(usdma_device_get_info(o.dev, &device_info)),
	ON(usdma_device_get_stats(o.dev, &device_stats)),
	ON(usdma_device_sync(o.dev, 0)),
	ON(usdma_device_inject(o.dev, "")),
	ON(usdma_device_alloc(o.dev, 64, &allocated)),
	ON(usdma_stream_create(o.dev, nullptr, &made_stream)),
	ON(usdma_event_create(o.dev, 0, &made_event)),
	ON(usdma_copy_sync(o.dev, &allocated, &ns, 8, 0)),
	ON(usdma_copy_2d_sync(o.dev, &some_rect, 0)),
	ON(usdma_fill_sync(o.dev, &ns, 0, 8, 8, 0)),
};
const named on_streams[] = {
	ON(usdma_stream_destroy(o.stream)),
	ON(usdma_stream_sync(o.stream, 0)),
	ON(usdma_stream_query(o.stream)),
	ON(usdma_stream_abort(o.stream)),
	ON(usdma_stream_set_fail_mode(o.stream, USDMA_FAIL_STOP)),
	ON(usdma_stream_take_error(o.stream, &error_info)),
	ON(usdma_stream_get_stats(o.stream, &stream_stats)),
	ON(usdma_stream_signal_fd(o.stream, 2)),
	ON(usdma_stream_call(o.stream, nothing, nullptr, 0)),
	ON(usdma_stream_call_status(o.stream, nothing_with_status, nullptr, 0)),
	ON(usdma_copy(o.stream, &allocated, &ns, 8)),
	ON(usdma_copy_batch(o.stream, &some_item, 1, nullptr)),
	ON(usdma_submit_copy(o.stream, &some_item, &some_item, 8, 0, nullptr)),
	ON(usdma_submit_batch(o.stream, &some_item, 1, 0, nullptr, nullptr)),
	ON(usdma_copy_2d(o.stream, &some_rect)),
	ON(usdma_fill(o.stream, &ns, 0, 8, 8)),
	ON(usdma_reduce(o.stream, &allocated, &ns, 8, USDMA_INT64, USDMA_SUM)),
	ON(usdma_write_value(o.stream, &ns, 0)),
	ON(usdma_wait_value(o.stream, &ns, USDMA_EQ, 0)),
};
const named on_events[] = {
	ON(usdma_event_destroy(o.event)),
	ON(usdma_event_query(o.event)),
	ON(usdma_event_sync(o.event, 0)),
};
const named on_completions[] = {
	ON(usdma_completion_set_destroy(o.set)),
	ON(usdma_prep_completion_set(o.set, reinterpret_cast<io_uring_sqe *>(sqe), 0)),
	ON(usdma_completion_mark(o.set, 0)),
	ON(usdma_completion_finish_many(o.set, &some_completed, 1)),
	ON(usdma_completion_destroy(o.completion)),
	ON(usdma_completion_finish(o.completion)),
	ON(usdma_completion_take_error(o.completion, &some_error)),
};
/* Calls with two handles, each of which may be invalid. */
const named on_two[] = {
	ON(usdma_event_record(o.event, o.stream)),
	ON(usdma_stream_wait_event(o.stream, o.event)),
	ON(usdma_prep_completion(o.completion, o.stream, reinterpret_cast<io_uring_sqe *>(sqe), 0)),
};

template <size_t n> int count_not_refused(const named (&calls)[n], const objects &o, int want, const char *how)
{
	int bad = 0;

	for (const named &c : calls) {
		const int got = c.call(o);

		if (got == want && *usdma_error_text())
			continue;
		print_error("%s, %s: %d (%s)\n", c.name, how, got, usdma_error_text());
		bad++;
	}
	return bad;
}

int check_all_refused(const objects &o, const objects &good, const char *how)
{
	int bad = count_not_refused(on_devices, o, -EBADF, how) + count_not_refused(on_streams, o, -EBADF, how) +
		  count_not_refused(on_events, o, -EBADF, how) + count_not_refused(on_completions, o, -EBADF, how);

	bad += count_not_refused(on_two, {o.dev, o.stream, good.event, good.completion, good.set}, -EBADF, how);
	bad += count_not_refused(on_two, {o.dev, o.stream, o.event, o.completion, o.set}, -EBADF, how);
	assert_int_equal(usdma_event_record(o.event, good.stream), -EBADF);
	assert_int_equal(usdma_stream_wait_event(good.stream, o.event), -EBADF);
	assert_int_equal(usdma_event_elapsed(o.event, good.event, &ns), -EBADF);
	assert_int_equal(usdma_event_elapsed(good.event, o.event, &ns), -EBADF);
	return bad;
}

objects make()
{
	objects o;

	WORKS(usdma_open("sim:mem=1M:engines=1:channels=2", &o.dev));
	WORKS(usdma_stream_create(o.dev, nullptr, &o.stream));
	WORKS(usdma_event_create(o.dev, USDMA_EVENT_TIMING, &o.event));
	WORKS(usdma_completion_create(&o.completion));
	WORKS(usdma_completion_set_create(o.stream, &o.set));
	return o;
}

void end(const objects &o)
{
	WORKS(usdma_completion_set_destroy(o.set));
	WORKS(usdma_completion_destroy(o.completion));
	WORKS(usdma_event_destroy(o.event));
	WORKS(usdma_stream_destroy(o.stream));
	WORKS(usdma_close(o.dev));
}

} // namespace

static void invalid_handles(void **)
{
	alignas(64) char stack[4096] = {};
	const objects none = {}, good = make(), dead = make();
	const objects wild = {reinterpret_cast<usdma_device *>(stack), reinterpret_cast<usdma_stream *>(stack + 64),
			      reinterpret_cast<usdma_event *>(stack + 128),
			      reinterpret_cast<usdma_completion *>(stack + 192),
			      reinterpret_cast<usdma_completion_set *>(stack + 256)};
	const objects other = {
		reinterpret_cast<usdma_device *>(good.stream), reinterpret_cast<usdma_stream *>(good.event),
		reinterpret_cast<usdma_event *>(good.completion), reinterpret_cast<usdma_completion *>(good.dev),
		reinterpret_cast<usdma_completion_set *>(good.completion)};
	int bad;

	WORKS(usdma_completion_set_destroy(dead.set));
	WORKS(usdma_completion_destroy(dead.completion));
	WORKS(usdma_event_destroy(dead.event));
	WORKS(usdma_stream_destroy(dead.stream));
	/* The device is still open: `good` has a reference. */
	bad = check_all_refused({none.dev, dead.stream, dead.event, dead.completion, dead.set}, good, "destroyed");
	bad += check_all_refused(none, good, "NULL") + check_all_refused(wild, good, "never made") +
	       check_all_refused(other, good, "another kind");
	assert_int_equal(usdma_host_alloc(wild.dev, 64, &allocated), -EBADF);
	WORKS(usdma_close(dead.dev));
	end(good);
	const objects again = make();
	bad += count_not_refused(on_devices, {dead.dev, nullptr, nullptr, nullptr, nullptr}, -EBADF, "closed");
	end(again);
	assert_int_equal(bad, 0);
}

static void null_pointers_and_bad_values(void **)
{
	static const named calls[] = {
		ON(usdma_open(nullptr, nullptr)),
		ON(usdma_open_index(0, nullptr)),
		ON(usdma_device_get_info(o.dev, nullptr)),
		ON(usdma_device_get_stats(o.dev, nullptr)),
		ON(usdma_device_inject(o.dev, nullptr)),
		ON(usdma_host_alloc(o.dev, 64, nullptr)),
		ON(usdma_host_register(nullptr, 64, 0)),
		ON(usdma_host_unregister(nullptr)),
		ON(usdma_device_alloc(o.dev, 64, nullptr)),
		ON(usdma_pointer_get_info(&allocated, nullptr)),
		ON(usdma_stream_create(o.dev, nullptr, nullptr)),
		ON(usdma_stream_take_error(o.stream, nullptr)),
		ON(usdma_stream_get_stats(o.stream, nullptr)),
		ON(usdma_stream_call(o.stream, nullptr, nullptr, 0)),
		ON(usdma_stream_call_status(o.stream, nullptr, nullptr, 0)),
		ON(usdma_copy_batch(o.stream, nullptr, 1, nullptr)),
		ON(usdma_submit_batch(o.stream, nullptr, 1, 0, nullptr, nullptr)),
		ON(usdma_completion_take_error(o.completion, nullptr)),
		ON(usdma_completion_start(o.completion, o.stream, nullptr)),
		ON(usdma_copy_2d(o.stream, nullptr)),
		ON(usdma_copy_2d_sync(o.dev, nullptr, 0)),
		ON(usdma_event_create(o.dev, 0, nullptr)),
		ON(usdma_event_elapsed(o.event, o.event, nullptr)),
		ON(usdma_completion_create(nullptr)),
		ON(usdma_completion_set_create(o.stream, nullptr)),
		ON(usdma_prep_completion_set(o.set, nullptr, 0)),
		ON(usdma_completion_finish_many(o.set, nullptr, 1)),
		ON(usdma_completion_finish_many(o.set, &some_completed, 0)),
		ON(usdma_prep_completion(o.completion, o.stream, nullptr, 0)),
		ON(usdma_setting_set(nullptr, "1")),
		ON(usdma_setting_set("spin_us", nullptr)),
		ON(usdma_setting_get(nullptr, sqe, sizeof(sqe))),
		ON(usdma_setting_get("spin_us", nullptr, 64)),
		ON(usdma_setting_describe(0, nullptr)),
		/* Values out of range. */
		ON(usdma_host_alloc(o.dev, 0, &allocated)),
		ON(usdma_host_register(sqe, 0, 0)),
		ON(usdma_host_register(sqe, 64, 0x10)),
		ON(usdma_device_alloc(o.dev, 0, &allocated)),
		ON(usdma_event_create(o.dev, 0x10, &made_event)),
		ON(usdma_stream_set_fail_mode(o.stream, 2)),
		ON(usdma_stream_set_fail_mode(o.stream, -1)),
	};
	const objects good = make();
	usdma_stream_options opt = {sizeof(opt), 0, 0, 1};

	assert_int_equal(count_not_refused(calls, good, -EINVAL, "refused"), 0);
	assert_int_equal(usdma_stream_create(good.dev, &opt, &made_stream), -EINVAL);
	opt.reserved = 0;
	for (const uint32_t priority : {1u, 7u, ~0u}) {
		opt.priority = priority;
		assert_int_equal(usdma_stream_create(good.dev, &opt, &made_stream), -EINVAL);
	}
	opt.priority = 0;
	WORKS(usdma_stream_create(good.dev, &opt, &made_stream));
	WORKS(usdma_stream_destroy(made_stream));
	end(good);
}

/* ---- memory ----------------------------------------------------------------------------------------- */

static bool only(const unsigned char *p, size_t len, unsigned char a, unsigned char b)
{
	return std::all_of(p, p + len, [=](unsigned char c) { return c == a || c == b; });
}

/* The process writes only 0x6e: a new block has zeros or that, never other data. */
static void blocks_are_aligned_and_hold_no_old_data(void **)
{
	static constexpr size_t sizes[] = {1, 63, 512, 4097, 100000, 2 << 20, (2 << 20) + 5};
	device dev;

	for (int round = 0; round < 2; round++)
		for (const size_t size : sizes) {
			block host(dev, kind::pinned, size), mem(dev, kind::device, size);
			std::vector<unsigned char> got(size, 0x33);

			assert_int_equal(reinterpret_cast<uint64_t>(host.data()) % 64, 0);
			assert_int_equal(reinterpret_cast<uint64_t>(mem.data()) % (size < 2 << 20 ? 512 : 2 << 20), 0);
			assert_true(only(host.data(), size, 0, 0x6e));
			WORKS(usdma_copy_sync(dev, got.data(), mem.data(), size, long_ms));
			assert_true(only(got.data(), size, 0, 0x6e));
			memset(host.data(), 0x6e, size);
			WORKS(usdma_copy_sync(dev, mem.data(), host.data(), size, long_ms));
		}
}

static void invalid_frees(void **)
{
	usdma_pointer_info info = {};
	device dev;
	void *host, *mem;
	char plain;

	info.struct_size = sizeof(info);
	WORKS(usdma_host_alloc(nullptr, 4096, &host));
	WORKS(usdma_device_alloc(dev, 4096, &mem));
	WORKS(usdma_host_free(nullptr));
	WORKS(usdma_device_free(nullptr));
	assert_int_equal(usdma_host_free(static_cast<char *>(host) + 64), -EINVAL);
	assert_int_equal(usdma_device_free(static_cast<char *>(mem) + 512), -EINVAL);
	assert_int_equal(usdma_host_free(mem), -EINVAL);
	assert_int_equal(usdma_device_free(host), -EINVAL);
	WORKS(usdma_host_free(host));
	WORKS(usdma_device_free(mem));
	assert_int_equal(usdma_host_free(host), -EINVAL);
	assert_int_equal(usdma_device_free(mem), -EINVAL);
	assert_int_equal(usdma_device_alloc(dev, size_t(1) << 60, &mem), -ENOMEM);
	assert_int_equal(usdma_host_alloc(dev, ~size_t(0), &host), -ENOMEM);
	/* Not part of an allocation: NULL, a variable, freed device memory. */
	for (const void *p : {static_cast<const void *>(nullptr), static_cast<const void *>(&plain)}) {
		WORKS(usdma_pointer_get_info(p, &info));
		assert_int_equal(info.memory_class, USDMA_MEMORY_UNREGISTERED);
		assert_true(!info.base && !info.size && info.device_index == -1 && !info.registered);
	}
	WORKS(usdma_device_alloc(dev, 4096, &mem));
	WORKS(usdma_device_free(mem));
	WORKS(usdma_pointer_get_info(mem, &info));
	assert_int_equal(info.memory_class, USDMA_MEMORY_DEVICE);
	assert_true(!info.base && !info.size && info.device_index == 0);
}

static unsigned char *pages(size_t n, int prot)
{
	void *p = mmap(nullptr, n * 4096, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return static_cast<unsigned char *>(p);
}

static void registrations(void **)
{
	device dev;
	stream s(dev);
	block pinned(dev, kind::pinned, 4096), mem(dev, kind::device, 4096);
	unsigned char *p = pages(4, PROT_READ | PROT_WRITE), *fixed = pages(1, PROT_READ);

	WORKS(usdma_host_register(p + 1003, 5001, 0));
	assert_int_equal(usdma_host_register(p + 1003 + 5000, 10, 0), -EEXIST);
	assert_int_equal(usdma_host_register(pinned.data() + 64, 64, 0), -EEXIST);
	assert_int_equal(usdma_host_unregister(p + 1004), -ENOENT);
	assert_int_equal(usdma_host_unregister(pinned.data()), -ENOENT);
	WORKS(usdma_host_unregister(p + 1003));
	assert_int_equal(usdma_host_unregister(p + 1003), -ENOENT);
	WORKS(usdma_host_register(fixed, 4096, USDMA_REGISTER_READ_ONLY));
	WORKS(usdma_fill_sync(dev, mem.data(), 0xff, 1, 4096, long_ms));
	WORKS(usdma_copy(s, mem.data(), fixed, 4096));
	WORKS(usdma_copy(s, pinned.data(), mem.data(), 4096));
	WORKS(usdma_stream_sync(s, long_ms));
	assert_true(only(pinned.data(), 4096, 0, 0));
	WORKS(usdma_host_unregister(fixed));
	munmap(fixed, 4096);
	munmap(p, 4 * 4096);
}

static void inaccessible_memory_is_not_registered(void **)
{
	if (!populate_is_checked())
		skip();
	device dev;
	unsigned char *fixed = pages(1, PROT_READ), *unmapped = pages(1, PROT_READ | PROT_WRITE);

	munmap(unmapped, 4096);
	assert_int_equal(usdma_host_register(unmapped, 4096, 0), -EFAULT);
	/* Memory without write permission can only be registered read-only. */
	assert_int_equal(usdma_host_register(fixed, 4096, 0), -EFAULT);
	munmap(fixed, 4096);
}

/* ---- the end of a device ---------------------------------------------------------------------------- */

/* A stream with its own channel has the wait in its ring: without the close the device would wait forever. */
static void close_drops_a_wait_in_a_ring(void **)
{
	usdma_device *closing;
	usdma_stream *s;
	void *mem, *host;

	WORKS(usdma_open_index(1, &closing));
	WORKS(usdma_stream_create(closing, nullptr, &s));
	WORKS(usdma_device_alloc(closing, 4096, &mem));
	WORKS(usdma_host_alloc(closing, 64, &host));
	WORKS(usdma_fill_sync(closing, mem, 0, 8, 4096, long_ms));
	memset(host, 0x11, 64);
	WORKS(usdma_wait_value(s, mem, USDMA_EQ, 1));
	WORKS(usdma_copy(s, host, mem, 64));
	WORKS(usdma_close(closing));
	assert_true(only(static_cast<unsigned char *>(host), 64, 0x11, 0x11));
	assert_int_equal(usdma_stream_query(s), -EBADF);
	/* The device is still usable. */
	WORKS(usdma_open_index(1, &closing));
	WORKS(usdma_copy_sync(closing, host, host, 0, long_ms));
	WORKS(usdma_close(closing));
	WORKS(usdma_host_free(host));
}

static void close_finishes_or_drops_work(void **)
{
	const size_t size = 8 << 20;
	device other;
	stream gated(other);
	block word(other, kind::pinned, 64);
	usdma_pointer_info info = {};
	usdma_device *closing, *again;
	usdma_stream *busy, *waits;
	usdma_event *never, *reached, *dropped;
	void *mem, *host;

	info.struct_size = sizeof(info);
	memset(word.data(), 0, 64);
	WORKS(usdma_open_index(1, &closing));
	WORKS(usdma_open_index(1, &again));
	WORKS(usdma_stream_create(closing, nullptr, &busy));
	WORKS(usdma_stream_create(closing, nullptr, &waits));
	WORKS(usdma_event_create(closing, 0, &reached));
	WORKS(usdma_event_create(closing, 0, &dropped));
	WORKS(usdma_device_alloc(closing, size, &mem));
	WORKS(usdma_host_alloc(closing, size + 64, &host));
	auto *bytes = static_cast<unsigned char *>(host);
	memset(bytes, 0x11, size + 64);
	WORKS(usdma_fill_sync(closing, mem, 0x77, 1, size, long_ms));
	/* `waits` waits for an event of `gated`, which waits itself. */
	WORKS(usdma_wait_value(gated, word.data(), USDMA_EQ, 1));
	WORKS(usdma_event_create(other, 0, &never));
	WORKS(usdma_event_record(never, gated));
	WORKS(usdma_stream_wait_event(waits, never));
	WORKS(usdma_copy(waits, bytes + size, mem, 64));
	WORKS(usdma_event_record(dropped, waits));
	WORKS(usdma_close(again));
	assert_int_equal(usdma_stream_query(waits), 0); /* the other reference keeps the device open */
	WORKS(usdma_copy(busy, bytes, mem, size));
	WORKS(usdma_event_record(reached, busy));
	WORKS(usdma_close(closing));
	assert_true(only(bytes, size, 0x77, 0x77));
	assert_true(only(bytes + size, 64, 0x11, 0x11));
	for (usdma_stream *s : {busy, waits}) {
		assert_int_equal(usdma_stream_query(s), -EBADF);
		assert_int_equal(usdma_stream_destroy(s), -EBADF);
	}
	for (usdma_event *e : {reached, dropped}) {
		assert_int_equal(usdma_event_query(e), 1);
		WORKS(usdma_event_sync(e, 0));
		WORKS(usdma_event_destroy(e));
	}
	WORKS(usdma_pointer_get_info(mem, &info));
	assert_int_equal(info.size, 0);
	assert_int_equal(usdma_device_free(mem), -EINVAL);
	assert_int_equal(usdma_device_sync(closing, 0), -EBADF);
	assert_int_equal(usdma_close(closing), -EBADF);
	WORKS(usdma_host_free(host));
	assert_int_equal(usdma_event_query(never), 0);
	WORKS(usdma_stream_abort(gated));
	WORKS(usdma_event_destroy(never));
	assert_int_equal(usdma_stream_sync(gated, long_ms), -ECANCELED);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(error_text_stays_until_the_next_failure),
		cmocka_unit_test(the_version_has_three_numbers),
		cmocka_unit_test(reading_settings_does_not_fix_them),
		cmocka_unit_test(device_count_opens_no_device),
		cmocka_unit_test(sixteen_devices),
		cmocka_unit_test(a_stack_of_64_kib),
		cmocka_unit_test(names_that_cannot_be_opened),
		cmocka_unit_test(unreachable_devices),
		cmocka_unit_test(log_levels),
		cmocka_unit_test(invalid_handles),
		cmocka_unit_test(null_pointers_and_bad_values),
		cmocka_unit_test(blocks_are_aligned_and_hold_no_old_data),
		cmocka_unit_test(invalid_frees),
		cmocka_unit_test(registrations),
		cmocka_unit_test(inaccessible_memory_is_not_registered),
		cmocka_unit_test(close_finishes_or_drops_work),
		cmocka_unit_test(close_drops_a_wait_in_a_ring),
	};

	return cmocka_run_group_tests_name("promises", tests, nullptr, nullptr);
}
