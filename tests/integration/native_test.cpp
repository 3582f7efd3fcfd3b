/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The native API's other families: names, information, growing structs, descriptors, callbacks, values, reductions.
 */
#include "tests/integration/native.h"

#include <atomic>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma::test;

static usdma_setting_info describe(const char *name)
{
	usdma_setting_info info = {};

	info.struct_size = sizeof(info);
	for (unsigned i = 0; usdma_setting_describe(i, &info) == 0; i++)
		if (!strcmp(info.name, name))
			return info;
	print_error("no setting %s\n", name);
	assert_true(false);
	return info;
}

/* The first test: devices take the settings into use. */
static void settings(void **)
{
	usdma_setting_info info = {};
	char text[16];

	assert_int_equal(usdma_setting_get("spin_us", nullptr, 0), -EINVAL);
	assert_int_equal(usdma_setting_set(nullptr, "1"), -EINVAL);
	assert_int_equal(usdma_setting_set("spin", "1"), -ENOENT);
	assert_non_null(strstr(usdma_error_text(), "spin_us"));
	static constexpr const char *wrong[][3] = {{"spin_us", "soon", "microseconds"},
						   {"profile", "910A", "910B"},
						   {"check", "sooner", "shuffle"},
						   {"devices", "sim,foo", "not a device string"},
						   {"host_id", "1", "hexadecimal"}};
	for (const auto &[name, value, says] : wrong) {
		assert_int_equal(usdma_setting_set(name, value), -EINVAL);
		assert_non_null(strstr(usdma_error_text(), says));
	}
	assert_int_equal(describe("spin_us").source, USDMA_SETTING_DEFAULT);
	WORKS(usdma_setting_set("spin_us", "41"));
	assert_int_equal(usdma_setting_get("spin_us", text, 2), -ENOSPC);
	WORKS(usdma_setting_get("spin_us", text, 3));
	assert_string_equal(text, "41");
	info = describe("spin_us");
	assert_int_equal(info.source, USDMA_SETTING_PROGRAM);
	assert_int_equal(info.min, 0);
	assert_int_equal(info.max, 1000000);
	assert_string_equal(info.type, "number");
	assert_string_equal(info.unit, "us");
	assert_string_equal(describe("wait").words, "poll interrupt hybrid");
	info = describe("devices");
	assert_int_equal(info.source, USDMA_SETTING_ENVIRONMENT);
	assert_string_equal(info.where, "USDMA_DEVICES");
	assert_int_equal(usdma_setting_get("no such thing", text, sizeof(text)), -ENOENT);
	assert_int_equal(usdma_setting_describe(10000, &info), -ENOENT);
	assert_true(usdma_device_count() >= 1);
	assert_int_equal(usdma_setting_set("spin_us", "42"), -EBUSY);
	WORKS(usdma_setting_get("spin_us", text, sizeof(text)));
	assert_string_equal(text, "41");
}

static void devices_by_name_and_number(void **)
{
	usdma_device *a, *b;
	const std::string list = getenv("USDMA_DEVICES");

	assert_true(usdma_device_count() >= 1);
	WORKS(usdma_open(nullptr, &a));
	WORKS(usdma_open("0", &b));
	assert_ptr_equal(a, b);
	WORKS(usdma_close(b));
	WORKS(usdma_open(list.substr(0, list.find(',')).c_str(), &b));
	assert_ptr_equal(a, b);
	WORKS(usdma_close(b));
	WORKS(usdma_close(a));
	assert_int_equal(usdma_close(a), -EBADF);
	assert_int_equal(usdma_open("99", &a), -ENODEV);
	assert_null(a);
	assert_int_equal(usdma_open("no such scheme", &a), -EINVAL);
	assert_int_equal(usdma_open_index(1000, &a), -ENODEV);
	const int n = usdma_device_count();
	WORKS(usdma_open("sim:mem=1M:engines=1:channels=1", &a)); /* a device that USDMA_DEVICES does not list */
	WORKS(usdma_open(std::to_string(n).c_str(), &b));
	assert_ptr_equal(a, b);
	assert_int_equal(usdma_device_count(), n + 1);
	WORKS(usdma_close(a));
	WORKS(usdma_close(b));
	assert_int_equal(usdma_open("vfio-user:/nowhere/at/all", &a), -ENOENT);
	assert_int_equal(usdma_open(nullptr, nullptr), -EINVAL);
	assert_string_not_equal(usdma_error_text(), "");
}

static void information(void **)
{
	device dev;
	usdma_device_info info = {};
	usdma_device_stats before = {}, after = {};
	block mem(dev, kind::device, 1 << 20), host(dev, kind::pinned, 1 << 20);
	stream s(dev);
	usdma_stream_stats st = {};

	info.struct_size = sizeof(info);
	before.struct_size = after.struct_size = sizeof(before);
	st.struct_size = sizeof(st);
	WORKS(usdma_device_get_info(dev, &info));
	assert_true(strlen(info.driver) > 0 && strlen(info.driver) < sizeof(info.driver));
	assert_int_equal(info.index, 0);
	assert_true(info.memory_size > 0 && info.memory_free <= info.memory_size - (1 << 20));
	assert_true(info.engines > 0 && info.channels > 0 && info.max_copy > 0);
	assert_false(info.flags & USDMA_DEVICE_LOST);
	WORKS(usdma_device_get_stats(dev, &before));
	for (int i = 0; i < 10; i++)
		WORKS(usdma_copy(s, mem.data(), host.data(), 1000));
	WORKS(usdma_stream_sync(s, long_ms));
	WORKS(usdma_device_get_stats(dev, &after));
	assert_true(after.requests >= before.requests + 10 && after.doorbells > before.doorbells);
	assert_int_equal(after.bytes - before.bytes, 10000);
	WORKS(usdma_stream_get_stats(s, &st));
	assert_int_equal(st.copies, 10);
	assert_int_equal(st.bytes, 10000);
	assert_int_equal(st.errors, 0);
}

/* Callers built with an older or a newer header. */
static void structs_may_grow(void **)
{
	device dev;
	struct {
		usdma_device_info info;
		unsigned char more[64];
	} newer;
	struct {
		usdma_stream_options opt;
		uint64_t more;
	} options = {};
	usdma_device_info older;
	usdma_stream *s;

	memset(&newer, 0xff, sizeof(newer));
	newer.info.struct_size = sizeof(newer);
	WORKS(usdma_device_get_info(dev, &newer.info));
	for (const unsigned char c : newer.more)
		assert_int_equal(c, 0);
	memset(&older, 0xff, sizeof(older));
	older.struct_size = offsetof(usdma_device_info, driver);
	WORKS(usdma_device_get_info(dev, &older));
	assert_int_equal(older.index, 0);
	assert_int_equal(static_cast<unsigned char>(older.driver[0]), 0xff); /* beyond the caller's struct: untouched */
	older.struct_size = 0;
	assert_int_equal(usdma_device_get_info(dev, &older), -EINVAL);
	options.opt.struct_size = sizeof(options);
	WORKS(usdma_stream_create(dev, &options.opt, &s));
	WORKS(usdma_stream_destroy(s));
	options.more = 1;
	assert_int_equal(usdma_stream_create(dev, &options.opt, &s), -E2BIG);
	options.more = 0;
	options.opt.wait_mode = 17;
	assert_int_equal(usdma_stream_create(dev, &options.opt, &s), -EINVAL);
}

/* A struct_size that was never set: refused, and nothing is stored behind the struct, which may be on the stack. */
template <class T, class F> static void refuse_sizes(const char *name, const F &call)
{
	static constexpr size_t most = sizeof(T) + 256;
	struct {
		alignas(T) unsigned char bytes[most + 64];
	} given, was;
	auto *info = reinterpret_cast<T *>(given.bytes);

	for (const uint32_t bad : {0u, 7u, uint32_t(most + 1), 65536u, 0x5a5a5a5au, ~0u}) {
		memset(&given, 0x5a, sizeof(given));
		info->struct_size = bad;
		was = given;
		const bool good = call(info) == -EINVAL && strstr(usdma_error_text(), "struct_size") &&
				  !memcmp(&was, &given, sizeof(was));
		if (!good)
			print_error("%s with a struct_size of %u: %s\n", name, bad, usdma_error_text());
		assert_true(good);
	}
	memset(&given, 0, sizeof(given));
	given.bytes[most] = 0x5a;
	info->struct_size = most;
	WORKS(call(info));
	assert_int_equal(given.bytes[most], 0x5a);
}

static void sizes_that_were_never_set(void **)
{
	device dev;
	stream s(dev);

	refuse_sizes<usdma_setting_info>("setting", [](auto *i) { return usdma_setting_describe(0, i); });
	refuse_sizes<usdma_device_info>("device", [&](auto *i) { return usdma_device_get_info(dev, i); });
	refuse_sizes<usdma_device_stats>("statistics", [&](auto *i) { return usdma_device_get_stats(dev, i); });
	refuse_sizes<usdma_pointer_info>("pointer", [&](auto *i) { return usdma_pointer_get_info(&dev, i); });
	refuse_sizes<usdma_stream_stats>("stream", [&](auto *i) { return usdma_stream_get_stats(s, i); });
	refuse_sizes<usdma_error_info>("error", [&](auto *i) { return usdma_stream_take_error(s, i); });
	refuse_sizes<usdma_stream_options>("options", [&](auto *i) {
		usdma_stream *made = nullptr;
		const int err = usdma_stream_create(dev, i, &made);
		return err ? err : usdma_stream_destroy(made);
	});
}

static void pointer_info(void **)
{
	device dev;

	for (const kind k : all_kinds) {
		block b(dev, k, 10000);
		usdma_pointer_info info = {};

		info.struct_size = sizeof(info);
		WORKS(usdma_pointer_get_info(b.data() + 777, &info));
		const int want = k == kind::device   ? USDMA_MEMORY_DEVICE :
				 k == kind::pageable ? USDMA_MEMORY_UNREGISTERED :
						       USDMA_MEMORY_HOST;
		assert_int_equal(info.memory_class, want);
		assert_int_equal(info.registered, k == kind::registered);
		assert_int_equal(info.device_index, k == kind::device ? 0 : -1);
		if (k != kind::pageable) {
			assert_true(info.base <= reinterpret_cast<uint64_t>(b.data()));
			assert_true(info.base + info.size >= reinterpret_cast<uint64_t>(b.data() + 10000));
		}
	}
}

static void fd_is_signalled_at_the_end(void **)
{
	device dev;
	stream s(dev);
	block host(dev, kind::pinned, 1 << 20), mem(dev, kind::device, 1 << 20);
	const int fd = eventfd(0, EFD_CLOEXEC);
	pollfd p = {fd, POLLIN, 0};
	uint64_t n = 0;

	WORKS(usdma_copy(s, mem.data(), host.data(), 1 << 20));
	WORKS(usdma_stream_signal_fd(s, fd));
	assert_int_equal(poll(&p, 1, long_ms), 1);
	assert_int_equal(usdma_stream_query(s), 1);
	assert_int_equal(read(fd, &n, 8), 8);
	assert_int_equal(n, 1);
	close(fd);
	assert_int_equal(usdma_stream_signal_fd(s, fd), -EBADF);
}

struct observation {
	unsigned char *byte;
	std::atomic<int> value{-1};
	std::atomic<bool> go_on{false};
};

static void observe(void *arg)
{
	auto *o = static_cast<observation *>(arg);

	o->value = *o->byte;
	while (!o->go_on)
		sched_yield();
}

static void calls_run_between_copies(void **)
{
	device dev;
	stream s(dev), other(dev);
	block host(dev, kind::pinned, 4096), mem(dev, kind::device, 4096);
	observation o{host.data()};

	WORKS(usdma_fill(s, mem.data(), 0x21, 1, 4096));
	WORKS(usdma_copy(s, host.data(), mem.data(), 4096));
	WORKS(usdma_stream_call(s, observe, &o, 1));
	WORKS(usdma_fill(s, host.data(), 0x42, 1, 4096));
	while (o.value < 0)
		sched_yield();
	WORKS(usdma_fill(other, mem.data(), 0, 1, 64));
	WORKS(usdma_stream_sync(other, long_ms));
	assert_int_equal(usdma_stream_query(s), 0);
	assert_true(all_are(host.data(), 4096, 0x21));
	o.go_on = true;
	WORKS(usdma_stream_sync(s, long_ms));
	assert_int_equal(o.value, 0x21);
	assert_int_equal(host.data()[0], 0x42);
	assert_int_equal(usdma_stream_call(s, nullptr, nullptr, 0), -EINVAL);
}

static void values_and_reductions(void **)
{
	device dev;
	stream s(dev);
	block host(dev, kind::pinned, 4096), mem(dev, kind::device, 4096);
	auto *f = reinterpret_cast<float *>(host.data());

	for (int i = 0; i < 256; i++)
		f[i] = float(i);
	WORKS(usdma_copy(s, mem.data(), f, 1024));
	WORKS(usdma_reduce(s, mem.data(), f, 1024, USDMA_FLOAT32, USDMA_SUM));
	WORKS(usdma_write_value(s, mem.data() + 2048, 0x1122334455667788));
	WORKS(usdma_copy(s, host.data() + 1024, mem.data(), 2056));
	WORKS(usdma_stream_sync(s, long_ms));
	for (int i = 0; i < 256; i++)
		assert_true(f[256 + i] == float(2 * i));
	uint64_t v;
	memcpy(&v, host.data() + 1024 + 2048, 8);
	assert_int_equal(v, 0x1122334455667788);
	assert_int_equal(usdma_reduce(s, mem.data(), f, 1024, 99, USDMA_SUM), -EINVAL);
	assert_int_equal(usdma_reduce(s, mem.data(), f, 1023, USDMA_FLOAT32, USDMA_SUM), -EINVAL);
	assert_int_equal(usdma_wait_value(s, mem.data(), 9, 0), -EINVAL);
}

static void elapsed_time(void **)
{
	device dev;
	stream s(dev);
	block host(dev, kind::pinned, 1 << 20), mem(dev, kind::device, 1 << 20);
	event a(dev, USDMA_EVENT_TIMING), b(dev, USDMA_EVENT_TIMING), plain(dev);
	usdma_event *none;
	int64_t there, back;

	assert_int_equal(usdma_event_elapsed(a, b, &there), -ENOENT);
	WORKS(usdma_event_record(a, s));
	WORKS(usdma_copy(s, mem.data(), host.data(), 1 << 20));
	WORKS(usdma_event_record(b, s));
	WORKS(usdma_event_record(plain, s));
	WORKS(usdma_event_sync(plain, long_ms));
	WORKS(usdma_event_elapsed(a, b, &there));
	WORKS(usdma_event_elapsed(b, a, &back));
	assert_true(there > 0 && back == -there);
	assert_int_equal(usdma_event_elapsed(a, plain, &there), -EINVAL);
	assert_int_equal(usdma_event_create(dev, 0x80, &none), -EINVAL);
}

static std::string last_line;

static void save_line(int level, const char *text, void *arg)
{
	last_line = std::string(text) + std::to_string(level) + static_cast<const char *>(arg);
}

static void log_callback(void **)
{
	static char mark[] = "!";

	assert_int_equal(usdma_log_set_level(9), -EINVAL);
	WORKS(usdma_log_set_level(USDMA_LOG_DEBUG));
	usdma_log_set_callback(save_line, mark);
	{
		device dev; /* opening and closing are logged */
	}
	usdma_log_set_callback(nullptr, nullptr);
	WORKS(usdma_log_set_level(USDMA_LOG_WARN));
	assert_true(last_line.size() > 2 && last_line.back() == '!');
	assert_string_not_equal(usdma_version(), "");
}

/* Eight synchronous copies at once, on a device that is slow enough: later streams have the channels. */
static void synchronous_copies_keep_no_channel(void **)
{
	static constexpr size_t len = 64 * 1024; /* more than the CPU copies by itself */
	static constexpr unsigned threads = 8, idle = 2;
	usdma_device_stats st = {};
	usdma_device *dev;

	st.struct_size = sizeof(st);
	WORKS(usdma_open("sim:mem=16M:engines=1:channels=8:latency=10000", &dev));
	{
		block mem(dev, kind::device, threads * len), host(dev, kind::pinned, threads * len);
		std::vector<std::thread> all;
		std::atomic<int> failed = 0;

		for (unsigned i = 0; i < threads; i++)
			all.emplace_back([&, i] {
				failed += usdma_copy_sync(dev, mem.data() + i * len, host.data() + i * len, len,
							  long_ms) != 0;
			});
		for (std::thread &t : all)
			t.join();
		assert_int_equal(failed, 0);
		WORKS(usdma_device_get_stats(dev, &st));
		assert_in_range(st.streams, 0, idle);
	}
	WORKS(usdma_close(dev));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(settings),
		cmocka_unit_test(devices_by_name_and_number),
		cmocka_unit_test(information),
		cmocka_unit_test(structs_may_grow),
		cmocka_unit_test(sizes_that_were_never_set),
		cmocka_unit_test(pointer_info),
		cmocka_unit_test(fd_is_signalled_at_the_end),
		cmocka_unit_test(calls_run_between_copies),
		cmocka_unit_test(values_and_reductions),
		cmocka_unit_test(elapsed_time),
		cmocka_unit_test(synchronous_copies_keep_no_channel),
		cmocka_unit_test(log_callback),
	};

	return cmocka_run_group_tests_name("native", tests, nullptr, nullptr);
}
