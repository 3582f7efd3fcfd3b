/* SPDX-License-Identifier: BSD-3-Clause */
/* The HiSilicon driver on the embedded model. */
#include "tests/unit/dma/forwarding_device.h"
#include "tests/unit/dma/ring_cases.h"
#include "tests/support/dropping.h"

#include "driver/base/log.h"
#include "driver/hw/hisi_regs.h"

#include <mutex>

using namespace usdma;
using namespace usdma::dma;
using namespace usdma::test;

/* Both layouts. The submission and completion rings wrap. */
static constexpr doorbell_register doorbells[] = {{vfio::region_bar2, hisi::hip09.queue_base + hisi::q_cq_head, 4},
						  {vfio::region_bar2, hisi::hip09.queue_base + hisi::q_sq_tail, 4}};
const ring_kind test::kind = {.plain = "sim:model=hisi-hip09",
			      .faulty = "sim:model=hisi:faults=",
			      .driver = "hisi",
			      .channels = 4,
			      .slow_us = 50000,
			      .long_rounds = 40,
			      .vendor = 0x19e5,
			      .ops = op_bit(opcode::nop) | op_bit(opcode::copy),
			      .doorbells = doorbells,
			      .stride = 40,
			      .harmless = 3};
static constexpr const char *faulty[] = {"sim:model=hisi:faults=", "sim:model=hisi-hip09:faults="};

static void test_limits(void **)
{
	check_limits("sim:model=hisi", MiB, 30, 1);
	check_limits("sim:model=hisi-hip09", MiB, 4, 1);
	/* The ring has two submissions for each of its requests. */
	ring_bench b;
	channel *ch;
	assert_int_equal(b.eng->channel_open(1, {.ring_size = 8192}, &ch), -EINVAL);
	assert_non_null(strstr(error_text(), "4096"));
	assert_int_equal(b.eng->channel_open(1, {.ring_size = 4096}, &ch), 0);
	ch->ops->close(ch);
}

static void test_errors_of_the_device(void **)
{
	check_device_errors({
		{"fail@1", fault_reason::transfer, host},
		{"fail@1/src-unmapped", fault_reason::transfer, host + 4096},
		{"fail@1/dst-denied", fault_reason::transfer, host},
		{"fail@1/bad-length", fault_reason::bad_length, host},
		{"fail@1/bad-op", fault_reason::bad_op, host},
		{"fail@1/unaligned", fault_reason::transfer, host},
	});
}

static void test_stops(void **)
{
	for (const char *spec : faulty) {
		check_stop_inside_a_request(spec);
	}
}

/* Pending requests at any position are moved to the beginning of the ring, and run once. */
static void test_restarts_anywhere_in_the_ring(void **)
{
	for (const char *spec : faulty) {
		ring_bench b(spec, {.ring_size = 16});
		auto *words = reinterpret_cast<u64 *>(b.bytes);

		for (u64 round = 0; round < 40; round++) {
			const u64 failing = round % 6;

			for (u64 i = 0; i < 8; i++) {
				words[512 + i] = 100 * round + i;
				words[i] = 0;
			}
			for (u64 i = 0; i < 8; i++)
				b.post(copy(8 * i, i == failing ? host_bytes : 4096 + 8 * i, 8));
			b.until_halted();
			assert_int_equal(completed(b.ch), 8 * round + failing);
			assert_int_equal(b.ch->ops->resume(b.ch), 0);
			assert_true(b.await(b.ch->posted));
			for (u64 i = 0; i < 8; i++)
				assert_int_equal(words[i], i == failing ? 0 : 100 * round + i);
		}
	}
}

static u32 get(vfio::device &dev, u32 reg)
{
	u32 value = 0;

	assert_int_equal(dev.region_read(vfio::region_bar2, reg, &value, sizeof(value)), 0);
	return value;
}

/* The mode of a HIP08, and the links of a HIP09; queues go on after errors, and their rings are local. */
static void test_settings_of_the_device(void **)
{
	ring_bench one("sim:model=hisi"), two("sim:model=hisi-hip09");
	vfio::device &a = one.eng->transport(), &b = two.eng->transport();

	assert_int_equal(get(a, hisi::hip08_mode), 1);
	assert_int_equal(get(a, 0x20), 1);
	for (u32 i = 0; i < 16; i++)
		assert_int_equal(get(b, 0x800 + i * 0x20), 1 << 16);
	assert_int_equal(get(b, 0x2020), 1);
	assert_int_equal(get(b, 0x2024), 4); /* addresses are translated */
}

/* The device goes on after an error: requests behind the failed one run once, also if they are cancelled too late. */
static void test_device_continues_after_error(void **)
{
	for (const char *spec : faulty) {
		ring_bench b(spec);
		auto *words = reinterpret_cast<u64 *>(b.bytes);
		request r[4] = {copy(0, host_bytes, 8, 1), copy(8, 4096, 8, 2), copy(16, host_bytes, 8, 2),
				copy(24, 4104, 8, 3)};
		fault f;

		words[512] = 11;
		words[513] = 12;
		assert_int_equal(b.inject("slow@5/1"), 0);
		assert_int_equal(b.ch->ops->post(b.ch, r, 4), 4);
		b.ch->ops->doorbell(b.ch);
		b.until_halted();
		assert_true(read_fault(b.ch, &f));
		assert_int_equal(f.seq, 1);
		assert_int_equal(f.cookie, 1);
		/* As the caller may change its data when it sees an error, what has run must not run again. */
		const bool ran = words[1] == 11, last_ran = words[3] == 12;
		words[512] = 99;
		words[513] = 98;
		assert_int_equal(b.ch->ops->cancel(b.ch, 2), 2);
		assert_int_equal(b.ch->ops->resume(b.ch), 0);
		/* The failure of the cancelled one is not reported. */
		assert_true(b.await(b.ch->posted));
		assert_int_equal(words[1], ran ? 11 : 0);
		assert_int_equal(words[3], last_ran ? 12 : 98);
	}
}

/*
 * In place of a request that has run behind two failed ones is a nop, whose failure is not that of the request. Of four
 * the first and the third fail; if all have run, the fifth is the third again, and the sixth that nop.
 */
static void check_failure_of_a_nop(ring_bench &b)
{
	auto *words = reinterpret_cast<u64 *>(b.bytes);
	const request r[4] = {copy(0, 4096, 8, 1), copy(8, 4096, 8, 2), copy(16, 4096, 8, 3), copy(24, 4096, 8, 4)};
	bool all_ran = false;
	fault f;

	words[512] = 11;
	for (const deadline until = deadline::in_ms(patience); !all_ran;) {
		assert_false(until.passed());
		memset(words, 0, 4 * sizeof(u64));
		assert_int_equal(b.inject("drop-irq%1+fail@1+fail@3+fail@6"), 0);
		assert_int_equal(b.ch->ops->post(b.ch, r, 4), 4);
		b.ch->ops->doorbell(b.ch);
		b.until_halted();
		assert_true(read_fault(b.ch, &f));
		assert_int_equal(f.cookie, 1);
		all_ran = words[1] && words[3];
		assert_int_equal(b.ch->ops->resume(b.ch), 0);
		while (!b.await(b.ch->posted)) {
			assert_false(all_ran);
			assert_int_equal(b.ch->ops->resume(b.ch), 0);
		}
	}
	for (unsigned i = 1; i < 4; i++)
		assert_int_equal(words[i], 11);
	/* A failure in the same slots of the ring is one again. */
	assert_int_equal(b.inject("drop-irq%1+fail%1"), 0);
	for (unsigned i = 0; i < 2 * b.ch->ring_size; i++)
		assert_int_equal(b.run_fault(copy(0, 4096, 8)).reason, fault_reason::transfer);
}

static void test_failure_of_what_has_run(void **)
{
	/* The driver checks when all have run. */
	const dropping_interrupts scope;

	for (const char *spec : faulty) {
		ring_bench b(spec, {.ring_size = 4});

		check_failure_of_a_nop(b);
	}
}

/* The driver takes over queues of an earlier user: one stopped by an error, and a paused one. */
static void test_takes_over_used_device(void **)
{
	for (const char *spec : faulty) {
		std::unique_ptr<vfio::device> dev;
		std::unique_ptr<engine> eng;
		u8 revision = 0;

		assert_int_equal(open_device(spec, &dev), 0);
		assert_int_equal(dev->region_read(vfio::region_config, hisi::cfg_revision, &revision, 1), 0);
		const hisi::layout &l = *hisi::layout_of(revision);
		const u32 base = l.queue_base, second = base + hisi::queue_size;
		const u32 set[][2] = {{base + hisi::q_sq_depth, 7},
				      {base + hisi::q_cq_depth, 7},
				      {base + hisi::q_ctrl0, hisi::ctrl0_enable | l.ctrl0_abort | l.ctrl0_remote},
				      {base + hisi::q_sq_tail, 1},
				      {second + hisi::q_ctrl0, hisi::ctrl0_pause | hisi::ctrl0_enable}};

		assert_int_equal(vfio::config_bus_master(*dev, true), 0);
		for (const auto &[reg, value] : set)
			assert_int_equal(dev->region_write(vfio::region_bar2, reg, &value, sizeof(value)), 0);
		for (const deadline until = deadline::in_ms(patience); get(*dev, base + hisi::q_fsm) == hisi::fsm_run;)
			assert_false(until.passed());
		assert_int_equal(probe(std::move(dev), &eng), 0);
		for (u32 q : {base, second})
			assert_int_equal(get(eng->transport(), q + hisi::q_fsm), hisi::fsm_idle);
		for (u32 i : {0, 1}) {
			channel *ch;
			const request nop = {};

			assert_int_equal(eng->channel_open(i, {}, &ch), 0);
			assert_int_equal(ch->ops->post(ch, &nop, 1), 1);
			ch->ops->doorbell(ch);
			for (const deadline until = deadline::in_ms(patience); completed(ch) != ch->posted;
			     sched_yield())
				assert_false(until.passed());
			assert_int_equal(get(eng->transport(), l.queue_base + i * hisi::queue_size + hisi::q_ctrl0) &
						 l.ctrl0_remote,
					 0);
			ch->ops->close(ch);
		}
	}
}

/* A device with another revision, another BAR size, or a fixed queue state. */
class other_device final : public forwarding_device {
public:
	using forwarding_device::forwarding_device;
	int region(unsigned i, vfio::region_info *out) override
	{
		const int err = dev_->region(i, out);

		if (bar_size && i == vfio::region_bar2)
			out->size = bar_size;
		return err;
	}
	int region_read(unsigned i, u64 at, void *buf, size_t len) override
	{
		const int err = dev_->region_read(i, at, buf, len);

		if (revision && i == vfio::region_config && at == hisi::cfg_revision)
			*static_cast<u8 *>(buf) = revision;
		if (state && i == vfio::region_bar2 && at == hisi::q_fsm)
			*static_cast<u32 *>(buf) = state;
		return err;
	}

	int irq(unsigned i, vfio::irq_info *out) override
	{
		const int err = dev_->irq(i, out);

		out->share = std::min(out->share, share);
		return err;
	}
	int irq_set(unsigned i, unsigned n, std::span<const int> fds) override
	{
		vectors = fds.size();
		return dev_->irq_set(i, n, fds);
	}

	int region_write(unsigned i, u64 at, const void *buf, size_t len) override
	{
		const bool refused = refuses_pause && i == vfio::region_bar2 && at == hisi::q_ctrl0;

		return refused ? fail(EIO, "refused") : dev_->region_write(i, at, buf, len);
	}

	bool refuses_pause = false;
	u8 revision = 0;
	u32 state = 0, share = ~0u;
	u64 bar_size = 0;
	size_t vectors = 0;
};

/* A queue that cannot be paused after an error goes on: its submissions are not changed under it, only after the reset.
 */
static void test_no_change_of_a_running_queue(void **)
{
	auto dev = std::make_unique<other_device>("sim:model=hisi:faults=");
	other_device *const o = dev.get();
	const vfio::dma_area &rings = dev->last_map;
	ring_bench b(std::move(dev));
	vfio::device &d = b.eng->transport();
	auto *words = reinterpret_cast<u64 *>(b.bytes);
	const request list[] = {copy(0, host_bytes, 8, 1), copy(8, 4096, 8, 2), copy(16, 4104, 8, 3)};
	u8 before[sizeof(list) / sizeof(list[0]) * sizeof(hisi::submission)];

	words[512] = 11;
	words[513] = 12;
	assert_int_equal(b.inject("slow@2/100000"), 0);
	o->refuses_pause = true;
	assert_int_equal(b.ch->ops->post(b.ch, list, 3), 3);
	b.ch->ops->doorbell(b.ch);
	b.until_halted();
	const u64 at = get(d, hisi::q_sq_base) | u64(get(d, hisi::q_sq_base + 4)) << 32;
	const u8 *const ring = static_cast<const u8 *>(rings.vaddr) + (at - rings.iova);
	memcpy(before, ring, sizeof(before));
	assert_int_equal(b.ch->ops->cancel(b.ch, 2), 1);
	assert_memory_equal(ring, before, sizeof(before));
	assert_int_equal(b.ch->ops->resume(b.ch), -EIO);
	assert_memory_equal(ring, before, sizeof(before));
	o->refuses_pause = false;
	assert_int_equal(b.ch->ops->resume(b.ch), 0);
	assert_true(b.await(b.ch->posted));
	assert_int_equal(words[2], 12);
}

static int probe_other(u8 revision, u32 state, u64 bar_size)
{
	auto bus = std::make_unique<other_device>("sim:model=hisi");
	std::unique_ptr<engine> eng;

	bus->revision = revision;
	bus->state = state;
	bus->bar_size = bar_size;
	return probe(std::move(bus), &eng);
}

static void test_refuses_other_devices(void **)
{
	assert_int_equal(probe_other(0, 0, 0), 0);
	assert_int_equal(probe_other(0x20, 0, 0), -EPROTONOSUPPORT);
	assert_non_null(strstr(error_text(), "0x20"));
	assert_int_equal(probe_other(0, 0, 8192), -ENODEV);
	assert_int_equal(probe_other(0, ~0u, 0), -ENODEV);
	assert_int_equal(probe_other(0, hisi::fsm_abort, 0), -ETIMEDOUT);
	assert_non_null(strstr(error_text(), "state 5"));
}

/* Only the first channels have interrupts. */
static void test_few_interrupts(void **)
{
	for (u32 share : {1, 2}) {
		auto dev = std::make_unique<other_device>("sim:model=hisi");
		const other_device *const o = dev.get();
		channel *second;

		dev->share = share;
		ring_bench b(std::move(dev));
		assert_int_equal(o->vectors, share);
		assert_int_equal(b.eng->channel_open(1, {}, &second), 0);
		assert_int_equal(get(b.eng->transport(), hisi::queue_size + hisi::q_int_msk),
				 share == 1 ? hisi::hip08.int_bits : 0);
		b.run(copy(0, 4096, 64));
		std::swap(b.ch, second);
		b.run(copy(0, 4096, 64));
		second->ops->close(second);
	}
}

/* Records the register writes to channel 0 of a HIP08. */
class recording_device final : public forwarding_device {
public:
	using forwarding_device::forwarding_device;
	int region_write(unsigned i, u64 at, const void *buf, size_t len) override
	{
		const int err = dev_->region_write(i, at, buf, len);
		std::lock_guard guard(lock_);

		if (i == vfio::region_bar2 && at < hisi::queue_size)
			writes_.push_back({u32(at), *static_cast<const u32 *>(buf)});
		return err;
	}
	std::vector<std::pair<u32, u32>> writes(u32 reg, u32 other)
	{
		std::vector<std::pair<u32, u32>> out;
		std::lock_guard guard(lock_);

		for (const auto &w : writes_)
			if (w.first == reg || w.first == other)
				out.push_back(w);
		return out;
	}

private:
	std::mutex lock_;
	std::vector<std::pair<u32, u32>> writes_;
};

/* The completion ring always has space, however rarely it is read. The model writes one entry for each request. */
static void test_space_for_completions(void **)
{
	static constexpr u32 size = 16, entries = 2 * size;
	auto dev = std::make_unique<recording_device>("sim:model=hisi");
	recording_device *const w = dev.get();
	ring_bench b(std::move(dev), {.ring_size = size});
	const deadline until = deadline::in_ms(patience);
	const size_t before = w->writes(hisi::q_sq_tail, hisi::q_cq_head).size();
	auto gen = test::rng(3);
	const request nops[size] = {};
	u32 submitted = 0, freed = 0, most = 0;

	while (b.ch->posted < 1000) {
		assert_false(until.passed());
		b.ch->ops->post(b.ch, nops, 1 + unsigned(gen() % size));
		b.ch->ops->doorbell(b.ch);
	}
	assert_true(b.await(b.ch->posted));
	const auto all = w->writes(hisi::q_sq_tail, hisi::q_cq_head);
	for (size_t i = before; i < all.size(); i++) {
		u32 &sum = all[i].first == hisi::q_sq_tail ? submitted : freed;

		sum += (all[i].second - sum) % entries;
		most = std::max(most, submitted - freed);
	}
	assert_int_equal(submitted, b.ch->posted);
	assert_in_range(most, 1, entries - 1);
}

/* Without a waiter an interrupt masks the next ones for a while; their status is cleared before they are unmasked. */
static void test_mask_of_interrupts(void **)
{
	auto dev = std::make_unique<recording_device>("sim:model=hisi");
	recording_device *const w = dev.get();
	ring_bench b(std::move(dev));
	const deadline until = deadline::in_ms(patience);
	const auto writes = [w] { return w->writes(hisi::q_int_sts, hisi::q_int_msk); };
	const size_t before = writes().size();
	const std::pair<u32, u32> want[] = {
		{hisi::q_int_msk, hisi::hip08.int_bits}, {hisi::q_int_sts, hisi::hip08.int_bits}, {hisi::q_int_msk, 0}};

	assert_true(before >= 2);
	assert_true(writes()[before - 2] == want[1]);
	assert_true(writes()[before - 1] == want[2]);
	b.post(copy(0, 4096, 64));
	while (writes().size() < before + std::size(want))
		assert_false(until.passed());
	for (size_t i = 0; i < std::size(want); i++)
		assert_true(writes()[before + i] == want[i]);
}

/* The model runs no more than two without a fence in another order: all have one. */
static void test_submissions_have_fences(void **)
{
	auto dev = std::make_unique<forwarding_device>("sim:model=hisi");
	const vfio::dma_area &rings = dev->last_map;
	ring_bench b(std::move(dev));
	vfio::device &d = b.eng->transport();

	b.run(copy(0, 4096, 64));
	b.run({.op = opcode::nop});
	const u64 at = get(d, hisi::q_sq_base) | u64(get(d, hisi::q_sq_base + 4)) << 32;
	auto *const sq = reinterpret_cast<const hisi::submission *>(static_cast<u8 *>(rings.vaddr) + (at - rings.iova));
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(sq[i].control & ~u32(hisi::sqe_interrupt), hisi::sqe_copy | hisi::sqe_fence);
}

/* A register that reads as ones does not count as a paused or reset queue. */
static void test_registers_of_ones(void **)
{
	auto dev = std::make_unique<other_device>("sim:model=hisi");
	other_device *const o = dev.get();
	ring_bench b(std::move(dev));

	o->state = ~0u;
	assert_int_equal(b.eng->reset(), -EIO);
	assert_non_null(strstr(error_text(), "ones"));
	o->state = 0;
	assert_int_equal(b.eng->reset(), 0);
	assert_int_equal(b.ch->ops->restart(b.ch), 0);
	b.run(copy(0, 4096, 64));
}

static void test_relaxed_ordering_is_off(void **)
{
	check_relaxed_ordering_is_off();
}

static void test_ids(void **)
{
	check_ids({0xa122}, {0xa121, 0xa123});
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_errors_of_the_device),
		cmocka_unit_test(test_stops),
		cmocka_unit_test(test_restarts_anywhere_in_the_ring),
		cmocka_unit_test(test_settings_of_the_device),
		cmocka_unit_test(test_device_continues_after_error),
		cmocka_unit_test(test_failure_of_what_has_run),
		cmocka_unit_test(test_takes_over_used_device),
		cmocka_unit_test(test_no_change_of_a_running_queue),
		cmocka_unit_test(test_refuses_other_devices),
		cmocka_unit_test(test_few_interrupts),
		cmocka_unit_test(test_space_for_completions),
		cmocka_unit_test(test_mask_of_interrupts),
		cmocka_unit_test(test_submissions_have_fences),
		cmocka_unit_test(test_registers_of_ones),
		cmocka_unit_test(test_relaxed_ordering_is_off),
		cmocka_unit_test(test_ids),
	};

	return ring_main("hisi", tests);
}
