/* SPDX-License-Identifier: BSD-3-Clause */
/* The I/OAT driver on the embedded model. */
#include "tests/unit/dma/forwarding_device.h"
#include "tests/unit/dma/ring_cases.h"
#include "tests/support/dropping.h"

#include "driver/hw/ioat_regs.h"

using namespace usdma;
using namespace usdma::dma;
using namespace usdma::test;

/* DMACOUNT has 16 bits: seventy times 1024 pass it. */
static constexpr doorbell_register doorbells[] = {{vfio::region_bar0, ioat::chan_base(0) + ioat::chan_dmacount, 2}};
const ring_kind test::kind = {.plain = "sim:model=ioat:channels=4",
			      .faulty = "sim:model=ioat:channels=4:faults=",
			      .driver = "ioat",
			      .channels = 4,
			      .slow_us = 50000,
			      .long_rounds = 70,
			      .doorbells = doorbells,
			      .stride = 25,
			      .harmless = 8};

static void test_limits(void **)
{
	check_limits("sim:model=ioat", MiB, 1, 1);
	check_limits("sim:model=ioat-3.3:channels=4", MiB, 4, 1);
}

static void test_errors_of_the_device(void **)
{
	check_device_errors({
		{"fail@1", fault_reason::transfer, host},
		{"fail@1/src-unmapped", fault_reason::transfer, host + 4096},
		{"fail@1/dst-denied", fault_reason::transfer, host},
		{"fail@1/bad-length", fault_reason::bad_length, host},
	});
}

static void test_stops(void **)
{
	check_stop_inside_a_request(kind.faulty);
	check_stop_of_a_halted_channel(kind.faulty);
}

/* The device does not write of its halt, or raises no interrupt for it: the register is read all the same. */
static void test_lost_report_of_a_halt(void **)
{
	const test::dropping_interrupts scope;

	for (const char *rules : {"drop-record@1+fail@1", "drop-record@1+drop-irq%1+fail@1"}) {
		ring_bench b(kind.faulty);

		assert_int_equal(b.inject(rules), 0);
		assert_int_equal(b.run_fault(copy(0, 4096, 64)).reason, fault_reason::transfer);
		assert_int_equal(b.inject(""), 0);
		b.run(copy(0, 4096, 64));
	}
}

/* The reset of a channel loses its vector, which is set again: interrupts are raised after it. */
static void test_vector_is_lost_by_a_reset(void **)
{
	ring_bench b("sim:model=ioat-3.3:faults=wrong%1/vector+drop-irq@1000000");
	std::string said;

	for (unsigned i = 0; i < 3; i++)
		b.run(copy(0, 4096, 64));
	assert_int_equal(b.run_fault(copy(host_bytes, 0, 8)).reason, fault_reason::dst_unmapped);
	b.run(copy(0, 4096, 64));
	assert_int_equal(b.eng->transport().injected(&said), 0);
	assert_null(strstr(said.c_str(), "vector seen 0"));
	assert_null(strstr(said.c_str(), "drop-irq@1000000 seen 0"));
}

/* The model runs no more than two without a fence in another order: all have one. */
static void test_descriptors_have_fences(void **)
{
	auto dev = std::make_unique<forwarding_device>("sim:model=ioat");
	const vfio::dma_area &ring = dev->last_map;
	ring_bench b(std::move(dev));
	u64 at = 0;

	b.run(copy(0, 4096, 64));
	b.run({.op = opcode::nop});
	assert_int_equal(b.eng->transport().region_read(vfio::region_bar0, ioat::chan_base(0) + ioat::chan_chainaddr,
							&at, sizeof(at)),
			 0);
	auto *const d = reinterpret_cast<const ioat::descriptor *>(static_cast<u8 *>(ring.vaddr) + (at - ring.iova));
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(d[i].control & (ioat::desc_fence | ioat::desc_completion),
				 ioat::desc_fence | ioat::desc_completion);
}

static void test_relaxed_ordering_is_off(void **)
{
	check_relaxed_ordering_is_off();
}

/* All ids of the table, and no others. */
static void test_ids(void **)
{
	check_ids({0x3c20, 0x3c2f, 0x0e27, 0x2f2e, 0x6f20, 0x6f2f, 0x6f50, 0x6f53, 0x0c50, 0x0c53, 0x2021, 0x0b00},
		  {0x3c1f, 0x3c30, 0x3c28, 0x6f2c, 0x6f54, 0x0c54, 0x2020});
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_errors_of_the_device),
		cmocka_unit_test(test_stops),
		cmocka_unit_test(test_lost_report_of_a_halt),
		cmocka_unit_test(test_vector_is_lost_by_a_reset),
		cmocka_unit_test(test_descriptors_have_fences),
		cmocka_unit_test(test_relaxed_ordering_is_off),
		cmocka_unit_test(test_ids),
	};

	return ring_main("ioat", tests);
}
