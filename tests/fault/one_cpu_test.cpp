/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that may use one CPU, with default settings: a wait sleeps at once if a software engine, embedded or in
 * usdma-sim, shares the CPU, and no thread runs on another CPU.  (USDMA_SIM names the device program.)
 */
#include "tests/integration/native.h"
#include "tests/support/sim_process.h"

#include "usdma/uring.h"

#include "driver/base/clock.h"
#include "driver/base/cpu.h"

#include <filesystem>
#include <iterator>
#include <memory>
#include <sched.h>
#include <unistd.h>

using namespace usdma::test;

static constexpr size_t size = 4096;
static constexpr unsigned copies = 10;

static cpu_set_t allowed;
static pid_t sim;
static std::string folder;

/* Each copy takes 1 ms and a wait may spin for 50 ms, so that a spinning wait is detected. */
static int set_up(void **)
{
	char name[] = "/tmp/usdma-one-cpu-XXXXXX";
	int cpu = 0;

	assert_non_null(mkdtemp(name));
	folder = name;
	assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
	while (!CPU_ISSET(cpu, &allowed))
		cpu++;
	CPU_ZERO(&allowed);
	CPU_SET(cpu, &allowed);
	assert_int_equal(sched_setaffinity(0, sizeof(allowed), &allowed), 0);
	sim = start_sim(getenv("USDMA_SIM"), folder + "/dev",
			{"--engines", "1", "--channels", "4", "--mem", "1M", "--latency-us", "1000"});
	assert_true(sim > 0);
	setenv("USDMA_DEVICES", ("sim:mem=1M:engines=1:channels=4:latency=1000,vfio-user:" + folder + "/dev").c_str(),
	       1);
	setenv("USDMA_SPIN_US", "50000", 1);
	for (const char *other : {"USDMA_WAIT", "USDMA_SIM_CPUS"})
		unsetenv(other);
	return 0;
}

static int tear_down(void **)
{
	end_sim(sim, SIGTERM);
	return rmdir(folder.c_str());
}

static void stays_on_its_cpu(pid_t pid)
{
	std::error_code ignored;
	unsigned threads = 0;

	for (const auto &task :
	     std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", ignored)) {
		cpu_set_t mask;

		if (sched_getaffinity(std::stoi(task.path().filename()), sizeof(mask), &mask))
			continue; /* it has ended */
		threads++;
		assert_true(CPU_EQUAL(&mask, &allowed));
	}
	assert_true(threads);
}

static void copy(const stream &s, const block &to, const block &from)
{
	WORKS(usdma_copy(s, to.data(), from.data(), size));
	WORKS(usdma_stream_sync(s, long_ms));
}

static usdma_device_stats stats_of(usdma_device *dev)
{
	usdma_device_stats st = {};

	st.struct_size = sizeof(st);
	WORKS(usdma_device_get_stats(dev, &st));
	return st;
}

static void sleeps_at_once(unsigned index)
{
	const device dev(index);
	const stream s(dev);
	const block in(dev, kind::pinned, size), mem(dev, kind::device, size), out(dev, kind::pinned, size);

	auto gen = rng(index);

	fill_random(in.data(), size, gen);
	copy(s, mem, in); /* now the engine has reported its CPU */
	const usdma_device_stats before = stats_of(dev);
	for (unsigned i = 0; i < copies; i++)
		copy(s, out, mem);
	const usdma_device_stats after = stats_of(dev);
	assert_memory_equal(out.data(), in.data(), size);
	stays_on_its_cpu(getpid());
	if (!usdma::this_cpu())
		return print_message("# this_cpu() is unavailable here: waits are not checked\n");
	assert_int_equal(after.spins, before.spins);
	assert_true(after.sleeps > before.sleeps);
}

static void embedded_engine(void **)
{
	sleeps_at_once(0);
}

static void engine_of_a_process(void **)
{
	sleeps_at_once(1);
	stays_on_its_cpu(sim);
}

/* False: this user may not. */
static bool take_policy(int policy, int priority)
{
	const sched_param p = {priority};

	return !sched_setscheduler(0, policy, &p);
}

template <class F> static void reaches(F &&query)
{
	const auto until = usdma::deadline::in_ms(long_ms);
	int got;

	while ((got = query()) == 0 && !until.passed())
		;
	assert_int_equal(got, 1);
}

/* The engine's thread has a lower priority: that of the thread that opened the device, or of usdma-sim. */
static void queries_of_a_real_time_thread(void **)
{
	const auto to_normal = [](void *) { take_policy(SCHED_OTHER, 0); };

	if (!take_policy(SCHED_FIFO, 10))
		skip();
	const std::unique_ptr<void, decltype(to_normal)> normal(&allowed, to_normal);
	for (const unsigned index : {0u, 1u}) {
		const device dev(index);
		const stream s(dev);
		const event done(dev);
		const block in(dev, kind::pinned, size), mem(dev, kind::device, size);

		take_policy(SCHED_FIFO, 20);
		for (unsigned i = 0; i < 8; i++) {
			if (i >= 4) /* by a thread of the library */
				WORKS(usdma_stream_call(
					s, [](void *) {}, nullptr, 1));
			WORKS(usdma_copy(s, mem.data(), in.data(), size));
			WORKS(usdma_event_record(done, s));
			reaches([&] { return i % 2 ? usdma_event_query(done) : usdma_stream_query(s); });
		}
	}
}

namespace {

/* What may be polled; each is called after a copy. */
struct polled {
	usdma_device *dev;
	usdma_stream *s;
	usdma_event *done, *before;
	usdma_completion *completion;
	usdma_completion_set *set;
};

} // namespace

/* 1: done; 0: not yet. */
static int is_done(int err, int not_yet)
{
	return err == not_yet ? 0 : err ? err : 1;
}

static int (*const polls[])(const polled &p) = {
	[](const polled &p) { return is_done(usdma_stream_sync(p.s, 0), -ETIMEDOUT); },
	[](const polled &p) { return is_done(usdma_device_sync(p.dev, 0), -ETIMEDOUT); },
	[](const polled &p) { return is_done(usdma_event_sync(p.done, 0), -ETIMEDOUT); },
	[](const polled &p) {
		int64_t ns;

		return is_done(usdma_event_elapsed(p.before, p.done, &ns), -EAGAIN);
	},
	[](const polled &p) { return is_done(usdma_completion_finish(p.completion), -EAGAIN); },
	[](const polled &p) {
		usdma_error_info info = {};

		info.struct_size = sizeof(info);
		return is_done(usdma_completion_take_error(p.completion, &info), -EAGAIN);
	},
	[](const polled &p) {
		usdma_completed ended;
		const int n = usdma_completion_finish_many(p.set, &ended, 1);

		return n == -EAGAIN ? 0 : n;
	},
};

static void poll_each(const polled &p, const block &mem, const block &in, unsigned i)
{
	usdma_completed ended;
	int fd;

	WORKS(usdma_event_record(p.before, p.s));
	/* Behind work of a thread of the library, of which sometimes the copy waits. */
	if (i % 3)
		WORKS(usdma_stream_call(
			p.s, [](void *) {}, nullptr, i % 3 == 2));
	WORKS(usdma_copy(p.s, mem.data(), in.data(), size));
	WORKS(usdma_event_record(p.done, p.s));
	WORKS(usdma_completion_start(p.completion, p.s, &fd));
	WORKS(usdma_completion_mark(p.set, i));
	reaches([&] { return polls[i / 3](p); });
	WORKS(usdma_stream_sync(p.s, long_ms));
	if (polls[i / 3] != polls[4])
		WORKS(usdma_completion_finish(p.completion));
	if (polls[i / 3] != polls[6])
		assert_int_equal(usdma_completion_finish_many(p.set, &ended, 1), 1);
}

static void polls_of_a_real_time_thread(void **)
{
	const auto to_normal = [](void *) { take_policy(SCHED_OTHER, 0); };

	if (!take_policy(SCHED_FIFO, 10))
		skip();
	const std::unique_ptr<void, decltype(to_normal)> normal(&allowed, to_normal);
	for (const unsigned index : {0u, 1u}) {
		const device dev(index);
		const stream s(dev);
		const event done(dev, USDMA_EVENT_TIMING), before(dev, USDMA_EVENT_TIMING);
		const block in(dev, kind::pinned, size), mem(dev, kind::device, size);
		polled p = {dev, s, done, before, nullptr, nullptr};

		WORKS(usdma_completion_create(&p.completion));
		WORKS(usdma_completion_set_create(s, &p.set));
		take_policy(SCHED_FIFO, 20);
		for (unsigned i = 0; i < 3 * std::size(polls); i++)
			poll_each(p, mem, in, i);
		WORKS(usdma_completion_destroy(p.completion));
		WORKS(usdma_completion_set_destroy(p.set));
	}
}

static void process_while_it_serves(void **)
{
	const device dev(1);
	const pid_t server = client_process_of(sim);

	assert_true(server > 0);
	stays_on_its_cpu(server);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(embedded_engine),
		cmocka_unit_test(engine_of_a_process),
		cmocka_unit_test(queries_of_a_real_time_thread),
		cmocka_unit_test(polls_of_a_real_time_thread),
		cmocka_unit_test(process_while_it_serves),
	};

	return cmocka_run_group_tests_name("one-cpu", tests, set_up, tear_down);
}
