/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults that affect other streams and devices: streams that wait for an event of a lost
 * device, copies with its memory, rings that wait for a halted ring while the program only
 * polls, and memory and time stamps that are freed while a ring still refers to them.  On
 * an embedded device and on one in a process.
 * Run as: neighbours_test (USDMA_SIM names the device program).
 */
#include "tests/integration/native.h"
#include "tests/support/sim_process.h"
#include "tests/support/until.h"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <functional>
#include <poll.h>
#include <string>
#include <sys/eventfd.h>
#include <unistd.h>
#include <vector>

using namespace usdma::test;

using u8 = unsigned char;

static constexpr size_t size = 64 * 1024;
static constexpr unsigned embedded = 0, process = 1, healthy = 2, one_engine = 3;

static pid_t sim;
static std::string folder;

static int set_up(void **)
{
	char name[] = "/tmp/usdma-neighbours-XXXXXX";

	assert_non_null(mkdtemp(name));
	folder = name;
	const std::string ctl = folder + "/ctl";
	sim = start_sim(getenv("USDMA_SIM"), folder + "/dev",
			{"--control", ctl.c_str(), "--engines", "2", "--channels", "16", "--mem", "64M"});
	assert_true(sim > 0);
	setenv("USDMA_DEVICES",
	       ("sim:mem=64M:engines=2:channels=16:faults=,vfio-user:" + folder +
		"/dev,sim:mem=64M:engines=2:channels=16,sim:mem=64M:engines=1:channels=16:faults=")
		       .c_str(),
	       1);
	return 0;
}

static int tear_down(void **)
{
	end_sim(sim, SIGTERM);
	return rmdir(folder.c_str());
}

static void set_faults(usdma_device *dev, unsigned where, const char *rules)
{
	if (where != process)
		WORKS(usdma_device_inject(dev, rules));
	else
		assert_non_null(strstr(
			send_control_line(folder + "/ctl", *rules ? std::string("faults ") + rules : "clear").c_str(),
			"\"ok\": true"));
}

/* A stream whose destruction may return an error. */
class failing_stream {
public:
	explicit failing_stream(usdma_device *d) { WORKS(usdma_stream_create(d, nullptr, &s_)); }
	failing_stream(const failing_stream &) = delete;
	~failing_stream() { destroy(); }
	int destroy()
	{
		const int err = s_ ? usdma_stream_destroy(s_) : 0;

		s_ = nullptr;
		return err;
	}
	operator usdma_stream *() const { return s_; }

private:
	usdma_stream *s_ = nullptr;
};

/* ---- a device that is lost --------------------------------------------------------------------------- */

/* The device executes nothing more and is lost. */
static void vanish(usdma_device *dev, unsigned where, const block &host, void *mem)
{
	failing_stream s(dev);

	set_faults(dev, where, "vanish@1+slow%1/1000000");
	usdma_copy(s, mem, host.data(), size);
	until("the loss of a device", [=] { return flags_of(dev) & USDMA_DEVICE_LOST; });
}

/*
 * A stream that waits for an event of a lost device continues with an error; its failure mode decides whether later
 * copies run.
 */
static void waiters_of_a_lost_event_continue(unsigned where)
{
	device ok(healthy);
	block host(ok, kind::pinned, size), got(ok, kind::pinned, size), mem(ok, kind::device, size);
	usdma_device *dev;
	void *there;

	memset(host.data(), 0x5a, size);
	memset(got.data(), 0, size);
	WORKS(usdma_open_index(where, &dev));
	WORKS(usdma_device_alloc(dev, size, &there));
	{
		failing_stream a(dev), goes_on(ok), stops(ok), destroyed(ok);
		event e(dev);

		WORKS(usdma_fill_sync(ok, mem.data(), 0x77, 1, size, long_ms));
		set_faults(dev, where, "hang@1/for-good");
		WORKS(usdma_copy(a, there, host.data(), size));
		WORKS(usdma_event_record(e, a));
		WORKS(usdma_stream_set_fail_mode(stops, USDMA_FAIL_STOP));
		for (usdma_stream *s : {(usdma_stream *)goes_on, (usdma_stream *)stops, (usdma_stream *)destroyed})
			WORKS(usdma_stream_wait_event(s, e));
		WORKS(usdma_copy(goes_on, got.data(), mem.data(), size / 2));
		WORKS(usdma_copy(stops, got.data() + size / 2, mem.data(), size / 2));
		assert_int_equal(usdma_stream_query(goes_on), 0);
		vanish(dev, where, host, there);
		assert_int_equal(usdma_stream_sync(goes_on, long_ms), -EIO);
		assert_int_equal(usdma_stream_sync(stops, long_ms), -EIO);
		assert_int_equal(destroyed.destroy(), -EIO);
		assert_true(all_are(got.data(), size / 2, 0x77));
		assert_true(all_are(got.data() + size / 2, size / 2, 0));
		WORKS(usdma_copy(goes_on, got.data(), mem.data(), size / 2));
		WORKS(usdma_stream_sync(goes_on, long_ms));
		assert_int_equal(usdma_copy(stops, got.data(), mem.data(), size / 2), -EIO);
	}
	WORKS(usdma_device_free(there));
	WORKS(usdma_close(dev));
	if (where == process)
		send_control_line(folder + "/ctl", "clear");
}

/* Copies with memory of a lost device fail, by each call, in both directions, long and short. */
static void lost_device_memory(unsigned where)
{
	device ok(healthy);
	block host(ok, kind::pinned, size), mem(ok, kind::device, size), plain(ok, kind::pageable, size);
	usdma_device *dev;
	void *there;

	memset(host.data(), 0x5a, size);
	memset(plain.data(), 0x5a, size);
	WORKS(usdma_open_index(where, &dev));
	WORKS(usdma_device_alloc(dev, size, &there));
	{
		failing_stream s(ok);

		set_faults(dev, where, "");
		for (void *p :
		     {(void *)host.data(), (void *)mem.data(), (void *)plain.data()}) { /* accessible before */
			WORKS(usdma_copy(s, there, p, size));
			WORKS(usdma_copy(s, p, there, size));
		}
		WORKS(usdma_stream_sync(s, long_ms));
		vanish(dev, where, host, there);
		for (size_t len : {size_t(64), size_t(8), size_t(8192), size})
			for (u8 *p : {host.data(), mem.data(), plain.data()})
				for (int in : {0, 1}) {
					void *dst = in ? there : p;
					const void *src = in ? p : there;
					size_t done;
					const usdma_copy_item item = {dst, src, len};
					const usdma_copy_rect rect = {dst, len, src, len, len, 1};

					assert_int_equal(usdma_copy_sync(ok, dst, src, len, long_ms), -ENODEV);
					const std::function<int()> calls[] = {
						[&] { return usdma_copy(s, dst, src, len); },
						[&] { return usdma_copy_batch(s, &item, 1, &done); },
						[&] { return usdma_copy_2d(s, &rect); },
					};
					for (const auto &call : calls) {
						int err = call();
						const int end = usdma_stream_sync(s, long_ms);

						err = err ? err : end;
						assert_int_equal(err, -ENODEV);
					}
				}
		WORKS(usdma_copy(s, mem.data(), host.data(), size)); /* its own memory still works */
		WORKS(usdma_stream_sync(s, long_ms));
	}
	WORKS(usdma_device_free(there));
	WORKS(usdma_close(dev));
	if (where == process)
		send_control_line(folder + "/ctl", "clear");
}

/* ---- what a ring still refers to --------------------------------------------------------------------- */

/* Events are destroyed or recorded again while their stamps are pending: the times of others do not change. */
static void pending_stamps(unsigned where)
{
	device dev(where);
	stream s(dev), other(dev);
	event zero(dev, USDMA_EVENT_TIMING), again(dev, USDMA_EVENT_TIMING);
	static constexpr int n = 40;
	std::vector<usdma_event *> later(n);
	std::vector<int64_t> elapsed(n);

	set_faults(dev, where, "");
	WORKS(usdma_event_record(zero, s));
	WORKS(usdma_stream_sync(s, long_ms));
	{
		gate g(dev);

		g.close(s);
		for (int i = 0; i < n / 2; i++) { /* stamps in the ring whose events are destroyed or recorded again */
			usdma_event *destroyed_event;

			WORKS(usdma_event_create(dev, USDMA_EVENT_TIMING, &destroyed_event));
			WORKS(usdma_event_record(destroyed_event, s));
			WORKS(usdma_event_destroy(destroyed_event));
			WORKS(usdma_event_record(again, s));
			WORKS(usdma_event_record(again, other));
		}
		for (int i = 0; i < n; i++) {
			WORKS(usdma_event_create(dev, USDMA_EVENT_TIMING, &later[i]));
			WORKS(usdma_event_record(later[i], other));
		}
		WORKS(usdma_stream_sync(other, long_ms));
		for (int i = 0; i < n; i++)
			WORKS(usdma_event_elapsed(zero, later[i], &elapsed[i]));
		g.open();
		WORKS(usdma_stream_sync(s, long_ms));
	}
	for (int i = 0; i < n; i++) {
		int64_t now;

		WORKS(usdma_event_elapsed(zero, later[i], &now));
		assert_int_equal(now, elapsed[i]);
		assert_true(i == 0 || elapsed[i] >= elapsed[i - 1]);
		WORKS(usdma_event_destroy(later[i]));
	}
}

/* ---- programs that only poll ------------------------------------------------------------------------- */

using wait_fn = void (*)(usdma_device *dev, usdma_stream *s);

static void by_query(usdma_device *, usdma_stream *s)
{
	until("query", [=] { return usdma_stream_query(s) != 0; });
}

static void by_event(usdma_device *dev, usdma_stream *s)
{
	event e(dev);

	WORKS(usdma_event_record(e, s));
	until("event query", [&] { return usdma_event_query(e) != 0; });
}

static void by_sync_0(usdma_device *, usdma_stream *s)
{
	until("sync with timeout 0", [=] {
		const int err = usdma_stream_sync(s, 0);

		assert_true(err == 0 || err == -ETIMEDOUT);
		return err == 0;
	});
}

static void by_signal(usdma_device *, usdma_stream *s)
{
	const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pollfd p = {fd, POLLIN, 0};

	WORKS(usdma_stream_signal_fd(s, fd));
	assert_int_equal(poll(&p, 1, 30000), 1);
	close(fd);
}

static void by_call(usdma_device *, usdma_stream *s)
{
	unsigned called = 0;

	WORKS(usdma_stream_call(
		s, [](void *arg) { __atomic_store_n(static_cast<unsigned *>(arg), 1, __ATOMIC_RELEASE); }, &called, 0));
	until("call", [&] {
		const timespec nap = {0, 1000000};

		nanosleep(&nap, nullptr);
		return __atomic_load_n(&called, __ATOMIC_ACQUIRE) != 0;
	});
}

static void by_sync(usdma_device *, usdma_stream *s)
{
	WORKS(usdma_stream_sync(s, long_ms));
}

static const wait_fn wait_fns[] = {by_query, by_event, by_sync_0, by_signal, by_call, by_sync};

/* A ring waits for an event of a ring that halts before it; a stream of another device waits for that ring. */
static void behind_a_halted_ring(unsigned where, wait_fn wait, bool through_another)
{
	device dev(where), ok(healthy);
	failing_stream a(dev);
	stream b(dev), c(ok);
	event e(dev), f(dev);
	block mem(dev, kind::device, size), host(dev, kind::pinned, size), back(dev, kind::pinned, size);

	gate g(dev);
	std::vector<u8> own(size);

	memset(host.data(), 0x5a, size);
	memset(back.data(), 0, size);
	set_faults(dev, where, "");
	WORKS(usdma_fill_sync(dev, mem.data(), 0x33, 1, size, long_ms));
	/* The destination is unregistered when the copy runs, after the others are in their rings. */
	WORKS(usdma_host_register(own.data(), size, 0));
	g.close(a);
	WORKS(usdma_copy(a, own.data(), mem.data(), 64));
	WORKS(usdma_event_record(e, a));
	WORKS(usdma_host_unregister(own.data()));
	WORKS(usdma_stream_wait_event(b, e));
	WORKS(usdma_copy(b, back.data(), mem.data(), size));
	WORKS(usdma_event_record(f, b));
	WORKS(usdma_stream_wait_event(c, f));
	WORKS(usdma_write_value(g.opener, g.word.data(), 1)); /* no one waits for this write */
	wait(through_another ? ok : dev, through_another ? c : b);
	assert_true(all_are(back.data(), size, 0x33));
	assert_int_equal(usdma_stream_sync(a, long_ms), -EFAULT);
}

static void pollers(unsigned where)
{
	for (wait_fn w : wait_fns)
		for (bool other : {false, true})
			behind_a_halted_ring(where, w, other);
}

static timer_t start_ticks()
{
	struct sigaction act = {};
	sigevent ev = {};
	const itimerspec every = {{0, 10000000}, {0, 10000000}};
	timer_t t;

	act.sa_handler = [](int) {};
	sigaction(SIGUSR1, &act, nullptr); /* no SA_RESTART: sleeps end */
	ev.sigev_notify = SIGEV_SIGNAL;
	ev.sigev_signo = SIGUSR1;
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &ev, &t), 0);
	assert_int_equal(timer_settime(t, 0, &every, nullptr), 0);
	return t;
}

/* A sleeper that a signal wakes every 10 ms still makes progress for other rings. */
static void by_sync_under_signals(usdma_device *dev, usdma_stream *s)
{
	const timer_t t = start_ticks();

	by_sync(dev, s);
	timer_delete(t);
}

static void sleeper_with_signals(unsigned where)
{
	for (bool other : {false, true})
		behind_a_halted_ring(where, by_sync_under_signals, other);
}

/* ---- a busy engine ----------------------------------------------------------------------------------- */

/* Channels that wait for a busy engine do not count as hung; one that hangs is still recovered. */
static void waiting_for_a_busy_engine(void **)
{
	device dev(one_engine);
	block mem(dev, kind::device, size), host(dev, kind::pinned, size);
	static constexpr size_t n = 6;

	for (const char *rules : {"slow@1/1500000", "slow%1/400000"}) {
		std::vector<stream> s;

		for (size_t i = 0; i < n; i++)
			s.emplace_back(dev);
		memset(host.data(), 0x5a, size);
		set_faults(dev, one_engine, rules);
		for (size_t i = 0; i < n; i++)
			WORKS(usdma_copy(s[i], mem.data() + i * 4096, host.data(), 4096));
		for (size_t i = n; i-- > 0;)
			WORKS(usdma_stream_sync(s[i], -1));
		set_faults(dev, one_engine, "");
		WORKS(usdma_copy_sync(dev, host.data(), mem.data(), n * 4096, long_ms));
		assert_true(all_are(host.data(), n * 4096, 0x5a));
	}
	failing_stream hangs(dev);
	stream beside(dev);
	set_faults(dev, one_engine, "hang@1");
	WORKS(usdma_copy(hangs, mem.data(), host.data(), 4096));
	assert_int_equal(usdma_stream_sync(hangs, long_ms), -EIO);
	WORKS(usdma_copy(beside, mem.data(), host.data(), 4096));
	WORKS(usdma_stream_sync(beside, long_ms));
}

/* ---- main -------------------------------------------------------------------------------------------- */

template <void (*test)(unsigned), unsigned where> static void at(void **)
{
	test(where);
}

#define BOTH(f)                                                                                                        \
	{#f " (embedded)", at<f, embedded>, nullptr, nullptr, nullptr},                                                \
	{                                                                                                              \
#f " (process)", at < f, process>, nullptr, nullptr, nullptr                                           \
	}

int main()
{
	const CMUnitTest tests[] = {
		BOTH(pending_stamps),
		BOTH(pollers),
		BOTH(sleeper_with_signals),
		cmocka_unit_test(waiting_for_a_busy_engine),
		BOTH(waiters_of_a_lost_event_continue),
		BOTH(lost_device_memory),
	};

	setenv("USDMA_LOG", "none", 0);
	setenv("USDMA_HANG_MS", "250", 0);
	alarm(150); /* a call that hangs */
	return cmocka_run_group_tests_name("neighbours", tests, set_up, tear_down);
}
