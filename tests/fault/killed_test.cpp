/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process that is the device dies by SIGKILL while copies are in flight:
 * every call that waits then, and every later one, ends with an error.
 * Run as: killed_test (USDMA_SIM names the device program).
 */
#include "tests/integration/native.h"
#include "tests/support/sim_process.h"

#include <csignal>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma::test;

static constexpr size_t MiB = 1 << 20;
static constexpr int patience_s = 60; /* the whole test; a call that hangs ends in SIGALRM */

static pid_t sim;
static std::string folder;

/* At this rate the copies below would take hours: none can end by itself. */
static void serve()
{
	sim = start_sim(getenv("USDMA_SIM"), folder + "/dev",
			{"--rate", "64K", "--engines", "2", "--channels", "16", "--mem", "256M"});
	assert_true(sim > 0);
}

static int set_up(void **)
{
	char name[] = "/tmp/usdma-killed-XXXXXX";

	assert_non_null(mkdtemp(name));
	folder = name;
	serve();
	setenv("USDMA_DEVICES", ("vfio-user:" + folder + "/dev").c_str(), 1); /* read at first use, which is below */
	return 0;
}

static int tear_down(void **)
{
	end_sim(sim);
	unlink((folder + "/dev").c_str());
	return rmdir(folder.c_str());
}

/* Until the stream's first copy runs: the device has begun to answer nothing more. */
static void until_it_moves(const block &to)
{
	const volatile unsigned char *first = to.data();

	while (__atomic_load_n(first, __ATOMIC_ACQUIRE) != 0x5a)
		std::this_thread::yield();
}

struct call {
	const char *name;
	std::function<int()> run;
	int result = 0;
};

static void every_pending_call_ends(void **)
{
	device dev;
	usdma_stream *s[4];
	block mem(dev, kind::device, 32 * MiB), host(dev, kind::pinned, 32 * MiB), plain(dev, kind::pageable, 8 * MiB);
	usdma_event *e;

	usdma_stream_options opt = {};
	opt.struct_size = sizeof(opt);
	for (uint32_t i = 0; i < 4; i++) { /* each wait mode sleeps in its own way */
		opt.wait_mode = i;
		WORKS(usdma_stream_create(dev, &opt, &s[i]));
	}
	memset(host.data(), 0, 4096);
	WORKS(usdma_event_create(dev, 0, &e));
	WORKS(usdma_fill(s[0], mem.data(), 0x5a, 1, 4096));
	WORKS(usdma_stream_sync(s[0], long_ms));
	for (usdma_stream *one : s)
		WORKS(usdma_copy(one, host.data(), mem.data(), host.size()));
	WORKS(usdma_event_record(e, s[1]));
	std::vector<call> calls = {
		{"stream sync, default", [&] { return usdma_stream_sync(s[0], -1); }},
		{"stream sync, poll", [&] { return usdma_stream_sync(s[1], -1); }},
		{"stream sync, interrupt", [&] { return usdma_stream_sync(s[2], -1); }},
		{"stream sync, hybrid", [&] { return usdma_stream_sync(s[3], -1); }},
		{"event sync", [&] { return usdma_event_sync(e, -1); }},
		{"device sync", [&] { return usdma_device_sync(dev, -1); }},
		{"pageable copy", [&] { return usdma_copy(s[0], plain.data(), mem.data(), plain.size()); }},
		{"synchronous copy", [&] { return usdma_copy_sync(dev, plain.data(), mem.data(), plain.size(), -1); }},
	};
	std::vector<std::thread> threads;
	for (call &c : calls)
		threads.emplace_back([&c] { c.result = c.run(); });
	until_it_moves(host);
	kill(sim, SIGKILL);
	for (std::thread &t : threads)
		t.join();
	for (const call &c : calls) {
		if (c.result != -ENODEV)
			print_error("%s: %d\n", c.name, c.result);
		assert_int_equal(c.result, -ENODEV);
	}
	const int late = usdma_copy(s[2], host.data(), mem.data(), 64); /* may be taken; then the wait tells */
	assert_true(late == 0 || late == -ENODEV);
	assert_int_equal(usdma_stream_sync(s[2], -1), -ENODEV);
	assert_int_equal(usdma_copy_sync(dev, plain.data(), mem.data(), 64, -1), -ENODEV);
	assert_int_equal(usdma_stream_query(s[3]), -ENODEV);
	assert_string_not_equal(usdma_error_text(), "");
	for (usdma_stream *one : s) {
		usdma_stream_destroy(one);
		assert_int_equal(usdma_stream_query(one), -EBADF); /* gone, whatever destroy had to tell */
	}
	WORKS(usdma_event_destroy(e));
}

/* After all is closed the same program can use a device that has come back at the same place. */
static void it_can_be_opened_again(void **)
{
	waitpid(sim, nullptr, 0);
	unlink((folder + "/dev").c_str());
	serve();
	device dev;
	stream s(dev);
	block mem(dev, kind::device, 4096), host(dev, kind::pinned, 4096);

	WORKS(usdma_fill(s, mem.data(), 0x33, 1, 4096));
	WORKS(usdma_copy(s, host.data(), mem.data(), 4096));
	WORKS(usdma_stream_sync(s, long_ms));
	for (int i = 0; i < 4096; i++)
		assert_int_equal(host.data()[i], 0x33);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(every_pending_call_ends),
		cmocka_unit_test(it_can_be_opened_again),
	};

	if (!getenv("USDMA_SIM")) {
		fprintf(stderr, "USDMA_SIM must name usdma-sim\n");
		return 2;
	}
	alarm(patience_s);
	return cmocka_run_group_tests_name("killed", tests, set_up, tear_down);
}
