/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * "Any thread may make any call on any handle at any time": two threads at once destroy
 * streams and events and close a device, and their slots are used again, while other
 * threads wait and submit.  Each call returns an error code of the header, a handle of a
 * destroyed object never refers to the next object, and each accepted call or signal
 * comes exactly once.  Run under sanitizers.
 */
#include "tests/integration/holds.h"
#include "tests/integration/native.h"
#include "tests/support/sanitizer.h"
#include "tests/support/until.h"
#include "usdma/uring.h"

#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

TEST_TSAN_SUPPRESSIONS(TEST_UNORDERED_COPIES TEST_STALE_HANDLES TEST_RINGS_OF_THREADS)

using namespace usdma::test;

static constexpr int n_slots = 8, n_events = 4;
static constexpr size_t area = 16 << 10;
static constexpr uint64_t mib = 1 << 20;

namespace {

struct round_state : rules {
	usdma_device *dev[2];                        /* the second is closed during the test */
	std::atomic<usdma_stream *> stream[n_slots]; /* odd slots belong to the second device */
	std::atomic<usdma_event *> event[n_events];
	dead_handles<usdma_stream *> dead_streams;
	dead_handles<usdma_event *> dead_events;
	std::atomic<usdma_device *> dead_device{nullptr};
	char *host, *mem[2];
	uint64_t *gate; /* grows, so that no wait for it is endless */
	std::atomic<uint64_t> opened{0};
	std::atomic<uint64_t> called{0}, calls_accepted{0}, signals_accepted{0};
	int signal_fd;

	round_state() : rules{{0, 1, -EBADF, -ECANCELED, -ENODEV, -EFAULT, -EIO}, usdma_error_text, is_dead} {}
	static bool is_dead(long ret) { return ret == -EBADF; }
	void kill_stream(std::mt19937_64 &gen)
	{
		const size_t slot = gen() % n_slots;

		replace("usdma_stream_destroy", stream[slot], &dead_streams, usdma_stream_destroy,
			[&](usdma_stream **next) { return usdma_stream_create(dev[slot % 2], nullptr, next); });
	}
	void kill_event(std::mt19937_64 &gen)
	{
		const auto destroy = [this](usdma_event *e) {
			const int ret = usdma_event_destroy(e);

			if (ret && ret != -EBADF)
				bad("usdma_event_destroy", ret, "unexpected error code");
			return ret;
		};
		replace("usdma_event_destroy", event[gen() % n_events], &dead_events, destroy,
			[&](usdma_event **next) { return usdma_event_create(dev[0], 0, next); });
	}
};

void count_call(void *arg)
{
	++static_cast<round_state *>(arg)->called;
}

/* A thread that makes calls; each uses the stream and the event of a random slot, and the stream's memory. */
struct user {
	round_state &r;
	std::mt19937_64 gen;
	std::vector<char> plain;
	const size_t private_offset;
	usdma_stream *s;
	usdma_event *e;
	char *mem, *host;
	usdma_device *dev;
	io_uring ring;
	bool has_ring;
	usdma_completion *completion;

	user(round_state &round, uint64_t number)
		: r(round), gen(rng(number)), plain(area), private_offset((n_slots + number % n_users) * area)
	{
		has_ring = !io_uring_queue_init(4, &ring, 0);
		WORKS(usdma_completion_create(&completion));
	}
	~user()
	{
		usdma_completion_destroy(completion);
		if (has_ring)
			io_uring_queue_exit(&ring);
	}
	user(const user &) = delete;
	user &operator=(const user &) = delete;
	void step();
	int ms() { return int(gen() % 3); }
	/* A timeout is no error. */
	static long ignore_timeout(int ret) { return ret == -ETIMEDOUT ? 0 : ret; }
	template <class F> long repeat(F call)
	{
		long ret = 0;

		for (int i = 0; i < 50 && r.good.contains(ret); i++)
			ret = call();
		return ret;
	}
	long poll_by_ring();
	/* No stream and no other user writes this memory, so that copies by the CPU overlap with nothing. */
	char *private_mem(size_t of_device) { return r.mem[of_device] + private_offset; }
};

long user::poll_by_ring()
{
	__kernel_timespec limit = {60, 0};
	io_uring_cqe *cqe;
	io_uring_sqe sqe;

	if (!has_ring)
		return 0;
	memset(&sqe, 0xff, sizeof(sqe));
	if (const int ret = usdma_prep_completion(completion, s, &sqe, 7))
		return ret;
	*io_uring_get_sqe(&ring) = sqe;
	if (io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &limit, nullptr) < 0)
		return -ETIME; /* its CQE did not come in a minute */
	io_uring_cqe_seen(&ring, cqe);
	return usdma_completion_finish(completion);
}

long batch(user &u)
{
	const usdma_copy_item items[3] = {{u.mem, u.host, 64}, {u.mem + 64, u.host, 64}, {u.mem + 128, u.host, 4096}};
	size_t done;

	return usdma_copy_batch(u.s, items, 3, &done);
}

long call(user &u)
{
	const int ret = usdma_stream_call(u.s, count_call, &u.r, u.gen() % 2);

	u.r.calls_accepted += ret == 0;
	return ret;
}

long signal(user &u)
{
	const int ret = usdma_stream_signal_fd(u.s, u.r.signal_fd);

	u.r.signals_accepted += ret == 0;
	return ret;
}

long take_error(user &u)
{
	usdma_error_info info = {sizeof(info), 0, 0, 0, "", 0, 0};

	return usdma_stream_take_error(u.s, &info);
}

const user_call<user> submissions[] = {
	{"copy", [](user &u) -> long { return usdma_copy(u.s, u.mem, u.host, 64 + u.gen() % 8000); }},
	{"copy, pageable",
	 [](user &u) -> long { return usdma_copy(u.s, u.private_mem(u.gen() % 2), u.plain.data(), u.gen() % 9000); }},
	{"copy_batch", batch},
	{"fill", [](user &u) -> long { return usdma_fill(u.s, u.mem, u.gen(), 8, 4096); }},
	{"wait_value", [](user &u) -> long { return usdma_wait_value(u.s, u.r.gate, USDMA_GEQ, u.r.opened + 2); }},
	{"stream_call", call},
	{"stream_signal_fd", signal},
	{"event_record", [](user &u) -> long { return usdma_event_record(u.e, u.s); }},
	{"stream_wait_event", [](user &u) -> long { return usdma_stream_wait_event(u.s, u.e); }},
};

const user_call<user> waits[] = {
	{"stream_sync", [](user &u) -> long { return usdma_stream_sync(u.s, -1); }},
	{"stream_sync, limited", [](user &u) { return u.ignore_timeout(usdma_stream_sync(u.s, u.ms())); }},
	{"event_sync", [](user &u) -> long { return usdma_event_sync(u.e, -1); }},
	{"event_sync, limited", [](user &u) { return u.ignore_timeout(usdma_event_sync(u.e, u.ms())); }},
	{"device_sync", [](user &u) -> long { return usdma_device_sync(u.dev, -1); }},
	{"device_sync, limited", [](user &u) { return u.ignore_timeout(usdma_device_sync(u.dev, u.ms())); }},
	{"stream_query", [](user &u) { return u.repeat([&] { return usdma_stream_query(u.s); }); }},
	{"event_query", [](user &u) { return u.repeat([&] { return usdma_event_query(u.e); }); }},
	{"completion", [](user &u) { return u.poll_by_ring(); }},
	{"copy_sync",
	 [](user &u) -> long { return usdma_copy_sync(u.r.dev[0], u.private_mem(0), u.plain.data(), area, -1); }},
	{"copy_sync, limited",
	 [](user &u) {
		 return u.ignore_timeout(usdma_copy_sync(u.dev, u.private_mem(0), u.plain.data(), 64, u.ms()));
	 }},
	{"stream_take_error", take_error},
};

/* Calls with handles of destroyed objects. */
const user_call<user> with_dead_handles[] = {
	{"stream_sync", [](user &u) -> long { return usdma_stream_sync(u.s, 0); }},
	{"stream_query", [](user &u) -> long { return usdma_stream_query(u.s); }},
	{"copy", [](user &u) -> long { return usdma_copy(u.s, u.private_mem(0), u.r.host, 64); }},
	{"fill", [](user &u) -> long { return usdma_fill(u.s, u.private_mem(0), 0, 8, 64); }},
	{"stream_call", [](user &u) -> long { return usdma_stream_call(u.s, count_call, &u.r, 0); }},
	{"stream_signal_fd", [](user &u) -> long { return usdma_stream_signal_fd(u.s, u.r.signal_fd); }},
	{"stream_abort", [](user &u) -> long { return usdma_stream_abort(u.s); }},
	{"stream_destroy", [](user &u) -> long { return usdma_stream_destroy(u.s); }},
	{"event_sync", [](user &u) -> long { return usdma_event_sync(u.e, 0); }},
	{"event_record", [](user &u) -> long { return usdma_event_record(u.e, u.r.stream[0]); }},
	{"event_query", [](user &u) -> long { return usdma_event_query(u.e); }},
	{"event_destroy", [](user &u) -> long { return usdma_event_destroy(u.e); }},
};

const user_call<user> with_dead_device[] = {
	{"device_sync", [](user &u) -> long { return usdma_device_sync(u.r.dead_device, 0); }},
};

void user::step()
{
	const size_t slot = gen() % n_slots;

	s = r.stream[slot];
	e = r.event[gen() % n_events];
	dev = r.dev[gen() % 2];
	mem = r.mem[slot % 2] + slot * area;
	host = r.host + slot * area;
	if (gen() % 3)
		make_any(*this, submissions);
	else
		make_any(*this, waits);
	if (gen() % 200 == 0)
		r.expect("stream_abort", usdma_stream_abort(s));
	if (gen() % 4)
		return;
	s = r.dead_streams.any(gen);
	e = r.dead_events.any(gen);
	if (s && e)
		refuses_any(*this, with_dead_handles);
	if (r.dead_device)
		refuses_any(*this, with_dead_device);
}

} // namespace

static void set_up(round_state *r, usdma_device *dev0)
{
	r->dev[0] = dev0;
	WORKS(usdma_open_index(1, &r->dev[1]));
	WORKS(usdma_host_alloc(nullptr, mib, reinterpret_cast<void **>(&r->host)));
	for (int i = 0; i < 2; i++)
		WORKS(usdma_device_alloc(r->dev[i], mib, reinterpret_cast<void **>(&r->mem[i])));
	/* Host memory, because a device may not be able to access the other's memory. */
	WORKS(usdma_host_alloc(nullptr, 4096, reinterpret_cast<void **>(&r->gate)));
	WORKS(usdma_fill_sync(dev0, r->gate, 0, 8, 4096, long_ms));
	memset(r->host, 0x5a, mib);
	for (int i = 0; i < n_slots; i++) {
		usdma_stream *s;

		WORKS(usdma_stream_create(r->dev[i % 2], nullptr, &s));
		r->stream[i] = s;
	}
	for (auto &e : r->event) {
		usdma_event *made;

		WORKS(usdma_event_create(dev0, 0, &made));
		e = made;
	}
	r->signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

/* Opens the gate repeatedly, until no stream waits any more. */
static void open_repeatedly(round_state *r, const std::atomic<bool> *end)
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

/* Closes the device; orderly: its streams are destroyed before. */
static void close_device(round_state *r, bool orderly)
{
	for (int i = 1; orderly && i < n_slots; i += 2) {
		usdma_stream *const s = r->stream[i];
		const int ret = usdma_stream_destroy(s);

		r->expect("usdma_stream_destroy", ret);
		if (ret == -EBADF)
			r->bad("usdma_stream_destroy", ret, "no other thread destroys it now");
		r->dead_streams.add(s);
	}
	r->twice("usdma_close", -EBADF, [=] { return usdma_close(r->dev[1]); });
	r->dead_device = r->dev[1];
	for (int i = 1; i < n_slots; i += 2)
		r->dead_streams.add(r->stream[i]);
}

/* Each accepted signal and call came exactly once. */
static void check_signals_and_calls(round_state *r)
{
	uint64_t signals = 0, n;

	until("each call", [=] { return r->called == r->calls_accepted; });
	until("each signal", [&] {
		signals += read(r->signal_fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
		return signals >= r->signals_accepted;
	});
	assert_int_equal(signals, r->signals_accepted);
}

static void tear_down(round_state *r)
{
	for (auto &e : r->event)
		WORKS(usdma_event_destroy(e));
	check_signals_and_calls(r);
	close(r->signal_fd);
	WORKS(usdma_host_free(r->gate));
	WORKS(usdma_device_free(r->mem[0]));
	WORKS(usdma_host_free(r->host));
}

static void run_round(usdma_device *dev0, uint64_t number)
{
	auto r = std::make_unique<round_state>();
	std::atomic<bool> end{false};

	set_up(r.get(), dev0);
	std::thread opener(open_repeatedly, r.get(), &end);
	race<user>(*r, number, 40, [&](std::mt19937_64 &gen) { close_device(r.get(), gen() % 2); });
	for (int i = 0; i < n_slots; i += 2)
		r->expect("usdma_stream_destroy", usdma_stream_destroy(r->stream[i]));
	end = true;
	opener.join();
	assert_int_equal(r->wrong, 0);
	tear_down(r.get());
}

static void under_every_kind_of_wait(void **)
{
	device dev0;

	for (uint64_t i = 0; i < 6 * scale(); i++)
		run_round(dev0, i + 1);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(under_every_kind_of_wait),
	};

	return cmocka_run_group_tests_name("holds", tests, nullptr, nullptr);
}
