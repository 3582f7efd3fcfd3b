/* SPDX-License-Identifier: BSD-3-Clause */
/* The registers of the I/OAT model, as foreign drivers use them (driver/hw/ioat_regs.h has the sources). */
#include "tests/unit/sim/model_bench.h"

#include "driver/hw/ioat_regs.h"

using namespace usdma;
using namespace usdma::ioat;
using namespace usdma::test;

static constexpr u64 ring_at = 0, cmp_at = 64 * KiB, data_at = MiB;
static constexpr u16 ctrl_run = ctrl_int_rearm | ctrl_err_int | ctrl_err_completion | ctrl_any_err_abort;

/* A bench with a ring of linked descriptors. */
struct bench : model_bench {
	explicit bench(const char *spec = "sim:model=ioat:faults=") : model_bench(spec)
	{
		ring = reinterpret_cast<descriptor *>(bytes + ring_at);
		cmp = reinterpret_cast<u64 *>(bytes + cmp_at);
		for (unsigned i = 0; i < 256; i++)
			ring[i].next = at(i + 1);
	}
	static u64 at(u64 i) { return iova + ring_at + i % 256 * sizeof(descriptor); }
	u64 state(u32 ch = 0) { return get<u64>(chan_base(ch) + chan_sts) & sts_mask; }
	void until(u64 want, u32 ch = 0)
	{
		const deadline end = deadline::in_ms(patience);

		while (state(ch) != want)
			assert_false(end.passed());
	}
	void reset(u32 ch = 0)
	{
		const u32 base = chan_base(ch);
		const deadline end = deadline::in_ms(patience);

		put(base + chan_err, get<u32>(base + chan_err));
		put<u8>(base + chan_cmd, cmd_reset);
		while (get<u8>(base + chan_cmd) & cmd_reset)
			assert_false(end.passed());
		assert_int_equal(state(ch), sts_halted);
	}
	void start(u64 first = 0, u32 ch = 0)
	{
		const u32 base = chan_base(ch);

		reset(ch);
		put<u8>(reg_intrctrl, intr_vectors);
		put<u16>(base + chan_ctrl, ctrl_run);
		put<u32>(base + chan_cmp, u32(iova + cmp_at));
		put<u32>(base + chan_cmp + 4, u32((iova + cmp_at) >> 32));
		put<u64>(base + chan_chainaddr, at(first));
		assert_int_equal(get<u64>(base + chan_sts), sts_armed);
	}
	void copy(unsigned i, u64 to, u64 from, u32 len, u32 control = desc_completion)
	{
		ring[i] = {len, control, iova + data_at + from, iova + data_at + to, at(i + 1), {}};
	}
	void count(u16 n, u32 ch = 0) { put<u16>(chan_base(ch) + chan_dmacount, n); }
	/* Runs a descriptor that fails; returns CHANERR and clears it. */
	u32 error_of(const descriptor &d)
	{
		start();
		ring[0] = d;
		count(1);
		until(sts_halted);
		const u32 err = get<u32>(chan_base(0) + chan_err);
		put<u32>(chan_base(0) + chan_err, err);
		assert_int_equal(get<u32>(chan_base(0) + chan_err), 0);
		return err;
	}

	descriptor *ring;
	u64 *cmp;
};

static void test_identity(void **)
{
	bench one, four("sim:model=ioat-3.3:channels=4");
	u16 id;

	assert_int_equal(vfio::config_read16(*one.dev, 2, &id), 0);
	assert_int_equal(id, 0x2021);
	assert_int_equal(one.get<u8>(reg_version), version_3_2);
	assert_int_equal(one.get<u8>(reg_chancnt), 1);
	assert_int_equal(one.get<u8>(reg_xfercap), 20);
	assert_int_equal(one.get<u32>(reg_dmacap), cap_fill | cap_xor | cap_pq);
	assert_int_equal(vfio::config_read16(*four.dev, 2, &id), 0);
	assert_int_equal(id, 0x0c50);
	assert_int_equal(four.get<u8>(reg_version), version_3_3);
	assert_int_equal(four.get<u8>(reg_chancnt), 4);
	/* Two registers in one access. */
	assert_int_equal(four.get<u16>(reg_chancnt), 4 | 20 << 8);
	assert_int_equal(one.get<u32>(chan_base(1) + chan_err), 0);
	assert_int_equal(one.dev->region_read(vfio::region_bar0, 2, &id, 8), -EINVAL);
}

/* As DPDK starts: a 64-bit CHAINADDR, the status primed, DMACOUNT as the doorbell. */
static void test_copies_fills_and_completions(void **)
{
	bench b;
	auto gen = test::rng(1);

	test::fill_random(b.bytes + data_at, 64 * KiB, gen);
	b.start();
	for (unsigned i = 0; i < 8; i++)
		b.copy(i, MiB + i * 8191, i * 5000, 4999);
	b.ring[8] = {64, u32(op_fill) << desc_op_shift | desc_completion, 0x1122334455667788, iova + 3 * MiB, b.at(9),
		     {}};
	b.ring[9] = {1, desc_null, 0, 0, b.at(10), {}};
	b.count(4);
	b.until(sts_idle);
	assert_int_equal(b.get<u64>(chan_base(0) + chan_sts), b.at(3) | sts_idle);
	assert_int_equal(load_acquire(b.cmp), b.at(3) | sts_idle);
	b.count(10);
	b.until(sts_idle);
	for (unsigned i = 0; i < 8; i++)
		assert_memory_equal(b.bytes + data_at + MiB + i * 8191, b.bytes + data_at + i * 5000, 4999);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(reinterpret_cast<u64 *>(b.bytes + 3 * MiB)[i], 0x1122334455667788);
	/* The last one writes no completion, but is the completed one. */
	assert_int_equal(load_acquire(b.cmp) & sts_address, b.at(8));
	assert_int_equal(b.get<u64>(chan_base(0) + chan_sts), b.at(9) | sts_idle);
}

static void test_counter_wraps(void **)
{
	bench b;
	u32 counted = 0;

	b.start();
	for (unsigned i = 0; i < 256; i++)
		b.ring[i] = {1, desc_null | desc_completion, 0, 0, b.at(i + 1), {}};
	while (counted < 0x10000 + 300) {
		counted += 200;
		b.count(u16(counted));
		b.until(sts_idle);
		assert_int_equal(b.get<u64>(chan_base(0) + chan_sts) & sts_address, b.at(counted - 1));
	}
}

/* One interrupt for each rearm, however many descriptors complete. */
static void test_interrupts(void **)
{
	bench b("sim:model=ioat:channels=2");

	b.start();
	for (unsigned i = 0; i < 20; i++)
		b.copy(i, 0, 4096, 8, desc_interrupt | desc_completion);
	b.count(1);
	b.until(sts_idle);
	assert_int_equal(b.signals(0, true), 1);
	assert_int_equal(b.get<u16>(chan_base(0)) & ctrl_int_rearm, ctrl_int_rearm); /* disabled */
	b.count(5);
	b.until(sts_idle);
	assert_int_equal(b.signals(0, false), 0);
	b.put<u16>(chan_base(0), ctrl_run);
	assert_int_equal(b.get<u16>(chan_base(0)) & ctrl_int_rearm, 0);
	b.count(7);
	b.until(sts_idle);
	assert_int_equal(b.signals(0, true), 1);
	/* The second channel has its own vector; with INTRCTRL, all share the first one. */
	b.start(0, 1);
	b.count(1, 1);
	b.until(sts_idle, 1);
	assert_int_equal(b.signals(1, true), 1);
	assert_int_equal(b.signals(0, false), 0);
	b.put<u8>(reg_intrctrl, intr_master);
	b.put<u16>(chan_base(1), ctrl_run);
	b.count(2, 1);
	b.until(sts_idle, 1);
	assert_int_equal(b.signals(0, true), 1);
	assert_int_equal(b.get<u8>(reg_intrctrl), intr_master | intr_status | intr_raised);
	assert_int_equal(b.get<u32>(reg_attnstatus), 2);
	assert_int_equal(b.get<u32>(reg_attnstatus), 0);
}

static void test_errors(void **)
{
	bench b;
	const u64 good = iova + data_at, bad = 0x5000;

	assert_int_equal(b.error_of({64, 0, bad, good, b.at(1), {}}), err_read_data);
	assert_int_equal(b.error_of({64, 0, good, bad, b.at(1), {}}), err_write_data);
	assert_int_equal(b.error_of({64, 0, good, iova + size - 8, b.at(1), {}}), err_write_data);
	assert_int_equal(b.error_of({0, 0, good, good, b.at(1), {}}), err_length);
	assert_int_equal(b.error_of({0, desc_null, 0, 0, b.at(1), {}}), err_length);
	assert_int_equal(b.error_of({MiB + 1, 0, good, good, b.at(1), {}}), err_length);
	assert_int_equal(b.error_of({64, 0x55u << desc_op_shift, good, good, b.at(1), {}}), err_control);
	/* The error record: the last completed descriptor, and an interrupt. */
	b.signals(0, false);
	b.start();
	b.copy(0, 0, 4096, 64);
	b.ring[1] = {64, 0, bad, good, b.at(2), {}};
	b.copy(2, 8192, 4096, 64);
	b.count(3);
	b.until(sts_halted);
	assert_int_equal(b.signals(0, true), 1);
	assert_int_equal(load_acquire(b.cmp), b.at(0) | sts_halted);
	assert_int_equal(b.get<u64>(chan_base(0) + chan_sts), b.at(0) | sts_halted);
	/* Writing a chain address does not arm the channel before the error is cleared. */
	b.put<u64>(chan_base(0) + chan_chainaddr, b.at(2));
	assert_int_equal(b.state(), sts_halted);
	b.put<u32>(chan_base(0) + chan_err, err_write_data);
	assert_int_equal(b.get<u32>(chan_base(0) + chan_err), err_read_data);
	b.put<u32>(chan_base(0) + chan_err, err_read_data);
	b.put<u64>(chan_base(0) + chan_chainaddr, b.at(2));
	assert_int_equal(b.state(), sts_armed);
	b.count(1);
	b.until(sts_idle);
	assert_int_equal(load_acquire(b.cmp), b.at(2) | sts_idle);
	/* Invalid addresses of the chain and of the completion. */
	b.reset();
	b.put<u64>(chan_base(0) + chan_chainaddr, b.at(0) + 8);
	b.count(1);
	b.until(sts_halted);
	assert_int_equal(b.get<u32>(chan_base(0) + chan_err), err_chain_address);
	b.start();
	b.ring[0].next = bad;
	b.count(2);
	b.until(sts_halted);
	assert_int_equal(b.get<u32>(chan_base(0) + chan_err), err_next_address);
	b.start();
	b.copy(0, 0, 4096, 64);
	b.put<u64>(chan_base(0) + chan_cmp, bad);
	b.count(1);
	b.until(sts_halted);
	assert_int_equal(b.get<u32>(chan_base(0) + chan_err), err_completion_address);
}

static void test_suspend_resume_reset(void **)
{
	bench b;

	b.start();
	for (unsigned i = 0; i < 200; i++)
		b.copy(i, 0, 4096, 64);
	assert_int_equal(b.dev->inject("slow%1/50000"), 0);
	b.count(100);
	b.put<u8>(chan_base(0) + chan_cmd, cmd_suspend);
	b.until(sts_suspended);
	const u64 done = b.get<u64>(chan_base(0) + chan_sts) & sts_address;
	assert_true(!done || done < b.at(99));
	assert_int_equal(b.dev->inject(""), 0);
	b.put<u8>(chan_base(0) + chan_cmd, cmd_resume);
	b.until(sts_idle);
	assert_int_equal(load_acquire(b.cmp), b.at(99) | sts_idle);
	/* Also from idle and armed; a new chain clears the count. */
	b.put<u8>(chan_base(0) + chan_cmd, cmd_suspend);
	b.until(sts_suspended);
	b.put<u64>(chan_base(0) + chan_chainaddr, b.at(7));
	assert_int_equal(b.get<u16>(chan_base(0) + chan_dmacount), 0);
	assert_int_equal(b.get<u64>(chan_base(0) + chan_sts), sts_armed);
	b.count(1);
	b.until(sts_idle);
	assert_int_equal(load_acquire(b.cmp), b.at(7) | sts_idle);
	/* A reset during a chain keeps the settings, but not the completed address. */
	b.start();
	assert_int_equal(b.dev->inject("slow%1/1000"), 0);
	b.count(100);
	b.put<u8>(chan_base(0) + chan_cmd, cmd_reset);
	b.until(sts_halted);
	assert_int_equal(b.get<u64>(chan_base(0) + chan_sts), sts_halted);
	assert_int_equal(b.get<u64>(chan_base(0) + chan_cmp), iova + cmp_at);
	/* A function reset clears all. */
	assert_int_equal(b.dev->reset(), 0);
	assert_int_equal(b.get<u64>(chan_base(0) + chan_cmp), 0);
	assert_int_equal(b.get<u8>(reg_intrctrl), 0);
}

/* A product in GF(2^8), by another path than the model's: shifts of the long product, then the remainder. */
static u8 product(u8 a, u8 b)
{
	u32 sum = 0;

	for (unsigned i = 0; i < 8; i++)
		sum ^= b >> i & 1 ? u32(a) << i : 0;
	for (int i = 14; i >= 8; i--)
		sum ^= sum >> i & 1 ? 0x11du << (i - 8) : 0;
	return u8(sum);
}

struct sources {
	u64 at[8];
	u8 coefficient[8];
};

/* The descriptor, and its extension in the slot after it. */
static void put_raid(bench &b, unsigned i, u8 op, unsigned n, u32 len, const sources &s, u64 p, u64 q)
{
	const bool pq = op == op_pq || op == op_pq_val;
	auto &e = reinterpret_cast<extension &>(b.ring[i + 1]);
	descriptor &d = b.ring[i];
	u64 coefficients;

	memcpy(&coefficients, s.coefficient, 8);
	d = {len, u32(op) << desc_op_shift | (n - 2) << desc_sources_shift | desc_completion, s.at[0], p, b.at(i + 1),
	     {}};
	if (pq) {
		d.more[0] = s.at[1];
		d.more[1] = s.at[2];
		d.more[2] = coefficients;
		d.more[3] = q;
		e = {{s.at[3], s.at[4], s.at[5]}, b.at(i + 2), {s.at[6], s.at[7], 0, 0}};
	} else {
		memcpy(d.more, s.at + 1, 32);
		e = {{s.at[5], s.at[6], s.at[7]}, b.at(i + 2), {}};
	}
}

static void test_parity(void **)
{
	static constexpr u32 len = 9001;
	static constexpr u64 p_at = 2 * MiB, q_at = 2 * MiB + 64 * KiB;
	bench b;
	auto gen = test::rng(7);
	u8 *data = b.bytes + data_at;
	sources s;

	test::fill_random(data, MiB, gen);
	for (unsigned i = 0; i < 8; i++) {
		s.at[i] = iova + data_at + i * 16 * KiB + i;
		s.coefficient[i] = u8(gen());
	}
	for (unsigned n = 2; n <= 8; n++)
		for (u8 op : {op_xor, op_pq}) {
			const u8 check = u8(op + 1);
			const u16 slots = 1 + (n > (op == op_pq ? 3 : 5));

			b.start();
			put_raid(b, 0, op, n, len, s, iova + p_at, iova + q_at);
			b.count(slots);
			b.until(sts_idle);
			assert_int_equal(load_acquire(b.cmp), b.at(0) | sts_idle);
			for (u32 at = 0; at < len; at++) {
				u8 p = 0, q = 0;

				for (unsigned i = 0; i < n; i++) {
					const u8 byte = b.bytes[s.at[i] - iova + at];

					p ^= byte;
					q ^= product(byte, s.coefficient[i]);
				}
				assert_int_equal(b.bytes[p_at + at], p);
				if (op == op_pq)
					assert_int_equal(b.bytes[q_at + at], q);
			}
			/* Validation: correct data, then one wrong bit in P, then in Q. */
			b.start();
			put_raid(b, 0, check, n, len, s, iova + p_at, iova + q_at);
			b.count(slots);
			b.until(sts_idle);
			b.bytes[p_at + len - 1] ^= 1;
			b.start();
			b.count(slots);
			b.until(sts_halted);
			assert_int_equal(b.get<u32>(chan_base(0) + chan_err), err_xor_p);
			/* If the error is masked, the chain continues. */
			b.put<u32>(chan_base(0) + chan_errmask, err_xor_p);
			b.start();
			b.count(slots);
			b.until(sts_idle);
			b.put<u32>(chan_base(0) + chan_errmask, 0);
			if (op != op_pq)
				continue;
			b.bytes[q_at] ^= 0x80;
			b.start();
			b.count(slots);
			b.until(sts_halted);
			assert_int_equal(b.get<u32>(chan_base(0) + chan_err), err_xor_p | err_xor_q);
		}
}

/* The bit that reserves a channel is set by reading it. */
static void test_in_use(void **)
{
	bench b;

	assert_int_equal(b.get<u16>(chan_base(0)) & ctrl_in_use, 0);
	assert_int_equal(b.get<u16>(chan_base(0)) & ctrl_in_use, ctrl_in_use);
	b.put<u16>(chan_base(0), 0);
	assert_int_equal(b.get<u16>(chan_base(0)) & ctrl_in_use, 0);
}

static void test_needs_bus_mastering(void **)
{
	bench b;

	b.start();
	b.copy(0, 0, 4096, 64);
	assert_int_equal(vfio::config_bus_master(*b.dev, false), 0);
	b.count(1);
	b.until(sts_halted);
	assert_int_equal(b.get<u32>(chan_base(0) + chan_err), err_next_address | err_completion_address);
	assert_int_equal(b.signals(0, false), 0);
	assert_int_equal(load_acquire(b.cmp), 0);
}

/* Off during a chain: no access comes after the reply to the write. */
static void test_bus_master_off_in_a_chain(void **)
{
	bench b;

	for (unsigned round = 0; round < 40; round++) {
		assert_int_equal(vfio::config_bus_master(*b.dev, true), 0);
		store_release(b.cmp, u64(0));
		b.start();
		for (unsigned i = 0; i < 200; i++)
			b.copy(i, i * 4 * KiB, 2 * MiB, 4 * KiB, desc_completion | desc_interrupt);
		b.count(200);
		while (!load_acquire(b.cmp))
			sched_yield();
		assert_int_equal(vfio::config_bus_master(*b.dev, false), 0);
		b.signals(0, false);
		memset(b.bytes + data_at, 0x5a, MiB);
		store_release(b.cmp, u64(0));
		b.put<u16>(chan_base(0), ctrl_run);
		b.until(b.state() == sts_idle ? sts_idle : sts_halted);
		for (u64 i = 0; i < MiB; i++)
			assert_int_equal(b.bytes[data_at + i], 0x5a);
		assert_int_equal(load_acquire(b.cmp), 0);
		assert_int_equal(b.signals(0, false), 0);
		assert_int_equal(vfio::config_bus_master(*b.dev, true), 0);
	}
}

/* Injected errors of the model, which foreign drivers must detect (tests/foreign). */
static void test_injected_errors(void **)
{
	bench b;
	const u32 run = desc_completion | desc_interrupt;

	memset(b.bytes + data_at, 0x11, 64);
	assert_int_equal(b.dev->inject("wrong@1/length"), 0);
	b.start();
	b.copy(0, 4096, 0, 64);
	b.count(1);
	b.until(sts_idle);
	assert_int_equal(b.bytes[data_at + 4096 + 62], 0x11);
	assert_int_equal(b.bytes[data_at + 4096 + 63], 0);
	assert_int_equal(b.dev->inject("wrong@2/completion"), 0);
	b.copy(1, 4096, 0, 64);
	b.copy(2, 4096, 0, 64);
	b.count(3);
	b.until(sts_idle);
	assert_int_equal(load_acquire(b.cmp), b.at(1) | sts_idle);
	/* Completed twice: before and after the data is written. */
	assert_int_equal(b.dev->inject("wrong@1/early"), 0);
	b.copy(3, 8192, 0, 64, run);
	store_release(b.cmp, u64(0));
	b.count(4);
	while (!load_acquire(b.cmp))
		sched_yield();
	assert_int_equal(load_relaxed(b.bytes + data_at + 8192), 0);
	b.until(sts_idle);
	assert_int_equal(b.bytes[data_at + 8192], 0x11);
	assert_int_equal(b.dev->inject("wrong@1/error"), 0);
	assert_int_equal(b.error_of({64, 0, 0x5000, iova + data_at, b.at(1), {}}), err_write_data);
	/* The vector works after it is set again. */
	assert_int_equal(b.dev->inject("wrong@1/vector"), 0);
	b.signals(0, false);
	b.start();
	b.copy(0, 4096, 0, 64, run);
	b.count(1);
	b.until(sts_idle);
	const int fd = b.irq[0].get();
	assert_int_equal(b.signals(0, false), 0);
	assert_int_equal(b.dev->irq_set(vfio::irq_msix, 0, {&fd, 1}), 0);
	b.put<u16>(chan_base(0), ctrl_run);
	b.copy(1, 4096, 0, 64, run);
	b.count(2);
	b.until(sts_idle);
	assert_int_equal(b.signals(0, true), 1);
}

static void test_unmapped_memory_is_not_touched(void **)
{
	bench b;

	b.start();
	b.copy(0, 0, 4096, 64);
	b.count(1);
	b.until(sts_idle);
	assert_int_equal(b.dev->dma_unmap(iova, size), 0);
	b.count(2);
	b.until(sts_halted);
	assert_int_equal(b.get<u32>(chan_base(0) + chan_err), err_next_address | err_completion_address);
}

static void test_settings(void **)
{
	std::unique_ptr<vfio::device> dev;

	for (const char *spec :
	     {"sim:faults=wrong@1/length", "sim:model=cbdma", "sim:model=ioat-3.4", "sim:model=ioat:channels=5"})
		assert_int_equal(dma::open_device(spec, &dev), -EINVAL);
	/* Also while it runs; other rules may contain the word. */
	assert_int_equal(dma::open_device("sim:mem=1M:faults=reply@1000/wrong-id", &dev), 0);
	assert_int_equal(dev->inject("reply@1000/wrong-id+wrong@1/length"), -EINVAL);
	assert_non_null(strstr(error_text(), "I/OAT"));
}

/* ---- by messages -------------------------------------------------------------------------------------- */

/* Bus mastering is switched off during an access of many messages: only the message in flight is sent. */
static void test_last_message(void **)
{
	static constexpr u32 base = chan_base(0);
	message_bench b("ioat");
	const descriptor d = {
		b.remote_size, desc_completion, iova + data_at, b.remote, iova + ring_at + sizeof(descriptor), {}};
	const u16 one = 1;

	b.client.put<u8>(base + chan_cmd, cmd_reset);
	while (b.client.get<u8>(base + chan_cmd) & cmd_reset)
		sched_yield();
	b.client.put<u16>(base + chan_ctrl, ctrl_run);
	b.client.put<u64>(base + chan_cmp, iova + cmp_at);
	b.client.put<u64>(base + chan_chainaddr, iova + ring_at);
	memcpy(b.local.data + ring_at, &d, sizeof(d));
	b.start(vfio::region_bar0, base + chan_dmacount, &one, sizeof(one));
	b.stop_during_write();
	while ((b.read_without_access(base + chan_sts) & sts_mask) != sts_halted)
		sched_yield();
	/* The reply would come after any other message of the model. */
	assert_int_equal(b.read_without_access(base + chan_sts) & sts_mask, sts_halted);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_copies_fills_and_completions),
		cmocka_unit_test(test_counter_wraps),
		cmocka_unit_test(test_interrupts),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_suspend_resume_reset),
		cmocka_unit_test(test_parity),
		cmocka_unit_test(test_in_use),
		cmocka_unit_test(test_needs_bus_mastering),
		cmocka_unit_test(test_bus_master_off_in_a_chain),
		cmocka_unit_test(test_injected_errors),
		cmocka_unit_test(test_unmapped_memory_is_not_touched),
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_last_message),
	};

	return cmocka_run_group_tests_name("ioat-model", tests, nullptr, nullptr);
}
