/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock of a hardware queue, and the asymmetric barrier. */
#include "tests/support/test.h"

#include "driver/base/asym_barrier.h"
#include "driver/base/futex_lock.h"

#include <atomic>
#include <thread>
#include <vector>

using namespace usdma;

struct shared_count {
	futex_lock lock;
	u64 a = 0, b = 0; /* not atomic: concurrent holders would lose increments, or see different values */
	std::atomic<u64> wrong = 0;

	void add(bool slowly)
	{
		wrong += a != b;
		a++;
		asm volatile("" ::: "memory");
		if (slowly)
			std::this_thread::yield(); /* others go to sleep on the lock */
		b++;
	}
};

/* Locks and unlocks by the functions that the bits select. */
static bool visit(shared_count &c, u64 bits)
{
	if (bits & 1) {
		if (!c.lock.try_lock())
			return false;
	} else {
		c.lock.lock();
	}
	c.add(!(bits & 0xf0));
	bits & 2 ? c.lock.unlock_light() : c.lock.unlock();
	return true;
}

/* Each kind of lock and unlock, by threads that find it free, held for long, or wait for it. */
static void holders_exclude_each_other(void **)
{
	const unsigned rounds = test::small() ? 20 : 100 * test::scale();
	auto gen = test::rng(2);

	for (unsigned r = 0; r < rounds; r++) {
		shared_count c;
		std::vector<std::thread> all;
		std::atomic<u64> visits = 0;

		for (unsigned t = 0; t < 3; t++)
			all.emplace_back([&, mine = std::mt19937_64(gen())]() mutable {
				u64 n = 0;

				for (u64 k = mine() % 2000; k; k--)
					n += visit(c, mine());
				visits += n;
			});
		for (std::thread &t : all)
			t.join();
		assert_int_equal(c.wrong, 0);
		assert_int_equal(c.a, visits);
		assert_int_equal(c.b, visits);
	}
}

/* One that sleeps on the lock gets it after either unlock. */
static void sleepers_are_woken(void **)
{
	for (unsigned i = 0; i < 20 * test::scale(); i++) {
		shared_count c;
		std::atomic<unsigned> begun = 0;
		std::vector<std::thread> all;

		c.lock.lock();
		for (unsigned t = 0; t < 3; t++)
			all.emplace_back([&] {
				begun++;
				visit(c, 0x10 | (i & 2));
			});
		while (begun != 3)
			std::this_thread::yield();
		for (unsigned k = i * 100; k; k--)
			cpu_relax();
		i & 1 ? c.lock.unlock() : c.lock.unlock_light();
		for (std::thread &t : all)
			t.join();
		assert_int_equal(c.a, 3);
	}
}

namespace {

/* Spins until another thread arrives; yields now and then, for it may need this thread's CPU. */
class eager_wait {
public:
	void once()
	{
		if (++n_ % spins)
			cpu_relax();
		else
			std::this_thread::yield();
	}

private:
	static constexpr unsigned spins = 1000;
	unsigned n_ = 0;
};

} // namespace

/* Store, barrier_light(), load against store, barrier_for_all(), load: at least one side sees the other's store. */
static void one_side_sees_the_other(void **)
{
	const unsigned rounds = 5000 * test::scale();
	alignas(64) u32 mine = 0;
	alignas(64) u32 theirs = 0;
	std::atomic<unsigned> begin = 0, end = 0;
	u32 seen_there = 0;

	if (!asym_barrier_ready())
		skip(); /* membarrier(2) is unavailable */
	std::thread slow_side([&] {
		for (unsigned r = 1; r <= rounds; r++) {
			for (eager_wait w; begin != r;)
				w.once();
			store_relaxed(&theirs, 1u);
			barrier_for_all();
			seen_there = load_relaxed(&mine);
			end = r;
		}
	});
	unsigned missed = 0;
	for (unsigned r = 1; r <= rounds; r++) {
		store_relaxed(&mine, 0u);
		store_relaxed(&theirs, 0u);
		begin = r;
		for (unsigned k = r % 64; k; k--)
			asm volatile("");
		store_relaxed(&mine, 1u);
		barrier_light();
		const u32 seen = load_relaxed(&theirs);
		for (eager_wait w; end != r;)
			w.once();
		missed += !seen && !seen_there;
	}
	slow_side.join();
	assert_int_equal(missed, 0);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(holders_exclude_each_other),
		cmocka_unit_test(sleepers_are_woken),
		cmocka_unit_test(one_side_sees_the_other),
	};

	return cmocka_run_group_tests_name("locks", tests, nullptr, nullptr);
}
