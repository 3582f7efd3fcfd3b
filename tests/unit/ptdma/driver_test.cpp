/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver of PTDMA on the embedded model: the cases of any engine (tests/unit/dma), and its own. */
#include "tests/unit/dma/ring_cases.h"

#include "driver/hw/ptdma_regs.h"

using namespace usdma;
using namespace usdma::dma;
using namespace usdma::test;

/* No case with a mapped BAR: memory instead of registers would read as what was written to acknowledge. */
const ring_kind test::kind = {.plain = "sim:model=ptdma",
			      .faulty = "sim:model=ptdma:faults=",
			      .driver = "ptdma",
			      .channels = ptdma::queue_count,
			      .slow_us = 50000,
			      .long_rounds = 3,
			      .vendor = ptdma::pci_vendor,
			      .ops = op_bit(opcode::nop) | op_bit(opcode::copy),
			      .stride = 25,
			      .harmless = 5};

static void test_limits(void **)
{
	check_limits(kind.plain, ptdma::max_bytes, ptdma::queue_count, 1);
}

/* The others are AMD's, and have drivers of their own (Linux, drivers/crypto/ccp/sp-pci.c). */
static void test_ids(void **)
{
	check_ids({ptdma::pci_device}, {0x1456, 0x1468, 0x1486});
}

/* Each kind of error that the device has. */
static void test_errors_of_the_device(void **)
{
	check_device_errors({
		{"fail@1", fault_reason::transfer, host},
		{"fail@1/src-unmapped", fault_reason::transfer, host + 4096},
		{"fail@1/dst-denied", fault_reason::transfer, host},
		{"fail@1/bad-length", fault_reason::bad_length, host},
		{"fail@1/bad-op", fault_reason::bad_op, host},
	});
}

static void test_stops(void **)
{
	check_stop_inside_a_request(kind.faulty);
}

static u32 read_register(vfio::device &dev, u32 at)
{
	u32 value = ~0u;

	assert_int_equal(dev.region_read(vfio::region_bar2, at, &value, sizeof(value)), 0);
	return value;
}

/* What Linux writes (pt_core_init), also after a reset of the function, which loses it. */
static void test_settings_of_the_device(void **)
{
	ring_bench b(kind.faulty);

	for (unsigned round = 0; round < 2; round++) {
		vfio::device &dev = b.eng->transport();

		assert_int_equal(read_register(dev, ptdma::reg_config), ptdma::config_vhb);
		assert_int_equal(read_register(dev, ptdma::reg_priority), ptdma::priority_value);
		assert_int_equal(read_register(dev, ptdma::reg_timeout), ptdma::timeout_value);
		assert_int_equal(read_register(dev, ptdma::reg_clock), ptdma::clock_value);
		assert_int_equal(read_register(dev, ptdma::reg_request), ptdma::request_value);
		assert_int_equal(b.eng->reset(), 0);
		assert_int_equal(b.ch->ops->restart(b.ch), 0);
		b.run(copy(0, 4096, 64));
	}
}

/* The ring of the hardware wraps many times, with and without a failure at each of its entries. */
static void test_failures_at_each_entry(void **)
{
	ring_bench b(kind.plain, {.ring_size = 64});

	for (u64 i = 0; i < 5 * ptdma::ring_entries; i++) {
		b.bytes[4096] = u8(i + 1);
		if (i % 3 == 0)
			assert_int_equal(b.run_fault(copy(0, host_bytes, 8)).reason, fault_reason::src_unmapped);
		b.run(copy(0, 4096, 8));
		assert_int_equal(b.bytes[0], u8(i + 1));
	}
}

/* Many are posted, and one is in flight at a time: none runs behind one that has failed. */
static void test_one_in_flight(void **)
{
	ring_bench b(kind.plain, {.ring_size = 64});
	request list[40];

	for (u64 i = 0; i < 40; i++)
		list[i] = copy(i * 8, i == 20 ? host_bytes : 4096, 8);
	b.bytes[4096] = 1;
	assert_int_equal(b.ch->ops->post(b.ch, list, 40), 40);
	b.ch->ops->doorbell(b.ch);
	b.until_halted();
	assert_int_equal(completed(b.ch), 20);
	for (u64 i = 0; i < 40; i++)
		assert_int_equal(b.bytes[i * 8], i < 20);
	/* What is behind it may have been overwritten by its owner meanwhile: it is read when it runs. */
	b.bytes[4096] = 2;
	assert_int_equal(b.ch->ops->resume(b.ch), 0);
	assert_true(b.await(b.ch->posted));
	for (u64 i = 21; i < 40; i++)
		assert_int_equal(b.bytes[i * 8], 2);
}

/* A list runs to its end though no one waits or polls. */
static void test_list_without_a_waiter(void **)
{
	ring_bench b(kind.plain, {.ring_size = 128});
	const std::vector<request> list(100, copy(0, 4096, 8));
	auto *const last = reinterpret_cast<u64 *>(b.bytes + 8192), *const word = reinterpret_cast<u64 *>(b.bytes +
													  4096);

	for (*word = 1; *word <= 5; ++*word) {
		const deadline until = deadline::in_ms(patience);

		assert_int_equal(b.ch->ops->post(b.ch, list.data(), 100), 100);
		b.post(copy(8192, 4096, 8));
		for (; load_acquire(last) != *word; sched_yield())
			assert_false(until.passed());
		assert_true(b.await(b.ch->posted));
	}
}

/* What passes the end of the device's addresses is the driver's. */
static void test_copy_across_48_bits(void **)
{
	ring_bench b;
	mapping more(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 8192);
	const u64 low = (u64(1) << ptdma::address_bits) - 4096;

	assert_int_equal(b.eng->map({.iova = low, .size = 8192, .vaddr = more.data()}), 0);
	memset(more.data(), 1, 8192);
	b.run({.op = opcode::copy, .src = low + 4064, .dst = host, .len = 64});
	assert_memory_equal(b.bytes, more.data(), 64);
	memset(b.bytes, 2, 64);
	b.run({.op = opcode::copy, .src = host, .dst = low + 4064, .len = 64});
	assert_memory_equal(b.bytes, more.data() + 4064, 64);
	/* Up to that end it is the device's. */
	b.run({.op = opcode::copy, .src = low, .dst = low + 4032, .len = 64});
	assert_memory_equal(more.data() + 4032, more.data(), 64);
	assert_int_equal(b.eng->unmap(low, 8192), 0);
}

static void test_relaxed_ordering_is_off(void **)
{
	check_relaxed_ordering_is_off();
}

int main()
{
	static constexpr CMUnitTest own[] = {
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_errors_of_the_device),
		cmocka_unit_test(test_stops),
		cmocka_unit_test(test_settings_of_the_device),
		cmocka_unit_test(test_failures_at_each_entry),
		cmocka_unit_test(test_one_in_flight),
		cmocka_unit_test(test_list_without_a_waiter),
		cmocka_unit_test(test_copy_across_48_bits),
		cmocka_unit_test(test_relaxed_ordering_is_off),
	};

	return ring_main("ptdma", own);
}
