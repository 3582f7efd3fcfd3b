/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pageable copies by the calling CPU, or by the engine with staging buffers. The engine's counters show which it was;
 * USDMA_TEST_BY is the expected one. Both keep the stream's order, the timeout and the bounds of the memory.
 */
#include "tests/integration/native.h"
#include "tests/support/held_memory.h"

#include <csetjmp>
#include <csignal>
#include <future>
#include <memory>
#include <sys/mman.h>
#include <sys/time.h>
#include <thread>
#include <vector>

using namespace usdma::test;

static constexpr size_t MiB = 1 << 20;

static bool by_engine()
{
	return !strcmp(getenv("USDMA_TEST_BY"), "engine");
}

static uint64_t engine_bytes(usdma_device *dev)
{
	usdma_device_stats st = {};

	st.struct_size = sizeof(st);
	WORKS(usdma_device_get_stats(dev, &st));
	return st.bytes;
}

struct bench {
	static constexpr size_t most = 4 * MiB + 12345;

	device dev;
	stream s{dev};
	block mem{dev, kind::device, most}, plain{dev, kind::pageable, most}, pinned{dev, kind::pinned, most};
	std::vector<unsigned char> was = std::vector<unsigned char>(most);
	std::mt19937_64 gen = rng(1);

	bench() { fill_random(was.data(), most, gen); }
	unsigned char *at(const block &b, size_t len) { return b.data() + gen() % (most - len + 1); }
};

static void path_is_the_expected_one(void **)
{
	bench b;

	for (const size_t len : {size_t(4097), size_t(70000), MiB + 1, b.most})
		for (unsigned i = 0; i < 4; i++) {
			unsigned char *const host = b.at(b.plain, len), *const mem = b.at(b.mem, len);
			const uint64_t before = engine_bytes(b.dev);

			memcpy(host, b.was.data(), len);
			WORKS(usdma_copy(b.s, mem, host, len));
			memset(host, 0, len);
			WORKS(usdma_copy_sync(b.dev, host, mem, len, long_ms));
			assert_memory_equal(host, b.was.data(), len);
			assert_int_equal(engine_bytes(b.dev) - before, by_engine() ? 2 * len : 0);
		}
}

/* Earlier copies of the engine in the stream have ended, and later ones read the new data. */
static void stream_order_holds(void **)
{
	bench b;
	block back(b.dev, kind::pinned, b.most);

	for (unsigned i = 0; i < 8; i++) {
		memcpy(b.pinned.data(), b.was.data(), b.most);
		b.pinned.data()[b.most - 1] = static_cast<unsigned char>(i);
		WORKS(usdma_copy(b.s, b.mem.data(), b.pinned.data(), b.most));
		WORKS(usdma_copy(b.s, b.plain.data(), b.mem.data(), b.most));
		assert_memory_equal(b.plain.data(), b.pinned.data(), b.most);
		memset(b.plain.data(), int(i), b.most);
		WORKS(usdma_copy(b.s, b.mem.data(), b.plain.data(), b.most));
		WORKS(usdma_copy(b.s, back.data(), b.mem.data(), b.most));
		memset(b.plain.data(), 0xff, b.most);
		WORKS(usdma_stream_sync(b.s, long_ms));
		assert_true(all_are(back.data(), b.most, static_cast<unsigned char>(i)));
	}
}

static void batches(void **)
{
	static constexpr size_t piece = 8192, pieces = bench::most / piece;
	std::vector<usdma_copy_item> in, out;
	bench b;
	size_t done;

	for (size_t i = 0; i < pieces; i++) {
		unsigned char *const mem = b.mem.data() + i * piece;

		in.push_back({mem, b.was.data() + (pieces - 1 - i) * piece, piece});
		out.push_back({b.plain.data() + (pieces - 1 - i) * piece, mem, piece});
	}
	WORKS(usdma_copy_batch(b.s, in.data(), pieces, &done));
	assert_int_equal(done, pieces);
	WORKS(usdma_copy_batch(b.s, out.data(), pieces, &done));
	assert_memory_equal(b.plain.data(), b.was.data(), pieces * piece);
}

/* Any memory and length, in order: an item reads data that earlier items wrote, by the CPU or the engine. */
static void mixed_batch_runs_in_order(void **)
{
	bench b;
	const block *const side[] = {&b.mem, &b.plain, &b.pinned};
	std::vector<unsigned char> model[] = {b.was, b.was, b.was};

	for (const block *to : side)
		WORKS(usdma_copy_sync(b.dev, to->data(), b.was.data(), b.most, long_ms));
	for (unsigned round = 0; round < 4 * scale(); round++) {
		std::vector<usdma_copy_item> items;
		size_t done = 0;

		for (unsigned i = 0; i < 300; i++) {
			/* Mostly pageable, so that there are long runs of pageable items. */
			const bool any = !(b.gen() % 64);
			const size_t to = b.gen() % (any ? 3 : 2), from = any ? (to + 1 + b.gen() % 2) % 3 : 1 - to,
				     len = b.gen() % (b.gen() % 32 ? 9000 : 600000), dst = b.gen() % (b.most - len),
				     src = b.gen() % (b.most - len);

			items.push_back({side[to]->data() + dst, side[from]->data() + src, len});
			memcpy(model[to].data() + dst, model[from].data() + src, len);
		}
		WORKS(usdma_copy_batch(b.s, items.data(), items.size(), &done));
		assert_int_equal(done, items.size());
		WORKS(usdma_stream_sync(b.s, long_ms));
	}
	assert_memory_equal(b.plain.data(), model[1].data(), b.most);
	assert_memory_equal(b.pinned.data(), model[2].data(), b.most);
	WORKS(usdma_copy_sync(b.dev, b.plain.data(), b.mem.data(), b.most, long_ms));
	assert_memory_equal(b.plain.data(), model[0].data(), b.most);
}

/* Items before the failure are done, later ones have not begun. */
static void batch_stops_at_the_item_that_fails(void **)
{
	static constexpr size_t piece = 3001, pieces = 256;
	void *const hole = mmap(nullptr, piece, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bench b;

	assert_true(hole != MAP_FAILED);
	for (unsigned i = 0; i < 16; i++) {
		const size_t bad = std::vector<size_t>{0, 1, 100, pieces - 1}[i / 4];
		const bool in = i & 1, unmapped = i & 2;
		std::vector<usdma_copy_item> items;
		size_t done;

		memset(b.plain.data(), 0, b.most);
		WORKS(usdma_copy_sync(b.dev, b.mem.data(), in ? b.plain.data() : b.was.data(), b.most, long_ms));
		for (size_t n = 0; n < pieces; n++) {
			unsigned char *const plain = in ? b.was.data() : b.plain.data();
			void *const host = n == bad && unmapped ? hole : plain + n * piece;
			void *const mem = b.mem.data() + (n == bad && !unmapped ? 2 * b.most : n * piece);

			items.push_back({in ? mem : host, in ? host : mem, piece});
		}
		assert_int_equal(usdma_copy_batch(b.s, items.data(), pieces, &done), -EFAULT);
		assert_int_equal(done, bad);
		if (in)
			WORKS(usdma_copy_sync(b.dev, b.plain.data(), b.mem.data(), b.most, long_ms));
		assert_memory_equal(b.plain.data(), b.was.data(), bad * piece);
		assert_true(all_are(b.plain.data() + (bad + 1) * piece, (pieces - bad - 1) * piece, 0));
	}
	assert_int_equal(munmap(hole, piece), 0);
}

/* One row and many, narrow and wide, pitches of any alignment. */
static void rectangles(void **)
{
	bench b;

	for (const size_t width : {1, 63, 64, 1000, 2049, 20000, 70000, 600000})
		for (unsigned i = 0; i < 4; i++) {
			const size_t pitch = width + b.gen() % 100, other = width + b.gen() % 100,
				     rows = 1 + b.gen() % std::min<size_t>(150, b.most / (width + 100));
			const usdma_copy_rect in = {b.mem.data(), pitch, b.was.data(), other, width, rows},
					      out = {b.plain.data(), other, b.mem.data(), pitch, width, rows};
			std::vector<unsigned char> want(rows * other, 0xee);

			memset(b.plain.data(), 0xee, want.size());
			for (size_t row = 0; row < rows; row++)
				memcpy(&want[row * other], b.was.data() + row * other, width);
			WORKS(usdma_copy_2d(b.s, &in));
			WORKS(usdma_copy_2d_sync(b.dev, &out, long_ms));
			assert_memory_equal(b.plain.data(), want.data(), want.size());
		}
}

/* A copy with a timeout of 0 may succeed if this thread is preempted for 100 ms between doorbell and wait. */
template <class F> static bool times_out(const F &copy)
{
	for (unsigned i = 0; i < 100; i++)
		if (const int err = copy()) {
			assert_int_equal(err, -ETIMEDOUT);
			return true;
		}
	return false;
}

/* Timeouts of a device that takes 100 ms for each request. */
static void limits_of(usdma_device *slow)
{
	static constexpr size_t size = 2 * MiB;
	block mem(slow, kind::device, size), plain(slow, kind::pageable, size), was(slow, kind::pageable, size);
	const usdma_copy_rect rows = {mem.data(), MiB / 4, was.data(), MiB / 4, 64 * 1024, 4};
	auto gen = rng(1);

	fill_random(was.data(), size, gen);
	assert_true(times_out([&] { return usdma_copy_sync(slow, mem.data(), was.data(), size, 0); }));
	assert_true(times_out([&] { return usdma_copy_2d_sync(slow, &rows, 0); }));
	/* Staging buffers may still be read: wait for them. */
	WORKS(usdma_device_sync(slow, long_ms));
	WORKS(usdma_copy_sync(slow, mem.data(), was.data(), size, long_ms));
	WORKS(usdma_copy_sync(slow, plain.data(), mem.data(), size, long_ms));
	assert_memory_equal(plain.data(), was.data(), size);
}

/* The engine still reads the buffers of a copy that timed out: the next copy's data do not get into it. */
static void next_copy_takes_other_buffers(usdma_device *slow)
{
	static constexpr size_t size = MiB;
	block mem(slow, kind::device, size), other(slow, kind::device, size), back(slow, kind::pageable, size);
	block first(slow, kind::pageable, size), second(slow, kind::pageable, size);

	memset(back.data(), 0, size);
	memset(first.data(), 0x11, size);
	memset(second.data(), 0x22, size);
	WORKS(usdma_copy_sync(slow, mem.data(), back.data(), size, long_ms));
	assert_true(times_out([&] { return usdma_copy_sync(slow, mem.data(), first.data(), size, 0); }));
	WORKS(usdma_copy_sync(slow, other.data(), second.data(), size, long_ms));
	WORKS(usdma_device_sync(slow, long_ms));
	WORKS(usdma_copy_sync(slow, back.data(), mem.data(), size, long_ms));
	assert_null(memchr(back.data(), 0x22, size));
	WORKS(usdma_copy_sync(slow, back.data(), other.data(), size, long_ms));
	assert_memory_equal(back.data(), second.data(), size);
}

static void time_limit_holds(void **)
{
	usdma_device *slow;

	WORKS(usdma_open("sim:mem=16M:engines=1:latency=100000", &slow));
	limits_of(slow);
	next_copy_takes_other_buffers(slow);
	WORKS(usdma_close(slow));
}

/* The copy is long enough to use the library's thread, which finds the hole. */
static void hole_in_a_long_copy_is_an_error(void **)
{
	static constexpr size_t len = 16 * MiB;
	bench b;
	block mem(b.dev, kind::device, len);
	void *const p = mmap(nullptr, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *const hole = static_cast<char *>(p) + 12 * MiB;

	assert_true(p != MAP_FAILED);
	assert_int_equal(munmap(hole, MiB), 0);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(usdma_copy_sync(b.dev, mem.data(), p, len, long_ms), -EFAULT);
		assert_int_equal(usdma_copy_sync(b.dev, p, mem.data(), len, long_ms), -EFAULT);
	}
	WORKS(usdma_copy_sync(b.dev, mem.data(), p, 12 * MiB, long_ms));
	assert_int_equal(munmap(p, 12 * MiB), 0);
	assert_int_equal(munmap(hole + MiB, len - 13 * MiB), 0);
}

/* The second half is unmapped: an error, no signal, and the device still works. */
static void unmapped_memory_is_an_error(void **)
{
	bench b;
	void *const p = mmap(nullptr, 2 * MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	assert_int_equal(munmap(static_cast<char *>(p) + MiB, MiB), 0);
	memset(p, 1, MiB);
	assert_int_equal(usdma_copy(b.s, b.mem.data(), p, 2 * MiB), -EFAULT);
	assert_int_equal(usdma_copy_sync(b.dev, p, b.mem.data(), 2 * MiB, long_ms), -EFAULT);
	WORKS(usdma_copy(b.s, b.mem.data(), p, MiB));
	assert_int_equal(munmap(p, MiB), 0);
	WORKS(usdma_device_free(b.mem.data()));
	assert_int_equal(usdma_copy(b.s, b.mem.data(), b.was.data(), MiB), -EFAULT);
	assert_int_equal(usdma_copy(b.s, b.plain.data(), b.mem.data(), MiB), -EFAULT);
	void *again;
	WORKS(usdma_device_alloc(b.dev, b.most, &again));
	assert_ptr_equal(again, b.mem.data());
}

/* ---- signals ------------------------------------------------------------------------------------------------ */

static sigjmp_buf probe_back;
static volatile sig_atomic_t probing, probes;
static void *probed;

static void on_segv(int)
{
	if (!probing)
		abort();
	siglongjmp(probe_back, 1);
}

/* As profilers and virtual machines do. */
static void on_alarm(int)
{
	if (!sigsetjmp(probe_back, 1)) {
		probing = 1;
		(void)*static_cast<volatile char *>(probed);
	}
	probing = 0;
	probes = probes + 1;
}

static void set_handler(int sig, void (*to)(int))
{
	struct sigaction a = {};

	a.sa_handler = to;
	assert_int_equal(sigaction(sig, &a, nullptr), 0);
}

/* A handler that interrupts a copy has faults of its own. */
static void a_signal_handler_probes_memory(void **)
{
	static constexpr size_t len = 4 * MiB;
	static constexpr itimerval often = {{0, 1000}, {0, 1000}}, never = {};
	probed = mmap(nullptr, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(probed != MAP_FAILED);
	set_handler(SIGSEGV, on_segv);
	set_handler(SIGALRM, on_alarm);
	{
		bench b;

		assert_int_equal(setitimer(ITIMER_REAL, &often, nullptr), 0);
		while (probes < 20)
			WORKS(usdma_copy_sync(b.dev, b.mem.data(), b.was.data(), len, long_ms));
		assert_int_equal(setitimer(ITIMER_REAL, &never, nullptr), 0);
		assert_int_equal(usdma_copy_sync(b.dev, b.mem.data(), probed, len, long_ms), -EFAULT);
	}
	set_handler(SIGSEGV, SIG_DFL);
	set_handler(SIGALRM, SIG_DFL);
	assert_int_equal(munmap(probed, len), 0);
}

/* ---- a page that comes late --------------------------------------------------------------------------------- */

/* Runs f in another thread. False: it did not return before the page came. */
template <class F> static bool returns(const held_memory &late, const F &f)
{
	const std::future<void> done = std::async(std::launch::async, f);
	const bool returned = done.wait_for(std::chrono::milliseconds(patience_ms(10000))) == std::future_status::ready;

	if (!returned)
		late.release();
	return returned;
}

/* A copy waits for a page of its memory: no other call does, and freed memory is not reused before it has ended. */
static void hold_up(const held_memory &late, bool batch)
{
	bench b;
	stream s(b.dev);
	auto mem = std::make_unique<block>(b.dev, kind::device, late.size());
	const usdma_copy_item item = {mem->data(), late.data(), late.size()};
	usdma_stream *other;
	usdma_event *e;
	int err = 1;

	WORKS(usdma_stream_create(b.dev, nullptr, &other));
	WORKS(usdma_event_create(b.dev, 0, &e));
	late.hold();
	std::thread copier([&] {
		err = batch ? usdma_copy_batch(s, &item, 1, nullptr) :
			      usdma_copy_sync(b.dev, item.dst, item.src, item.len, long_ms);
	});
	late.wait_for_access();
	assert_true(returns(late, [&] { WORKS(usdma_event_destroy(e)); }));
	assert_true(returns(late, [&] { WORKS(usdma_stream_destroy(other)); }));
	mem.reset();
	block again(b.dev, kind::device, late.size());
	WORKS(usdma_copy_sync(b.dev, again.data(), b.was.data(), late.size(), long_ms));
	late.release();
	copier.join();
	assert_true(!err || err == -EFAULT);
	WORKS(usdma_copy_sync(b.dev, b.plain.data(), again.data(), late.size(), long_ms));
	assert_memory_equal(b.plain.data(), b.was.data(), late.size());
}

static void a_page_that_comes_late(void **)
{
	const held_memory late(64 * 1024);

	hold_up(late, false);
	hold_up(late, true);
}

/* The library's thread helps one copy at a time; it exits with the last device. */
static void copies_of_many_threads(void **)
{
	static constexpr unsigned threads = 4, rounds = 4;
	{
		device dev;
		std::vector<std::thread> all;
		unsigned wrong[threads] = {};

		assert_true(threads_named("usdma-copy") <= unsigned(!by_engine()));
		for (unsigned t = 0; t < threads; t++)
			all.emplace_back([&, t] {
				std::vector<unsigned char> in((t % 2 ? MiB : 4 * MiB) + 4097 * t), out(in.size());
				block mem(dev, kind::device, in.size());
				auto gen = rng(10 + t);

				for (unsigned i = 0; i < rounds; i++) {
					fill_random(in.data(), in.size(), gen);
					wrong[t] += usdma_copy_sync(dev, mem.data(), in.data(), in.size(), -1) ||
						    usdma_copy_sync(dev, out.data(), mem.data(), in.size(), -1) ||
						    out != in;
				}
			});
		for (std::thread &t : all)
			t.join();
		for (const unsigned n : wrong)
			assert_int_equal(n, 0);
	}
	assert_int_equal(threads_named("usdma-copy"), 0);
}

int main()
{
	/* Unmapped memory first: cmocka installs signal handlers for each test, and the library replaces only eight. */
	const CMUnitTest tests[] = {
		cmocka_unit_test(unmapped_memory_is_an_error),
		cmocka_unit_test(hole_in_a_long_copy_is_an_error),
		cmocka_unit_test(a_signal_handler_probes_memory),
		cmocka_unit_test(a_page_that_comes_late),
		cmocka_unit_test(batch_stops_at_the_item_that_fails),
		cmocka_unit_test(path_is_the_expected_one),
		cmocka_unit_test(stream_order_holds),
		cmocka_unit_test(batches),
		cmocka_unit_test(mixed_batch_runs_in_order),
		cmocka_unit_test(rectangles),
		cmocka_unit_test(time_limit_holds),
		cmocka_unit_test(copies_of_many_threads),
	};

	return cmocka_run_group_tests_name("pageable", tests, nullptr, nullptr);
}
