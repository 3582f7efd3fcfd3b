/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guarantees of <usdma/usdma.h> and <usdma/uring.h> about streams, copies, events and completions
 * (docs/reliability.md).
 */
#include "tests/integration/native.h"
#include "usdma/uring.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma::test;

static constexpr size_t size = 64 * 1024;

static void put(usdma_device *dev, const block &to, unsigned char value)
{
	WORKS(usdma_fill_sync(dev, to.data(), value, 1, to.size(), long_ms));
}

static bool holds(usdma_device *dev, const block &b, unsigned char want)
{
	std::vector<unsigned char> got(b.size());

	WORKS(usdma_copy_sync(dev, got.data(), b.data(), b.size(), long_ms));
	return all_are(got.data(), got.size(), want);
}

/* ---- memory in use ---------------------------------------------------------------------------------- */

/*
 * Blocks are freed before the gated copies that use them run: the copies write no later owner of the blocks, and
 * read the old data. Blocks of device memory: test pairs.
 */
static void freed_blocks_wait_for_their_work(void **)
{
	device dev;
	stream s(dev);
	gate g(dev);
	block from(dev, kind::device, size), out(dev, kind::device, size);
	std::vector<block> next;
	void *into_host, *of_host;

	WORKS(usdma_host_alloc(dev, size, &into_host));
	WORKS(usdma_host_alloc(dev, size, &of_host));
	put(dev, from, 0x77);
	memset(of_host, 0x66, size);
	g.close(s);
	WORKS(usdma_copy(s, into_host, from.data(), size));
	WORKS(usdma_copy(s, out.data(), of_host, size));
	WORKS(usdma_host_free(into_host));
	WORKS(usdma_host_free(of_host));
	assert_int_equal(usdma_stream_query(s), 0); /* no free waited for the copies */
	for (int i = 0; i < 40; i++) {
		next.emplace_back(dev, kind::pinned, size);
		put(dev, next.back(), 0x11);
	}
	g.open();
	WORKS(usdma_stream_sync(s, long_ms));
	for (const block &b : next)
		assert_true(holds(dev, b, 0x11));
	assert_true(holds(dev, out, 0x66));
}

static void copies_of_registered_memory_are_asynchronous(void **)
{
	device dev;
	stream s(dev);
	gate g(dev);
	block plain(dev, kind::pageable, size), mem(dev, kind::device, size);
	unsigned char *odd = plain.data() + 13;

	memset(plain.data(), 0x44, size);
	put(dev, mem, 0x45);
	WORKS(usdma_host_register(odd, size - 13, 0));
	g.close(s);
	WORKS(usdma_copy(s, odd, mem.data(), size - 13)); /* returns without a wait for the gate */
	assert_int_equal(usdma_stream_query(s), 0);
	assert_true(all_are(plain.data(), size, 0x44));
	g.open();
	WORKS(usdma_stream_sync(s, long_ms));
	assert_true(all_are(plain.data(), 13, 0x44) && all_are(odd, size - 13, 0x45));
	WORKS(usdma_host_unregister(odd));
}

/* It waits for copies with the memory, however long another stream waits. */
static void unregistration_beside_a_wait(void **)
{
	static constexpr size_t large = 16 << 20;
	device dev;
	stream s(dev), other(dev);
	gate g(dev);
	block plain(dev, kind::pageable, large), mem(dev, kind::device, large);

	WORKS(usdma_fill_sync(dev, mem.data(), 0x61, 1, large, long_ms));
	g.close(other);
	for (int i = 0; i < 3; i++) {
		memset(plain.data(), 0, large);
		WORKS(usdma_host_register(plain.data(), large, 0));
		WORKS(usdma_copy(s, plain.data(), mem.data(), large));
		WORKS(usdma_host_unregister(plain.data()));
		WORKS(usdma_stream_sync(s, long_ms));
		assert_true(all_are(plain.data(), large, 0x61));
	}
	g.open();
	WORKS(usdma_stream_sync(other, long_ms));
}

/* A copy that begins after the unregistration fails; the device does not access the memory. */
static void unregistered_memory_is_not_accessed(void **)
{
	device dev;
	usdma_stream *s;
	gate g(dev);
	block plain(dev, kind::pageable, size), mem(dev, kind::device, size);
	std::vector<block> others;

	WORKS(usdma_stream_create(dev, nullptr, &s));
	put(dev, mem, 0x77);
	WORKS(usdma_host_register(plain.data(), size, 0));
	g.close(s);
	for (int i = 0; i < 4; i++)
		WORKS(usdma_copy(s, plain.data(), mem.data(), size));
	WORKS(usdma_host_unregister(plain.data()));
	memset(plain.data(), 0x11, size);
	for (int i = 0; i < 8; i++) { /* these may get the same device addresses */
		others.emplace_back(dev, kind::registered, size);
		memset(others.back().data(), 0x22, size);
	}
	g.open();
	assert_int_equal(usdma_stream_sync(s, long_ms), -EFAULT);
	assert_true(all_are(plain.data(), size, 0x11));
	for (const block &other : others)
		assert_true(all_are(other.data(), size, 0x22));
	WORKS(usdma_stream_destroy(s));
}

/* ---- streams ---------------------------------------------------------------------------------------- */

static uint64_t read_one(int fd)
{
	pollfd p = {fd, POLLIN, 0};
	uint64_t v = 0;

	assert_int_equal(poll(&p, 1, long_ms), 1);
	assert_int_equal(read(fd, &v, 8), 8);
	return v;
}

static void signalled_fds(void **)
{
	device dev;
	stream s(dev);
	gate g(dev);
	const int efd = eventfd(0, EFD_CLOEXEC), duplicate = dup(efd);
	int pipe_fds[2];
	pollfd none;

	assert_int_equal(pipe(pipe_fds), 0);
	g.close(s);
	for (const int fd : {pipe_fds[1], duplicate})
		WORKS(usdma_stream_signal_fd(s, fd)); /* does not wait */
	close(duplicate);
	close(pipe_fds[1]);
	none = {efd, POLLIN, 0};
	assert_int_equal(poll(&none, 1, 0), 0);
	g.open();
	assert_int_equal(read_one(efd), 1);
	assert_int_equal(read_one(pipe_fds[0]), 1);
	WORKS(usdma_stream_sync(s, long_ms));
	close(efd);
	close(pipe_fds[0]);
}

static void out_of_file_descriptors(void **)
{
	device dev;
	stream s(dev);
	usdma_completion *c;
	const int fd = eventfd(0, EFD_CLOEXEC), next = dup(fd);
	rlimit was, none;

	WORKS(usdma_stream_sync(s, long_ms));
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = was;
	none.rlim_cur = rlim_t(next);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	const int signal = usdma_stream_signal_fd(s, fd), create = usdma_completion_create(&c);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(signal, -EMFILE);
	assert_int_equal(create, -EMFILE);
	assert_null(c);
	WORKS(usdma_stream_signal_fd(s, fd));
	assert_int_equal(read_one(fd), 1);
	close(fd);
}

namespace {

struct call_counts {
	usdma_device *dev;
	std::atomic<int> inside{0}, most{0}, calls{0}, bad{0};
};

/* The function calls the library, with its own stream. */
void count_and_call(void *arg)
{
	auto *t = static_cast<call_counts *>(arg);
	usdma_stream *own = nullptr;
	void *mem = nullptr, *host = nullptr;

	t->most = std::max(t->most.load(), ++t->inside);
	if (t->calls++ % 10 == 0) {
		t->bad += usdma_stream_create(t->dev, nullptr, &own) != 0;
		t->bad += usdma_device_alloc(t->dev, 4096, &mem) || usdma_host_alloc(t->dev, 4096, &host);
		t->bad += usdma_copy(own, mem, host, 4096) || usdma_stream_sync(own, long_ms);
		t->bad += usdma_copy_sync(t->dev, host, mem, 4096, long_ms) != 0;
		t->bad += usdma_device_free(mem) || usdma_host_free(host) || usdma_stream_destroy(own);
	}
	t->inside--;
}

} // namespace

static void functions_run_one_at_a_time(void **)
{
	device dev;
	std::vector<stream> all;
	call_counts t;

	t.dev = dev;
	for (int i = 0; i < 4; i++)
		all.emplace_back(dev);
	for (int i = 0; i < 100; i++)
		WORKS(usdma_stream_call(all[size_t(i) % 4], count_and_call, &t, i % 3 == 0));
	/* A function that does not block its stream may still run after the stream's work. */
	const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(long_ms);
	while ((t.calls < 100 || t.inside) && std::chrono::steady_clock::now() < end)
		std::this_thread::yield();
	assert_int_equal(t.calls, 100);
	assert_int_equal(t.most, 1);
	assert_int_equal(t.bad, 0);
}

/* ---- copies ----------------------------------------------------------------------------------------- */

static void copy_sync_waits_for_no_stream(void **)
{
	device dev;
	stream s(dev);
	gate g(dev);

	g.close(s);
	for (const kind from : all_kinds)
		for (const kind to : all_kinds) {
			block a(dev, from, size), b(dev, to, size);

			put(dev, a, 0x5b);
			put(dev, b, 0);
			WORKS(usdma_copy_sync(dev, b.data(), a.data(), size, long_ms));
			assert_true(holds(dev, b, 0x5b));
		}
	assert_int_equal(usdma_stream_query(s), 0);
	g.open();
	WORKS(usdma_stream_sync(s, long_ms));
}

static void a_batch_runs_up_to_its_error(void **)
{
	device dev;
	stream s(dev);

	for (const kind k : {kind::pinned, kind::pageable}) {
		block host(dev, k, 4096), mem(dev, kind::device, 4096);
		unsigned char got[4096];
		size_t done = 99;

		memset(host.data(), 0x77, 4096);
		put(dev, mem, 0);
		const usdma_copy_item items[] = {{mem.data(), host.data(), 64},
						 {mem.data() + 64, host.data(), 64},
						 {mem.data() + 4000, host.data(), 128},
						 {mem.data() + 128, host.data(), 64}};
		assert_int_equal(usdma_copy_batch(s, items, 4, &done), -EFAULT);
		assert_int_equal(done, 2);
		WORKS(usdma_stream_sync(s, long_ms));
		WORKS(usdma_copy_sync(dev, got, mem.data(), 4096, long_ms));
		assert_true(all_are(got, 128, 0x77) && all_are(got + 128, 4096 - 128, 0));
		assert_int_equal(usdma_copy_batch(s, items, 4, nullptr), -EFAULT);
		WORKS(usdma_copy_batch(s, nullptr, 0, &done));
		assert_int_equal(done, 0);
		WORKS(usdma_stream_sync(s, long_ms));
	}
}

static void synchronous_rectangles(void **)
{
	device dev;
	stream s(dev);

	for (const kind k : all_kinds) {
		block a(dev, k, 4096), b(dev, kind::device, 4096);
		unsigned char got[4096];
		usdma_copy_rect r = {b.data(), 128, a.data(), 64, 33, 20};

		put(dev, a, 0x77);
		put(dev, b, 0);
		WORKS(usdma_copy_2d_sync(dev, &r, long_ms));
		WORKS(usdma_copy_sync(dev, got, b.data(), 4096, long_ms));
		for (int y = 0; y < 20; y++)
			assert_true(all_are(got + y * 128, 33, 0x77) && all_are(got + y * 128 + 33, 95, 0));
		for (const bool dst : {true, false}) {
			r.dst_pitch = dst ? 32 : 128;
			r.src_pitch = dst ? 64 : 32;
			assert_int_equal(usdma_copy_2d(s, &r), -EINVAL);
			assert_int_equal(usdma_copy_2d_sync(dev, &r, long_ms), -EINVAL);
		}
		r = {b.data(), 128, a.data(), 64, 64, 40}; /* leaves b's block */
		assert_int_equal(usdma_copy_2d(s, &r), -EFAULT);
		assert_int_equal(usdma_copy_2d_sync(dev, &r, long_ms), -EFAULT);
	}
	WORKS(usdma_stream_sync(s, long_ms));
}

static void fills_of_each_memory_kind(void **)
{
	const uint64_t pattern = 0x1122334455667788;
	device dev;
	stream s(dev);

	for (const kind k : all_kinds) {
		block b(dev, k, 4096);

		for (const unsigned width : {1u, 4u, 8u}) {
			unsigned char got[4096];

			put(dev, b, 0);
			WORKS(usdma_fill_sync(dev, b.data() + 8, pattern, width, 800, long_ms));
			WORKS(usdma_copy_sync(dev, got, b.data(), 4096, long_ms));
			for (unsigned i = 0; i < 800; i++)
				assert_int_equal(got[8 + i], static_cast<unsigned char>(pattern >> (i % width * 8)));
			assert_true(all_are(got, 8, 0) && all_are(got + 808, 4096 - 808, 0));
			assert_int_equal(usdma_fill_sync(dev, b.data(), 0, width + 1, 24, long_ms), -EINVAL);
		}
		assert_int_equal(usdma_fill_sync(dev, b.data(), 0, 8, 12, long_ms), -EINVAL);
		assert_int_equal(usdma_fill(s, b.data(), 0, 4, 6), -EINVAL);
		assert_int_equal(usdma_fill(s, b.data(), 1, 1, 8), k == kind::pageable ? -EFAULT : 0);
		assert_int_equal(usdma_reduce(s, b.data(), b.data() + 64, 8, USDMA_INT64, USDMA_SUM),
				 k == kind::pageable ? -EFAULT : 0);
		assert_int_equal(usdma_write_value(s, b.data() + 4, 1), k == kind::pageable ? -EFAULT : -EINVAL);
		assert_int_equal(usdma_wait_value(s, b.data() + 4, USDMA_EQ, 1),
				 k == kind::pageable ? -EFAULT : -EINVAL);
		WORKS(usdma_stream_sync(s, long_ms));
	}
}

static void each_comparison(void **)
{
	static constexpr struct {
		int compare;
		uint64_t value, no, yes;
	} rows[] = {
		{USDMA_GEQ, 5, 4, 5},         {USDMA_GEQ, 5, ~0ull, 6},   {USDMA_GEQ, ~0ull, ~0ull - 1, 3},
		{USDMA_EQ, 7, 8, 7},          {USDMA_AND, 6, 0xf9, 0x04}, {USDMA_NOR, 0xff, ~0xffull, 0x00},
		{USDMA_NOR, 0, ~0ull, ~1ull},
	};
	device dev;
	stream s(dev), writer(dev);

	for (const kind k : {kind::pinned, kind::device, kind::registered})
		for (const auto &r : rows) {
			block word(dev, k, 64);

			WORKS(usdma_fill_sync(dev, word.data(), r.no, 8, 64, long_ms));
			WORKS(usdma_wait_value(s, word.data() + 8, r.compare, r.value));
			assert_int_equal(usdma_stream_sync(s, 2), -ETIMEDOUT);
			WORKS(usdma_write_value(writer, word.data() + 8, r.yes));
			WORKS(usdma_stream_sync(s, long_ms));
			WORKS(usdma_stream_sync(writer, long_ms));
		}
}

/* ---- events ----------------------------------------------------------------------------------------- */

static void event_marks(void **)
{
	device dev;
	stream gated(dev), idle(dev), waits(dev);
	gate g(dev);
	block a(dev, kind::pinned, 64), b(dev, kind::pinned, 64);
	event never(dev), first(dev, USDMA_EVENT_TIMING), late(dev, USDMA_EVENT_TIMING);
	usdma_event *e;
	int64_t ns;

	WORKS(usdma_event_create(dev, 0, &e));
	memset(a.data(), 1, 64);
	memset(b.data(), 0, 64);
	/* An event that was never recorded delays nothing. */
	WORKS(usdma_stream_wait_event(waits, never));
	WORKS(usdma_event_sync(never, -1));
	WORKS(usdma_stream_sync(waits, long_ms));
	g.close(gated);
	WORKS(usdma_event_record(e, gated));
	WORKS(usdma_event_record(late, gated));
	WORKS(usdma_event_record(first, idle));
	WORKS(usdma_event_sync(first, long_ms));
	assert_int_equal(usdma_event_elapsed(first, late, &ns), -EAGAIN);
	assert_int_equal(usdma_event_elapsed(late, first, &ns), -EAGAIN);
	WORKS(usdma_stream_wait_event(waits, e));
	WORKS(usdma_copy(waits, b.data(), a.data(), 64));
	/* A later record replaces the mark; earlier waits still wait for the old one. */
	WORKS(usdma_event_record(e, idle));
	WORKS(usdma_event_sync(e, long_ms));
	assert_int_equal(usdma_event_query(e), 1);
	assert_int_equal(usdma_stream_query(waits), 0);
	assert_int_equal(b.data()[0], 0);
	/* After the event is destroyed, the wait is over when its mark is reached. */
	WORKS(usdma_event_destroy(e));
	assert_int_equal(usdma_stream_sync(waits, 2), -ETIMEDOUT);
	g.open();
	WORKS(usdma_stream_sync(waits, long_ms));
	assert_int_equal(b.data()[63], 1);
	WORKS(usdma_stream_sync(gated, long_ms));
	WORKS(usdma_event_elapsed(first, late, &ns));
}

/* ---- completions ------------------------------------------------------------------------------------ */

namespace {

class ring {
public:
	/* Skips the case, before a device is opened: no destructors run. */
	ring()
	{
		if (io_uring_queue_init(8, &r_, 0)) { /* forbidden by seccomp or by a sysctl */
			print_message("no io_uring\n");
			skip();
		}
	}
	~ring() { io_uring_queue_exit(&r_); }
	ring(const ring &) = delete;
	io_uring_sqe *sqe() { return io_uring_get_sqe(&r_); }
	void submit() { assert_int_equal(io_uring_submit(&r_), 1); }
	/* Result of the next CQE, which must have this user_data; 0: any. */
	int result(uint64_t user_data = 0)
	{
		__kernel_timespec limit = {long_ms / 1000, 0};
		io_uring_cqe *cqe = nullptr;

		assert_int_equal(io_uring_wait_cqe_timeout(&r_, &cqe, &limit), 0);
		assert_true(!user_data || cqe->user_data == user_data);
		const int res = cqe->res;
		io_uring_cqe_seen(&r_, cqe);
		return res;
	}

private:
	io_uring r_;
};

} // namespace

static void completions(void **)
{
	ring r;
	device dev;
	stream s(dev);
	gate g(dev);
	usdma_stream *dead;
	usdma_completion *c;
	io_uring_sqe untouched, sqe;

	WORKS(usdma_stream_create(dev, nullptr, &dead));
	WORKS(usdma_stream_destroy(dead));
	WORKS(usdma_completion_create(&c));
	assert_int_equal(usdma_completion_finish(c), -EINVAL);
	memset(&untouched, 0xa5, sizeof(untouched));
	sqe = untouched;
	assert_int_equal(usdma_prep_completion(c, dead, &sqe, 1), -EBADF);
	assert_memory_equal(&sqe, &untouched, sizeof(sqe));
	/* All work has ended before: the CQE still comes. */
	for (uint64_t i = 1; i < 4; i++) {
		io_uring_sqe *const next = r.sqe();

		WORKS(usdma_prep_completion(c, s, next, i));
		assert_int_not_equal(fcntl(next->fd, F_GETFD), -1);
		sqe = untouched;
		assert_int_equal(usdma_prep_completion(c, s, &sqe, 9), -EBUSY);
		assert_memory_equal(&sqe, &untouched, sizeof(sqe));
		r.submit();
		assert_int_equal(r.result(i), 8);
		WORKS(usdma_completion_finish(c));
	}
	const int before = open_fds();
	WORKS(usdma_completion_destroy(c));
	assert_int_equal(open_fds(), before - 1);
}

/* The ring's read is cancelled; the completion is reusable when the work has ended, not before. */
static void a_cancelled_completion(void **)
{
	ring r;
	device dev;
	stream s(dev);
	gate g(dev);
	usdma_completion *c, *beside[4];
	int err;

	WORKS(usdma_completion_create(&c));
	g.close(s);
	for (size_t i = 0; i < std::size(beside); i++) {
		WORKS(usdma_completion_create(&beside[i]));
		WORKS(usdma_prep_completion(beside[i], s, r.sqe(), 10 + i));
		r.submit();
	}
	WORKS(usdma_prep_completion(c, s, r.sqe(), 5));
	r.submit();
	io_uring_sqe *cancel = r.sqe();
	io_uring_prep_cancel(cancel, reinterpret_cast<void *>(5), 0);
	cancel->flags |= IOSQE_CQE_SKIP_SUCCESS;
	r.submit();
	const int res = r.result(5);
	assert_true(res == -ECANCELED || res == -EINTR);
	assert_int_equal(usdma_completion_finish(c), -EAGAIN);
	assert_int_equal(usdma_completion_destroy(c), -EBUSY);
	g.open();
	WORKS(usdma_stream_sync(s, long_ms));
	for (size_t i = 0; i < std::size(beside); i++) /* in any order */
		assert_int_equal(r.result(), 8);
	for (usdma_completion *one : beside) {
		WORKS(usdma_completion_finish(one));
		assert_int_equal(usdma_completion_finish(one), -EINVAL);
		WORKS(usdma_completion_destroy(one));
	}
	while ((err = usdma_completion_finish(c)) == -EAGAIN)
		std::this_thread::yield();
	WORKS(err);
	WORKS(usdma_prep_completion(c, s, r.sqe(), 6));
	r.submit();
	assert_int_equal(r.result(6), 8);
	WORKS(usdma_completion_finish(c));
	WORKS(usdma_completion_destroy(c));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(freed_blocks_wait_for_their_work),
		cmocka_unit_test(copies_of_registered_memory_are_asynchronous),
		cmocka_unit_test(unregistration_beside_a_wait),
		cmocka_unit_test(unregistered_memory_is_not_accessed),
		cmocka_unit_test(signalled_fds),
		cmocka_unit_test(out_of_file_descriptors),
		cmocka_unit_test(functions_run_one_at_a_time),
		cmocka_unit_test(copy_sync_waits_for_no_stream),
		cmocka_unit_test(a_batch_runs_up_to_its_error),
		cmocka_unit_test(synchronous_rectangles),
		cmocka_unit_test(fills_of_each_memory_kind),
		cmocka_unit_test(each_comparison),
		cmocka_unit_test(event_marks),
		cmocka_unit_test(completions),
		cmocka_unit_test(a_cancelled_completion),
	};

	return cmocka_run_group_tests_name("promises of work", tests, nullptr, nullptr);
}
