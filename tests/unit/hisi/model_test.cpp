/* SPDX-License-Identifier: BSD-3-Clause */
/* The registers of the HiSilicon model, as foreign drivers use them (driver/hw/hisi_regs.h has the sources). */
#include "tests/unit/sim/model_bench.h"

#include "driver/hw/hisi_regs.h"
#include "driver/vfio/capability.h"

using namespace usdma;
using namespace usdma::hisi;
using namespace usdma::test;

static constexpr u64 sq_at = 0, cq_at = 64 * KiB, data_at = MiB;
static constexpr u32 depth = 32;
static constexpr const char *both[] = {"sim:model=hisi:faults=", "sim:model=hisi-hip09:faults="};

/* A bench with the rings of queue 0. */
struct bench : model_bench {
	explicit bench(const char *spec = both[0]) : model_bench(spec, vfio::region_bar2, vfio::irq_msi)
	{
		u8 revision = 0;

		assert_int_equal(dev->region_read(vfio::region_config, cfg_revision, &revision, 1), 0);
		l = layout_of(revision);
		assert_non_null(l);
		sq = reinterpret_cast<submission *>(bytes + sq_at);
		cq = reinterpret_cast<completion *>(bytes + cq_at);
	}
	u32 read(u32 reg, u32 queue = 0) { return get<u32>(queue_at(*l, queue) + reg); }
	void write(u32 reg, u32 value, u32 queue = 0) { put(queue_at(*l, queue) + reg, value); }
	u32 state(u32 queue = 0) { return read(q_fsm, queue) & fsm_mask; }
	void until(u32 want, u32 queue = 0)
	{
		const deadline end = deadline::in_ms(patience);

		while (state(queue) != want)
			assert_false(end.passed());
	}
	/* As both drivers do. */
	void reset(u32 queue = 0)
	{
		const deadline end = deadline::in_ms(patience);

		write(q_ctrl0, read(q_ctrl0, queue) | ctrl0_pause, queue);
		write(q_ctrl0, read(q_ctrl0, queue) & ~u32(ctrl0_enable), queue);
		while (state(queue) == fsm_run)
			assert_false(end.passed());
		write(q_ctrl1, ctrl1_reset, queue);
		write(q_sq_tail, 0, queue);
		write(q_cq_head, 0, queue);
		write(q_ctrl0, read(q_ctrl0, queue) & ~u32(ctrl0_pause), queue);
		until(fsm_idle, queue);
	}
	void start(u32 ctrl0 = 0, u32 cq_depth = 2 * depth, u32 queue = 0)
	{
		reset(queue);
		memset(cq, 0, 2 * depth * sizeof(*cq));
		const u32 set[][2] = {{q_sq_base, u32(iova + sq_at)}, {q_sq_base + 4, u32((iova + sq_at) >> 32)},
				      {q_cq_base, u32(iova + cq_at)}, {q_cq_base + 4, u32((iova + cq_at) >> 32)},
				      {q_sq_depth, depth - 1},        {q_cq_depth, cq_depth - 1},
				      {q_int_sts, l->int_bits},       {q_int_msk, 0}};
		for (const auto &[reg, value] : set)
			write(reg, value, queue);
		if (l->err_bits) {
			write(hip09_err_sts, l->err_bits, queue);
			write(hip09_err_msk, 0, queue);
		}
		write(q_ctrl0, ctrl0_enable | ctrl0, queue);
		until(fsm_idle, queue); /* DPDK and Linux wait for it */
	}
	void copy(unsigned i, u64 to, u64 from, u32 len, u32 control = 0)
	{
		sq[i % depth] = {sqe_copy | control, {}, len, iova + data_at + from, iova + data_at + to};
	}
	void ring(u32 tail, u32 queue = 0) { write(q_sq_tail, tail % depth, queue); }
	/* The last submission in the completion ring before it wraps, and its status; -1: none. */
	int last(u32 *status = nullptr)
	{
		int index = -1;

		for (u32 i = 0; i < 2 * depth; i++) {
			const u64 word = load_acquire(&cq[i].word);

			if (!(word & cqe_valid))
				break;
			index = int(word & cqe_index_mask);
			if (status && word >> cqe_status_shift)
				*status = u32(word >> cqe_status_shift);
		}
		return index;
	}
	void until_last(int want)
	{
		const deadline end = deadline::in_ms(patience);

		while (last() != want)
			assert_false(end.passed());
	}
	/* Runs one submission and returns its status. */
	u32 status_of(const submission &s, u32 ctrl0 = 0)
	{
		u32 status = 0;

		start(ctrl0);
		sq[0] = s;
		ring(1);
		until(ctrl0 ? u32(fsm_abort) : u32(fsm_done));
		assert_int_equal(last(&status), 0);
		return status;
	}

	const layout *l;
	submission *sq;
	completion *cq;
};

static void test_identity(void **)
{
	bench one, four(both[1]);
	u16 id, control;
	unsigned at = 0;

	for (bench *b : {&one, &four}) {
		assert_int_equal(vfio::config_read16(*b->dev, 0, &id), 0);
		assert_int_equal(id, 0x19e5);
		assert_int_equal(vfio::config_read16(*b->dev, 2, &id), 0);
		assert_int_equal(id, 0xa122);
		assert_int_equal(vfio::config_capability(*b->dev, 0x11, &at), 0);
		assert_int_equal(at, 0); /* no MSI-X */
		assert_int_equal(vfio::config_capability(*b->dev, 0x05, &at), 0);
		assert_int_equal(vfio::config_read16(*b->dev, at + 2, &control), 0);
		assert_int_equal(1 << (control >> 1 & 7), b->vectors);
		assert_int_equal(b->dev->region_read(vfio::region_bar0, 0, &id, 2), -EINVAL);
		assert_int_equal(b->dev->region_read(vfio::region_bar2, 2, &control, 4), -EINVAL);
	}
	assert_ptr_equal(one.l, &hip08);
	assert_ptr_equal(four.l, &hip09);
	assert_int_equal(one.vectors, 32);
	assert_int_equal(four.vectors, 4);
	/* Common registers, and queues that do not exist. */
	one.put<u32>(hip08_mode, mode_rc);
	assert_int_equal(one.get<u32>(hip08_mode), mode_rc);
	one.write(q_sq_tail, 5, 30);
	assert_int_equal(one.read(q_sq_tail, 30), 0);
	four.put<u32>(hip09_port + 15 * hip09_port_step, port_link_mask);
	assert_int_equal(four.get<u32>(hip09_port + 15 * hip09_port_step), port_link_mask);
	assert_int_equal(four.get<u32>(hip09_port), 0);
	four.put<u32>(hip08_mode, 7);
	assert_int_equal(four.get<u32>(hip08_mode), 0);
	four.write(q_sq_tail, 5, 3);
	assert_int_equal(four.get<u32>(0x2000 + 3 * 0x100 + 0xc), 5);
	/* Other widths. */
	four.write(q_sq_base, 0x12345678);
	four.write(q_sq_base + 4, 0x9abcdef0);
	assert_true(four.get<u64>(0x2000) == 0x9abcdef012345678);
	assert_int_equal(four.get<u16>(0x2002), 0x1234);
	four.put<u8>(0x2000, 0);
	assert_int_equal(four.read(q_sq_base), 0x12345678);
}

/* As DPDK and Linux start; several submissions may have one completion, and rings wrap. */
static void test_copies_and_completions(void **)
{
	for (const char *spec : both) {
		bench b(spec);
		auto gen = test::rng(1);
		u32 phase = 1, head = 0, entries = 0;

		test::fill_random(b.bytes + data_at, 64 * KiB, gen);
		b.start(0, 20);
		for (u32 done = 0; done < 200;) {
			const u32 n = 1 + u32(gen() % 15);
			const deadline end = deadline::in_ms(patience);
			u32 seen = ~0u;

			for (u32 i = 0; i < n; i++)
				b.copy(done + i, MiB + i * 8191, (done + i) * 64, 4999);
			done += n;
			b.ring(done);
			while (seen != (done - 1) % depth) {
				const u64 word = load_acquire(&b.cq[head].word);

				assert_false(end.passed());
				if ((word >> 48 & 1) != phase)
					continue;
				assert_int_equal(word >> cqe_status_shift, 0);
				seen = u32(word & cqe_index_mask);
				entries++;
				head = (head + 1) % 20;
				phase ^= !head;
			}
			b.write(q_cq_head, head);
			for (u32 i = 0; i < n; i++)
				assert_memory_equal(b.bytes + data_at + MiB + i * 8191,
						    b.bytes + data_at + (done - n + i) * 64, 4999);
			b.until(fsm_done);
			assert_int_equal(b.read(q_sq_sts), done % depth);
			assert_int_equal(b.read(q_cq_tail), head);
			assert_int_equal(b.state(), fsm_done);
		}
		assert_in_range(entries, 25, 199);
	}
}

/* A CQ that the client does not read stops the queue. */
static void test_full_completion_ring(void **)
{
	bench b;

	b.start(0, 4);
	for (unsigned i = 0; i < 10; i++)
		b.copy(i, 8192 + i * 64, 0, 64, sqe_interrupt);
	b.ring(10);
	b.until(fsm_wait);
	assert_int_equal(b.last(), 2);
	assert_int_equal(b.read(q_sq_sts), 3);
	b.write(q_cq_head, 3);
	b.until(fsm_wait);
	assert_int_equal(b.read(q_sq_sts), 6);
	b.write(q_cq_head, 2);
	b.until(fsm_wait);
	assert_int_equal(b.read(q_sq_sts), 9);
	b.write(q_cq_head, 1);
	b.until(fsm_done);
}

/* One interrupt for each completion that requests it, whatever the status register, unless masked. */
static void test_interrupts(void **)
{
	for (const char *spec : both) {
		bench b(spec);

		b.start();
		for (unsigned i = 0; i < 8; i++)
			b.copy(i, 0, 4096, 8, i != 1 ? u32(sqe_interrupt) : 0);
		b.ring(1);
		assert_int_equal(b.signals(0, true), 1);
		assert_int_equal(b.read(q_int_sts), int_done);
		b.ring(2);
		b.until_last(1);
		b.until(fsm_done);
		assert_int_equal(b.signals(0, false), 0);
		b.ring(3);
		assert_int_equal(b.signals(0, true), 1);
		b.write(q_int_sts, int_done);
		assert_int_equal(b.read(q_int_sts), 0);
		b.write(q_int_msk, ~0u);
		assert_int_equal(b.read(q_int_msk), b.l->int_bits);
		b.ring(4);
		b.until(fsm_done);
		assert_int_equal(b.read(q_int_sts), int_done);
		b.write(q_int_msk, 0);
		assert_int_equal(b.signals(0, false), 0);
		/* Each queue has its own vector. */
		const u32 other = b.l->queues - 1;
		b.start(0, 2 * depth, other);
		b.ring(1, other);
		assert_int_equal(b.signals(other, true), 1);
		assert_int_equal(b.signals(0, false), 0);
	}
}

static void test_errors(void **)
{
	for (const char *spec : both) {
		bench b(spec);
		const u64 good = iova + data_at, bad = 0x5000;
		const struct {
			submission s;
			u32 status;
		} cases[] = {{{sqe_copy, {}, 64, bad, good}, st_read},
			     {{sqe_copy, {}, 64, good, bad}, st_write},
			     {{sqe_copy, {}, 64, good, iova + size - 8}, st_write},
			     {{sqe_copy, {}, 0, good, good}, st_length},
			     {{1, {}, 64, good, good}, st_opcode}};
		const u32 reg = b.l->err_bits ? u32(hip09_err_sts) : u32(q_int_sts);

		for (const auto &c : cases)
			for (u32 ctrl0 : {u32(0), b.l->ctrl0_abort}) {
				b.write(q_err_num0, 0);
				assert_int_equal(b.status_of(c.s, ctrl0), c.status);
				assert_int_equal(b.signals(0, true), 1);
				assert_int_equal(b.read(reg), err_bit(c.status));
				assert_int_equal(b.read(q_err_num0), 1);
			}
		/* Masked. */
		b.start();
		b.write(b.l->err_bits ? u32(hip09_err_msk) : u32(q_int_msk), ~0u);
		b.sq[0] = cases[0].s;
		b.ring(1);
		b.until(fsm_done);
		assert_int_equal(b.signals(0, false), 0);
		/* The queue continues with the next submission; with abort set, only after a reset. */
		for (u32 ctrl0 : {u32(0), b.l->ctrl0_abort}) {
			u32 status = 0;

			memset(b.bytes + data_at, ctrl0 ? 1 : 2, 64);
			b.start(ctrl0);
			b.copy(0, 4096, 0, 64);
			b.sq[1] = cases[1].s;
			b.copy(2, 8192, 0, 64);
			b.ring(3);
			b.until(ctrl0 ? u32(fsm_abort) : u32(fsm_done));
			assert_int_equal(b.last(&status), ctrl0 ? 1 : 2);
			assert_int_equal(status, st_write);
			assert_int_equal(b.bytes[data_at + 4096], b.bytes[data_at]);
			assert_int_equal(b.bytes[data_at + 8192] == b.bytes[data_at], !ctrl0);
			b.write(q_ctrl0, ctrl0_enable);
			assert_int_equal(b.state(), ctrl0 ? u32(fsm_abort) : u32(fsm_done));
		}
		/* A submission that cannot be read, and a completion that cannot be written. */
		b.start();
		b.write(q_sq_base, 0x1000);
		b.write(q_sq_base + 4, 0);
		b.ring(1);
		b.until_last(0);
		assert_int_equal(load_acquire(&b.cq[0].word) >> cqe_status_shift, st_sqe_read);
		b.start();
		b.write(q_cq_base + 4, 0);
		b.copy(0, 0, 64, 8);
		b.ring(1);
		b.until(fsm_halt);
		/* A tail beyond the ring is ignored. */
		b.start();
		b.write(q_sq_tail, depth);
		assert_int_equal(b.state(), fsm_idle);
	}
}

/* A paused or disabled queue completes what it has begun; the state shows it. */
static void test_pause_and_reset(void **)
{
	for (const char *spec : both) {
		bench b(spec);
		const u32 enabled = ctrl0_enable;

		b.start();
		for (unsigned i = 0; i < 20; i++)
			b.copy(i, 4096 + i * 64, 0, 64);
		for (u32 how : {u32(ctrl0_enable | ctrl0_pause), u32(0)}) {
			b.start();
			assert_int_equal(b.dev->inject("slow%3/30000"), 0);
			b.ring(20);
			b.until(fsm_run);
			b.write(q_ctrl0, how);
			b.until(how ? u32(fsm_pause) : u32(fsm_idle));
			const u32 reached = b.read(q_sq_sts);
			assert_int_equal(b.last(), int(reached) - 1);
			assert_int_equal(b.dev->inject(""), 0);
			b.write(q_ctrl0, enabled);
			b.until(fsm_done);
			assert_int_equal(b.last(), 19);
			assert_true(reached < 20);
		}
		/* A queue reset keeps addresses and depths, as Linux expects. */
		b.reset();
		assert_int_equal(b.read(q_sq_sts), 0);
		assert_int_equal(b.read(q_cq_tail), 0);
		assert_int_equal(b.read(q_sq_depth), depth - 1);
		assert_int_equal(b.read(q_sq_base), u32(iova + sq_at));
		assert_int_equal(b.read(q_ctrl1) & ctrl1_reset, 0);
		memset(b.cq, 0, 2 * depth * sizeof(*b.cq));
		b.write(q_ctrl0, enabled);
		b.until(fsm_idle);
		b.ring(2);
		b.until_last(1);
		/* A function reset clears all. */
		assert_int_equal(b.dev->reset(), 0);
		assert_int_equal(b.read(q_sq_depth), 0);
		assert_int_equal(b.state(), fsm_idle);
	}
}

static void test_hang(void **)
{
	bench b;
	std::string hit;

	b.start();
	b.copy(0, 4096, 0, 64);
	assert_int_equal(b.dev->inject("hang@1"), 0);
	b.ring(1);
	while (hit.find("struck 1") == hit.npos)
		assert_int_equal(b.dev->injected(&hit), 0);
	b.write(q_ctrl0, ctrl0_pause);
	assert_int_equal(b.state(), fsm_run);
	b.write(q_ctrl1, ctrl1_reset);
	b.until(fsm_idle);
	assert_int_equal(b.last(), -1);
	b.start();
	b.ring(1);
	b.until_last(0);
}

static void test_needs_bus_mastering(void **)
{
	bench b;

	b.start();
	b.copy(0, 0, 4096, 64, sqe_interrupt);
	assert_int_equal(vfio::config_bus_master(*b.dev, false), 0);
	b.ring(1);
	b.until(fsm_halt);
	assert_int_equal(b.signals(0, false), 0);
	assert_int_equal(b.last(), -1);
	assert_int_equal(vfio::config_bus_master(*b.dev, true), 0);
	b.start();
	b.ring(1);
	b.until_last(0);
	/* Memory that was unmapped is not touched. */
	assert_int_equal(b.dev->dma_unmap(iova, size), 0);
	b.ring(2);
	b.until(fsm_halt);
	assert_int_equal(b.last(), 0);
}

/* Injected errors of the model, which foreign drivers must detect (tests/foreign). */
static void test_injected_errors(void **)
{
	for (const char *spec : both) {
		bench b(spec);
		u32 status = 0;

		memset(b.bytes + data_at, 0x11, 64);
		memset(b.bytes + data_at + 4096, 0, 64);
		assert_int_equal(b.dev->inject("wrong@1/length"), 0);
		b.start();
		b.copy(0, 4096, 0, 64);
		b.ring(1);
		b.until(fsm_done);
		assert_int_equal(b.bytes[data_at + 4096 + 62], 0x11);
		assert_int_equal(b.bytes[data_at + 4096 + 63], 0);
		assert_int_equal(b.dev->inject("wrong@1/completion"), 0);
		b.copy(1, 4096, 0, 64);
		b.ring(2);
		b.until(fsm_done);
		assert_int_equal(load_acquire(&b.cq[1].word) & cqe_index_mask, 0);
		/* Completed twice: before and after the data is written. */
		assert_int_equal(b.dev->inject("wrong@1/early"), 0);
		b.copy(2, 8192, 0, 64);
		b.bytes[data_at + 8192] = 0;
		b.ring(3);
		b.until_last(2);
		assert_int_equal(load_relaxed(b.bytes + data_at + 8192), 0);
		assert_int_equal(b.state(), fsm_done);
		for (const deadline end = deadline::in_ms(patience); b.read(q_sq_sts) != 3;)
			assert_false(end.passed());
		assert_int_equal(b.bytes[data_at + 8192], 0x11);
		b.until(fsm_done);
		assert_int_equal(b.dev->inject("wrong@1/error"), 0);
		assert_int_equal(b.status_of({sqe_copy, {}, 64, 0x5000, iova + data_at}), st_success);
		/* The next record covers a skipped one. */
		assert_int_equal(b.dev->inject("drop-record@1"), 0);
		b.start();
		b.ring(1);
		b.until(fsm_done);
		assert_int_equal(b.last(), -1);
		b.ring(2);
		b.until_last(1);
		for (const auto &[rule, want] : {std::pair{"fail@1", st_poison},
						 {"fail@1/bad-op", st_opcode},
						 {"fail@1/bad-length", st_length},
						 {"fail@1/dst-unmapped", st_write},
						 {"fail@1/src-denied", st_read},
						 {"fail@1/unaligned", st_sqe_read}}) {
			assert_int_equal(b.dev->inject(rule), 0);
			status = b.status_of({sqe_copy, {}, 64, iova + data_at, iova + data_at + 4096});
			assert_int_equal(status, want);
		}
	}
}

static void test_settings(void **)
{
	std::unique_ptr<vfio::device> dev;

	for (const char *spec : {"sim:model=hisi-hip10", "sim:model=hisi:channels=4", "sim:model=hisi:timing=late"})
		assert_int_equal(dma::open_device(spec, &dev), -EINVAL);
}

/* ---- by messages -------------------------------------------------------------------------------------- */

/* Bus mastering is switched off during an access of many messages: only the message in flight is sent. */
static void test_last_message(void **)
{
	message_bench b("hisi");
	const submission s = {sqe_copy, {}, u32(b.remote_size), iova + data_at, b.remote};
	const u32 set[][2] = {{q_sq_base, u32(iova + sq_at)},
			      {q_sq_base + 4, u32((iova + sq_at) >> 32)},
			      {q_cq_base, u32(iova + cq_at)},
			      {q_cq_base + 4, u32((iova + cq_at) >> 32)},
			      {q_sq_depth, 31},
			      {q_cq_depth, 31},
			      {q_ctrl0, u32(ctrl0_enable)}};
	const u32 one = 1;

	for (const auto &[reg, value] : set)
		assert_int_equal(b.client.region_write(vfio::region_bar2, reg, &value, sizeof(value)), 0);
	memcpy(b.local.data + sq_at, &s, sizeof(s));
	b.start(vfio::region_bar2, q_sq_tail, &one, sizeof(one));
	b.stop_during_write();
	while ((b.read_without_access(q_fsm, vfio::region_bar2) & fsm_mask) != fsm_halt)
		sched_yield();
	/* The reply would come after any other message of the model. */
	assert_int_equal(b.read_without_access(q_fsm, vfio::region_bar2) & fsm_mask, fsm_halt);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_copies_and_completions),
		cmocka_unit_test(test_full_completion_ring),
		cmocka_unit_test(test_interrupts),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_pause_and_reset),
		cmocka_unit_test(test_hang),
		cmocka_unit_test(test_needs_bus_mastering),
		cmocka_unit_test(test_injected_errors),
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_last_message),
	};

	return cmocka_run_group_tests_name("hisi-model", tests, nullptr, nullptr);
}
