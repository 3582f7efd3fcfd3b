/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A striped channel on rings that the test controls: events between two calls of its owner, which the tests with
 * engines (fault/stripe_test.cpp) meet only by chance.
 */
#include "tests/support/test.h"

#include "driver/dma/striped.h"
#include "tests/unit/core/fake_engine.h"

#include <memory>
#include <vector>

using namespace usdma;
using namespace usdma::dma;

static constexpr u64 length = 3 * 64 * KiB, cookie = 77;

struct fake_ring : channel {
	completion_record rec = {};
	channel_ops table = {};
	std::vector<request> sent;
	u32 never_asleep = awake;
	unsigned resumed = 0;
	bool waits = false;

	fake_ring(unsigned i);
	void complete(u64 seq) { store_release(&rec.completed, seq); }
	void halt(fault_reason reason)
	{
		rec.fault_seq = rec.completed + 1;
		rec.fault_cookie = sent[rec.completed].cookie;
		rec.reason = u32(reason);
		store_release(&rec.state, u32(state_halted));
	}
};

static fake_ring *of(const channel *ch)
{
	return static_cast<fake_ring *>(const_cast<channel *>(ch));
}

static unsigned ring_post(channel *ch, const request *r, unsigned n)
{
	of(ch)->sent.insert(of(ch)->sent.end(), r, r + n);
	ch->posted += n;
	return n;
}

static bool ring_last_use(const channel *ch, const iova_range &where, u64 *seq)
{
	return find_last_use(ch, where, seq, [ch](u64 at) { return of(ch)->sent[at - 1]; });
}

static int ring_resume(channel *ch)
{
	fake_ring *r = of(ch);

	r->resumed++;
	if (fault_reason(r->rec.reason) != fault_reason::stopped)
		r->complete(r->rec.fault_seq);
	store_release(&r->rec.state, u32(state_running));
	return 0;
}

fake_ring::fake_ring(unsigned i) : channel{}
{
	ops = &table;
	record = &rec;
	asleep = &never_asleep;
	ring_size = post_limit = 64;
	index = i;
	record_iova = (i + 1) * 4096;
	table.post = ring_post;
	table.doorbell = [](channel *) {};
	table.resume = ring_resume;
	table.abort = [](channel *ch) { return int(ch->index); };
	table.begun = [](const channel *ch) { return int(ch->index); };
	table.in_wait = [](const channel *ch) { return of(ch)->waits; };
	table.last_use = ring_last_use;
	table.close = [](channel *) {};
}

/* Three engines; the rings outlive the channel. */
class rings_engine : public test::fake_engine {
public:
	std::vector<std::unique_ptr<fake_ring>> rings;

	rings_engine() : fake_engine(0)
	{
		limits_.engines = limits_.channels = 3;
		limits_.ops = all_ops;
	}
	int channel_open(unsigned i, const channel_config &, channel **out) override
	{
		rings.push_back(std::make_unique<fake_ring>(i));
		*out = rings.back().get();
		return 0;
	}
};

struct rig {
	rings_engine eng;
	channel *ch;

	rig() { assert_int_equal(striped_open(&eng, 0, {}, 1, &ch), 0); }
	~rig() { ch->ops->close(ch); }
	fake_ring &ring(unsigned k) { return *eng.rings[k]; }
	/* Ring 0: the part, a WAIT for each other ring; the others: the part. Behind other work with a NOP and WAITs.
	 */
	void post(opcode op = opcode::copy, u64 len = length)
	{
		request r;

		r.op = op;
		r.len = len;
		r.cookie = cookie;
		assert_int_equal(ch->ops->post(ch, &r, 1), 1);
	}
	bool fails(u64 seq)
	{
		fault f;

		return read_fault(ch, &f) && f.seq == seq && f.cookie == cookie && f.reason == fault_reason::transfer;
	}
	bool none_fails()
	{
		fault f;

		return !read_fault(ch, &f);
	}
};

/* A part in another ring is used until its copy has completed in ring 0; a short copy is in ring 0 only. */
static void last_use_of_parts(void **)
{
	rig t;
	u64 seq;

	t.post();
	t.post(opcode::copy, 64);
	assert_int_equal(t.ch->posted, 4);
	assert_true(t.ch->ops->last_use(t.ch, {length - 1, 1}, &seq));
	assert_int_equal(seq, 3); /* the part, and a WAIT for each of the other two */
	assert_true(t.ch->ops->last_use(t.ch, {0, 64}, &seq));
	assert_int_equal(seq, 4);
	assert_false(t.ch->ops->last_use(t.ch, {length, MiB}, &seq));
	for (unsigned k = 0; k < 3; k++)
		t.ring(k).complete(t.ring(k).sent.size());
	assert_false(t.ch->ops->last_use(t.ch, {0, length}, &seq));
}

/* A part fails after a stop was read: resume after the stop does not lose the failure. */
static void failure_after_a_stop_is_read(void **)
{
	fault f;
	rig t;

	t.post();
	assert_int_equal(t.ring(1).sent.size(), 1);
	t.ring(0).halt(fault_reason::stopped);
	assert_true(read_fault(t.ch, &f) && f.reason == fault_reason::stopped);
	t.ring(1).halt(fault_reason::transfer);
	assert_int_equal(t.ch->ops->resume(t.ch), 0);
	assert_int_equal(t.ring(0).resumed, 1);
	assert_int_equal(t.ring(1).resumed, 0);
	assert_true(t.fails(1));
	/* A failure of another part of the reported copy is resumed with it and not reported again. */
	t.ring(2).halt(fault_reason::transfer);
	assert_int_equal(t.ch->ops->resume(t.ch), 0);
	assert_int_equal(t.ring(1).resumed + t.ring(2).resumed, 2);
	t.ring(0).halt(fault_reason::transfer);
	assert_true(t.none_fails());
	assert_int_equal(t.ring(0).resumed, 2);
	assert_int_equal(completed(&t.ring(0)), 1);
}

/* A copy and another request fail: only the one that was reported is resumed. */
static void failure_of_another_request(void **)
{
	rig t;

	t.post();
	t.ring(1).complete(1);
	t.ring(2).complete(1);
	t.ring(0).complete(3);
	t.post(opcode::fill, 8); /* 4 in ring 0 */
	t.post();                /* NOP 5, part 6, WAITs 7 and 8; in the others a WAIT 2 and a part 3 */
	assert_int_equal(t.ring(0).posted, 8);
	assert_int_equal(t.ring(1).posted, 3);
	t.ring(0).halt(fault_reason::transfer);
	assert_true(t.fails(4));
	assert_int_equal(t.ch->ops->resume(t.ch), 0);
	t.ring(0).complete(5);
	t.ring(1).complete(2);
	t.ring(1).halt(fault_reason::transfer);
	assert_int_equal(t.ch->ops->resume(t.ch), 0); /* no failure of it was reported */
	assert_int_equal(t.ring(1).resumed, 0);
	assert_true(t.fails(6));
}

/* The ring that hangs is checked, not the halted one that waits for it. */
static void hangs_behind_a_halted_ring(void **)
{
	rig t;

	t.post();
	assert_int_equal(t.ch->ops->begun(t.ch), 0);
	t.ring(0).complete(1);
	assert_int_equal(t.ch->ops->begun(t.ch), 1); /* ring 0 waits for it */
	t.ring(1).halt(fault_reason::stopped);
	t.ring(2).rec.heartbeat = 5;
	assert_int_equal(t.ch->ops->begun(t.ch), 2);
	assert_int_equal(t.ch->ops->abort(t.ch), 2);
	const progress p = read_progress(t.ch);
	assert_false(p.halted);
	assert_int_equal(p.heartbeat, 5);
	assert_int_equal(p.completed, 1);
	/* A ring that only waits for the halted one does not hang. */
	t.ring(2).complete(1);
	t.post();
	assert_int_equal(t.ch->ops->begun(t.ch), 1);
	assert_true(read_progress(t.ch).halted);
}

/* Closing a device aborts WAITs of the owner, but not WAITs between parts. */
static void in_wait_only_for_owner(void **)
{
	rig t;

	t.post();
	t.ring(0).waits = true;
	assert_false(t.ch->ops->in_wait(t.ch));
	t.ring(0).complete(1);
	assert_false(t.ch->ops->in_wait(t.ch));
	t.ring(1).complete(1);
	t.ring(2).complete(1);
	assert_false(t.ch->ops->in_wait(t.ch));
	t.ring(0).complete(3);
	t.post(opcode::wait, 8);
	assert_true(t.ch->ops->in_wait(t.ch));
	t.ring(0).waits = false;
	assert_false(t.ch->ops->in_wait(t.ch));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(last_use_of_parts),          cmocka_unit_test(failure_after_a_stop_is_read),
		cmocka_unit_test(failure_of_another_request), cmocka_unit_test(hangs_behind_a_halted_ring),
		cmocka_unit_test(in_wait_only_for_owner),
	};

	return cmocka_run_group_tests_name("striped", tests, nullptr, nullptr);
}
