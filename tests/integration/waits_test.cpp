/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of synchronous calls, what runs behind a failure, descriptors that nobody
 * reads, and waits for words that are somewhere else, or are freed.
 */
#include "acl/acl.h"
#include "tests/integration/faults.h"

#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma::test;

#define GOOD(call) assert_int_equal(call, 0)

static constexpr size_t size = 256 << 10; /* more than the CPU copies by itself */

/* ---- limits of synchronous calls ---------------------------------------------------------------------- */

struct bench {
	device dev;
	block host{dev, kind::pinned, size}, mem{dev, kind::device, size}, plain{dev, kind::pageable, size},
		back{dev, kind::pageable, size};

	bench()
	{
		memset(host.data(), 0x11, size);
		memset(plain.data(), 0x22, size);
		WORKS(usdma_fill_sync(dev, mem.data(), 0, 8, size, long_ms));
	}
};

/* The first request takes half a second at least: a call that has less comes back without its end. */
static void limits_hold(void **)
{
	for (const int limit : {0, 10}) {
		bench b;
		const usdma_copy_rect rect = {b.mem.data(), 4096, b.host.data(), 4096, 4000, 64};
		const std::function<int()> calls[] = {
			[&] { return usdma_copy_sync(b.dev, b.mem.data(), b.host.data(), size, limit); },
			[&] { return usdma_copy_sync(b.dev, b.mem.data(), b.plain.data(), size, limit); },
			[&] { return usdma_copy_sync(b.dev, b.back.data(), b.mem.data(), size, limit); },
			[&] { return usdma_fill_sync(b.dev, b.mem.data(), 0x33, 1, size, limit); },
			[&] { return usdma_copy_2d_sync(b.dev, &rect, limit); },
		};

		for (const auto &call : calls) {
			set_faults(b.dev, 0, "slow@1/500000");
			assert_int_equal(call(), -ETIMEDOUT);
			set_faults(b.dev, 0, "");
			/* From here on both ranges are the caller's again: what is written now stays. */
			WORKS(usdma_device_sync(b.dev, long_ms));
			memset(b.host.data(), 0x44, size);
			WORKS(usdma_copy_sync(b.dev, b.mem.data(), b.host.data(), size, long_ms));
			WORKS(usdma_copy_sync(b.dev, b.back.data(), b.mem.data(), size, long_ms));
			assert_memory_equal(b.back.data(), b.host.data(), size);
			memset(b.host.data(), 0x11, size);
		}
	}
}

/* All that was submitted before has ended: that of a stream which another thread is just destroying, too. */
static void a_stream_that_is_being_destroyed(void **)
{
	device dev;
	gate g(dev);
	usdma_stream *s;

	WORKS(usdma_stream_create(dev, nullptr, &s));
	g.close(s);
	std::thread other([&] { usdma_stream_destroy(s); });
	while (usdma_stream_query(s) != -EBADF)
		std::this_thread::yield();
	const int early = usdma_device_sync(dev, 1);
	WORKS(usdma_write_value(g.opener, g.word.data(), 1));
	WORKS(usdma_device_sync(dev, long_ms));
	other.join();
	assert_int_equal(early, -ETIMEDOUT);
}

/* ---- failure mode stop ------------------------------------------------------------------------------- */

/* Request `at` fails while the ring is full and another thread looks for faults: none behind it runs. */
static void nothing_runs_behind_a_failure(void **)
{
	auto gen = rng(2);
	device dev;
	block word(dev, kind::device, 4096);

	for (int i = 0; i < 8; i++) {
		const uint64_t at = 1 + gen() % 3000;
		const std::string rules = "fail@" + std::to_string(at);
		usdma_stream *s;
		uint64_t last = 0;
		std::atomic<bool> stop{false};

		WORKS(usdma_fill_sync(dev, word.data(), 0, 8, 4096, long_ms));
		WORKS(usdma_stream_create(dev, nullptr, &s));
		WORKS(usdma_stream_set_fail_mode(s, USDMA_FAIL_STOP));
		set_faults(dev, 0, rules.c_str());
		std::thread other([&] {
			while (!stop)
				usdma_stream_query(s);
		});
		int err = 0;
		for (uint64_t v = 1; v <= 6000 && !err; v++)
			err = usdma_write_value(s, word.data(), v);
		assert_true(err == 0 || err == -EIO);
		assert_int_equal(usdma_stream_sync(s, long_ms), -EIO);
		stop = true;
		other.join();
		set_faults(dev, 0, "");
		WORKS(usdma_copy_sync(dev, &last, word.data(), 8, long_ms));
		assert_int_equal(last, at - 1);
		assert_int_equal(usdma_write_value(s, word.data(), 1), -EIO);
		usdma_stream_destroy(s);
	}
}

/* A wait that has run out of time is a failure, too. */
static void acl_nothing_runs_behind_an_expired_wait(void **)
{
	aclrtStream s;
	aclrtNotify n;
	char *mem, c = 1;

	GOOD(aclrtSetDevice(0));
	GOOD(aclrtMalloc(reinterpret_cast<void **>(&mem), size, ACL_MEM_MALLOC_HUGE_FIRST));
	GOOD(aclrtMemset(mem, size, 0, size));
	GOOD(aclrtCreateNotify(&n, 0));
	GOOD(aclrtCreateStream(&s));
	GOOD(aclrtSetStreamFailureMode(s, ACL_STOP_ON_FAILURE));
	GOOD(aclrtWaitAndResetNotify(n, s, 1));
	GOOD(aclrtMemsetAsync(mem, size, 7, size, s));
	assert_int_equal(aclrtSynchronizeStream(s), 107020);
	assert_int_equal(aclrtMemsetAsync(mem, size, 7, size, s), 107020);
	GOOD(aclrtMemcpy(&c, 1, mem, 1, ACL_MEMCPY_DEVICE_TO_HOST));
	assert_int_equal(c, 0);
	aclrtDestroyStream(s);
	GOOD(aclrtDestroyNotify(n));
	GOOD(aclrtFree(mem));
	GOOD(aclrtResetDevice(0));
}

/* ---- batches -------------------------------------------------------------------------------------------- */

/* Aborted in the middle: *done is what went into the ring, to the item. */
static void a_batch_counts_what_was_taken(void **)
{
	bench b;
	std::vector<usdma_copy_item> items(20000, {b.mem.data(), b.host.data(), 64});

	for (int i = 0; i < 4; i++) {
		usdma_stream_stats st = {sizeof(st), 0, 0, 0, 0};
		usdma_stream *s;
		size_t done = 0;
		std::atomic<int> err{1};

		WORKS(usdma_stream_create(b.dev, nullptr, &s));
		set_faults(b.dev, 0, "slow%64/2000");
		std::thread other([&] { err = usdma_copy_batch(s, items.data(), items.size(), &done); });
		do {
			WORKS(usdma_stream_get_stats(s, &st));
		} while (st.copies < 1000 && err == 1);
		WORKS(usdma_stream_abort(s));
		other.join();
		set_faults(b.dev, 0, "");
		WORKS(usdma_stream_get_stats(s, &st));
		assert_int_equal(err, -ECANCELED);
		assert_true(done < items.size());
		assert_int_equal(done, st.copies);
		usdma_stream_destroy(s);
	}
}

/* ---- descriptors that nobody reads --------------------------------------------------------------------- */

static void nothing(void *) {}

/* Everything that takes a thread of the library goes on. */
static void others_go_on(usdma_device *dev)
{
	stream s(dev);
	block host(dev, kind::pinned, 4096), mem(dev, kind::device, 4096);

	WORKS(usdma_stream_call(s, nothing, nullptr, 1));
	WORKS(usdma_copy(s, mem.data(), host.data(), 4096));
	WORKS(usdma_stream_sync(s, long_ms));
}

static bool take_8(int fd)
{
	struct pollfd p = {fd, POLLIN, 0};
	char byte[8];

	for (size_t got = 0; got < sizeof(byte);) {
		const ssize_t n = poll(&p, 1, long_ms) == 1 ? read(fd, byte + got, sizeof(byte) - got) : -1;

		if (n <= 0)
			return false;
		got += size_t(n);
	}
	return true;
}

/* More signals than the file takes; whoever reads later gets each of them. */
static void fill_up(const int end[2])
{
	constexpr int signals = 2000;
	device dev;
	stream s(dev);

	for (int i = 0; i < signals; i++)
		WORKS(usdma_stream_signal_fd(s, end[1]));
	WORKS(usdma_stream_sync(s, long_ms));
	others_go_on(dev);
	assert_int_equal(fcntl(end[1], F_GETFL) & O_NONBLOCK, 0); /* the caller's own is as it was */
	for (int i = 0; i < signals; i++)
		assert_true(take_8(end[0]));
	close(end[0]);
	close(end[1]);
}

static void nobody_reads_the_pipe(void **)
{
	int end[2];

	GOOD(pipe2(end, O_CLOEXEC));
	assert_true(fcntl(end[1], F_SETPIPE_SZ, 4096) >= 4096);
	fill_up(end);
}

static void nobody_reads_the_socket(void **)
{
	const int small = 4096;
	int end[2];

	GOOD(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, end));
	GOOD(setsockopt(end[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)));
	fill_up(end);
}

/* Its reader is gone: no SIGPIPE in whatever thread it is. */
static void its_reader_is_gone(void **)
{
	device dev;
	stream s(dev);
	int end[2];

	assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
	for (const bool is_pipe : {true, false}) {
		if (is_pipe)
			GOOD(pipe2(end, O_CLOEXEC));
		else
			GOOD(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, end));
		WORKS(usdma_stream_signal_fd(s, end[1]));
		close(end[0]);
		for (int i = 0; i < 20; i++) {
			WORKS(usdma_stream_signal_fd(s, end[1]));
			WORKS(usdma_stream_sync(s, long_ms));
		}
		close(end[1]);
	}
	others_go_on(dev);
}

/* ---- waits for words ---------------------------------------------------------------------------------- */

/* The second device has one channel, which all its streams share. */
static void wait_and_write(usdma_device *waits, usdma_device *writes, void *word)
{
	stream s(waits), t(writes);
	const int err = usdma_wait_value(s, word, USDMA_EQ, 1);

	if (err) { /* said at once, with words, is fine as well */
		assert_true(err == -EOPNOTSUPP || err == -EXDEV || err == -EFAULT);
		return;
	}
	assert_int_equal(usdma_stream_sync(s, 0), -ETIMEDOUT);
	WORKS(usdma_write_value(t, word, 1));
	WORKS(usdma_stream_sync(t, long_ms));
	WORKS(usdma_stream_sync(s, long_ms));
}

static void words_anywhere(void **)
{
	device far(0), near(1);
	block of_far(far, kind::device, 4096), of_near(near, kind::device, 4096), pinned(near, kind::pinned, 4096),
		registered(near, kind::registered, 4096);

	WORKS(usdma_fill_sync(far, of_far.data(), 0, 8, 4096, long_ms));
	WORKS(usdma_fill_sync(near, of_near.data(), 0, 8, 4096, long_ms));
	memset(pinned.data(), 0, 4096);
	memset(registered.data(), 0, 4096);
	wait_and_write(near, near, of_near.data());
	wait_and_write(near, near, pinned.data());
	wait_and_write(near, near, registered.data() + 8);
	wait_and_write(near, far, of_far.data());
	wait_and_write(far, near, of_near.data() + 8);
	wait_and_write(far, far, pinned.data() + 8);
	wait_and_write(near, far, pinned.data() + 16);
}

/*
 * The memory goes while a stream waits for a word in it: that is the stream's error, and no touch of what is
 * there then.
 */
static void freed_under_a_wait(void **)
{
	device near(1);

	for (const kind k : {kind::device, kind::pinned}) {
		stream s(near), other(near);
		{
			block word(near, k, 8 << 20); /* so large that it is unmapped, where it is */

			WORKS(usdma_fill_sync(near, word.data(), 0, 8, 4096, long_ms));
			WORKS(usdma_wait_value(s, word.data(), USDMA_EQ, 1));
			WORKS(usdma_stream_sync(other, long_ms));
			assert_int_equal(usdma_stream_sync(s, 1), -ETIMEDOUT);
		}
		WORKS(usdma_stream_sync(other, long_ms));
		assert_int_equal(usdma_stream_sync(s, long_ms), -EFAULT);
		WORKS(usdma_stream_sync(s, long_ms));
	}
}

/* Streams wait for an event that is to be recorded; a reset that comes before the record takes nothing from them. */
static void acl_reset_of_a_future_event(void **)
{
	aclrtStream a, b;
	aclrtEvent e;

	GOOD(aclrtSetDevice(0));
	GOOD(aclrtCreateStream(&a));
	GOOD(aclrtCreateStream(&b));
	GOOD(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
	GOOD(aclrtStreamWaitEvent(a, e));
	GOOD(aclrtResetEvent(e, b));
	GOOD(aclrtSynchronizeStream(b));
	assert_int_equal(aclrtSynchronizeStreamWithTimeout(a, 1), 507046);
	GOOD(aclrtRecordEvent(e, b));
	GOOD(aclrtSynchronizeStreamWithTimeout(a, long_ms));
	GOOD(aclrtDestroyEvent(e));
	GOOD(aclrtDestroyStream(a));
	GOOD(aclrtDestroyStream(b));
	GOOD(aclrtResetDevice(0));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(limits_hold),
		cmocka_unit_test(a_stream_that_is_being_destroyed),
		cmocka_unit_test(nothing_runs_behind_a_failure),
		cmocka_unit_test(acl_nothing_runs_behind_an_expired_wait),
		cmocka_unit_test(a_batch_counts_what_was_taken),
		cmocka_unit_test(nobody_reads_the_pipe),
		cmocka_unit_test(nobody_reads_the_socket),
		cmocka_unit_test(its_reader_is_gone),
		cmocka_unit_test(words_anywhere),
		cmocka_unit_test(freed_under_a_wait),
		cmocka_unit_test(acl_reset_of_a_future_event),
	};

	return cmocka_run_group_tests_name("waits", tests, nullptr, nullptr);
}
