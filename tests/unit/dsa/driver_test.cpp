/* SPDX-License-Identifier: BSD-3-Clause */
/* The DSA driver on the embedded model. */
#include "tests/unit/dma/forwarding_device.h"
#include "tests/unit/dma/ring_cases.h"

#include "driver/engines/dsa/dsa.h"

using namespace usdma;
using namespace usdma::dma;
using namespace usdma::test;

const ring_kind test::kind = {.plain = "sim:model=dsa",
			      .faulty = "sim:model=dsa:faults=",
			      .driver = "dsa",
			      .channels = 8,
			      .slow_us = 2000,
			      .long_rounds = 4,
			      .harmless = 3};

static void test_limits(void **)
{
	check_limits("sim:model=dsa:channels=3", 16 * MiB, 3, 3);
	check_limits("sim:model=dsa-2", 16 * MiB, 8, 4);
}

static void test_errors_of_the_device(void **)
{
	check_device_errors({
		{"fail@1", fault_reason::transfer, host},
		{"fail@1/src-unmapped", fault_reason::src_unmapped, host + 4096},
		{"fail@1/dst-denied", fault_reason::dst_unmapped, host},
		{"fail@1/bad-length", fault_reason::bad_length, host},
		{"fail@1/bad-op", fault_reason::bad_op, host},
	});
}

/* Stops while the first of two copies runs, and returns its number; tries again if the stop is too late. */
static u64 stop_during_first_copy(ring_bench &b)
{
	const deadline until = deadline::in_ms(patience);

	for (;;) {
		assert_int_equal(b.inject("slow@1/300000"), 0);
		const u64 seq = b.post(copy(4096, 0, 64));
		b.post(copy(8192, 0, 64));
		b.until_struck();
		assert_int_equal(b.ch->ops->stop(b.ch), 0);
		if (completed(b.ch) != b.ch->posted)
			return seq;
		assert_false(until.passed());
		assert_int_equal(b.ch->ops->resume(b.ch), 0);
	}
}

/* A stop waits for the batch: its requests have run, later ones have not. */
static void test_stop_between_batches(void **)
{
	ring_bench b(kind.faulty);
	fault f;

	memset(b.bytes, 1, 64);
	const u64 seq = stop_during_first_copy(b);
	assert_true(read_fault(b.ch, &f));
	assert_int_equal(f.reason, fault_reason::stopped);
	assert_int_equal(completed(b.ch), seq);
	assert_int_equal(b.bytes[4096], 1);
	memset(b.bytes, 2, 64);
	assert_int_equal(b.ch->ops->resume(b.ch), 0);
	assert_true(b.await(b.ch->posted));
	assert_int_equal(b.bytes[4096], 1);
	assert_int_equal(b.bytes[8192], 2);
}

/* A batch that does not end cannot be stopped, only reset. */
static void test_stop_of_a_hung_batch(void **)
{
	ring_bench b(kind.faulty);

	assert_int_equal(b.inject("hang@1"), 0);
	b.post(copy(4096, 0, 64));
	b.until_struck();
	assert_int_equal(b.ch->ops->stop(b.ch), -ETIMEDOUT);
	assert_false(halted(b.ch));
	assert_int_equal(b.ch->ops->abort(b.ch), 0);
	assert_int_equal(b.ch->ops->resume(b.ch), 0);
	b.run(copy(4096, 0, 64));
}

/* The record of a failure is lost: the channel hangs, and a reset recovers it. */
static void test_lost_record(void **)
{
	ring_bench b(kind.faulty);
	fault f;

	assert_int_equal(b.inject("fail@1+drop-record@1"), 0);
	const u64 seq = b.post(copy(0, 4096, 64, 7));
	b.until_struck("drop-record@1 seen 1 struck 1");
	assert_int_equal(b.ch->ops->abort(b.ch), 0);
	assert_true(read_fault(b.ch, &f));
	assert_int_equal(f.reason, fault_reason::reset);
	assert_int_equal(f.seq, seq);
	assert_int_equal(f.cookie, 7);
	assert_int_equal(b.ch->ops->resume(b.ch), 0);
	b.run(copy(0, 4096, 64));
}

/* One request each, which is no batch. */
static void test_many_small_batches(void **)
{
	ring_bench b;

	for (u64 i = 0; i < 500; i++) {
		const u64 seq = b.post(fill(i * 8, 8, 8, i));

		/* Polled, without an interrupt. */
		const deadline until = deadline::in_ms(patience);
		while (s64(completed(b.ch) - seq) < 0)
			assert_false(until.passed());
	}
	for (u64 i = 0; i < 500; i++)
		assert_int_equal(reinterpret_cast<u64 *>(b.bytes)[i], i);
}

/* A device on which one command never completes. */
class other_bus final : public forwarding_device {
public:
	using forwarding_device::forwarding_device;
	int region_read(unsigned i, u64 at, void *buf, size_t len) override
	{
		const int err = dev_->region_read(i, at, buf, len);

		if (i == vfio::region_bar0 && at == dsa::off_cmdstatus && has_stalled)
			*static_cast<u32 *>(buf) |= dsa::cmd_active;
		if (i == vfio::region_bar0 && at == dsa::off_cmdstatus && was_refused)
			*static_cast<u32 *>(buf) = u32(dsa::cmd_error::unsupported);
		return err;
	}
	int region_write(unsigned i, u64 at, const void *buf, size_t len) override
	{
		if (i == vfio::region_bar0 && at == dsa::off_cmd) {
			const u32 code = *static_cast<const u32 *>(buf) >> dsa::cmd_code_shift;

			has_stalled |= code == u32(stalls);
			was_refused = code == u32(refuses);
			commands.push_back(dsa::command(code));
			if (was_refused)
				return 0;
		}
		return dev_->region_write(i, at, buf, len);
	}

	int irq(unsigned i, vfio::irq_info *out) override
	{
		const int err = dev_->irq(i, out);

		out->count = has_vectors ? out->count : 0;
		return err;
	}

	bool has_vectors = true;
	bool has_stalled = false;
	dsa::command stalls = {}; /* never completes */
	dsa::command refuses = {};
	bool was_refused = false;
	std::vector<dsa::command> commands;
};

static std::unique_ptr<other_bus> open_other()
{
	std::unique_ptr<vfio::device> dev;

	assert_int_equal(open_device(kind.plain, &dev), 0);
	return std::make_unique<other_bus>(std::move(dev));
}

/* The record of a batch that has failed comes long after that of its request: it says nothing of what comes next. */
static void test_late_record_of_a_batch(void **)
{
	auto bus = std::make_unique<other_bus>("sim:model=dsa:latency=5000");
	const request list[] = {copy(0, 4096, 64), copy(host_bytes, 0, 64, 5)};
	fault f;

	/* Its interrupt comes with that record; without one the thread finds the failure before. */
	bus->has_vectors = false;
	ring_bench b(std::move(bus));
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(b.ch->ops->post(b.ch, list, 2), 2);
		b.ch->ops->doorbell(b.ch);
		b.until_halted();
		assert_true(read_fault(b.ch, &f));
		assert_int_equal(f.seq, b.ch->posted);
		assert_int_equal(b.ch->ops->resume(b.ch), 0);
		for (unsigned next = 0; next < 4; next++)
			b.post(copy(0, 4096, 64));
		assert_true(b.await(b.ch->posted));
	}
}

/* After a timeout the queue may be enabled and use the channel's memory, which is not reused. */
static void test_command_times_out(void **)
{
	std::unique_ptr<other_bus> bus = open_other();
	other_bus &dev = *bus;
	std::unique_ptr<engine> eng;
	channel *ch;
	const request nop = {};

	assert_int_equal(probe(std::move(bus), &eng), 0);
	assert_int_equal(eng->channel_open(0, {}, &ch), 0);
	const u64 at = ch->record_iova;
	ch->ops->close(ch);
	dev.stalls = dsa::command::enable_wq;
	assert_int_equal(eng->channel_open(0, {}, &ch), -ETIMEDOUT);
	dev.stalls = {};
	dev.has_stalled = false;
	assert_int_equal(eng->channel_open(0, {}, &ch), 0);
	assert_int_not_equal(ch->record_iova, at);
	assert_int_equal(ch->ops->post(ch, &nop, 1), 1);
	ch->ops->doorbell(ch);
	for (const deadline until = deadline::in_ms(patience); completed(ch) != ch->posted; sched_yield())
		assert_false(until.passed());
	ch->ops->close(ch);
}

/* The hardware ignores descriptors that are written by trapped accesses: probe fails. */
static void test_portals_are_trapped(void **)
{
	std::unique_ptr<other_bus> bus = open_other();
	std::unique_ptr<engine> eng;

	bus->is_own = false;
	assert_int_equal(probe(std::move(bus), &eng), -EOPNOTSUPP);
	assert_non_null(strstr(error_text(), "BAR2"));
}

/* A device that was enabled is reset before the probe fails, and with it bus mastering: else it would halt (5.7). */
static void check_failed_start(dsa::command refused, const char *name)
{
	auto bus = std::make_unique<other_bus>("sim:model=dsa-2");
	other_bus &dev = *bus;
	u32 state = 0;

	dev.refuses = refused;
	auto e = std::make_unique<dsa::dsa_engine>(std::move(bus));
	assert_int_equal(e->start(), -EIO);
	assert_non_null(strstr(error_text(), name));
	assert_true(dev.commands.back() == dsa::command::reset_device);
	const std::unique_ptr<vfio::device> back = e->release();
	assert_int_equal(back->region_read(vfio::region_bar0, dsa::off_gensts, &state, sizeof(state)), 0);
	assert_int_equal(dsa::device_state(state & 3), dsa::device_state::disabled);
}

static void test_failed_start_disables(void **)
{
	check_failed_start(dsa::command::request_handle, "Request Interrupt Handle");
	check_failed_start(dsa::command::enable_device, "Enable Device");
}

/* A queue that is disabled refuses Reset WQ, which the first open of a channel thus does not send. */
static void test_no_reset_of_a_disabled_queue(void **)
{
	std::unique_ptr<other_bus> bus = open_other();
	other_bus &dev = *bus;
	ring_bench b(std::move(bus));
	using enum dsa::command;

	assert_true(dev.commands == (std::vector{reset_device, enable_device, enable_wq}));
	b.run(copy(0, 4096, 64));
	b.ch->ops->close(b.ch);
	assert_int_equal(b.eng->channel_open(0, {}, &b.ch), 0);
	assert_true(dev.commands ==
		    (std::vector{reset_device, enable_device, enable_wq, drain_wq, reset_wq, enable_wq}));
	b.run(copy(0, 4096, 64));
}

static u64 software_error(engine &eng)
{
	u64 error = 0;

	assert_int_equal(eng.transport().region_read(vfio::region_bar0, dsa::off_swerror, &error, sizeof(error)), 0);
	return error & dsa::swerr_valid ? error : 0;
}

/* A descriptor that belongs to no request fails: only SWERROR reports it. */
static void make_error(vfio::device &dev, u32 queue)
{
	const dsa::work bad = {0, dsa::op_and_flags(dsa::operation::move, 0), 0, 0x1000, host, 8, 0, 0, {}};
	const deadline until = deadline::in_ms(patience);
	u64 error = 0;

	assert_int_equal(dev.region_write(vfio::region_bar2, queue * dsa::portals_step, &bad, sizeof(bad)), 0);
	for (; !(error & dsa::swerr_valid); sched_yield()) {
		assert_false(until.passed());
		assert_int_equal(dev.region_read(vfio::region_bar0, dsa::off_swerror, &error, sizeof(error)), 0);
	}
}

/* SWERROR has one error for all queues: each channel clears only its own, at resume. */
static void test_error_of_another_queue(void **)
{
	ring_bench b;
	channel *other;

	assert_int_equal(b.eng->channel_open(1, {}, &other), 0);
	make_error(b.eng->transport(), 1);
	assert_int_equal(b.run_fault(copy(host_bytes, 0, 8)).reason, fault_reason::dst_unmapped);
	assert_true(dsa::is_error_of(1, software_error(*b.eng)));
	assert_int_equal(other->ops->stop(other), 0);
	assert_int_equal(other->ops->resume(other), 0);
	assert_int_equal(software_error(*b.eng), 0);
	other->ops->close(other);
}

/* An error of a descriptor that belongs to no request is not reported as the fault of a stopped request. */
static void test_error_of_no_request(void **)
{
	ring_bench b(kind.faulty);
	fault f;

	make_error(b.eng->transport(), 0);
	const u64 seq = stop_during_first_copy(b);
	assert_true(read_fault(b.ch, &f));
	assert_int_equal(f.reason, fault_reason::stopped);
	assert_int_equal(completed(b.ch), seq);
	assert_int_equal(b.ch->ops->resume(b.ch), 0);
	assert_true(b.await(b.ch->posted));
}

/* The driver sets the list of operations of a queue, if it has one. */
static void test_operations_of_a_queue(void **)
{
	ring_bench b("sim:model=dsa-2");
	u64 ops = 0;

	assert_int_equal(b.eng->transport().region_read(vfio::region_bar0, 0x800 + 4 * dsa::wq_word_opcfg, &ops, 8), 0);
	assert_int_equal(ops, 0x1f); /* no-op, batch, drain, move, fill */
}

static void test_relaxed_ordering_is_off(void **)
{
	check_relaxed_ordering_is_off();
}

/* Traffic class 1, as in Linux' driver; the read buffers are those after a reset. Interrupts without a PASID. */
static void test_groups_and_permissions(void **)
{
	std::unique_ptr<vfio::device> dev;
	std::unique_ptr<engine> eng;
	const u32 ignored = dsa::perm_ignore | dsa::perm_pasid;
	u64 before = 0, after = 0;
	u32 now = ~0u;

	assert_int_equal(open_device(kind.plain, &dev), 0);
	assert_int_equal(dev->region_write(vfio::region_bar0, 0x400 + 8, &ignored, sizeof(ignored)), 0);
	assert_int_equal(dev->region_read(vfio::region_bar0, 0x600 + 40, &before, sizeof(before)), 0);
	assert_int_equal(probe(std::move(dev), &eng), 0);
	for (u32 g = 0; g < 4; g++) {
		assert_int_equal(eng->transport().region_read(vfio::region_bar0, 0x600 + 64 * g + 40, &after, 8), 0);
		assert_int_equal(after, before | 9);
	}
	assert_int_equal(eng->transport().region_read(vfio::region_bar0, 0x400 + 8, &now, sizeof(now)), 0);
	assert_int_equal(now, 0);
}

static void test_ids(void **)
{
	check_ids({0x0b25, 0x11fb, 0x1212}, {0x0b24, 0x0cfe, 0x1216}); /* the last two: IAA */
}

/* The state after an earlier user without a reset: queue 0 is enabled and has an error. */
static void enable_and_fail(vfio::device &dev)
{
	const u32 set[][2] = {{0x800, 16},
			      {0x800 + 4 * dsa::wq_word_mode, dsa::wq_dedicated | 1 << dsa::wq_priority_shift},
			      {0x800 + 4 * dsa::wq_word_limits, 20 | 6 << dsa::wq_batch_shift},
			      {0x600, 1},
			      {0x600 + 32, 1},
			      {dsa::off_cmd, u32(dsa::command::enable_device) << dsa::cmd_code_shift},
			      {dsa::off_cmd, u32(dsa::command::enable_wq) << dsa::cmd_code_shift}};

	assert_int_equal(vfio::config_bus_master(dev, true), 0);
	for (const auto &[reg, value] : set)
		assert_int_equal(dev.region_write(vfio::region_bar0, reg, &value, sizeof(value)), 0);
	make_error(dev, 0);
}

/* The driver resets the state of an earlier user, and a halt that only a function reset clears. */
static void test_takes_over_used_device(void **)
{
	std::unique_ptr<vfio::device> dev;
	std::unique_ptr<engine> eng;
	u32 state = 0;

	assert_int_equal(open_device(kind.plain, &dev), 0);
	enable_and_fail(*dev);
	assert_int_equal(probe(std::move(dev), &eng), 0);
	assert_int_equal(software_error(*eng), 0);
	vfio::device &at = eng->transport();
	assert_int_equal(vfio::config_bus_master(at, false), 0);
	assert_int_equal(at.region_read(vfio::region_bar0, 0x90, &state, 4), 0);
	assert_int_equal(state & 3, 3); /* halted */
	assert_int_equal(eng->reset(), 0);
	assert_int_equal(at.region_read(vfio::region_bar0, 0x90, &state, 4), 0);
	assert_int_equal(state & 3, 1);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_errors_of_the_device),
		cmocka_unit_test(test_stop_between_batches),
		cmocka_unit_test(test_stop_of_a_hung_batch),
		cmocka_unit_test(test_lost_record),
		cmocka_unit_test(test_late_record_of_a_batch),
		cmocka_unit_test(test_many_small_batches),
		cmocka_unit_test(test_command_times_out),
		cmocka_unit_test(test_portals_are_trapped),
		cmocka_unit_test(test_failed_start_disables),
		cmocka_unit_test(test_no_reset_of_a_disabled_queue),
		cmocka_unit_test(test_error_of_another_queue),
		cmocka_unit_test(test_error_of_no_request),
		cmocka_unit_test(test_operations_of_a_queue),
		cmocka_unit_test(test_relaxed_ordering_is_off),
		cmocka_unit_test(test_groups_and_permissions),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_takes_over_used_device),
	};

	return ring_main("dsa", tests);
}
