/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The store-load pairs of docs/internals.md, step by step, in all interleavings; and tests of the search and its
 * memory models.  Each pair is checked without its barrier, too: then the search must find that both sides miss each
 * other's store.
 *
 * These are models, not the code: each step names the line that it models.
 */
#include "tests/support/interleave.h"
#include "tests/support/test.h"

#include <cstdio>

using namespace usdma;
using namespace usdma::interleave;

static constexpr model both[] = {model::tso, model::views};

static void right(const result &r)
{
	if (!r.failure.empty())
		for (const std::string &line : r.trace)
			fprintf(stderr, "#   %s\n", line.c_str());
	assert_string_equal(r.failure.c_str(), "");
	assert_true(r.ends > 0);
}

static void wrong(const result &r, const char *failure)
{
	assert_string_equal(r.failure.c_str(), failure);
	assert_true(r.trace.size() > 0);
}

/* ---- the search itself --------------------------------------------------------------------------------- */

enum class order { none, full, asymmetric };

/* Each thread stores, then loads the other's store. */
static result store_load(model m, order o)
{
	world w(m, 2);
	cell<u32> stored[2], seen[2];

	return w.explore([&](unsigned t) {
		store_relaxed(&stored[t], 1u);
		if (o == order::full)
			fence();
		else if (o == order::asymmetric && t == 1)
			fence_all();
		const u32 other = load_relaxed(&stored[1 - t]);
		fence();
		store_relaxed(&seen[t], 2 - other);
		fence();
		check(other || load_relaxed(&seen[1 - t]) != 2, "both missed");
	});
}

static void stores_wait_in_buffers(void **)
{
	for (model m : both) {
		wrong(store_load(m, order::none), "both missed");
		right(store_load(m, order::full));
		right(store_load(m, order::asymmetric));
	}
}

/* The same with exchange_fence(), and with a plain exchange of C++ (or of arm64). */
static result exchange_load(model m, bool bare)
{
	world w(m, 2);
	cell<u32> stored[2], missed[2];

	w.bare_exchange = bare;
	return w.explore([&](unsigned t) {
		store_fence(&stored[t], 1u);
		const bool first = !load_relaxed(&stored[1 - t]);
		fence();
		store_relaxed(&missed[t], u32(first));
		fence();
		check(!first || !load_relaxed(&missed[1 - t]), "both missed");
	});
}

static void exchange_needs_a_fence(void **)
{
	for (model m : both)
		right(exchange_load(m, false));
	wrong(exchange_load(model::views, true), "both missed");
}

/* A flag announces data. */
static result message(model m, bool release, bool acquire)
{
	world w(m, 2);
	cell<u32> data, flag;

	return w.explore([&](unsigned t) {
		if (!t) {
			store_relaxed(&data, 1u);
			release ? store_release(&flag, 1u) : store_relaxed(&flag, 1u);
		} else if (acquire ? load_acquire(&flag) : load_relaxed(&flag)) {
			check(load_relaxed(&data) == 1, "old data");
		}
	});
}

static void messages_carry_data(void **)
{
	for (model m : both)
		right(message(m, true, true));
	right(message(model::tso, false, false));
	wrong(message(model::views, false, true), "old data");
	wrong(message(model::views, true, false), "old data");
}

static void deadlocks_are_found(void **)
{
	for (model m : both) {
		world w(m, 2);
		interleave::mutex locks[2];

		wrong(w.explore([&](unsigned t) {
			locks[t].lock();
			locks[1 - t].lock();
			locks[1 - t].unlock();
			locks[t].unlock();
		}),
		      "deadlock");
	}
}

static result concurrent_access(bool read, bool locked)
{
	world w(model::views, 2);
	interleave::mutex lock;
	plain<u32> data;

	return w.explore([&](unsigned t) {
		if (locked)
			lock.lock();
		if (read && t)
			check(data < 2, "never");
		else
			data = t;
		if (locked)
			lock.unlock();
	});
}

static void races_are_found(void **)
{
	for (bool read : {false, true}) {
		wrong(concurrent_access(read, false), "a data race");
		right(concurrent_access(read, true));
	}
}

/* ---- submitter and engine ------------------------------------------------------------------------------ */

/* Whose barrier orders the submitter: hw_cap_sleep_ordered leaves it to the engine, else it is its own. */
enum class sleep_order { none, by_engine, by_submitter };

static result submit_and_sleep(model m, sleep_order o)
{
	world w(m, 2);
	plain<u32> descriptor;
	cell<u32> tag, asleep, woken;

	return w.explore([&](unsigned t) {
		if (!t) {
			descriptor = 1;
			store_device(&tag, 1u); /* write_descriptor, ring.cpp */
			if (o == sleep_order::by_submitter)
				fence();                   /* hwq_wake, submit.h: not asleep_ordered */
			if (load_relaxed(&asleep))         /* hwq_wake, submit.h */
				store_release(&woken, 1u); /* ring_wake, ring.cpp */
			return;
		}
		store_fence(&asleep, 1u); /* engine::sleep */
		if (o == sleep_order::by_engine)
			fence_all();       /* engine::sleep: barrier_or_wait */
		if (!load_acquire(&tag)) { /* nothing_to_do */
			await(&woken, 1u); /* wait_wake */
			check(load_acquire(&tag) == 1, "woken for nothing");
		}
		check(descriptor == 1, "an old descriptor");
	});
}

static void engine_is_woken(void **)
{
	for (model m : both) {
		right(submit_and_sleep(m, sleep_order::by_engine));
		right(submit_and_sleep(m, sleep_order::by_submitter));
		wrong(submit_and_sleep(m, sleep_order::none), "deadlock");
	}
}

/*
 * Two submitters, of which one claims the wake-up, and an engine that sleeps until both descriptors have run. The claim
 * is an exchange here: the driver's compare and exchange differs only in that it does not store 0 over 0.
 */
enum class claim_flaw : u8 { none, submitter /* no fence */, engine /* sleeps again without a check */ };

static result claimed_wake(model m, claim_flaw f)
{
	world w(m, 3);
	cell<u32> tag[2], asleep, woken;

	return w.explore([&](unsigned t) {
		if (t < 2) {
			store_device(&tag[t], 1u); /* write_descriptor, ring.cpp */
			if (f != claim_flaw::submitter)
				fence(); /* hwq_wake, submit.h: not asleep_ordered */
			/* hwq_wake, then claim_wake, channel.h */
			if (load_relaxed(&asleep) && exchange_fence(&asleep, 0u))
				store_release(&woken, 1u); /* ring_wake, ring.cpp */
			return;
		}
		for (u32 ran = 0, sleeps = 0; ran < 2; sleeps++) {
			store_fence(&asleep, 1u); /* engine::sleep */
			const bool checks = f != claim_flaw::engine || !sleeps;
			const u32 seen = checks ? load_acquire(&tag[0]) + load_acquire(&tag[1]) : ran;

			if (seen == ran) {         /* nothing_to_do */
				await(&woken, 1u); /* wait_wake */
				store_relaxed(&woken, 0u);
			}
			store_relaxed(&asleep, 0u); /* engine::sleep */
			ran = seen == ran ? load_acquire(&tag[0]) + load_acquire(&tag[1]) : seen;
		}
	});
}

static void one_submitter_wakes_the_engine(void **)
{
	for (model m : both) {
		right(claimed_wake(m, claim_flaw::none));
		wrong(claimed_wake(m, claim_flaw::submitter), "deadlock");
		wrong(claimed_wake(m, claim_flaw::engine), "deadlock");
	}
}

/* ---- waiter and engine --------------------------------------------------------------------------------- */

struct arm_flaws {
	bool waiter = false;     /* no fence between the arm and the check of the record */
	bool engine = false;     /* none between the record and the last check of the arms */
	bool last_check = false; /* the engine sleeps without that check */
};

static result arm_and_record(model m, arm_flaws f)
{
	world w(m, 2);
	cell<u32> arm, record, raised, asleep;

	return w.explore([&](unsigned t) {
		if (!t) {
			store_device(&arm, 1u); /* ring_arm, ring.cpp: doorbell_write */
			if (!f.waiter)
				fence();            /* ring_arm: store_fence */
			if (!load_device(&record))  /* wait_check, wait.cpp */
				await(&raised, 1u); /* ring_sleep */
			return;
		}
		store_release(&record, 1u);           /* publish, engine_ring.cpp */
		bool fired = load_acquire(&arm) != 0; /* check_arms, without a barrier */
		if (!fired && !f.last_check) {
			if (f.engine)
				store_relaxed(&asleep, 1u);
			else
				store_fence(&asleep, 1u); /* engine::sleep */
			fired = load_acquire(&arm) != 0;  /* nothing_to_do, then check_arms of the next pass */
		}
		if (fired)
			store_release(&raised, 1u); /* raise */
	});
}

static void waiter_is_woken(void **)
{
	for (model m : both) {
		right(arm_and_record(m, {}));
		wrong(arm_and_record(m, {.waiter = true}), "deadlock");
		wrong(arm_and_record(m, {.engine = true}), "deadlock");
		wrong(arm_and_record(m, {.last_check = true}), "deadlock");
	}
}

/* ---- read sections ------------------------------------------------------------------------------------- */

/* Two readers, each with two read sections; the third thread ends the object. */
static result sections(model m, bool barrier, bool wait)
{
	world w(m, 3);
	cell<u32> handle(1), depth[2], freed;
	plain<u32> object;

	return w.explore([&](unsigned t) {
		if (t == 2) {
			store_relaxed(&handle, 0u); /* handle_end */
			if (barrier)
				fence_all(); /* grace_wait, section.cpp: barrier_or_wait */
			for (unsigned r = 0; wait && r < 2; r++)
				await(&depth[r], 0u); /* wait_outside, section.cpp */
			store_relaxed(&freed, 1u);
			object = 1;
			return;
		}
		for (u32 round = 0; round < 2; round++) {
			mark(round);
			store_relaxed(&depth[t], 1u); /* enter, section.h */
			if (load_acquire(&handle)) {  /* behind barrier_light */
				check(!load_relaxed(&freed), "used after its end");
				check(object == 0, "used after its end");
			}
			store_release(&depth[t], 0u); /* ~read_section */
		}
	});
}

/* Whether the object is used after its end, which may be reported as a race. */
static bool is_used_after_end(model m, bool barrier, bool wait)
{
	const result r = sections(m, barrier, wait);

	return r.failure == "used after its end" || r.failure == "a data race";
}

static void no_use_after_end(void **)
{
	right(sections(model::tso, true, true));
	right(sections(model::views, true, true));
	for (model m : both) {
		assert_true(is_used_after_end(m, false, true));
		assert_true(is_used_after_end(m, true, false));
	}
}

/* ---- the progress thread ------------------------------------------------------------------------------- */

/* The change is in a list under its lock, or in a separate word (closing). */
static result change_and_kick(model m, bool locked, bool changer, bool sleeper)
{
	world w(m, 2);
	interleave::mutex list_lock;
	cell<u32> change, asleep, kicked;

	return w.explore([&](unsigned t) {
		u32 changed = 0;

		if (t)
			sleeper ? store_fence(&asleep, 1u) :
				  store_relaxed(&asleep, 1u); /* arm_and_sleep, progress.cpp */
		if (locked)
			list_lock.lock();
		if (t)
			changed = load_acquire(&change); /* arm_all; arm_and_sleep: closing */
		else
			changer ? store_fence(&change, 1u) : store_release(&change, 1u);
		if (locked)
			list_lock.unlock();
		if (!t && load_acquire(&asleep)) /* progress_kick */
			store_release(&kicked, 1u);
		if (t && !changed)
			await(&kicked, 1u); /* sleep_on */
	});
}

/* Changes under the list's lock are ordered by it: the second holder sees the first one's stores. */
static void progress_thread_is_kicked(void **)
{
	for (model m : both) {
		right(change_and_kick(m, false, true, true));
		wrong(change_and_kick(m, false, false, true), "deadlock");
		wrong(change_and_kick(m, false, true, false), "deadlock");
		right(change_and_kick(m, true, false, false));
	}
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(stores_wait_in_buffers), cmocka_unit_test(messages_carry_data),
		cmocka_unit_test(deadlocks_are_found),    cmocka_unit_test(races_are_found),
		cmocka_unit_test(engine_is_woken),        cmocka_unit_test(waiter_is_woken),
		cmocka_unit_test(no_use_after_end),       cmocka_unit_test(progress_thread_is_kicked),
		cmocka_unit_test(exchange_needs_a_fence), cmocka_unit_test(one_submitter_wakes_the_engine),
	};

	return cmocka_run_group_tests_name("pairs_model", tests, nullptr, nullptr);
}
