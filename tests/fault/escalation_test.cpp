/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The effects of a channel that hangs: first its own request fails, then what is
 * pending on the device, then the device is lost.  Embedded device; the steps take
 * multiples of USDMA_HANG_MS, but no test depends on the time.
 */
#include "driver/base/log.h"
#include "driver/vfio/device.h"
#include "lib/core/copy/copy.h"
#include "lib/core/queue/recover.h"
#include "lib/core/stream/event.h"
#include "tests/support/core.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma;
using namespace usdma::core;
using usdma::test::ptr;
using usdma::test::soon;

static constexpr u64 size = 64 * KiB;

struct setting {
	device *dev = nullptr;
	stream *s[4] = {};
	u8 *in = nullptr, *out[4] = {};
	u64 d = 0;
};

static void set_up(setting *t)
{
	auto gen = test::rng(3);

	ok(device_get(0, &t->dev));
	ok(t->dev->eng->transport().inject(""));
	ok(host_alloc(size, -1, reinterpret_cast<void **>(&t->in)));
	ok(device_alloc(t->dev, 2 * size, page_policy::normal_only, &t->d));
	test::fill_random(t->in, size, gen);
	for (unsigned i = 0; i < 4; i++) {
		ok(stream_create(t->dev, {}, &t->s[i]));
		ok(host_alloc(size, -1, reinterpret_cast<void **>(&t->out[i])));
		memset(t->out[i], 0, size);
	}
	ok(copy_async(t->s[0], ptr(t->d), t->in, size));
	ok(stream_sync(t->s[0], soon()));
}

static void tear_down(setting *t)
{
	for (unsigned i = 0; i < 4; i++) {
		stream_destroy(t->s[i]);
		ok(host_free(t->out[i]));
	}
	ok(host_free(t->in));
	ok(device_free(t->d));
	device_put(t->dev);
}

static void inject(setting *t, const char *rules)
{
	ok(t->dev->eng->transport().inject(rules));
}

static void copy_out(setting *t, unsigned i, u64 from, u64 to)
{
	ok(copy_async(t->s[i], t->out[i] + from, ptr(t->d + from), to - from));
}

static void is_whole(setting *t, unsigned i, u64 from = 0, u64 to = size)
{
	assert_memory_equal(t->out[i] + from, t->in + from, to - from);
}

static void until_struck(setting *t)
{
	std::string struck;

	do
		ok(t->dev->eng->transport().injected(&struck));
	while (struck.find("struck 1") == struck.npos);
}

/* Other streams work while one hangs and is reset; afterwards its own later requests run. */
static void others_go_on(void **)
{
	std::atomic<bool> stop{false};
	u64 rounds = 0;
	setting t;

	set_up(&t);
	inject(&t, "hang@1");
	copy_out(&t, 0, 0, 4096);
	until_struck(&t); /* before other copies, so that this one hangs */
	copy_out(&t, 0, 4096, size);
	std::thread other([&] {
		while (!stop) {
			memset(t.out[1], 0, size);
			copy_out(&t, 1, 0, size);
			ok(stream_sync(t.s[1], soon()));
			is_whole(&t, 1);
			rounds++;
		}
	});
	assert_int_equal(stream_sync(t.s[0], soon()), -EIO);
	stop = true;
	other.join();
	assert_true(rounds > 0);
	is_whole(&t, 0, 4096, size);
	assert_int_equal(t.out[0][0] | t.out[0][4095], 0); /* the copy whose failure was reported */
	assert_int_equal(t.s[1]->errors, 0);
	ok(stream_sync(t.s[0], soon()));
	tear_down(&t);
}

/* In failure mode stop, no later request of the stream runs. */
static void stop_mode(void **)
{
	setting t;

	set_up(&t);
	inject(&t, "hang@1");
	ok(stream_set_fail_mode(t.s[0], fail_mode::stop));
	for (u64 off = 0; off < size; off += 4096)
		copy_out(&t, 0, off, off + 4096);
	assert_int_equal(stream_sync(t.s[0], soon()), -EIO);
	for (u64 i = 0; i < size; i++)
		assert_int_equal(t.out[0][i], 0);
	copy_out(&t, 1, 0, size);
	ok(stream_sync(t.s[1], soon()));
	tear_down(&t);
}

/* A device reset fails all pending requests; device memory and configuration are unchanged. */
static void device_is_reset(void **)
{
	setting t;

	set_up(&t);
	inject(&t, "hang@1/device");
	for (unsigned i = 0; i < 3; i++)
		copy_out(&t, 0, 0, size);
	assert_int_equal(stream_sync(t.s[0], soon()), -EIO);
	for (unsigned i = 0; i < 4; i++) {
		copy_out(&t, i, 0, size);
		ok(stream_sync(t.s[i], soon()));
		is_whole(&t, i);
	}
	ok(copy_sync(t.dev, t.out[0], ptr(t.d), size, soon()));
	assert_false(t.dev->lost());
	tear_down(&t);
}

/* A reset during the call that destroys the stream is reported by that call. */
static void reset_at_the_end(void **)
{
	setting t;

	set_up(&t);
	inject(&t, "hang@1/device");
	copy_out(&t, 0, 0, size);
	assert_int_equal(stream_destroy(t.s[0]), -EIO);
	inject(&t, "hang@1/device");
	copy_out(&t, 1, 0, size);
	assert_int_equal(device_close_handle(device_handle(t.dev)), -EIO);
	for (u8 *out : t.out)
		ok(host_free(out));
	ok(host_free(t.in));
}

/* What is logged while there is one of these. */
static std::string logged;

struct log_to_string {
	log_to_string()
	{
		logged.clear();
		log_set_level(log_level::warn);
		log_set_sink([](log_level, const char *line, void *) { logged += std::string(line) + "\n"; }, nullptr);
	}
	~log_to_string()
	{
		log_set_sink(nullptr, nullptr);
		log_set_level(log_level::none);
	}
};

/*
 * One channel cannot go on behind a reset of the device: the device is given up at once, and not when the next limit is
 * over. All streams are notified, and it can be opened again.
 */
static void a_restart_that_fails(void **)
{
	static dma::channel_ops ops;
	setting t;

	set_up(&t);
	ops = *t.s[1]->ln->ch->ops;
	ops.restart = [](dma::channel *ch) { return fail(EIO, "channel %u does not start", ch->index); };
	t.s[1]->ln->lock.lock();
	t.s[1]->ln->ch->ops = &ops;
	t.s[1]->ln->lock.unlock();
	inject(&t, "hang@1/device");
	{
		const log_to_string scope;

		/* The first one is the channel's, which is reset. */
		for (unsigned i = 0; i < 3; i++)
			copy_out(&t, 0, 0, size);
		assert_true(stream_sync(t.s[0], soon()) < 0);
		for (const deadline until = soon(); !t.dev->lost() && !until.passed();)
			device_alive(t.dev);
	}
	assert_true(logged.find("device reset: channel") != logged.npos);
	assert_true(logged.find("device reset: done") == logged.npos);
	assert_true(stream_sync(t.s[0], soon()) < 0);
	for (unsigned i = 0; i < 4; i++) {
		copy_async(t.s[i], t.out[i], ptr(t.d), size);
		assert_int_equal(stream_sync(t.s[i], soon()), -ENODEV);
	}
	tear_down(&t);
	set_up(&t);
	copy_out(&t, 1, 0, size);
	ok(stream_sync(t.s[1], soon()));
	is_whole(&t, 1);
	tear_down(&t);
}

/* The log distinguishes a lost wake-up from an engine that hangs (docs/reliability.md). */
static void logs_channel_state(void **)
{
	setting t;

	set_up(&t);
	{
		const log_to_string scope;

		inject(&t, "hang@1");
		copy_out(&t, 0, 0, size);
		assert_int_equal(stream_sync(t.s[0], soon()), -EIO);
	}
	for (const char *want :
	     {"posted ", "doorbell ", "begun ", "completed ", "in its engine's list", "bell ", "woken "}) {
		if (logged.find(want) == logged.npos)
			print_error("\"%s\" is missing: %s", want, logged.c_str());
		assert_true(logged.find(want) != logged.npos);
	}
	tear_down(&t);
}

/* A copy that hangs before a wait for a value counts as a hang. */
static void hang_before_a_wait(void **)
{
	setting t;

	set_up(&t);
	u64 *word = reinterpret_cast<u64 *>(t.in);
	*word = 7;
	ok(copy_async(t.s[0], ptr(t.d + size), t.in, 8));
	ok(stream_sync(t.s[0], soon()));
	inject(&t, "hang@1");
	copy_out(&t, 0, 0, 4096);
	ok(wait_value_async(t.s[0], ptr(t.d + size), dma::compare::eq, 7));
	copy_out(&t, 0, 4096, 8192);
	assert_int_equal(stream_sync(t.s[0], soon()), -EIO);
	assert_memory_equal(t.out[0] + 4096, t.in + 4096, 4096);
	tear_down(&t);
}

/* A WAIT does not count as a hang, however long it takes. */
static void a_wait_is_no_hang(void **)
{
	setting t;

	set_up(&t);
	const u64 zero = 0;
	ok(copy_sync(t.dev, ptr(t.d + size), &zero, 8, soon()));
	ok(wait_value_async(t.s[0], ptr(t.d + size), dma::compare::eq, 9));
	copy_out(&t, 0, 0, size);
	assert_int_equal(stream_wait(t.s[0], deadline::in_ms(3 * config_get().hang_ms)), -ETIMEDOUT);
	ok(write_value_async(t.s[1], ptr(t.d + size), 9));
	ok(stream_sync(t.s[0], soon()));
	is_whole(&t, 0);
	assert_int_equal(t.s[0]->errors, 0);
	tear_down(&t);
}

/* The whole process is stopped for longer than USDMA_HANG_MS: that does not count as a hang. */
static void pause_once(setting *t)
{
	const unsigned pause_ms = 2 * config_get().hang_ms;

	memset(t->out[0], 0, size);
	inject(t, "slow@1/600000");
	copy_out(t, 0, 0, size);
	until_struck(t);
	const pid_t child = fork();
	if (!child) {
		kill(getppid(), SIGSTOP);
		usleep(pause_ms * 1000); /* the test needs that much time to pass */
		kill(getppid(), SIGCONT);
		_exit(0);
	}
	assert_true(child > 0);
	ok(stream_sync(t->s[0], soon()));
	is_whole(t, 0);
	assert_int_equal(waitpid(child, nullptr, 0), child);
}

static void stopped_from_outside(void **)
{
	setting t;

	set_up(&t);
	for (int i = 0; i < 5; i++)
		pause_once(&t);
	tear_down(&t);
}

/* The WAIT itself hangs: it runs again after its channel is reset, and later requests wait for it. */
static void hang_in_a_wait(void **)
{
	setting t;

	set_up(&t);
	u64 *word = reinterpret_cast<u64 *>(t.in);
	*word = 0;
	ok(copy_sync(t.dev, ptr(t.d + size), word, 8, soon()));
	inject(&t, "hang@1");
	ok(wait_value_async(t.s[0], ptr(t.d + size), dma::compare::eq, 9));
	copy_out(&t, 0, 0, size);
	assert_int_equal(stream_wait(t.s[0], deadline::in_ms(3 * config_get().hang_ms)), -ETIMEDOUT);
	assert_int_equal(t.out[0][size - 1] | t.out[0][size - 2], 0);
	ok(write_value_async(t.s[1], ptr(t.d + size), 9));
	ok(stream_sync(t.s[0], soon()));
	assert_memory_equal(t.out[0] + 8, t.in + 8, size - 8);
	assert_int_equal(t.s[0]->errors, 0);
	tear_down(&t);
}

/* The caller waits only for another stream, which waits for an event of the stream that hangs. */
static void waited_for_by_another_stream(void **)
{
	event *e;
	setting t;

	set_up(&t);
	ok(event_create(t.dev, 0, &e));
	inject(&t, "hang@1");
	copy_out(&t, 0, 0, size);
	until_struck(&t);
	ok(event_record(e, t.s[0]));
	ok(stream_wait_event(t.s[1], e, deadline::never()));
	copy_out(&t, 1, 0, size);
	ok(stream_sync(t.s[1], soon()));
	is_whole(&t, 1);
	assert_int_equal(stream_sync(t.s[0], soon()), -EIO);
	ok(event_destroy(e));
	tear_down(&t);
}

static std::atomic<u32> called;

static void note_call(void *)
{
	called = 1;
}

/* No thread waits: only a host function follows the request that hangs. */
static void host_function_after_hang(void **)
{
	const deadline until = soon();
	setting t;

	set_up(&t);
	called = 0;
	inject(&t, "hang@1");
	copy_out(&t, 0, 0, size);
	ok(stream_host_func(t.s[0], note_call, nullptr, false));
	while (!called && !until.passed())
		std::this_thread::yield();
	assert_int_equal(called, 1);
	assert_int_equal(stream_sync(t.s[0], soon()), -EIO);
	tear_down(&t);
}

/* A stream is aborted during the hang: its channel can be used by another stream. */
static void aborted(void **)
{
	setting t;

	set_up(&t);
	inject(&t, "hang@1");
	copy_out(&t, 0, 0, size);
	ok(stream_abort(t.s[0]));
	stream_destroy(t.s[0]);
	inject(&t, "");
	ok(stream_create(t.dev, {}, &t.s[0]));
	copy_out(&t, 0, 0, size);
	ok(stream_sync(t.s[0], soon()));
	is_whole(&t, 0);
	tear_down(&t);
}

/* After repeated hangs the device is lost: all calls fail, and the same process can open it again. */
static void lost_and_reopened(void **)
{
	setting t;

	set_up(&t);
	inject(&t, "hang@1/for-good");
	for (int i = 0; i < 8 && !t.dev->lost(); i++) {
		for (unsigned k = 0; k < 2; k++)
			copy_async(t.s[0], t.out[0], ptr(t.d), size);
		assert_true(stream_sync(t.s[0], soon()) < 0);
	}
	assert_true(t.dev->lost());
	for (unsigned i = 0; i < 4; i++) {
		copy_async(t.s[i], t.out[i], ptr(t.d), size);
		assert_int_equal(stream_sync(t.s[i], soon()), -ENODEV);
		assert_string_not_equal(error_text(), "");
	}
	tear_down(&t);
	set_up(&t);
	copy_out(&t, 0, 0, size);
	ok(stream_sync(t.s[0], soon()));
	is_whole(&t, 0);
	tear_down(&t);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(logs_channel_state),
		cmocka_unit_test(a_restart_that_fails),
		cmocka_unit_test(others_go_on),
		cmocka_unit_test(stop_mode),
		cmocka_unit_test(reset_at_the_end),
		cmocka_unit_test(device_is_reset),
		cmocka_unit_test(hang_before_a_wait),
		cmocka_unit_test(a_wait_is_no_hang),
		cmocka_unit_test(waited_for_by_another_stream),
		cmocka_unit_test(hang_in_a_wait),
		cmocka_unit_test(stopped_from_outside),
		cmocka_unit_test(host_function_after_hang),
		cmocka_unit_test(aborted),
		cmocka_unit_test(lost_and_reopened),
	};

	setenv("USDMA_DEVICES", "sim:mem=64M:engines=2:channels=16:faults=", 1);
	setenv("USDMA_HANG_MS", "300", 1);
	setenv("USDMA_LOG", "none", 1);
	return cmocka_run_group_tests_name("escalation", tests, nullptr, nullptr);
}
