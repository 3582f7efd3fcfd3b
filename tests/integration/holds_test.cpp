/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * "Any thread may make any call on any handle at any time": streams and events
 * are destroyed, by two threads at once, and their places used again, and a device
 * is closed, by two threads at once, while others are in every kind of wait and
 * submission.  A call ends as the header says, a handle that is gone never means
 * the next object, and what was accepted is told of exactly once.  For sanitizers.
 */
#include "tests/integration/native.h"
#include "tests/support/sanitizer.h"
#include "usdma/uring.h"

#include <array>
#include <atomic>
#include <chrono>
#include <liburing.h>
#include <memory>
#include <set>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <vector>

TEST_TSAN_SUPPRESSIONS(TEST_MOVES_IN_ANY_ORDER TEST_STALE_HANDLES TEST_RINGS_OF_THREADS)

using namespace usdma::test;

static constexpr int n_slots = 8, n_events = 4, n_users = 4, n_killers = 2;
static constexpr size_t area = 16 << 10, dead_kept = 64;
static constexpr uint64_t mib = 1 << 20;

namespace {

/* Handles of objects that are gone: destroy has returned. */
template <class T> struct graveyard {
	std::array<std::atomic<T *>, dead_kept> of{};
	std::atomic<unsigned> next{0};

	void bury(T *h) { of[next++ % dead_kept] = h; }
	T *any(std::mt19937_64 &gen) const { return of[gen() % dead_kept]; }
};

struct round_state {
	usdma_device *dev[2];                        /* the second comes and goes */
	std::atomic<usdma_stream *> stream[n_slots]; /* the odd ones are the second's */
	std::atomic<usdma_event *> event[n_events];
	graveyard<usdma_stream> dead_streams;
	graveyard<usdma_event> dead_events;
	std::atomic<usdma_device *> dead_device{nullptr};
	char *host, *mem[2];
	uint64_t *gate; /* grows, so that each wait for it ends */
	std::atomic<uint64_t> opened{0};
	std::atomic<bool> stop{false}, closed{false};
	std::atomic<int> wrong{0};
	std::atomic<uint64_t> called{0}, calls_accepted{0}, signals_accepted{0};
	int signal_fd;

	void bad(const char *call, long ret, const char *why)
	{
		if (!wrong++)
			print_error("%s: %ld (%s): %s\n", call, ret, usdma_error_text(), why);
	}
};

/* What calls on handles that may be dying, on devices that may be closing, may return. */
bool allowed(long ret, bool limited)
{
	static const std::set<long> good = {0, 1, -EBADF, -ECANCELED, -ENODEV, -EFAULT, -EIO};

	return good.contains(ret) || (limited && ret == -ETIMEDOUT);
}

/* One thread that makes calls. */
class user {
public:
	user(round_state &r, uint64_t number) : r_(r), gen_(rng(number)), plain_(area)
	{
		has_ring_ = !io_uring_queue_init(4, &ring_, 0);
		WORKS(usdma_completion_create(&completion_));
	}
	~user()
	{
		usdma_completion_destroy(completion_);
		if (has_ring_)
			io_uring_queue_exit(&ring_);
	}
	user(const user &) = delete;
	user &operator=(const user &) = delete;
	void run()
	{
		while (!r_.stop) {
			one();
			if (gen_() % 4 == 0)
				on_the_dead();
			if (gen_() % 8 == 0)
				std::this_thread::yield();
		}
	}

private:
	void expect(const char *call, long ret, bool limited = false)
	{
		if (!allowed(ret, limited))
			r_.bad(call, ret, "the header knows no such end");
	}
	void one();
	void submit(usdma_stream *s, int slot);
	void wait(usdma_stream *s, usdma_event *e);
	void poll_by_ring(usdma_stream *s);
	void on_the_dead();

	round_state &r_;
	std::mt19937_64 gen_;
	std::vector<char> plain_;
	io_uring ring_;
	bool has_ring_;
	usdma_completion *completion_;
};

void count_call(void *arg)
{
	++static_cast<round_state *>(arg)->called;
}

void user::submit(usdma_stream *s, int slot)
{
	char *const mem = r_.mem[slot % 2] + size_t(slot) * area, *const host = r_.host + size_t(slot) * area;
	const usdma_copy_item items[3] = {{mem, host, 64}, {mem + 64, host, 64}, {mem + 128, host, 4096}};
	size_t done;
	int ret;

	switch (gen_() % 9) {
	case 0:
		return expect("usdma_copy", usdma_copy(s, mem, host, 64 + gen_() % 8000));
	case 1:
		return expect("usdma_copy, pageable", usdma_copy(s, mem, plain_.data(), gen_() % 9000));
	case 2:
		return expect("usdma_copy_batch", usdma_copy_batch(s, items, 3, &done));
	case 3:
		return expect("usdma_fill", usdma_fill(s, mem, gen_(), 8, 4096));
	case 4:
		return expect("usdma_wait_value", usdma_wait_value(s, r_.gate, USDMA_GEQ, r_.opened + 2));
	case 5:
		ret = usdma_stream_call(s, count_call, &r_, gen_() % 2);
		r_.calls_accepted += ret == 0;
		return expect("usdma_stream_call", ret);
	case 6:
		ret = usdma_stream_signal_fd(s, r_.signal_fd);
		r_.signals_accepted += ret == 0;
		return expect("usdma_stream_signal_fd", ret);
	case 7:
		return expect("usdma_event_record", usdma_event_record(r_.event[gen_() % n_events], s));
	default:
		return expect("usdma_stream_wait_event", usdma_stream_wait_event(s, r_.event[gen_() % n_events]));
	}
}

void user::poll_by_ring(usdma_stream *s)
{
	__kernel_timespec limit = {60, 0};
	io_uring_cqe *cqe;
	io_uring_sqe sqe;

	if (!has_ring_)
		return;
	const int ret = usdma_prep_completion(completion_, s, &sqe, 7);
	expect("usdma_prep_completion", ret);
	if (ret)
		return;
	*io_uring_get_sqe(&ring_) = sqe;
	if (io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, &limit, nullptr) < 0)
		return r_.bad("completion", 0, "its CQE did not come in a minute");
	io_uring_cqe_seen(&ring_, cqe);
	expect("usdma_completion_finish", usdma_completion_finish(completion_));
}

void user::wait(usdma_stream *s, usdma_event *e)
{
	usdma_device *const d = r_.dev[gen_() % 2];
	char *const mem = r_.mem[0] + (n_slots + gen_() % 4) * area;
	usdma_error_info info = {sizeof(info), 0, 0, 0, "", 0, 0};

	switch (gen_() % 12) {
	case 0:
		return expect("usdma_stream_sync", usdma_stream_sync(s, -1));
	case 1:
		return expect("usdma_stream_sync, limited", usdma_stream_sync(s, int(gen_() % 3)), true);
	case 2:
		return expect("usdma_event_sync", usdma_event_sync(e, -1));
	case 3:
		return expect("usdma_event_sync, limited", usdma_event_sync(e, int(gen_() % 3)), true);
	case 4:
		return expect("usdma_device_sync", usdma_device_sync(d, -1));
	case 5:
		return expect("usdma_device_sync, limited", usdma_device_sync(d, int(gen_() % 3)), true);
	case 6:
		for (int i = 0; i < 50; i++)
			expect("usdma_stream_query", usdma_stream_query(s));
		return;
	case 7:
		for (int i = 0; i < 50; i++)
			expect("usdma_event_query", usdma_event_query(e));
		return;
	case 8:
		return poll_by_ring(s);
	case 9:
		return expect("usdma_copy_sync", usdma_copy_sync(r_.dev[0], mem, plain_.data(), area, -1));
	case 10:
		return expect("usdma_copy_sync, limited", usdma_copy_sync(d, mem, plain_.data(), 64, int(gen_() % 3)),
			      true);
	default:
		return expect("usdma_stream_take_error", usdma_stream_take_error(s, &info));
	}
}

void user::one()
{
	const int slot = int(gen_() % n_slots);
	usdma_stream *const s = r_.stream[slot];
	usdma_event *const e = r_.event[gen_() % n_events];

	if (gen_() % 3)
		submit(s, slot);
	else
		wait(s, e);
	if (gen_() % 200 == 0)
		expect("usdma_stream_abort", usdma_stream_abort(s));
}

/* The place is another object's by now, mostly. */
void user::on_the_dead()
{
	usdma_stream *const s = r_.dead_streams.any(gen_), *const live = r_.stream[0];
	usdma_event *const e = r_.dead_events.any(gen_);
	char *const mem = r_.mem[0] + size_t(n_slots + 4) * area;
	long ret = -EBADF;

	switch (s && e ? gen_() % 12 : 12) {
	case 0:
		ret = usdma_stream_sync(s, 0);
		break;
	case 1:
		ret = usdma_stream_query(s);
		break;
	case 2:
		ret = usdma_copy(s, mem, r_.host, 64);
		break;
	case 3:
		ret = usdma_fill(s, mem, 0, 8, 64);
		break;
	case 4:
		ret = usdma_stream_call(s, count_call, &r_, 0);
		break;
	case 5:
		ret = usdma_stream_signal_fd(s, r_.signal_fd);
		break;
	case 6:
		ret = usdma_stream_abort(s);
		break;
	case 7:
		ret = usdma_stream_destroy(s);
		break;
	case 8:
		ret = usdma_event_sync(e, 0);
		break;
	case 9:
		ret = usdma_event_record(e, live);
		break;
	case 10:
		ret = usdma_event_query(e);
		break;
	case 11:
		ret = usdma_event_destroy(e);
		break;
	default:
		break;
	}
	if (ret != -EBADF)
		r_.bad("a call", ret, "its handle was destroyed before");
	usdma_device *const d = r_.dead_device;
	if (d && (ret = usdma_device_sync(d, 0)) != -EBADF)
		r_.bad("usdma_device_sync", ret, "the device was closed before");
}

/* Destroys what others use; of two that do so with one handle, one succeeds. */
class killer {
public:
	killer(round_state &r, uint64_t number) : r_(r), gen_(rng(1000 + number)) {}
	void run(int times)
	{
		for (int i = 0; i < times; i++)
			gen_() % 2 ? stream() : event();
	}

private:
	void stream()
	{
		const int slot = int(gen_() % n_slots);
		usdma_stream *was = r_.stream[slot], *next;
		const int ret = usdma_stream_destroy(was);

		if (!allowed(ret, false))
			r_.bad("usdma_stream_destroy", ret, "the header knows no such end");
		if (ret == -EBADF)
			return;
		r_.dead_streams.bury(was);
		if (const int err = usdma_stream_create(r_.dev[slot % 2], nullptr, &next))
			return r_.bad("usdma_stream_create", err, "the device is open");
		/* Only who destroyed it may. */
		if (r_.stream[slot].exchange(next) != was)
			r_.bad("usdma_stream_destroy", ret, "two threads destroyed one stream");
	}
	void event()
	{
		const int at = int(gen_() % n_events);
		usdma_event *was = r_.event[at], *next;
		const int ret = usdma_event_destroy(was);

		if (ret == -EBADF)
			return;
		if (ret)
			r_.bad("usdma_event_destroy", ret, "the header knows no such end");
		r_.dead_events.bury(was);
		if (const int err = usdma_event_create(r_.dev[0], 0, &next))
			return r_.bad("usdma_event_create", err, "the device is open");
		if (r_.event[at].exchange(next) != was)
			r_.bad("usdma_event_destroy", ret, "two threads destroyed one event");
	}

	round_state &r_;
	std::mt19937_64 gen_;
};

} // namespace

static void set_up(round_state *r, usdma_device *stays)
{
	r->dev[0] = stays;
	WORKS(usdma_open_index(1, &r->dev[1]));
	WORKS(usdma_host_alloc(nullptr, mib, reinterpret_cast<void **>(&r->host)));
	for (int i = 0; i < 2; i++)
		WORKS(usdma_device_alloc(r->dev[i], mib, reinterpret_cast<void **>(&r->mem[i])));
	/* Where both devices reach it: one's memory may be beyond the other. */
	WORKS(usdma_host_alloc(nullptr, 4096, reinterpret_cast<void **>(&r->gate)));
	WORKS(usdma_fill_sync(stays, r->gate, 0, 8, 4096, long_ms));
	memset(r->host, 0x5a, mib);
	for (int i = 0; i < n_slots; i++) {
		usdma_stream *s;

		WORKS(usdma_stream_create(r->dev[i % 2], nullptr, &s));
		r->stream[i] = s;
	}
	for (auto &e : r->event) {
		usdma_event *made;

		WORKS(usdma_event_create(stays, 0, &made));
		e = made;
	}
	r->signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

/* The gate opens again and again, until nobody waits any more. */
static void keep_open(round_state *r, const std::atomic<bool> *end)
{
	usdma_stream *s;

	if (usdma_stream_create(r->dev[0], nullptr, &s))
		return r->bad("usdma_stream_create", 0, "the device is open");
	while (!*end) {
		if (usdma_write_value(s, r->gate, ++r->opened) || usdma_stream_sync(s, -1))
			r->bad("usdma_write_value", 0, "the device is open");
		std::this_thread::yield();
	}
	usdma_stream_destroy(s);
}

/* Two threads; one of them closes it. */
static void close_twice(round_state *r)
{
	std::atomic<int> done{0}, refused{0};
	std::vector<std::thread> all;

	for (int i = 0; i < 2; i++)
		all.emplace_back([&] {
			const int ret = usdma_close(r->dev[1]);

			done += ret == 0;
			refused += ret == -EBADF;
		});
	for (auto &t : all)
		t.join();
	if (done != 1 || refused != 1)
		r->bad("usdma_close", done, "of two threads not exactly one closed the device");
	r->dead_device = r->dev[1];
}

/* As the header wants it, all of the device's are destroyed before; or not. */
static void end_device(round_state *r, bool orderly)
{
	for (int i = 1; orderly && i < n_slots; i += 2) {
		usdma_stream *const s = r->stream[i];
		const int ret = usdma_stream_destroy(s);

		if (!allowed(ret, false) || ret == -EBADF)
			r->bad("usdma_stream_destroy", ret, "the header knows no such end");
		r->dead_streams.bury(s);
	}
	close_twice(r);
	for (int i = 1; i < n_slots; i += 2)
		r->dead_streams.bury(r->stream[i]);
}

static bool comes(const std::atomic<uint64_t> &have, uint64_t want)
{
	const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(long_ms);

	while (have != want && std::chrono::steady_clock::now() < end)
		std::this_thread::yield();
	return have == want;
}

/* Each signal and each call that was accepted came, once. */
static void account(round_state *r)
{
	std::atomic<uint64_t> signals{0};
	uint64_t n;

	assert_true(comes(r->called, r->calls_accepted));
	const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(long_ms);
	while (signals < r->signals_accepted && std::chrono::steady_clock::now() < end) {
		if (read(r->signal_fd, &n, sizeof(n)) == sizeof(n))
			signals += n;
		else
			std::this_thread::yield();
	}
	assert_int_equal(signals, r->signals_accepted);
}

static void tear_down(round_state *r)
{
	for (auto &e : r->event)
		WORKS(usdma_event_destroy(e));
	account(r);
	close(r->signal_fd);
	WORKS(usdma_host_free(r->gate));
	WORKS(usdma_device_free(r->mem[0]));
	WORKS(usdma_host_free(r->host));
}

static void play(usdma_device *stays, uint64_t number)
{
	auto r = std::make_unique<round_state>();
	auto gen = rng(number);
	std::atomic<bool> end{false};
	std::vector<std::unique_ptr<user>> users;
	std::vector<std::thread> using_it, killing;

	set_up(r.get(), stays);
	std::thread opener(keep_open, r.get(), &end);
	for (uint64_t i = 0; i < n_users; i++) {
		users.push_back(std::make_unique<user>(*r, number * 100 + i));
		using_it.emplace_back([u = users.back().get()] { u->run(); });
	}
	for (uint64_t i = 0; i < n_killers; i++)
		killing.emplace_back([&, i, times = int(gen() % 40)] { killer(*r, number * 100 + i).run(times); });
	for (auto &t : killing)
		t.join();
	end_device(r.get(), gen() % 2);
	for (uint64_t i = gen() % 200; i; i--)
		std::this_thread::yield();
	r->stop = true;
	for (auto &t : using_it)
		t.join();
	users.clear();
	for (int i = 0; i < n_slots; i += 2)
		if (!allowed(usdma_stream_destroy(r->stream[i]), false))
			r->bad("usdma_stream_destroy", 0, "the header knows no such end");
	end = true;
	opener.join();
	assert_int_equal(r->wrong, 0);
	tear_down(r.get());
}

static void under_every_kind_of_wait(void **)
{
	device stays;

	for (uint64_t i = 0; i < 12 * scale(); i++)
		play(stays, i + 1);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(under_every_kind_of_wait),
	};

	return cmocka_run_group_tests_name("holds", tests, nullptr, nullptr);
}
