/* SPDX-License-Identifier: BSD-3-Clause */
/* The DSA model: the operations of descriptors, and their errors. */
#include "tests/unit/dsa/model_bench.h"

#include <linux/idxd.h>

using namespace usdma;
using namespace usdma::test;

/* The kernel's structures and those of the register map are the same. */
static_assert(sizeof(dsa_hw_desc) == sizeof(work) && sizeof(dsa_completion_record) == sizeof(completion));
static_assert(offsetof(dsa_hw_desc, completion_addr) == offsetof(work, record));
static_assert(offsetof(dsa_hw_desc, src_addr) == offsetof(work, src));
static_assert(offsetof(dsa_hw_desc, dst_addr) == offsetof(work, dst));
static_assert(offsetof(dsa_hw_desc, xfer_size) == offsetof(work, size));
static_assert(offsetof(dsa_hw_desc, int_handle) == offsetof(work, handle));
static_assert(offsetof(dsa_hw_desc, dest2) == offsetof(work, more));
static_assert(offsetof(dsa_completion_record, fault_addr) == offsetof(completion, address));
static_assert(offsetof(dsa_completion_record, bytes_completed) == offsetof(completion, bytes));
static_assert(offsetof(dsa_completion_record, crc_val) == offsetof(completion, detail));
static_assert(int(DSA_OPCODE_MEMMOVE) == int(operation::move) &&
	      int(DSA_OPCODE_COMPVAL) == int(operation::compare_pattern));
static_assert(int(DSA_OPCODE_DUALCAST) == int(operation::dualcast) &&
	      int(DSA_OPCODE_COPY_CRC) == int(operation::copy_crc));
static_assert(int(DSA_COMP_BATCH_FAIL) == int(status::batch_failed) && int(DSA_COMP_HW_ERR1) == int(status::hardware));
static_assert(int(DSA_COMP_INT_HANDLE_INVAL) == int(status::handle) &&
	      int(DSA_COMP_CRA_ALIGN) == int(status::record_alignment));
static_assert(int(DSA_COMP_DESC_CNT_ERANGE) == int(status::count) &&
	      int(DSA_COMP_OVERLAP_BUFFERS) == int(status::overlap));
static_assert(u32(IDXD_OP_FLAG_RCI) == flag_interrupt && u32(IDXD_OP_FLAG_CRAV) == flag_record &&
	      u32(IDXD_OP_FLAG_CC) == flag_cache1);

static void test_moves_and_fills(void **)
{
	dsa_bench b;
	auto gen = test::rng(1);
	u8 *data = b.bytes + data_at;

	b.start();
	test::fill_random(data, 256 * KiB, gen);
	assert_int_equal(b.status_of(b.make(operation::move, b.data(1), b.data(MiB + 5), 200001)), status::success);
	assert_memory_equal(data + MiB + 5, data + 1, 200001);
	/* Overlapping, in both directions, and larger than a piece. */
	for (u64 to : {3, 70001}) {
		std::vector<u8> want(data + 5000, data + 5000 + 150000);

		assert_int_equal(b.status_of(b.make(operation::move, b.data(5000), b.data(to), 150000)),
				 status::success);
		assert_memory_equal(data + to, want.data(), want.size());
	}
	const u64 pattern = 0xfedcba9876543210;
	data[MiB + 1 + 100003] = 0x77;
	assert_int_equal(b.status_of(b.make(operation::fill, pattern, b.data(MiB + 1), 100003)), status::success);
	for (u64 i = 0; i < 100003; i++)
		assert_int_equal(data[MiB + 1 + i], u8(pattern >> 8 * (i % 8)));
	assert_int_equal(data[MiB + 1 + 100003], 0x77);
	assert_int_equal(b.status_of(b.make(operation::noop, 0, 0, 0)), status::success);
	assert_int_equal(b.status_of(b.make(operation::drain, 0, 0, 0)), status::success);
	/* A success without a request writes no record. Only a drain completes behind it. */
	memset(b.records, 0, 64);
	assert_int_equal(b.submit(b.make(operation::move, b.data(0), b.data(MiB), 64, flag_record)), 0);
	assert_int_equal(b.submit(b.make(operation::drain, 0, 0, 0, with_record, 1)), 0);
	b.await(1);
	assert_int_equal(b.records[0].status, 0);
	assert_memory_equal(data + MiB, data, 64);
}

static void test_compare_and_dualcast(void **)
{
	dsa_bench b;
	u8 *data = b.bytes + data_at;
	completion c;

	b.start();
	memset(data, 0x5a, 300 * KiB);
	work w = b.make(operation::compare, b.data(0), b.data(150 * KiB), 100000);
	c = b.result(w);
	assert_int_equal(c.status, status::success);
	assert_int_equal(c.result, 0);
	data[150 * KiB + 77777] ^= 1;
	c = b.result(w);
	assert_int_equal(c.status, status::success);
	assert_int_equal(c.result, 1);
	assert_int_equal(c.bytes, 77777);
	/* With flag_check, success depends on the expected result. */
	w.flags_operation |= flag_check;
	assert_int_equal(b.status_of(w), status::false_predicate);
	w.more[0] = 1;
	assert_int_equal(b.status_of(w), status::success);
	w = b.make(operation::compare_pattern, b.data(3), 0x5a5a5a5a5a5a5a5a, 70000, with_record | flag_check);
	assert_int_equal(b.status_of(w), status::success);
	w.dst ^= u64(1) << 16;
	c = b.result(w);
	assert_int_equal(c.status, status::false_predicate);
	assert_int_equal(c.bytes, 2);
	/* A result needs a record. */
	w.flags_operation &= ~u32(flag_record_always);
	c = b.result(w);
	assert_int_equal(c.status, status::flags);
	assert_int_equal(c.detail, flag_record_always);
	w = b.make(operation::dualcast, b.data(0), b.data(MiB), 100000);
	w.more[0] = b.data(2 * MiB);
	assert_int_equal(b.status_of(w), status::success);
	assert_memory_equal(data + MiB, data, 100000);
	assert_memory_equal(data + 2 * MiB, data, 100000);
	w.more[0] += 8;
	assert_int_equal(b.status_of(w), status::dualcast);
	w.more[0] = b.data(MiB + 4096);
	assert_int_equal(b.status_of(w), status::overlap);
}

/* Bit by bit, from the definition; the model has another algorithm. */
static u32 crc32c(const u8 *p, u64 n, u32 seed)
{
	u32 value = ~seed;

	for (u64 i = 0; i < n; i++)
		for (unsigned bit = 0; bit < 8; bit++) {
			const u32 out = (value ^ p[i] >> bit) & 1;

			value = value >> 1 ^ (out ? 0x82f63b78 : 0);
		}
	return ~value;
}

static void test_crc(void **)
{
	dsa_bench b;
	auto gen = test::rng(3);
	u8 *data = b.bytes + data_at;

	b.start();
	/* RFC 3720, B.4: 32 bytes of zeros, and of ones. */
	memset(data, 0, 32);
	assert_int_equal(b.result(b.make(operation::crc, b.data(0), 0, 32)).detail, 0x8a9136aa);
	memset(data, 0xff, 32);
	assert_int_equal(b.result(b.make(operation::crc, b.data(0), 0, 32)).detail, 0x62a8ab43);
	test::fill_random(data, 200000, gen);
	work w = b.make(operation::copy_crc, b.data(1), b.data(MiB), 150001);
	assert_int_equal(b.result(w).detail, crc32c(data + 1, 150001, 0));
	assert_memory_equal(data + MiB, data + 1, 150001);
	w.dst = b.data(7);
	assert_int_equal(b.status_of(w), status::overlap);
	/* Continued: the result is the next seed, in the descriptor or in memory. */
	const u32 first = crc32c(data, 1000, 0);
	w = b.make(operation::crc, b.data(1000), 0, 5000);
	w.more[0] = first;
	assert_int_equal(b.result(w).detail, crc32c(data, 6000, 0));
	memcpy(b.bytes + records_at + 4096, &first, 4);
	w.more[0] = 0;
	w.more[1] = iova + records_at + 4096;
	assert_int_equal(b.status_of(w), status::reserved);
	w.flags_operation |= flag_crc_seed_memory;
	assert_int_equal(b.result(w).detail, crc32c(data, 6000, 0));
	w.more[1] += 2;
	assert_int_equal(b.status_of(w), status::alignment);
	/* With all bits reversed. */
	w = b.make(operation::crc, b.data(0), 0, 4, with_record | flag_crc_raw | flag_crc_data_msb);
	memset(data, 0, 4);
	data[3] = 1;
	assert_int_equal(b.result(w).detail, 0x1edc6f41);
}

static void test_batches(void **)
{
	dsa_bench b;
	u8 *data = b.bytes + data_at;
	completion c;

	b.start();
	memset(data, 0x33, 4096);
	for (u32 i = 0; i < 200; i++)
		b.list[i] = b.make(operation::move, b.data(i), b.data(MiB + i * 16), 16, flag_record, 10 + i);
	const work batch = b.make(operation::batch, iova + list_at, 0, 200);
	c = b.result(batch);
	assert_int_equal(c.status, status::success);
	assert_int_equal(c.bytes, 200);
	for (u32 i = 0; i < 200 * 16; i++)
		assert_int_equal(data[MiB + i], 0x33);
	/* After a failed descriptor the others run, until a fence. */
	memset(data + MiB, 0, 4096);
	b.list[50].src = 0x5000;
	c = b.result(batch);
	assert_int_equal(c.status, status::batch_failed);
	assert_int_equal(c.bytes, 200);
	assert_int_equal(b.records[60].status, status::page_fault);
	assert_int_equal(b.records[60].address, 0x5000);
	assert_int_equal(data[MiB + 199 * 16], 0x33);
	assert_int_equal(data[MiB + 50 * 16], 0);
	memset(data + MiB, 0, 4096);
	b.list[100].flags_operation |= flag_fence;
	c = b.result(batch);
	assert_int_equal(c.status, status::batch_failed);
	assert_int_equal(c.bytes, 100);
	assert_int_equal(data[MiB + 99 * 16], 0x33);
	assert_int_equal(data[MiB + 100 * 16], 0);
	/* An unexpected result is a failure, too. */
	b.list[50] = b.make(operation::compare_pattern, b.data(0), 0, 8, with_record | flag_check, 60);
	c = b.result(batch);
	assert_int_equal(c.bytes, 100);
	assert_int_equal(b.records[60].status, status::false_predicate);
	/* Invalid batches, and operations invalid in a batch. */
	assert_int_equal(b.status_of(b.make(operation::batch, iova + list_at, 0, 1)), status::count);
	assert_int_equal(b.status_of(b.make(operation::batch, iova + list_at, 0, 257)), status::count);
	assert_int_equal(b.status_of(b.make(operation::batch, iova + list_at + 32, 0, 2)), status::list_alignment);
	for (operation op : {operation::batch, operation::drain}) {
		b.list[0] = b.make(op, 0, 0, 0, with_record, 1);
		memset(b.records, 0, 128);
		c = b.result(b.make(operation::batch, iova + list_at, 0, 2));
		assert_int_equal(c.status, status::batch_failed);
		assert_int_equal(b.records[1].status, status::operation);
	}
	b.list[0] = b.make(operation::noop, 0, 0, 0, 0);
	memcpy(b.bytes + size - 64, b.list, 64);
	c = b.result(b.make(operation::batch, iova + size - 64, 0, 2));
	assert_int_equal(c.status, status::batch_page_fault);
	assert_int_equal(c.bytes, 1);
	assert_int_equal(c.address, iova + size);
}

static void test_bad_descriptors(void **)
{
	dsa_bench b;
	const u64 good = b.data(0);
	completion c;

	b.start();
	assert_int_equal(b.status_of(b.make(operation(7), good, good, 64)), status::operation);
	assert_int_equal(b.status_of(b.make(operation(0xff), good, good, 64)), status::operation);
	for (u32 flag :
	     {u32(flag_fence), u32(flag_block_on_fault), 1u << 5, 1u << 6, u32(flag_check), 1u << 15, 1u << 23}) {
		c = b.result(b.make(operation::move, good, good + 4096, 64, with_record | flag));
		assert_int_equal(c.status, status::flags);
		assert_int_equal(c.detail, flag);
	}
	work w = b.make(operation::move, good, good + 4096, 64);
	w.more[2] = u64(1) << 63;
	assert_int_equal(b.status_of(w), status::reserved);
	w = b.make(operation::move, good, good + 4096, 64);
	w.handle = 1; /* without a request */
	assert_int_equal(b.status_of(w), status::reserved);
	assert_int_equal(b.status_of(b.make(operation::move, good, good + 4096, 0)), status::size);
	assert_int_equal(b.status_of(b.make(operation::move, good, good + 4096, MiB + 1)), status::size);
	assert_int_equal(b.status_of(b.make(operation::drain, 0, 0, 0, flag_record)), status::flags);
	/* Trusted fields are ignored in a dedicated queue. */
	w = b.make(operation::move, good, good + 4096, 64);
	w.pasid = 0x80012345;
	assert_int_equal(b.status_of(w), status::success);
	assert_int_equal(b.error_code(), 0);
}

/* A fault reports the bytes completed and the address. */
static void test_page_faults(void **)
{
	dsa_bench b("sim:model=dsa-2");
	const u64 end = iova + size;
	completion c;

	b.start();
	c = b.result(b.make(operation::move, 0, b.data(0), 64));
	assert_int_equal(c.status, status::page_fault);
	assert_int_equal(c.bytes, 0);
	assert_int_equal(c.address, 0);
	assert_int_equal(c.fault_info, 1 << 1);
	memset(b.bytes + size - 70000, 0x21, 70000);
	c = b.result(b.make(operation::move, end - 70000, b.data(0), 100000));
	assert_int_equal(c.status, status::page_fault);
	assert_int_equal(c.bytes, 70000);
	assert_int_equal(c.address, end);
	assert_memory_equal(b.bytes + data_at, b.bytes + size - 70000, 70000);
	c = b.result(b.make(operation::fill, 7, end - 8, 64));
	assert_int_equal(c.status, u8(status::page_fault) | status_write);
	assert_int_equal(c.bytes, 8);
	assert_int_equal(c.address, end);
	assert_int_equal(c.fault_info, 3 << 1);
	/* The direction of an overlapping copy. */
	c = b.result(b.make(operation::move, end - 8192, end - 4096, 8192));
	assert_int_equal(c.status, u8(status::page_fault) | status_write);
	assert_int_equal(c.result, 1);
	assert_int_equal(c.bytes, 0);
	/* Missing access rights are a fault. */
	void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(b.dev->dma_map({.iova = 0x7000, .size = 4096, .vaddr = page, .prot = vfio::dma_read}), 0);
	assert_int_equal(b.status_of(b.make(operation::move, 0x7000, b.data(0), 64)), status::success);
	assert_int_equal(b.status_of(b.make(operation::move, b.data(0), 0x7000, 64)),
			 u8(status::page_fault) | status_write);
	assert_int_equal(b.dev->dma_unmap(0x7000, 4096), 0);
	munmap(page, 4096);
	/* A fault without a record, or of the record itself, is reported in SWERROR. */
	assert_int_equal(b.submit(b.make(operation::move, 0x5000, b.data(0), 64, 0)), 0);
	b.drain();
	assert_int_equal(b.error_code(), status::page_fault);
	const u64 first = b.get<u64>(off_swerror);
	assert_true(first & swerr_has_descriptor && first & swerr_has_wq && !(first & (swerr_in_batch | swerr_write)));
	assert_int_equal(first >> swerr_op_shift & 0xff, operation::move);
	assert_int_equal(b.get<u64>(off_swerror + 16), 0x5000);
	work w = b.make(operation::noop, 0, 0, 0);
	w.record = 0x6000;
	assert_int_equal(b.submit(w), 0);
	b.drain();
	assert_true(b.get<u64>(off_swerror) & swerr_overflow);
	b.clear_error();
	assert_int_equal(b.submit(w), 0);
	b.drain();
	assert_int_equal(b.error_code(), status::record_fault);
	assert_int_equal(b.get<u64>(off_swerror + 16), 0x6000);
	b.clear_error();
	w.record = b.record_of(0) + 8;
	assert_int_equal(b.submit(w), 0);
	b.drain();
	assert_int_equal(b.error_code(), status::record_alignment);
}

/* The record is unmapped while the descriptor runs: only SWERROR reports it. Tries again if the unmap is too late. */
static void test_record_is_unmapped(void **)
{
	dsa_bench b;
	static constexpr u64 at = 0x7000;
	void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	work w = b.make(operation::move, b.data(0), b.data(4096), 64);
	const deadline end = deadline::in_ms(patience);

	b.start();
	w.record = at;
	do {
		std::string hit;

		assert_false(end.passed());
		assert_int_equal(b.dev->dma_map({.iova = at, .size = 4096, .vaddr = page}), 0);
		assert_int_equal(b.dev->inject("slow@1/300000"), 0);
		assert_int_equal(b.submit(w), 0);
		while (hit.find("struck 1") == hit.npos)
			assert_int_equal(b.dev->injected(&hit), 0);
		assert_int_equal(b.dev->dma_unmap(at, 4096), 0);
		b.drain();
	} while (!b.error_code());
	assert_int_equal(b.error_code(), status::record_fault);
	assert_true(b.get<u64>(off_swerror) & swerr_write);
	assert_int_equal(b.get<u64>(off_swerror + 16), at);
	munmap(page, 4096);
}

/* The descriptor waits for its page, for as long as a page request may take. */
static void test_block_on_fault(void **)
{
	dsa_bench b;
	const u16 on = 1;
	void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_int_equal(b.dev->region_write(vfio::region_config, 0x114, &on, sizeof(on)), 0);
	b.start(wq_dedicated | wq_block_on_fault);
	work w = b.make(operation::move, 0x5000, b.data(0), 64, with_record | flag_block_on_fault);
	completion c = b.result(w);
	assert_int_equal(c.status, status::page_fault_blocked);
	assert_int_equal(c.address, 0x5000);
	assert_int_equal(b.status_of(b.make(operation::move, 0x5000, b.data(0), 64)), status::page_fault);
	memset(page, 0x42, 4096);
	for (unsigned i = 0; i < 20; i++) { /* the mapping may come late on a busy machine */
		memset(b.records, 0, 32);
		assert_int_equal(b.submit(w), 0);
		assert_int_equal(b.dev->dma_map({.iova = 0x5000, .size = 4096, .vaddr = page}), 0);
		c = b.await();
		assert_int_equal(b.dev->dma_unmap(0x5000, 4096), 0);
		if (c.status == u8(status::success))
			break;
	}
	assert_int_equal(c.status, status::success);
	assert_int_equal(b.bytes[data_at], 0x42);
	munmap(page, 4096);
}

static void test_injected_errors(void **)
{
	dsa_bench b;
	const work w = b.make(operation::move, b.data(0), b.data(4096), 64);

	b.start();
	assert_int_equal(b.dev->inject("fail@1+fail@2/src-unmapped+fail@3/dst-denied+fail@4/bad-length"), 0);
	assert_int_equal(b.status_of(w), status::hardware);
	assert_int_equal(b.status_of(w), status::page_fault);
	completion c = b.result(w);
	assert_int_equal(c.status, u8(status::page_fault) | status_write);
	assert_int_equal(c.address, b.data(4096));
	assert_int_equal(b.status_of(w), status::size);
	assert_int_equal(b.status_of(w), status::success);
	/* Errors of the model, which foreign drivers must detect. */
	memset(b.bytes + data_at, 0x11, 64);
	memset(b.bytes + data_at + 4096, 0, 64);
	assert_int_equal(b.dev->inject("wrong@1/length"), 0);
	assert_int_equal(b.status_of(w), status::success);
	assert_int_equal(b.bytes[data_at + 4096 + 62], 0x11);
	assert_int_equal(b.bytes[data_at + 4096 + 63], 0);
	assert_int_equal(b.dev->inject("wrong@1/error"), 0);
	assert_int_equal(b.status_of(b.make(operation::move, 0x5000, b.data(0), 64)), status::success);
	assert_int_equal(b.dev->inject("wrong@1/completion"), 0);
	memset(b.records, 0, 64);
	assert_int_equal(b.submit(w), 0);
	b.await(1);
	assert_int_equal(b.records[0].status, 0);
	assert_int_equal(b.dev->inject("wrong@1/early"), 0);
	memset(b.bytes + data_at + 4096, 0, 64);
	assert_int_equal(b.status_of(w), status::success);
	assert_int_equal(load_relaxed(b.bytes + data_at + 4096), 0);
	b.drain();
	assert_int_equal(b.bytes[data_at + 4096], 0x11);
	assert_int_equal(b.dev->inject("drop-record@1"), 0);
	memset(b.records, 0, 64);
	assert_int_equal(b.submit(w), 0);
	b.drain();
	assert_int_equal(b.records[0].status, 0);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_moves_and_fills),
		cmocka_unit_test(test_compare_and_dualcast),
		cmocka_unit_test(test_crc),
		cmocka_unit_test(test_batches),
		cmocka_unit_test(test_bad_descriptors),
		cmocka_unit_test(test_page_faults),
		cmocka_unit_test(test_record_is_unmapped),
		cmocka_unit_test(test_block_on_fault),
		cmocka_unit_test(test_injected_errors),
	};

	return cmocka_run_group_tests_name("dsa-operations", tests, nullptr, nullptr);
}
