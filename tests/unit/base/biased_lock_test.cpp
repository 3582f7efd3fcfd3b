/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/support/membarrier.h"
#include "tests/support/test.h"

#include "driver/base/biased_lock.h"

#include <atomic>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma;

static void take(biased_lock &l, unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		l.lock();
		l.unlock_light();
	}
}

/* Without asymmetric barriers the lock is a plain mutex, which passes the other tests as well. */
static bool can_own()
{
	return asym_barrier_ready();
}

static void owned_after_turns(void **)
{
	biased_lock l;

	if (!can_own())
		skip();
	take(l, biased_lock::first_turns);
	assert_false(l.owned());
	assert_false(l.try_lock_own());
	take(l, 1);
	assert_true(l.owned());
	assert_true(l.try_lock_own());
	l.unlock_own();
	take(l, 1000);
	assert_true(l.owned());
}

/* lock() and try_lock() of another thread revoke the ownership; the lock still works. */
static void revoked(void **)
{
	for (bool trying : {false, true}) {
		biased_lock l;

		take(l, 2 * biased_lock::first_turns);
		std::thread([&] {
			if (trying)
				assert_true(l.try_lock());
			else
				l.lock();
			l.unlock();
		}).join();
		assert_false(l.owned());
		/* The second time ownership takes more turns. */
		take(l, biased_lock::first_turns + 1);
		assert_false(l.owned());
		take(l, biased_lock::first_turns + 1);
		assert_int_equal(l.owned(), can_own());
	}
}

static bool tried_elsewhere(biased_lock &l)
{
	bool got = false;

	std::thread([&] {
		got = l.try_lock();
		if (got)
			l.unlock();
	}).join();
	return got;
}

/* While the owner holds the lock, try_lock() fails each time, and lock() waits. */
static void held_by_owner(void **)
{
	biased_lock l;
	std::atomic<bool> got = false;

	take(l, 2 * biased_lock::first_turns);
	l.lock();
	assert_false(tried_elsewhere(l));
	assert_false(tried_elsewhere(l));
	std::thread other([&] {
		l.lock();
		got = true;
		l.unlock();
	});
	for (unsigned i = 0; i < 1000; i++)
		assert_false(got);
	l.unlock();
	other.join();
	assert_true(got);
	assert_true(tried_elsewhere(l));
}

/* A program that filters system calls later: the ownership can still be revoked. */
static void revoked_without_membarrier(void **)
{
	biased_lock l;

	if (!test::can_refuse_calls())
		skip();
	take(l, 2 * biased_lock::first_turns);
	const pid_t child = fork();
	if (!child) {
		const bool right = test::forbid_membarrier() && tried_elsewhere(l) && !l.owned();

		_exit(right ? 0 : 1);
	}
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

struct shared_count {
	biased_lock lock;
	u64 a = 0, b = 0; /* not atomic: concurrent holders would lose increments, or see different values */
	std::atomic<u64> wrong = 0;

	void add()
	{
		wrong += a != b;
		a++;
		asm volatile("" ::: "memory");
		b++;
	}
};

/* Locks and unlocks by the functions that the bits select. */
static bool visit(shared_count &c, u64 bits)
{
	if (bits & 4 && c.lock.try_lock_own()) {
		c.add();
		c.lock.unlock_own();
		return true;
	}
	if (bits & 1) {
		if (!c.lock.try_lock())
			return false;
	} else {
		c.lock.lock();
	}
	c.add();
	bits & 2 ? c.lock.unlock_light() : c.lock.unlock();
	return true;
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

/*
 * Ownership is revoked while the owner locks and unlocks in a loop; with a new lock each time, because a lock that
 * was revoked often is no longer owned.
 */
static void revocation_excludes_owner(void **)
{
	const unsigned rounds = test::small() ? 300 : 2000 * test::scale();
	std::vector<shared_count> all(rounds);
	std::atomic<unsigned> round = 0, taken = 0;
	auto gen = test::rng(1);
	u64 visits = 0, wrong = 0;

	std::thread taker([&, mine = std::mt19937_64(gen())]() mutable {
		for (unsigned r = 0; r < rounds; r++) {
			for (eager_wait w; round.load(std::memory_order_relaxed) <= r;)
				w.once();
			for (u64 k = mine() % 64; k; k--)
				asm volatile("");
			for (eager_wait w; !visit(all[r], mine());)
				w.once();
			taken.store(r + 1, std::memory_order_relaxed);
		}
	});
	for (unsigned r = 0; r < rounds; r++) {
		for (unsigned i = 0; i < 2 * biased_lock::first_turns; i++)
			visits += visit(all[r], 2);
		const u64 owner_bits = gen() & 6;
		round.store(r + 1, std::memory_order_relaxed);
		for (eager_wait w; taken.load(std::memory_order_relaxed) <= r; w.once())
			visits += visit(all[r], owner_bits);
		visits += visit(all[r], owner_bits);
	}
	taker.join();
	for (const shared_count &c : all) {
		wrong += c.wrong + (c.a != c.b);
		visits -= c.a;
	}
	assert_int_equal(wrong, 0);
	assert_int_equal(visits + rounds, 0);
}

/* Three threads each lock it often enough to own it, and revoke each other's ownership. */
static void owners_in_turn(void **)
{
	const unsigned rounds = test::small() ? 20 : 200;
	auto gen = test::rng(2);

	for (unsigned r = 0; r < rounds; r++) {
		shared_count c;
		std::vector<std::thread> all;
		std::atomic<u64> visits = 0;

		for (unsigned t = 0; t < 3; t++)
			all.emplace_back([&, mine = std::mt19937_64(gen())]() mutable {
				u64 n = 0;

				for (unsigned burst = 0; burst < 6; burst++) {
					for (u64 k = mine() % 2000; k; k--)
						n += visit(c, mine() & ~u64(1));
					n += visit(c, 1);
					std::this_thread::yield();
				}
				visits += n;
			});
		for (std::thread &t : all)
			t.join();
		assert_int_equal(c.wrong, 0);
		assert_int_equal(c.a, visits);
		assert_int_equal(c.b, visits);
	}
}

/* Only biased_lock::owners threads may own a lock, one after the other; later threads may not. */
static void owners_are_limited(void **)
{
	constexpr unsigned threads = biased_lock::owners + 2;
	biased_lock l;
	std::atomic<unsigned> next = 0;
	bool owned[threads] = {};
	std::vector<std::thread> all;

	if (!can_own())
		skip();
	for (unsigned t = 0; t < threads; t++)
		all.emplace_back([&, t] {
			while (next != t)
				std::this_thread::yield();
			take(l, biased_lock::first_turns << (t + 2));
			owned[t] = l.owned();
			next++;
			/* Until all are done: an exiting thread's number is reused. */
			while (next != threads)
				std::this_thread::yield();
		});
	for (std::thread &t : all)
		t.join();
	for (unsigned t = 0; t < threads; t++)
		assert_int_equal(owned[t], t < biased_lock::owners);
}

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
		cmocka_unit_test(owned_after_turns),
		cmocka_unit_test(revoked),
		cmocka_unit_test(held_by_owner),
		cmocka_unit_test(owners_are_limited),
		cmocka_unit_test(revoked_without_membarrier),
		cmocka_unit_test(revocation_excludes_owner),
		cmocka_unit_test(owners_in_turn),
		cmocka_unit_test(one_side_sees_the_other),
	};

	return cmocka_run_group_tests_name("biased_lock", tests, nullptr, nullptr);
}
