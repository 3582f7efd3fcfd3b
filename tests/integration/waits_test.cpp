/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timeouts of synchronous calls, no work after a failure, full pipes and sockets, and waits for words on
 * another device or in memory that is freed.
 */
#include "acl/acl.h"
#include "tests/integration/faults.h"

#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma::test;

#define GOOD(call) assert_int_equal(call, 0)

static constexpr size_t size = 256 << 10; /* more than the CPU copies by itself */

/* ---- timeouts of synchronous calls -------------------------------------------------------------------- */

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

/* The first request takes at least half a second: a call with a shorter timeout returns before that. */
static void synchronous_calls_time_out(void **)
{
	for (const int timeout : {0, 10}) {
		bench b;
		const usdma_copy_rect rect = {b.mem.data(), 4096, b.host.data(), 4096, 4000, 64};
		const std::function<int()> calls[] = {
			[&] { return usdma_copy_sync(b.dev, b.mem.data(), b.host.data(), size, timeout); },
			[&] { return usdma_copy_sync(b.dev, b.mem.data(), b.plain.data(), size, timeout); },
			[&] { return usdma_copy_sync(b.dev, b.back.data(), b.mem.data(), size, timeout); },
			[&] { return usdma_fill_sync(b.dev, b.mem.data(), 0x33, 1, size, timeout); },
			[&] { return usdma_copy_2d_sync(b.dev, &rect, timeout); },
		};

		for (const auto &call : calls) {
			set_faults(b.dev, 0, "slow@1/500000");
			assert_int_equal(call(), -ETIMEDOUT);
			set_faults(b.dev, 0, "");
			/* Nothing is in flight any more: the timed-out call must not overwrite new data. */
			WORKS(usdma_device_sync(b.dev, long_ms));
			memset(b.host.data(), 0x44, size);
			WORKS(usdma_copy_sync(b.dev, b.mem.data(), b.host.data(), size, long_ms));
			WORKS(usdma_copy_sync(b.dev, b.back.data(), b.mem.data(), size, long_ms));
			assert_memory_equal(b.back.data(), b.host.data(), size);
			memset(b.host.data(), 0x11, size);
		}
	}
}

/* device_sync also waits for a stream that another thread is destroying. */
static void device_sync_waits_for_a_destroyed_stream(void **)
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

/* Request `at` fails while the ring is full and another thread queries: no later request runs. */
static void nothing_runs_after_a_failure(void **)
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

/* A wait that times out counts as a failure. */
static void acl_nothing_runs_after_a_timed_out_wait(void **)
{
	aclrtStream s;
	aclrtNotify n;
	aclrtEvent shared;
	char *mem, c = 1;

	GOOD(aclrtSetDevice(0));
	GOOD(aclrtMalloc(reinterpret_cast<void **>(&mem), size, ACL_MEM_MALLOC_HUGE_FIRST));
	GOOD(aclrtMemset(mem, size, 0, size));
	GOOD(aclrtCreateNotify(&n, 0));
	GOOD(aclrtCreateStream(&s));
	GOOD(aclrtSetStreamFailureMode(s, ACL_STOP_ON_FAILURE));
	GOOD(aclrtCreateEventExWithFlag(&shared, ACL_EVENT_IPC));
	GOOD(aclrtRecordEvent(shared, s));
	GOOD(aclrtWaitAndResetNotify(n, s, 1));
	GOOD(aclrtMemsetAsync(mem, size, 7, size, s));
	assert_int_equal(aclrtSynchronizeStream(s), 107020);
	assert_int_equal(aclrtMemsetAsync(mem, size, 7, size, s), 107020);
	/* No one, in this or another process, waits for a record that was refused. */
	assert_int_equal(aclrtRecordEvent(shared, s), 107020);
	assert_int_equal(aclrtSynchronizeEventWithTimeout(shared, 60000), 107020);
	GOOD(aclrtMemcpy(&c, 1, mem, 1, ACL_MEMCPY_DEVICE_TO_HOST));
	assert_int_equal(c, 0);
	aclrtDestroyStream(s);
	GOOD(aclrtDestroyEvent(shared));
	GOOD(aclrtDestroyNotify(n));
	GOOD(aclrtFree(mem));
	GOOD(aclrtResetDevice(0));
}

/* ---- batches -------------------------------------------------------------------------------------------- */

/* The batch is aborted while it is submitted: *done is the exact number of submitted items. */
static void an_aborted_batch_counts_submitted_items(void **)
{
	bench b;
	std::vector<usdma_copy_item> items(20000, {b.mem.data(), b.host.data(), 64});

	for (int i = 0; i < 4; i++) {
		if (i == 2) /* from here on each second item is merged with the one before */
			for (size_t k = 1; k < items.size(); k += 2)
				items[k] = {b.mem.data() + 64, b.host.data() + 64, 64};
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
		assert_int_equal(done * 64, st.bytes);
		if (i < 2)
			assert_int_equal(done, st.copies);
		usdma_stream_destroy(s);
	}
}

/* ---- file descriptors that are full or closed ------------------------------------------------------------ */

static void no_op(void *) {}

/* The library's threads still serve other streams. */
static void check_other_streams(usdma_device *dev)
{
	stream s(dev);
	block host(dev, kind::pinned, 4096), mem(dev, kind::device, 4096);

	WORKS(usdma_stream_call(s, no_op, nullptr, 1));
	WORKS(usdma_copy(s, mem.data(), host.data(), 4096));
	WORKS(usdma_stream_sync(s, long_ms));
}

static bool read_signal(int fd)
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

/* Signals more often than the buffer holds; a later reader still gets each signal. */
static void overfill(const int fds[2])
{
	constexpr int signals = 2000;
	device dev;
	stream s(dev);

	for (int i = 0; i < signals; i++)
		WORKS(usdma_stream_signal_fd(s, fds[1]));
	WORKS(usdma_stream_sync(s, long_ms));
	check_other_streams(dev);
	assert_int_equal(fcntl(fds[1], F_GETFL) & O_NONBLOCK, 0); /* the flags of the caller's fd are unchanged */
	for (int i = 0; i < signals; i++)
		assert_true(read_signal(fds[0]));
	close(fds[0]);
	close(fds[1]);
}

static void full_pipe(void **)
{
	int fds[2];

	GOOD(pipe2(fds, O_CLOEXEC));
	assert_true(fcntl(fds[1], F_SETPIPE_SZ, 4096) >= 4096);
	overfill(fds);
}

static void full_socket(void **)
{
	const int small = 4096;
	int fds[2];

	GOOD(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
	GOOD(setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)));
	overfill(fds);
}

/* The signals come when the counter has space, also after the stream and its device have ended. */
static void full_eventfd(void **)
{
	constexpr uint64_t most = UINT64_MAX - 1, signals = 3;

	for (const int flags : {0, int(EFD_NONBLOCK)}) {
		const int fd = eventfd(0, EFD_CLOEXEC | flags);
		pollfd p = {fd, POLLIN, 0};
		uint64_t n = most;

		assert_int_equal(write(fd, &n, sizeof(n)), sizeof(n));
		{
			device dev;
			stream s(dev);

			for (uint64_t i = 0; i < signals; i++)
				WORKS(usdma_stream_signal_fd(s, fd));
			WORKS(usdma_stream_sync(s, long_ms));
			check_other_streams(dev);
		}
		assert_int_equal(read(fd, &n, sizeof(n)), sizeof(n));
		assert_true(n == most);
		for (uint64_t got = 0; got < signals; got += n) {
			assert_int_equal(poll(&p, 1, long_ms), 1);
			assert_int_equal(read(fd, &n, sizeof(n)), sizeof(n));
		}
		close(fd);
	}
}

/* The read end is closed: no thread gets SIGPIPE. */
static void reader_is_closed(void **)
{
	device dev;
	stream s(dev);
	int fds[2];

	assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
	for (const bool is_pipe : {true, false}) {
		if (is_pipe)
			GOOD(pipe2(fds, O_CLOEXEC));
		else
			GOOD(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
		WORKS(usdma_stream_signal_fd(s, fds[1]));
		close(fds[0]);
		for (int i = 0; i < 20; i++) {
			WORKS(usdma_stream_signal_fd(s, fds[1]));
			WORKS(usdma_stream_sync(s, long_ms));
		}
		close(fds[1]);
	}
	check_other_streams(dev);
}

/* ---- waits for words ---------------------------------------------------------------------------------- */

/* The second device has one channel, shared by all its streams. */
static void wait_and_write(usdma_device *waits, usdma_device *writes, void *word)
{
	stream s(waits), t(writes);
	const int err = usdma_wait_value(s, word, USDMA_EQ, 1);

	if (err) { /* an immediate error is allowed as well */
		assert_true(err == -EOPNOTSUPP || err == -EXDEV || err == -EFAULT);
		return;
	}
	assert_int_equal(usdma_stream_sync(s, 0), -ETIMEDOUT);
	WORKS(usdma_write_value(t, word, 1));
	WORKS(usdma_stream_sync(t, long_ms));
	WORKS(usdma_stream_sync(s, long_ms));
}

static void wait_across_devices(void **)
{
	device dev0(0), dev1(1);
	block mem0(dev0, kind::device, 4096), mem1(dev1, kind::device, 4096), pinned(dev1, kind::pinned, 4096),
		registered(dev1, kind::registered, 4096);

	WORKS(usdma_fill_sync(dev0, mem0.data(), 0, 8, 4096, long_ms));
	WORKS(usdma_fill_sync(dev1, mem1.data(), 0, 8, 4096, long_ms));
	memset(pinned.data(), 0, 4096);
	memset(registered.data(), 0, 4096);
	wait_and_write(dev1, dev1, mem1.data());
	wait_and_write(dev1, dev1, pinned.data());
	wait_and_write(dev1, dev1, registered.data() + 8);
	wait_and_write(dev1, dev0, mem0.data());
	wait_and_write(dev0, dev1, mem1.data() + 8);
	wait_and_write(dev0, dev0, pinned.data() + 8);
	wait_and_write(dev1, dev0, pinned.data() + 16);
}

/* Memory is freed while a stream waits for a word in it: the wait fails with -EFAULT, without an access. */
static void freed_during_a_wait(void **)
{
	device dev1(1);

	for (const kind k : {kind::device, kind::pinned}) {
		stream s(dev1), other(dev1);
		{
			block word(dev1, k, 8 << 20); /* large, so that a free unmaps it */

			WORKS(usdma_fill_sync(dev1, word.data(), 0, 8, 4096, long_ms));
			WORKS(usdma_wait_value(s, word.data(), USDMA_EQ, 1));
			WORKS(usdma_stream_sync(other, long_ms));
			assert_int_equal(usdma_stream_sync(s, 1), -ETIMEDOUT);
		}
		WORKS(usdma_stream_sync(other, long_ms));
		assert_int_equal(usdma_stream_sync(s, long_ms), -EFAULT);
		WORKS(usdma_stream_sync(s, long_ms));
	}
}

/* A stream waits for an event before its record; a reset in between does not end the wait. */
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
		cmocka_unit_test(synchronous_calls_time_out),
		cmocka_unit_test(device_sync_waits_for_a_destroyed_stream),
		cmocka_unit_test(nothing_runs_after_a_failure),
		cmocka_unit_test(acl_nothing_runs_after_a_timed_out_wait),
		cmocka_unit_test(an_aborted_batch_counts_submitted_items),
		cmocka_unit_test(full_pipe),
		cmocka_unit_test(full_socket),
		cmocka_unit_test(full_eventfd),
		cmocka_unit_test(reader_is_closed),
		cmocka_unit_test(wait_across_devices),
		cmocka_unit_test(freed_during_a_wait),
		cmocka_unit_test(acl_reset_of_a_future_event),
	};

	return cmocka_run_group_tests_name("waits", tests, nullptr, nullptr);
}
