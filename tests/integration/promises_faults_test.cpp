/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guarantees of <usdma/usdma.h> and <usdma/uring.h> about failures, hangs and lost devices (complete list:
 * docs/reliability.md).
 */
#include "tests/integration/faults.h"
#include "usdma/uring.h"

#include <algorithm>
#include <liburing.h>
#include <thread>
#include <vector>

using namespace usdma::test;

static constexpr size_t size = 64 * 1024;

namespace {

struct bench {
	device dev;
	block host{dev, kind::pinned, size}, mem{dev, kind::device, size};

	~bench() { faults(""); }
	void faults(const char *rules) { set_faults(dev, 0, rules); }
	void copy(usdma_stream *s) { WORKS(usdma_copy(s, mem.data(), host.data(), size)); }
	static void await_end(usdma_stream *s)
	{
		while (WORKS(usdma_stream_query(s)) == 0)
			std::this_thread::yield();
	}
};

} // namespace

static void the_first_failure_is_reported_once(void **)
{
	bench b;
	stream s(b.dev);
	usdma_stream_stats st = {};

	st.struct_size = sizeof(st);
	b.faults("fail@1/src-unmapped+fail@2/transfer");
	for (int i = 0; i < 3; i++)
		b.copy(s);
	b.await_end(s); /* does not clear the failure */
	assert_int_equal(usdma_stream_query(s), 1);
	assert_int_equal(usdma_stream_sync(s, long_ms), -EFAULT);
	assert_string_not_equal(usdma_error_text(), "");
	WORKS(usdma_stream_sync(s, long_ms));
	WORKS(usdma_stream_get_stats(s, &st));
	assert_int_equal(st.errors, 2);
	assert_int_equal(st.copies, 3);
}

static void take_error_describes_the_failure(void **)
{
	bench b;
	stream s(b.dev);
	usdma_error_info info = {};

	info.struct_size = sizeof(info);
	WORKS(usdma_stream_take_error(s, &info));
	assert_int_equal(info.error, 0);
	b.faults("fail@1/src-unmapped+fail@2/transfer");
	for (int i = 0; i < 2; i++)
		b.copy(s);
	b.await_end(s);
	WORKS(usdma_stream_take_error(s, &info));
	assert_int_equal(info.error, -EFAULT);
	assert_true(info.reason && *info.reason_name);
	assert_int_equal(info.sequence, 1);
	WORKS(usdma_stream_take_error(s, &info));
	assert_int_equal(info.error, -EIO);
	assert_int_equal(info.sequence, 2);
	WORKS(usdma_stream_take_error(s, &info));
	assert_int_equal(info.error, 0);
	WORKS(usdma_stream_sync(s, long_ms));
}

/* By default later work runs; the mode applies from the next failure on. */
static void failure_modes(void **)
{
	bench b;
	usdma_stream *s;

	WORKS(usdma_stream_create(b.dev, nullptr, &s));
	memset(b.host.data(), 0x77, size);
	b.faults("fail@1/transfer");
	WORKS(usdma_copy(s, b.mem.data(), b.host.data(), 4096));
	WORKS(usdma_copy(s, b.mem.data() + 4096, b.host.data(), 4096));
	b.await_end(s);
	WORKS(usdma_stream_set_fail_mode(s, USDMA_FAIL_STOP));
	assert_int_equal(usdma_stream_sync(s, long_ms), -EIO);
	WORKS(usdma_copy(s, b.host.data() + 8192, b.mem.data() + 4096, 4096));
	WORKS(usdma_stream_sync(s, long_ms));
	assert_int_equal(b.host.data()[8192 + 4095], 0x77);
	b.faults("fail@1/transfer");
	b.copy(s);
	b.await_end(s);
	assert_int_equal(usdma_stream_sync(s, long_ms), -EIO);
	assert_int_equal(usdma_copy(s, b.mem.data(), b.host.data(), 64), -EIO);
	assert_int_equal(usdma_copy(s, b.mem.data(), b.host.data(), 64), -EIO);
	usdma_stream_destroy(s);
}

/* A wait for an event reports the failure of the event's stream, and does not clear it. */
static void event_sync_reports_the_failure_of_its_stream(void **)
{
	bench b;
	stream s(b.dev), other(b.dev);
	event e(b.dev), of_other(b.dev);

	b.faults("fail@1/transfer");
	b.copy(s);
	WORKS(usdma_event_record(e, s));
	WORKS(usdma_event_record(of_other, other));
	WORKS(usdma_event_sync(of_other, long_ms));
	while (WORKS(usdma_event_query(e)) == 0)
		std::this_thread::yield();
	for (int i = 0; i < 3; i++)
		assert_int_equal(usdma_event_sync(e, long_ms), -EIO);
	WORKS(usdma_event_sync(of_other, long_ms));
	assert_int_equal(usdma_stream_sync(s, long_ms), -EIO);
	WORKS(usdma_event_sync(e, long_ms));
	WORKS(usdma_stream_sync(s, long_ms));
}

/* A wait without a timeout returns when a hang is detected (USDMA_HANG_MS). */
static void each_wait_returns_after_a_hang(void **)
{
	bench b;
	stream s(b.dev), fine(b.dev);
	event e(b.dev);

	for (int i = 0; i < 3; i++) {
		b.faults("hang@1");
		b.copy(s);
		WORKS(usdma_event_record(e, s));
		if (i == 0)
			WORKS(usdma_device_sync(b.dev, -1));
		if (i == 1)
			assert_int_equal(usdma_event_sync(e, -1), -EIO);
		assert_int_equal(usdma_stream_sync(s, -1), -EIO);
		assert_int_equal(usdma_event_query(e), 1);
		b.copy(s);
		WORKS(usdma_stream_sync(s, -1));
		WORKS(usdma_stream_sync(fine, 0));
	}
}

/* After a timeout pageable memory is not accessed any more, although the device may still work. */
static void pageable_memory_after_a_timeout(void **)
{
	bench b;
	std::vector<unsigned char> plain(size, 0x11);

	WORKS(usdma_fill_sync(b.dev, b.mem.data(), 0x77, 1, size, long_ms));
	for (int i = 0; i < 3; i++) {
		b.faults("slow@1/300000");
		const int err = i == 2 ? usdma_fill_sync(b.dev, b.mem.data(), 0x77, 1, size, 10) :
					 usdma_copy_sync(b.dev, plain.data(), b.mem.data(), size, i ? 0 : 10);

		assert_int_equal(err, -ETIMEDOUT);
		plain.assign(size, 0x11);
		WORKS(usdma_device_sync(b.dev, long_ms));
		assert_true(std::all_of(plain.begin(), plain.end(), [](unsigned char c) { return c == 0x11; }));
	}
	b.faults("");
	WORKS(usdma_copy_sync(b.dev, plain.data(), b.mem.data(), size, long_ms));
	assert_int_equal(plain[size - 1], 0x77);
}

static void completions_return_the_error(void **)
{
	usdma_completion *c;
	__kernel_timespec limit = {long_ms / 1000, 0};
	io_uring_cqe *cqe;
	io_uring ring;

	if (io_uring_queue_init(4, &ring, 0)) {
		print_message("no io_uring\n");
		skip();
	}
	bench b;
	stream s(b.dev);
	WORKS(usdma_completion_create(&c));
	for (const int want : {-EIO, 0}) {
		b.faults(want ? "fail@1/transfer" : "");
		b.copy(s);
		WORKS(usdma_prep_completion(c, s, io_uring_get_sqe(&ring), 7));
		assert_int_equal(io_uring_submit(&ring), 1);
		assert_int_equal(io_uring_wait_cqe_timeout(&ring, &cqe, &limit), 0);
		assert_int_equal(cqe->res, 8);
		io_uring_cqe_seen(&ring, cqe);
		assert_int_equal(usdma_completion_finish(c), want);
		WORKS(usdma_stream_sync(s, long_ms));
	}
	WORKS(usdma_completion_destroy(c));
	io_uring_queue_exit(&ring);
}

/* A completion in a ring. */
struct ring_wait {
	io_uring ring;
	usdma_completion *c = nullptr;
	int ready = -1; /* the descriptor of work that has ended */

	explicit ring_wait(usdma_stream *s)
	{
		assert_int_equal(io_uring_queue_init(4, &ring, 0), 0);
		WORKS(usdma_completion_create(&c));
		finish(start(s, &ready), 0);
	}
	~ring_wait()
	{
		usdma_completion_destroy(c);
		io_uring_queue_exit(&ring);
	}
	/* *fd: what the SQE reads. */
	usdma_completion *start(usdma_stream *s, int *fd)
	{
		io_uring_sqe *const sqe = io_uring_get_sqe(&ring);

		WORKS(usdma_prep_completion(c, s, sqe, 7));
		*fd = sqe->fd;
		return c;
	}
	void finish(usdma_completion *one, int want)
	{
		__kernel_timespec limit = {long_ms / 1000, 0};
		io_uring_cqe *cqe;

		assert_int_equal(io_uring_submit(&ring), 1);
		assert_int_equal(io_uring_wait_cqe_timeout(&ring, &cqe, &limit), 0);
		assert_int_equal(cqe->res, 8);
		io_uring_cqe_seen(&ring, cqe);
		assert_int_equal(usdma_completion_finish(one), want);
	}
};

/* Not at once: an interrupt that was late has to come first. */
static void wait_for_the_interrupt(bench &b, usdma_stream *s, ring_wait *r, int own)
{
	int fd = own;

	for (unsigned tries = 0; fd == own || fd == r->ready; tries++) {
		assert_true(tries < 50);
		/* Else it has ended before the interrupt is armed. */
		b.faults("slow@1/20000");
		b.copy(s);
		r->finish(r->start(s, &fd), 0);
		b.faults("");
	}
}

/* After a reset of the channel, and of the device, it still signals the ring: the SQE does not read our descriptor. */
static void a_reset_leaves_the_interrupt(void **)
{
	io_uring probe;

	if (io_uring_queue_init(4, &probe, 0)) {
		print_message("no io_uring\n");
		skip();
	}
	io_uring_queue_exit(&probe);
	bench b;
	stream s(b.dev);
	ring_wait r(s);
	int own, fd;

	WORKS(usdma_completion_start(r.c, s, &own));
	WORKS(usdma_stream_sync(s, long_ms));
	while (usdma_completion_finish(r.c) == -EAGAIN)
		std::this_thread::yield();
	wait_for_the_interrupt(b, s, &r, own);
	for (const char *const rule : {"hang@1", "hang@1/device"}) {
		b.faults(rule);
		b.copy(s);
		r.finish(r.start(s, &fd), -EIO);
		b.faults("");
		usdma_stream_sync(s, long_ms);
		wait_for_the_interrupt(b, s, &r, own);
	}
}

/* Invalid rules do not change the rules in use. */
static void bad_rules_change_nothing(void **)
{
	bench b;
	stream s(b.dev);

	if (!device_string(0).starts_with("sim")) {
		assert_int_equal(usdma_device_inject(b.dev, "fail@1"), -EOPNOTSUPP);
		return;
	}
	b.faults("fail%1/transfer");
	for (const char *bad : {"nonsense", "fail%1+", "fail@1+hang"}) {
		assert_int_equal(usdma_device_inject(b.dev, bad), -EINVAL);
		b.copy(s);
		assert_int_equal(usdma_stream_sync(s, long_ms), -EIO);
	}
	b.faults("");
	b.copy(s);
	WORKS(usdma_stream_sync(s, long_ms));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(the_first_failure_is_reported_once),
		cmocka_unit_test(take_error_describes_the_failure),
		cmocka_unit_test(failure_modes),
		cmocka_unit_test(event_sync_reports_the_failure_of_its_stream),
		cmocka_unit_test(each_wait_returns_after_a_hang),
		cmocka_unit_test(pageable_memory_after_a_timeout),
		cmocka_unit_test(completions_return_the_error),
		cmocka_unit_test(a_reset_leaves_the_interrupt),
		cmocka_unit_test(bad_rules_change_nothing),
	};

	return cmocka_run_group_tests_name("promises of failures", tests, nullptr, nullptr);
}
