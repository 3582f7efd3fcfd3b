/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits, stop, resume, disable, interrupts, sleep and wake, and memory unmapped during an access. */
#include "tests/unit/sim/rig.h"

#include <condition_variable>
#include <mutex>
#include <sys/resource.h>

using namespace usdma;
using namespace usdma::test;
using namespace usdma::sdma;

static constexpr u64 iova = 0x10000000, size = 4 * MiB;

static descriptor nop(u8 flags = 0)
{
	descriptor d = {};

	d.flags = flags;
	return d;
}

static descriptor wait_for(u64 address, u64 value, u32 limit_ms = 0)
{
	descriptor d = {};

	d.op = u8(opcode::wait);
	d.src = address;
	d.a = value;
	d.height = limit_ms;
	return d;
}

static descriptor write_word(u64 address, u64 value)
{
	descriptor d = {};

	d.op = u8(opcode::write);
	d.dst = address;
	d.a = value;
	return d;
}

/* Waits until the engine has begun the descriptor. */
static void wait_begun(rig &r, const chan &c, u64 seq)
{
	const deadline until = deadline::in_ms(wait_ms);

	while (r.read64(chan_ctrl(c.index) + chan_head) < seq && !until.passed())
		sched_yield();
}

static void test_wait_two_channels(void **)
{
	rig r;
	host_area a = r.make(iova, 4096);
	/* 0 and 2 belong to the same engine. */
	chan first(r, 0), second(r, 2);

	for (u64 round = 1; round < 200; round++) {
		first.put_ready(wait_for(iova, round));
		const u64 before = first.completed();
		wait_begun(r, first, first.posted);
		assert_int_equal(before, first.posted - 1);
		second.put_ready(write_word(iova, round));
		assert_true(first.done(first.posted));
		assert_true(second.done(second.posted));
	}
	/* Each waits for what the other does after its own wait: a cycle broken by the host. */
	first.put(wait_for(iova + 8, 1));
	first.put_ready(write_word(iova + 16, 1));
	second.put(wait_for(iova + 16, 1));
	second.put_ready(write_word(iova + 24, 7));
	wait_begun(r, second, second.posted - 1);
	store_release(reinterpret_cast<u64 *>(a.data + 8), u64(1));
	assert_true(second.done(second.posted));
	assert_int_equal(load_acquire(reinterpret_cast<u64 *>(a.data + 24)), 7);
	first.command(chan_cmd_disable);
	second.command(chan_cmd_disable);
	r.drop(a);
}

/* A channel that waits for its turn has reported all that it completed before. */
static void test_record_between_turns(void **)
{
	sim::config cfg = rig::small();

	cfg.mem = 4 * MiB;
	cfg.engines = 1;
	cfg.latency_us = 300'000;
	rig r(cfg);
	chan first(r, 0), second(r, 1);
	/* One fills a turn. */
	const descriptor large = make_copy(space::device, mem_base, space::device, mem_base + 2 * MiB, MiB);

	first.put(large);
	first.put_ready(large);
	wait_begun(r, first, 1);
	second.put_ready(make_copy(space::device, mem_base, space::device, mem_base + 64, 64));
	wait_begun(r, second, 1);
	/* By messages, a record is sent only after the reply to the previous one. */
	assert_true(r.remote_rings ? first.done(1) : first.completed() >= 1);
	assert_true(first.done(2));
}

static void test_compare(void **)
{
	static constexpr struct {
		dma::compare c;
		u64 word, value;
		bool holds;
	} cases[] = {
		{dma::compare::geq, 5, 5, true},        {dma::compare::geq, 4, 5, false},
		{dma::compare::geq, 2, ~u64(0), true},  {dma::compare::eq, 5, 5, true},
		{dma::compare::eq, 6, 5, false},        {dma::compare::and_, 6, 2, true},
		{dma::compare::and_, 4, 2, false},      {dma::compare::nor, 4, 2, true},
		{dma::compare::nor, ~u64(1), 1, false},
	};
	rig r;
	host_area a = r.make(iova, 4096);
	chan ch(r, 0);

	for (const auto &c : cases) {
		descriptor d = wait_for(iova, c.value, 2);

		d.arg = u8(c.c);
		store_release(reinterpret_cast<u64 *>(a.data), c.word);
		assert_int_equal(ch.run(d), c.holds ? fault_reason::none : fault_reason::timeout);
	}
	r.drop(a);
}

/* docs/hardware.md: each 100 ms, also if the engine sleeps until the word is reported (a beat each 50 ms, not 3.2 s).
 */
static void test_reported_wait_beats(void **)
{
	static constexpr u64 beats = 4;
	rig r;
	host_area a = r.make(iova, 4096);
	chan ch(r, 0);
	descriptor d = wait_for(iova, 1);

	d.arg = dma::wait_reported;
	ch.put_ready(d);
	wait_begun(r, ch, 1);
	const deadline until = deadline::in_ms(10000);
	/* It has spun before. */
	while (!load_acquire(&ch.status->asleep) && !until.passed())
		sched_yield();
	const u64 before = load_acquire(&ch.status->record.heartbeat);
	while (load_acquire(&ch.status->record.heartbeat) < before + beats && !until.passed())
		usleep(1000);
	assert_in_range(load_acquire(&ch.status->record.heartbeat), before + beats, ~u64(0));
	store_release(reinterpret_cast<u64 *>(a.data), u64(1));
	ch.wake();
	assert_true(ch.done(1));
	r.drop(a);
}

static void test_stop_resume(void **)
{
	rig r;
	host_area a = r.make(iova, 4096);
	chan ch(r, 0);

	ch.put(nop());
	ch.put(wait_for(iova, 1));
	ch.put_ready(nop());
	wait_begun(r, ch, 2);
	ch.command(chan_cmd_stop);
	assert_int_equal(load_acquire(&ch.status->record.state), dma::state_halted);
	assert_int_equal(ch.status->record.reason, u32(fault_reason::stopped));
	assert_int_equal(ch.status->record.fault_seq, 2);
	assert_int_equal(ch.completed(), 1);
	/* Nothing failed: it waits again. */
	ch.command(chan_cmd_resume);
	assert_int_equal(ch.completed(), 1);
	store_release(reinterpret_cast<u64 *>(a.data), u64(1));
	assert_true(ch.done(3));
	/* Stopped while idle, and a canceled descriptor. */
	ch.command(chan_cmd_stop);
	assert_int_equal(ch.status->record.fault_seq, 4);
	ch.put_ready(nop());
	assert_int_equal(ch.completed(), 3);
	ch.command(chan_cmd_resume);
	assert_true(ch.done(4));
	r.drop(a);
}

/* A slow copy is stopped in the middle, restarts on resume, and is aborted by disable. */
static void test_stop_long_copy(void **)
{
	sim::config cfg = rig::small();

	cfg.rate = 1 * MiB;
	rig r(cfg);
	host_area a = r.make(iova, size);
	chan ch(r, 0);

	ch.put_ready(make_copy(space::host, iova, space::device, mem_base, size));
	wait_begun(r, ch, 1);
	ch.command(chan_cmd_stop);
	assert_int_equal(load_acquire(&ch.status->record.state), dma::state_halted);
	assert_int_equal(ch.completed(), 0);
	ch.command(chan_cmd_resume);
	assert_int_equal(ch.state(), chan_state_running);
	ch.command(chan_cmd_disable);
	assert_int_equal(ch.state(), chan_state_off);
	assert_int_equal(ch.completed(), 0);
	r.drop(a);
}

/* A reduction that is stopped and resumed many times reduces each element once. */
static void stop_during_reduce(const sim::config &cfg, reach how, u64 len, unsigned least)
{
	unsigned within = 0;
	rig r(cfg, how);
	host_area a = r.make(iova, 2 * len);
	chan ch(r, 0);

	for (unsigned round = 0; round < 200 && within < least; round++) {
		descriptor d = make_copy(space::host, iova, space::host, iova + len, len);

		memset(a.data, 3, len);
		memset(a.data + len, int(round), len);
		d.op = u8(opcode::reduce);
		d.arg = dma::reduce_arg(dma::element::u8, dma::reduce_op::sum);
		const u64 seq = ch.put_ready(d);
		wait_begun(r, ch, seq);
		for (unsigned i = 0; i < 20; i++) {
			ch.command(chan_cmd_stop);
			within += ch.completed() < seq;
			ch.command(chan_cmd_resume);
			ch.wake();
		}
		assert_true(ch.done(seq));
		for (u64 i = 0; i < len; i++)
			assert_int_equal(a.data[len + i], u8(round + 3));
	}
	assert_true(within >= least);
	r.drop(a);
}

static void test_stop_reduce(void **)
{
	sim::config slow = rig::small();

	slow.rate = 16 * MiB;
	stop_during_reduce(rig::small(), reach::file, 8 * MiB, 20);
	stop_during_reduce(rig::small(), reach::messages, MiB, 20);
	stop_during_reduce(slow, reach::file, 128 * KiB, 20); /* stopped in the delay after the operation */
}

/* After disable the device does not write the status block, the ring and the data. */
static void test_no_access_after_disable(void **)
{
	rig r;
	host_area a = r.make(iova, size);

	for (unsigned round = 0; round < 100; round++) {
		chan ch(r, 0, 6);
		sdma::status_block before;

		for (unsigned i = 0; i < 40; i++)
			ch.put(make_copy(space::host, iova, space::host, iova + MiB, 64 * KiB));
		ch.ring_doorbell();
		ch.command(chan_cmd_disable);
		memcpy(&before, ch.status, sizeof(before));
		memset(a.data, int(round), 2 * MiB);
		sched_yield();
		assert_memory_equal(ch.status, &before, sizeof(before));
		for (u64 i = 0; i < 2 * MiB; i += 4096)
			assert_int_equal(a.data[i], round & 0xff);
	}
	r.drop(a);
}

static void test_arm(void **)
{
	rig r;
	chan ch(r, 0);

	for (unsigned slot = 0; slot < 2; slot++) {
		for (unsigned i = 0; i < 100; i++) {
			const u64 seq = ch.posted + 1;

			ch.arm(slot, seq);
			ch.put_ready(nop());
			assert_int_equal(take_irq(ch.irq[slot].get(), wait_ms), 1);
			assert_in_range(ch.completed(), seq, seq);
		}
		/* One interrupt for each armed number. */
		ch.put_ready(nop());
		assert_true(ch.done(ch.posted));
		ch.command(chan_cmd_stop);
		assert_int_equal(take_irq(ch.irq[slot].get(), 0), 0);
		/* It is raised again after a resume, as a halt may have used it. */
		ch.command(chan_cmd_resume);
		ch.wake();
		assert_int_equal(take_irq(ch.irq[slot].get(), wait_ms), 1);
		ch.arm(slot, arm_none);
	}
	/* Armed for a number that is never reached: a halt raises it. */
	ch.arm(0, ch.posted + 100);
	descriptor bad = nop();
	bad.op = 99;
	ch.put_ready(bad);
	assert_int_equal(take_irq(ch.irq[0].get(), wait_ms), 1);
	assert_int_equal(load_acquire(&ch.status->record.state), dma::state_halted);
	/* Armed while halted. */
	ch.arm(1, ch.posted + 100);
	ch.wake();
	assert_int_equal(take_irq(ch.irq[1].get(), wait_ms), 1);
}

static void test_coalescing(void **)
{
	static constexpr u32 by_count = 10, by_time = 1000 | 2000 << 16;
	rig r;
	chan each(r, 0), few(r, 1, 6, 0, by_count), timed(r, 3, 6, 0, by_time);
	host_area a = r.make(iova, 4096);

	each.put_ready(nop(dma::flag_interrupt));
	assert_int_equal(take_irq(each.irq[1].get(), wait_ms), 1);
	/* After a wait, so that all are posted when the first one runs. */
	few.put(wait_for(iova, 1));
	timed.put(wait_for(iova, 1));
	for (unsigned i = 0; i < 25; i++)
		few.put(nop(dma::flag_interrupt));
	for (unsigned i = 0; i < 3; i++)
		timed.put(nop(dma::flag_interrupt));
	few.ring_doorbell();
	timed.ring_doorbell();
	store_release(reinterpret_cast<u64 *>(a.data), u64(1));
	assert_true(few.done(26));
	/* Two groups of ten, and the rest when the ring is empty. */
	few.command(chan_cmd_disable);
	const u64 raised = take_irq(few.irq[1].get(), wait_ms);
	/* Each follows the record: if that is sent by messages, one interrupt may replace several. */
	assert_in_range(raised, r.remote_rings ? 1 : 3, 3);
	assert_int_equal(take_irq(timed.irq[1].get(), wait_ms), 1);
	assert_int_equal(timed.completed(), 4);
	r.drop(a);
}

static u64 cpu_ns()
{
	rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u64(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * ns_per_s +
	       u64(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

static void wait_asleep(chan &c)
{
	const deadline until = deadline::in_ms(wait_ms);

	bool seen = false;

	/* Once is enough: sleeps are short and repeated. */
	while (!(seen = load_acquire(&c.status->asleep)) && !until.passed())
		sched_yield();
	assert_true(seen);
}

static void test_sleep_wake(void **)
{
	rig r;
	chan ch(r, 0);

	for (unsigned i = 0; i < 200; i++) {
		if (i % 2)
			wait_asleep(ch);
		ch.put_ready(nop());
		assert_true(ch.done(ch.posted));
	}
	/* By a register write instead of the eventfd. */
	wait_asleep(ch);
	ch.put(nop());
	r.write64(chan_doorbell(0) + doorbell_tail, ch.posted);
	assert_true(ch.done(ch.posted));
	wait_asleep(ch);
	ch.put(nop());
	store_fence(reinterpret_cast<u64 *>(ch.doorbell.data() + doorbell_tail), ch.posted);
	r.write32(chan_ctrl(0) + chan_wake, 1);
	assert_true(ch.done(ch.posted));
	/* A sleeping engine uses almost no CPU time in 200 ms. */
	wait_asleep(ch);
	const u64 before = cpu_ns();
	const timespec nap = {0, 200 * 1000 * 1000};
	nanosleep(&nap, nullptr);
	assert_in_range(cpu_ns() - before, 0, 20 * ns_per_ms);
}

static void test_unmap_while_copying(void **)
{
	for (reach how : {reach::shared, reach::file}) {
		rig r(rig::small(), how);
		chan ch(r, 0);
		unsigned faults = 0;

		for (unsigned round = 0; round < 60; round++) {
			host_area a = r.make(iova, size);

			for (unsigned i = 0; i < 8; i++)
				ch.put(make_copy(space::host, iova, space::device, mem_base, size));
			ch.ring_doorbell();
			if (round % 2)
				wait_begun(r, ch, ch.posted - 5);
			/* Also unmaps the memory from this process: a late access would crash. */
			r.drop(a);
			while (ch.completed() < ch.posted) {
				if (load_acquire(&ch.status->record.state) != dma::state_halted)
					continue;
				/* By messages, the client refuses the access. */
				if (!r.remote_rings || ch.status->record.reason != u32(fault_reason::transfer))
					assert_int_equal(ch.status->record.reason, u32(fault_reason::src_unmapped));
				faults++;
				ch.command(chan_cmd_resume);
			}
		}
		assert_true(faults > 0);
	}
}

/* The ring is unmapped: only its channel is in error. */
static void test_unmap_ring(void **)
{
	rig r;
	chan ch(r, 0), next(r, 2);
	const deadline until = deadline::in_ms(wait_ms);

	assert_int_equal(r.dev->dma_unmap(ch.area.iova, ch.area.size), 0);
	next.put_ready(nop());
	assert_true(next.done(1));
	r.write32(chan_ctrl(0) + chan_wake, 1);
	while (ch.state() != chan_state_error && !until.passed())
		sched_yield();
	assert_int_equal(ch.state(), chan_state_error);
	ch.area = r.make_ring_area(ch.area.iova + MiB, 4096);
}

static void test_bad_setup(void **)
{
	rig r;
	host_area a = r.make(iova, size);
	const u64 page = chan_ctrl(5);
	const struct {
		u64 ring, record;
		u32 order;
		u32 state;
	} cases[] = {
		{iova + 4096, iova, 6, chan_state_running},    {iova + 4096 + 32, iova, 6, chan_state_error},
		{iova + 4096, iova + 32, 6, chan_state_error}, {iova + 4096, iova, 1, chan_state_error},
		{iova + 4096, iova, 31, chan_state_error},     {iova + 4096, iova, 16, chan_state_error},
		{iova - 64, iova, 6, chan_state_error},        {iova + 4096, iova + size, 6, chan_state_error},
	};

	for (const auto &c : cases) {
		r.write64(page + chan_ring_base, c.ring);
		r.write64(page + chan_record, c.record);
		r.write32(page + chan_ring_order, c.order);
		r.write32(page + chan_command, chan_cmd_enable);
		assert_int_equal(r.read32(page + chan_state), c.state);
		r.write32(page + chan_command, chan_cmd_disable);
		while (r.remote_rings && r.read32(page + chan_state) == chan_state_stopping) {
		}
		assert_int_equal(r.read32(page + chan_state), chan_state_off);
	}
	/* Enable needs bus mastering and the device's enable bit. */
	r.write64(page + chan_ring_base, iova + 4096);
	r.write64(page + chan_record, iova);
	r.write32(page + chan_ring_order, 6);
	assert_int_equal(vfio::config_bus_master(*r.dev, false), 0);
	r.write32(page + chan_command, chan_cmd_enable);
	assert_int_equal(r.read32(page + chan_state), chan_state_error);
	assert_int_equal(vfio::config_bus_master(*r.dev, true), 0);
	r.write32(reg_ctrl, 0);
	r.write32(page + chan_command, chan_cmd_enable);
	assert_int_equal(r.read32(page + chan_state), chan_state_error);
	r.drop(a);
}

/* Blocks an engine in a descriptor until the test releases it. */
struct gate final : sim::faults {
	u64 delay_ns(u32, u64) override
	{
		std::unique_lock guard(lock);

		inside = true;
		changed.notify_all();
		changed.wait(guard, [this] { return open; });
		return 0;
	}
	void wait_inside()
	{
		std::unique_lock guard(lock);

		changed.wait(guard, [this] { return inside; });
	}
	void release()
	{
		std::lock_guard guard(lock);

		open = true;
		changed.notify_all();
	}

	std::mutex lock;
	std::condition_variable changed;
	bool inside = false, open = false;
};

/* A command that timed out is still executed later: until then the set-up of its channel cannot be changed. */
static void test_late_command(void **)
{
	sim::config cfg = rig::small();
	gate g;

	cfg.engines = 1;
	rig r(cfg, reach::shared, &g);
	host_area a = r.make(iova, size);
	chan busy(r, 0);
	const u64 page = chan_ctrl(1), ring = iova + 4096;
	const u32 enable = chan_cmd_enable;
	auto write = [&](u64 at, const auto &v) { return r.dev->region_write(vfio::region_bar0, at, &v, sizeof(v)); };

	for (u64 k = 0; k < 64; k++)
		reinterpret_cast<descriptor *>(a.data + 4096)[k].tag = u32(k ^ 1);
	assert_int_equal(write(page + chan_ring_base, ring), 0);
	assert_int_equal(write(page + chan_ring_order, u32(6)), 0);
	assert_int_equal(write(page + chan_record, iova), 0);
	busy.put_ready(nop());
	g.wait_inside();
	assert_int_equal(write(page + chan_command, enable), -ETIMEDOUT);
	assert_int_equal(write(page + chan_ring_base, ring + 8), -EBUSY);
	assert_int_equal(write(page + chan_ring_order, u32(31)), -EBUSY);
	assert_int_equal(write(page + chan_record, iova + 8), -EBUSY);
	assert_int_equal(write(page + chan_command, enable), -EBUSY);
	assert_int_equal(write(chan_ctrl(2) + chan_command, u32(chan_cmd_stop)), -EBUSY);
	g.release();
	assert_true(busy.done(1));
	/* The late command was executed with its original set-up. */
	const deadline until = deadline::in_ms(wait_ms);
	while (r.read32(page + chan_state) != chan_state_running && !until.passed())
		sched_yield();
	assert_int_equal(r.read32(page + chan_state), chan_state_running);
	assert_int_equal(r.read64(page + chan_ring_base), ring);
	r.write32(page + chan_command, chan_cmd_disable);
	r.drop(a);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_wait_two_channels),
		cmocka_unit_test(test_record_between_turns),
		cmocka_unit_test(test_compare),
		cmocka_unit_test(test_reported_wait_beats),
		cmocka_unit_test(test_stop_resume),
		cmocka_unit_test(test_stop_long_copy),
		cmocka_unit_test(test_stop_reduce),
		cmocka_unit_test(test_no_access_after_disable),
		cmocka_unit_test(test_arm),
		cmocka_unit_test(test_coalescing),
		cmocka_unit_test(test_sleep_wake),
		cmocka_unit_test(test_unmap_while_copying),
		cmocka_unit_test(test_unmap_ring),
		cmocka_unit_test(test_bad_setup),
		cmocka_unit_test(test_late_command),
	};

	return cmocka_run_group_tests_name("sim_control", tests, nullptr, nullptr);
}
