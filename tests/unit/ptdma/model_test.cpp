/* SPDX-License-Identifier: BSD-3-Clause */
/* The registers of the PTDMA model, as Linux's driver uses them (driver/hw/ptdma_regs.h). */
#include "tests/unit/sim/model_bench.h"

#include "driver/hw/ptdma_regs.h"
#include "driver/vfio/capability.h"

using namespace usdma;
using namespace usdma::ptdma;
using namespace usdma::test;

static constexpr u64 ring_at = 0, data_at = MiB;
static constexpr const char *model = "sim:model=ptdma:faults=";

/* A bench that uses the queue as Linux does. */
struct bench : model_bench {
	explicit bench(u32 entries_ = ring_entries, u32 size_value_ = ring_size_value)
		: model_bench(model, vfio::region_bar2), entries(entries_), size_value(size_value_),
		  ring(reinterpret_cast<descriptor *>(bytes + ring_at))
	{
		start();
	}
	u32 read(u32 reg) { return get<u32>(reg); }
	void write(u32 reg, u32 value) { put(reg, value); }
	u32 address(u32 entry) const { return u32(iova + ring_at + entry % entries * sizeof(descriptor)); }
	u32 control() const { return u32(iova >> 32) << control_high_shift | size_value << control_size_shift; }
	/* pt_core_init */
	void start()
	{
		const u32 set[][2] = {
			{reg_config, config_vhb}, {reg_priority, priority_value}, {reg_timeout, timeout_value},
			{reg_clock, clock_value}, {reg_request, request_value},   {q_int_enable, 0},
			{q_control, 0},           {q_int_status, int_all},        {q_tail, address(0)},
			{q_head, address(0)},     {q_control, control()},         {q_int_enable, int_all}};

		for (const auto &[reg, value] : set)
			write(reg, value);
		next = 0;
	}
	static descriptor copy(u64 to, u64 from, u32 len)
	{
		const u64 src = iova + data_at + from, dst = iova + data_at + to;

		return {desc_copy, len, u32(src), u32(src >> 32), u32(dst), u32(dst >> 32), 0, 0};
	}
	void add(const descriptor &d)
	{
		ring[next % entries] = d;
		next++;
	}
	/* pt_core_execute_cmd */
	void run()
	{
		write(q_tail, address(next));
		write(q_control, control() | control_run);
	}
	/* pt_check_status_trans: how it ended; an error has its code above. */
	u32 wait()
	{
		const deadline end = deadline::in_ms(patience);
		u32 status = 0;

		while (!(status = read(q_int_status)))
			assert_false(end.passed());
		const u32 code = read(q_status);
		write(q_int_status, status);
		return status | (status & int_error ? code << 8 : 0);
	}
	u32 execute(const descriptor &d)
	{
		add(d);
		run();
		return wait();
	}
	/* pt_do_cmd_complete */
	void flush() { write(q_head, address(next)); }
	/* Nothing ran: the thread would have been quick enough, but for a busy machine. */
	void expect_nothing()
	{
		usleep(2000);
		assert_int_equal(read(q_int_status), 0);
	}

	const u32 entries, size_value;
	descriptor *const ring;
	u32 next = 0;
};

static constexpr u32 failed(u32 code)
{
	return int_error | code << 8;
}

static void test_identity(void **)
{
	bench b;
	u16 id;
	unsigned at = 0;

	assert_int_equal(vfio::config_read16(*b.dev, 0, &id), 0);
	assert_int_equal(id, 0x1022);
	assert_int_equal(vfio::config_read16(*b.dev, 2, &id), 0);
	assert_int_equal(id, 0x1498);
	assert_int_equal(b.vectors, 1);
	assert_int_equal(vfio::config_capability(*b.dev, 0x11, &at), 0);
	assert_int_not_equal(at, 0);
	assert_int_equal(b.read(reg_version) >> version_queues_shift, 1);
	assert_int_equal(b.dev->region_read(vfio::region_bar0, 0, &id, 2), -EINVAL);
	/* Other widths, and what is not there. */
	assert_true(b.get<u64>(q_head) == (u64(int_all) << 32 | b.address(0)));
	assert_int_equal(b.get<u8>(reg_config), config_vhb);
	b.put<u8>(reg_config, 0);
	assert_int_equal(b.read(reg_config), config_vhb);
	b.write(0x5000, 1);
	assert_int_equal(b.read(0x5000), 0);
}

/* As Linux does, polled and by interrupts, in rings of several sizes that wrap. */
static void test_copies(void **)
{
	static constexpr u32 sizes[][2] = {{ring_entries, ring_size_value}, {4, 1}, {2, 0}};
	auto gen = test::rng(1);

	for (const auto &[entries, value] : sizes) {
		bench b(entries, value);

		test::fill_random(b.bytes + data_at, 128 * KiB, gen);
		for (unsigned i = 0; i < 100; i++) {
			const u32 len = 1 + u32(gen() % (3 * MiB / 100)), from = u32(gen() % 1000), to = MiB + i;

			b.write(q_int_enable, i % 2 ? u32(int_all) : 0);
			if (i % 2) {
				b.add(b.copy(to, from, len));
				b.run();
				assert_int_equal(b.signals(0, true), 1);
				assert_int_equal(b.wait(), int_done);
			} else {
				assert_int_equal(b.execute(b.copy(to, from, len)), int_done);
				assert_int_equal(b.signals(0, false), 0);
			}
			assert_memory_equal(b.bytes + data_at + to, b.bytes + data_at + from, len);
			assert_int_equal(b.read(q_head), b.address(b.next));
		}
	}
}

/* The queue runs if RUN is written behind the tail, for each descriptor, and what Linux sets before is set. */
static void test_needs_run(void **)
{
	bench b;

	b.add(b.copy(4096, 0, 8));
	b.write(q_control, b.control() | control_run);
	assert_int_equal(b.read(q_control), b.control());
	b.write(q_tail, b.address(b.next));
	b.expect_nothing();
	b.run();
	assert_int_equal(b.wait(), int_done);
	assert_int_equal(b.read(q_control), b.control());
	b.add(b.copy(4096, 0, 8));
	b.write(q_tail, b.address(b.next));
	b.expect_nothing();
	b.write(reg_config, 0);
	b.run();
	b.expect_nothing();
	b.write(reg_config, config_vhb);
	b.run();
	assert_int_equal(b.wait(), int_done);
}

/* Those in front of one that fails run, and none behind it. */
static void test_stops_at_an_error(void **)
{
	bench b;
	u8 *const data = b.bytes + data_at;

	data[0] = 1;
	for (u32 round = 0; round < 2 * ring_entries; round++) {
		memset(data + 64, 0, 192);
		b.add(b.copy(64, 0, 1));
		b.add(b.copy(128, 0, 0));
		b.add(b.copy(192, 0, 1));
		b.run();
		const deadline end = deadline::in_ms(patience);
		while (!(b.read(q_int_status) & int_error))
			assert_false(end.passed());
		assert_int_equal(b.wait(), int_done | failed(error_length));
		assert_int_equal(b.read(q_status), 0);
		assert_int_equal(b.read(q_head), b.address(b.next - 2));
		assert_int_equal(b.read(q_control), b.control());
		assert_int_equal(data[64], 1);
		assert_int_equal(data[192], 0);
		/* It would run again. */
		b.run();
		assert_int_equal(b.wait(), failed(error_length));
		b.flush();
		assert_int_equal(b.execute(b.copy(65, 0, 1)), int_done);
		assert_int_equal(data[65], 1);
		assert_int_equal(data[192], 0);
	}
}

/* An error that is not acknowledged keeps the queue from running. */
static void test_unacknowledged_error(void **)
{
	bench b;
	const deadline end = deadline::in_ms(patience);

	b.add(b.copy(64, 0, 0));
	b.run();
	while (!b.read(q_int_status))
		assert_false(end.passed());
	b.flush();
	b.add(b.copy(64, 0, 8));
	b.run();
	usleep(2000);
	assert_int_equal(b.read(q_int_status), int_error);
	assert_int_equal(b.read(q_status), error_length);
	assert_int_equal(b.read(q_control), b.control());
	b.write(q_int_status, int_all);
	b.run();
	assert_int_equal(b.wait(), int_done);
}

static void test_bad_descriptors(void **)
{
	const descriptor good = bench::copy(4096, 0, 64);
	struct {
		descriptor d;
		u32 error;
	} cases[] = {{good, error_engine},
		     {good, error_function_reserved},
		     {good, error_function_reserved},
		     {good, error_length},
		     {good, error_memory_select},
		     {good, error_memory_select},
		     {good, error_read},
		     {good, error_write},
		     {good, error_function_reserved}};
	bench b;

	cases[0].d.control = (desc_copy & ~u32(desc_engine_mask)) | 0x200000;
	cases[1].d.control |= 1; /* DWORD0_SOC, which Linux does not leave set */
	cases[2].d.reserved = 1;
	cases[3].d.len = 0;
	cases[4].d.src_high |= 0x10000;
	cases[5].d.dst_high |= 0x20000;
	cases[6].d.src_high = 7;
	cases[7].d.dst_high = 7;
	cases[8].d.dst_high |= 1u << 31;
	for (const auto &c : cases) {
		assert_int_equal(b.execute(c.d), failed(c.error));
		b.flush();
		assert_int_equal(b.execute(good), int_done);
	}
	/* The end of the addresses. */
	descriptor last = good;
	last.dst_high = desc_high_mask;
	last.dst_low = ~u32(0) - 62;
	assert_int_equal(b.execute(last), failed(error_write));
	b.flush();
	/* The ring itself is elsewhere. */
	b.write(q_head, b.address(0) - 4096 * 1024);
	b.write(q_tail, b.address(1) - 4096 * 1024);
	b.write(q_control, b.control() | control_run);
	assert_int_equal(b.wait(), failed(error_fetch));
}

static void test_interrupts(void **)
{
	bench b;
	const deadline end = deadline::in_ms(patience);

	/* One message until it is acknowledged. */
	for (unsigned i = 0; i < 3; i++)
		b.add(b.copy(4096, 0, 8));
	b.run();
	while (b.read(q_head) != b.address(b.next))
		assert_false(end.passed());
	assert_int_equal(b.signals(0, true), 1);
	assert_int_equal(b.wait(), int_done);
	/* None for an error that is masked, nor when that is enabled. */
	b.write(q_int_enable, int_done);
	b.add(b.copy(64, 0, 0));
	b.run();
	while (!b.read(q_int_status))
		assert_false(end.passed());
	b.write(q_int_enable, int_all);
	usleep(2000);
	assert_int_equal(b.signals(0, false), 0);
	assert_int_equal(b.wait(), failed(error_length));
	b.flush();
	/* A descriptor without the request for it reports nothing. */
	descriptor silent = b.copy(8192, 0, 8);
	silent.control &= ~u32(desc_interrupt);
	b.add(silent);
	b.run();
	while (b.read(q_head) != b.address(b.next))
		assert_false(end.passed());
	b.expect_nothing();
	assert_int_equal(b.signals(0, false), 0);
	assert_int_equal(b.execute(b.copy(64, 0, 8)), int_done);
	assert_int_equal(b.signals(0, true), 1);
}

/* A function reset clears all registers, also of a queue that hangs; head is not moved while it does. */
static void test_reset(void **)
{
	bench b;
	const deadline end = deadline::in_ms(patience);

	assert_int_equal(b.dev->inject("hang@1"), 0);
	b.add(b.copy(4096, 0, 8));
	b.run();
	std::string hit;
	while (hit.find("struck 1") == hit.npos) {
		assert_false(end.passed());
		assert_int_equal(b.dev->injected(&hit), 0);
	}
	b.write(q_head, b.address(5));
	assert_int_equal(b.read(q_head), b.address(0));
	b.write(q_control, b.control());
	b.expect_nothing();
	assert_int_equal(b.dev->reset(), 0);
	static constexpr u32 cleared[] = {q_control, q_tail,     q_head,       q_int_enable, q_int_status,
					  q_status,  reg_config, reg_priority, reg_clock};
	for (u32 reg : cleared)
		assert_int_equal(b.read(reg), 0);
	assert_int_equal(vfio::config_bus_master(*b.dev, true), 0);
	b.start();
	assert_int_equal(b.execute(b.copy(4096, 0, 8)), int_done);
}

static void test_needs_bus_mastering(void **)
{
	bench b;

	assert_int_equal(vfio::config_bus_master(*b.dev, false), 0);
	assert_int_equal(b.execute(b.copy(4096, 0, 8)), failed(error_fetch));
	assert_int_equal(b.signals(0, false), 0);
	assert_int_equal(vfio::config_bus_master(*b.dev, true), 0);
	b.flush();
	assert_int_equal(b.execute(b.copy(4096, 0, 8)), int_done);
}

/* Faults on demand: each has the code that a driver knows, or is a mistake that it should notice. */
static void test_injected_faults(void **)
{
	static constexpr struct {
		const char *rule;
		u32 status;
	} cases[] = {{"fail@1", failed(error_parity)},
		     {"fail@1/src-unmapped", failed(error_read)},
		     {"fail@1/dst-denied", failed(error_write)},
		     {"fail@1/bad-length", failed(error_length)},
		     {"fail@1/bad-op", failed(error_engine)},
		     {"fail@1+wrong@1/error", int_done},
		     {"wrong@1/length", int_done},
		     {"wrong@1/early", int_done}};
	bench b;
	u8 *const data = b.bytes + data_at;

	memset(data, 1, 8);
	for (const auto &c : cases) {
		memset(data + 64, 0, 8);
		assert_int_equal(b.dev->inject(c.rule), 0);
		assert_int_equal(b.execute(b.copy(64, 0, 8)), c.status);
		/* None of them has copied all. */
		assert_int_equal(data[71], 0);
		if (c.status != int_done)
			b.flush();
	}
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_needs_run),
		cmocka_unit_test(test_stops_at_an_error),
		cmocka_unit_test(test_unacknowledged_error),
		cmocka_unit_test(test_bad_descriptors),
		cmocka_unit_test(test_interrupts),
		cmocka_unit_test(test_reset),
		cmocka_unit_test(test_needs_bus_mastering),
		cmocka_unit_test(test_injected_faults),
	};

	return cmocka_run_group_tests_name("ptdma-model", tests, nullptr, nullptr);
}
