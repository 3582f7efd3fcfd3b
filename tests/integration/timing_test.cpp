/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hostile timing (USDMA_CHECK, set by the runner): programs without a necessary wait or edge get wrong data each time
 * with late, right or wrong data with shuffle (the same for the same seed), and right data with early.  Correct
 * programs get right data, and polling succeeds.
 */
#include "tests/integration/native.h"
#include "tests/support/sanitizer.h"

#include <chrono>
#include <vector>

TEST_TSAN_SUPPRESSIONS(TEST_UNORDERED_COPIES)

using namespace usdma::test;

static constexpr unsigned rounds = 100;
static constexpr size_t size = 4096;

static bool timing_is(const char *name)
{
	return !strncmp(getenv("USDMA_CHECK"), name, strlen(name));
}

/* The device delays work for 250 ms at most. Rounds that took longer, on a busy machine, are repeated. */
class slow_round {
public:
	bool operator()() const { return std::chrono::steady_clock::now() - start_ > std::chrono::milliseconds(200); }

private:
	const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/* Two streams, and a block of each kind that they copy between. */
struct bench {
	device dev;
	stream a{dev}, b{dev};
	block from{dev, kind::pinned, size}, mem{dev, kind::device, size}, to{dev, kind::pinned, size};

	void wait(usdma_stream *s) { WORKS(usdma_stream_sync(s, long_ms)); }
	void fetch()
	{
		WORKS(usdma_copy(b, to.data(), mem.data(), size));
		wait(b);
	}
};

/* Counts the copies that read data written after the call. */
static void source_is_overwritten(void **)
{
	bench t;
	unsigned late = 0, early = 0;

	for (unsigned i = 0; i < rounds;) {
		const slow_round too_long;

		memset(t.from.data(), 1, size);
		WORKS(usdma_copy(t.a, t.mem.data(), t.from.data(), size));
		memset(t.from.data(), 2, size);
		t.wait(t.a);
		t.fetch();
		if (too_long())
			continue;
		i++;
		late += all_are(t.to.data(), size, 2);
		early += all_are(t.to.data(), size, 1);
	}
	assert_int_equal(timing_is("early") ? early : late, rounds);
}

static void destination_is_read_without_a_wait(void **)
{
	bench t;
	unsigned late = 0, early = 0;

	WORKS(usdma_fill_sync(t.dev, t.mem.data(), 0x0202020202020202, 8, size, long_ms));
	for (unsigned i = 0; i < rounds;) {
		const slow_round too_long;

		memset(t.to.data(), 1, size);
		WORKS(usdma_copy(t.a, t.to.data(), t.mem.data(), size));
		const bool was_late = all_are(t.to.data(), size, 1), was_early = all_are(t.to.data(), size, 2);
		t.wait(t.a);
		assert_true(all_are(t.to.data(), size, 2));
		if (too_long())
			continue;
		i++;
		late += was_late;
		early += was_early;
	}
	assert_int_equal(timing_is("early") ? early : late, rounds);
}

/* Repeats all rounds on a new device if one took too long, because that changes the order of all later work. */
template <class F> static auto unstretched(F rounds_of)
{
	decltype(rounds_of()) found;

	while ((found = rounds_of()).size() < rounds)
		;
	return found;
}

/* Stream b reads data that stream a writes; returns for each round whether it read the new data. */
static std::vector<bool> without_an_edge()
{
	std::vector<bool> fresh;
	bench t;

	for (unsigned i = 0; i < rounds; i++) {
		const slow_round too_long;

		memset(t.from.data(), int(i % 200 + 1), size);
		WORKS(usdma_copy(t.a, t.mem.data(), t.from.data(), size));
		t.fetch();
		fresh.push_back(all_are(t.to.data(), size, static_cast<unsigned char>(i % 200 + 1)));
		t.wait(t.a);
		if (too_long())
			return {};
	}
	return fresh;
}

static void missing_edge(void **)
{
	const std::vector<bool> fresh = unstretched(without_an_edge);
	const long n = std::count(fresh.begin(), fresh.end(), true);

	if (timing_is("early"))
		assert_int_equal(n, rounds);
	else if (timing_is("late"))
		assert_int_equal(n, 0);
	else {
		assert_true(n > 0 && n < rounds);
		/* A new device starts with the seed again. */
		assert_true(unstretched(without_an_edge) == fresh);
	}
}

static void edge_orders_streams(void **)
{
	bench t;
	event done(t.dev);
	stream c(t.dev);
	block other(t.dev, kind::device, size);

	for (unsigned i = 0; i < rounds; i++) {
		memset(t.from.data(), int(i % 200 + 1), size);
		WORKS(usdma_copy(t.a, t.mem.data(), t.from.data(), size));
		WORKS(usdma_event_record(done, t.a));
		WORKS(usdma_stream_wait_event(t.b, done));
		WORKS(usdma_fill(c, other.data(), i, 8, size));
		t.fetch();
		assert_true(all_are(t.to.data(), size, static_cast<unsigned char>(i % 200 + 1)));
	}
	t.wait(c);
}

/* Queries, and a word that the program polls: no wait uses an interrupt. */
static void polling_succeeds(void **)
{
	bench t;
	event done(t.dev);
	auto *word = reinterpret_cast<volatile std::uint64_t *>(t.to.data());

	WORKS(usdma_copy(t.a, t.mem.data(), t.from.data(), size));
	for (unsigned i = 0; WORKS(usdma_stream_query(t.a)) == 0; i++)
		poll_pause(i);
	WORKS(usdma_copy(t.a, t.mem.data(), t.from.data(), size));
	WORKS(usdma_event_record(done, t.a));
	for (unsigned i = 0; WORKS(usdma_event_query(done)) == 0; i++)
		poll_pause(i);
	*word = 0;
	WORKS(usdma_write_value(t.a, t.to.data(), 1));
	for (unsigned i = 0; __atomic_load_n(word, __ATOMIC_ACQUIRE) == 0; i++)
		poll_pause(i);
}

/* Work that others wait for is not delayed: a written value, a full ring, a host function. */
static void needed_work_is_not_delayed(void **)
{
	bench t;
	unsigned calls = 0;

	WORKS(usdma_fill_sync(t.dev, t.mem.data(), 0, 8, size, long_ms));
	WORKS(usdma_wait_value(t.b, t.mem.data(), USDMA_EQ, 7));
	WORKS(usdma_copy(t.b, t.to.data(), t.mem.data(), size));
	WORKS(usdma_write_value(t.a, t.mem.data(), 7));
	t.wait(t.b);
	assert_int_equal(t.to.data()[0], 7);
	for (unsigned i = 0; i < 20000; i++)
		WORKS(usdma_copy(t.a, t.mem.data() + i % 64 * 64, t.from.data(), 64));
	WORKS(usdma_stream_call(
		t.a, [](void *n) { ++*static_cast<unsigned *>(n); }, &calls, 1));
	t.wait(t.a);
	assert_int_equal(calls, 1);
}

/* The device's clock is also read during the call. */
static void event_time_is_taken_at_once(void **)
{
	bench t;
	event first(t.dev, USDMA_EVENT_TIMING), last(t.dev, USDMA_EVENT_TIMING);
	int64_t ns;

	if (!timing_is("early"))
		return;
	for (unsigned i = 0; i < rounds; i++) {
		WORKS(usdma_event_record(first, t.a));
		WORKS(usdma_event_record(last, t.a));
		assert_int_equal(WORKS(usdma_event_query(last)), 1);
		WORKS(usdma_event_elapsed(first, last, &ns));
	}
}

/* A device that takes 700 ms for a copy, and a call with a shorter timeout. */
static void call_times_out(void **)
{
	if (!timing_is("early"))
		return;
	usdma_device *slow;
	WORKS(usdma_open("sim:mem=1M:latency=700000", &slow));
	{
		block from(slow, kind::device, size), mem(slow, kind::device, size);

		assert_int_equal(usdma_copy_sync(slow, mem.data(), from.data(), size, 20), -ETIMEDOUT);
	}
	WORKS(usdma_close(slow));
}

static void other_devices_are_refused(void **)
{
	usdma_device *dev;

	if (timing_is("early"))
		return;
	assert_int_equal(usdma_open("0000:01:00.0", &dev), -EINVAL);
	assert_non_null(strstr(usdma_error_text(), "no software device"));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(source_is_overwritten),
		cmocka_unit_test(destination_is_read_without_a_wait),
		cmocka_unit_test(missing_edge),
		cmocka_unit_test(edge_orders_streams),
		cmocka_unit_test(polling_succeeds),
		cmocka_unit_test(needed_work_is_not_delayed),
		cmocka_unit_test(event_time_is_taken_at_once),
		cmocka_unit_test(call_times_out),
		cmocka_unit_test(other_devices_are_refused),
	};

	return cmocka_run_group_tests_name("timing", tests, nullptr, nullptr);
}
