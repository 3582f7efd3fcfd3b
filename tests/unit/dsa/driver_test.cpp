/* SPDX-License-Identifier: BSD-3-Clause */
/* The DSA driver on the embedded model. */
#include "tests/unit/dma/ring_cases.h"

using namespace usdma;
using namespace usdma::dma;
using namespace usdma::test;

const ring_kind test::kind = {"sim:model=dsa", "sim:model=dsa:faults=", "dsa", 8, 10000, 4};

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
		{"fail@2", fault_reason::transfer, host}, /* the descriptor that stores the number */
	});
}

/* A stop waits for the batch: what it holds has run, and what follows has not. */
static void test_stop_between_batches(void **)
{
	ring_bench b(kind.faulty);
	fault f;

	memset(b.bytes, 1, 64);
	assert_int_equal(b.inject("slow@1/300000"), 0);
	const u64 seq = b.post(copy(4096, 0, 64));
	b.post(copy(8192, 0, 64));
	b.until_struck();
	assert_int_equal(b.ch->ops->stop(b.ch), 0);
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

/* The record of a failed batch is lost: the channel hangs, and a reset recovers it. */
static void test_lost_record(void **)
{
	ring_bench b(kind.faulty);
	fault f;

	assert_int_equal(b.inject("fail@1+drop-record@2"), 0);
	const u64 seq = b.post(copy(0, 4096, 64, 7));
	b.until_struck("drop-record@2 seen 2 struck 1");
	assert_int_equal(b.ch->ops->abort(b.ch), 0);
	assert_true(read_fault(b.ch, &f));
	assert_int_equal(f.reason, fault_reason::reset);
	assert_int_equal(f.seq, seq);
	assert_int_equal(f.cookie, 7);
	assert_int_equal(b.ch->ops->resume(b.ch), 0);
	b.run(copy(0, 4096, 64));
	/* Those of the descriptors alone: the batch says that there was an error. */
	assert_int_equal(b.inject("fail@1+drop-record@1"), 0);
	assert_int_equal(b.run_fault(copy(0, 4096, 64)).reason, fault_reason::transfer);
}

/* Each request waits for the one before, also across batches and the end of the ring. */
static void test_order(void **)
{
	ring_bench b(kind.plain, {.ring_size = 64, .first_seq = 50});

	for (unsigned round = 0; round < 20 * test::scale(); round++) {
		std::vector<request> list;

		b.bytes[0] = u8(round);
		for (u64 i = 0; i < 60; i++)
			list.push_back(copy((i + 1) * 4096, i * 4096, 4096));
		assert_int_equal(b.ch->ops->post(b.ch, list.data(), 60), 60);
		b.ch->ops->doorbell(b.ch);
		assert_true(b.await(b.ch->posted));
		assert_int_equal(b.bytes[60 * 4096], u8(round));
	}
}

/* More than batches have records, each with its own. */
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

static void test_ids(void **)
{
	check_ids({0x0b25, 0x11fb, 0x1212}, {0x0b24, 0x0cfe, 0x1216}); /* the last two: IAA */
}

/* Whatever an earlier user left: it is reset, also from the state that only a reset of the function leaves. */
static void test_takes_over(void **)
{
	std::unique_ptr<vfio::device> dev;
	std::unique_ptr<engine> eng;
	u32 state = 0;

	assert_int_equal(open_device(kind.plain, &dev), 0);
	assert_int_equal(probe(std::move(dev), &eng), 0);
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
		cmocka_unit_test(test_lost_record),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_many_small_batches),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_takes_over),
	};

	return ring_main("dsa", tests);
}
