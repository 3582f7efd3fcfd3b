/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ownership lock in all interleavings: the code of driver/base/biased_lock_over.h and biased_lock_slow.h itself,
 * over the cells of tests/support/interleave.h instead of memory.  An owner that is stopped between any two of its
 * steps, and goes on after others have owned the lock, is one of these interleavings.
 *
 * Each possible flaw of the lock is planted once and must be found.
 */
#include "tests/support/interleave.h"
#include "tests/support/test.h"

#include "driver/base/biased_lock_slow.h"

#include <cstdio>

using namespace usdma;
using namespace usdma::interleave;

/* The planted flaw: what the lock omits. */
enum class flaw {
	none,
	no_barrier,   /* revoke() makes the owner execute no barrier */
	own_barrier,  /* revoke() executes a barrier itself only */
	no_recheck,   /* enter_own() does not check the owner again */
	one_word,     /* all owners have one inside word */
	no_wait,      /* revoke() does not wait for the owner */
	no_release,   /* releases order nothing */
	no_acquire,   /* acquires order nothing */
	lost_release, /* an owner's release is lost */
};

static flaw planted;
static bool came_as_owner; /* on any path: else a run does not test ownership */

/* The same code with few turns and two owner words: the last of three threads gets none. */
template <u32 turns> struct model_memory {
	template <class T> using word = cell<T>;
	template <class T> using plain = interleave::plain<T>;
	using mutex = interleave::mutex;
	static constexpr u32 owners = 2, first_turns = turns, most_turns = turns;

	static u64 this_thread() { return 16 * (u64(world::current->self()) + 1); }
	static bool barrier_ready() { return true; }
	static void barrier_light()
	{
		if (planted == flaw::no_recheck)
			world::current->skip_next_load();
	}
	static void barrier_or_wait()
	{
		if (planted == flaw::own_barrier)
			fence();
		else if (planted != flaw::no_barrier)
			fence_all();
	}
	static void wait_outside(const cell<u32> *inside)
	{
		if (planted != flaw::no_wait)
			await(inside, 0u);
	}
};

/* Locks in the given mode: t: try_lock, o: try_lock_own, else lock. */
template <class Lock> static bool get_in(Lock &lock, char how)
{
	if (how == 't')
		return lock.try_lock();
	if (how == 'o') {
		if (!lock.try_lock_own())
			return false;
		came_as_owner = true;
		return true;
	}
	lock.lock();
	return true;
}

template <class Lock> static void visits(Lock &lock, interleave::plain<u32> &data, const char *how)
{
	for (u32 round = 0; *how; how++) {
		mark(round++);
		if (!get_in(lock, *how))
			continue;
		const u32 before = enter();
		check(data == before, "the last holder's write is not visible");
		data = before + 1;
		leave();
		if (*how == 'o')
			lock.unlock_own();
		else if (*how == 'L')
			lock.unlock();
		else
			lock.unlock_light();
	}
}

template <u32 turns> static result explored(model m, const std::vector<const char *> &threads)
{
	world w(m, unsigned(threads.size()));

	if (planted == flaw::one_word)
		w.same_cell(1, 2);
	w.no_release = planted == flaw::no_release;
	w.no_acquire = planted == flaw::no_acquire;
	w.lost_release = planted == flaw::lost_release;
	biased_lock_over<model_memory<turns>> lock;
	interleave::plain<u32> data;
	return w.explore([&](unsigned t) { visits(lock, data, threads[t]); });
}

static const char *name_of(model m)
{
	return m == model::tso ? "tso" : "views";
}

static void print_trace(const result &r)
{
	fprintf(stderr, "# %s\n", r.failure.c_str());
	for (const std::string &line : r.trace)
		fprintf(stderr, "#   %s\n", line.c_str());
}

template <u32 turns> static void holds(const std::vector<const char *> &threads)
{
	planted = flaw::none;
	for (model m : {model::tso, model::views}) {
		const result r = explored<turns>(m, threads);

		printf("# %-5s", name_of(m));
		for (const char *t : threads)
			printf(" %s", t);
		printf(": %zu states, %zu final states\n", r.states, r.ends);
		if (!r.failure.empty())
			print_trace(r);
		assert_string_equal(r.failure.c_str(), "");
		assert_true(r.ends > 0);
	}
}

static void two_threads(void **)
{
	came_as_owner = false;
	holds<0>({"lolL", "lol"});
	assert_true(came_as_owner);
	holds<0>({"llll", "Lt"});
	holds<1>({"lllol", "lt"});
	holds<1>({"lll", "lll"});
}

static void three_threads(void **)
{
	holds<0>({"ll", "l", "L"});
	holds<0>({"lo", "l", "t"});
	if (!test::small())
		holds<0>({"ll", "ll", "t"});
}

static bool found(flaw f, model m)
{
	planted = f;
	const result two = explored<0>(m, {"lll", "ll"});
	const result three = two.failure.empty() ? explored<0>(m, {"ll", "ll", "t"}) : two;
	planted = flaw::none;
	if (!three.failure.empty())
		printf("# %s, flaw %d: %s after %zu steps, %zu states\n", name_of(m), int(f), three.failure.c_str(),
		       three.trace.size(), three.states);
	return !three.failure.empty();
}

static void flaws_are_found(void **)
{
	for (flaw f :
	     {flaw::no_barrier, flaw::own_barrier, flaw::no_recheck, flaw::one_word, flaw::no_wait, flaw::lost_release})
		for (model m : {model::tso, model::views})
			assert_true(found(f, m));
}

/* x86 has this order by itself: only the other model finds these flaws. */
static void order_is_needed(void **)
{
	for (flaw f : {flaw::no_release, flaw::no_acquire}) {
		assert_true(found(f, model::views));
		assert_false(found(f, model::tso));
	}
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(two_threads),
		cmocka_unit_test(three_threads),
		cmocka_unit_test(flaws_are_found),
		cmocka_unit_test(order_is_needed),
	};

	return cmocka_run_group_tests_name("biased_lock_model", tests, nullptr, nullptr);
}
