/* SPDX-License-Identifier: BSD-3-Clause */
/* The DSA model by its registers and portals, as drivers of others use them (driver/hw/dsa_regs.h has the sources). */
#include "tests/support/test.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/unique_fd.h"
#include "driver/dma/registry.h"
#include "driver/hw/dsa_regs.h"

#include <cstring>
#include <linux/idxd.h>
#include <memory>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <vector>

using namespace usdma;
using namespace usdma::dsa;

/* The kernel's own structures are those of the register map. */
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

static constexpr u64 iova = 0x100000000, size = 4 * MiB, patience = 60000;
/* Within it: a batch, records, data. */
static constexpr u64 list_at = 0, records_at = 64 * KiB, data_at = MiB;
static constexpr u32 grpcfg = 0x600, wqcfg = 0x800, permissions = 0x400;
static constexpr u32 with_record = flag_record | flag_record_always;

/* A device with memory, and nothing set up yet. */
struct bench {
	explicit bench(const char *spec = "sim:model=dsa:faults=")
	{
		if (dma::open_device(spec, &dev) < 0)
			print_error("%s\n", error_text());
		assert_non_null(dev.get());
		void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(p, MAP_FAILED);
		map = mapping(p, size);
		bytes = map.data();
		list = reinterpret_cast<work *>(bytes + list_at);
		records = reinterpret_cast<completion *>(bytes + records_at);
		assert_int_equal(dev->dma_map({.iova = iova, .size = size, .vaddr = p}), 0);
		assert_int_equal(vfio::config_bus_master(*dev, true), 0);
		vfio::irq_info info;
		assert_int_equal(dev->irq(vfio::irq_msix, &info), 0);
		vectors = info.count;
		int fds[9];
		for (unsigned i = 0; i < vectors; i++) {
			irq[i].reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
			fds[i] = irq[i].get();
		}
		assert_int_equal(dev->irq_set(vfio::irq_msix, 0, {fds, vectors}), 0);
		is_v2 = get<u32>(off_version) == 0x200;
	}

	template <class T> T get(u32 reg)
	{
		T v = 0;

		assert_int_equal(dev->region_read(vfio::region_bar0, reg, &v, sizeof(v)), 0);
		return v;
	}
	template <class T> void put(u32 reg, T v)
	{
		assert_int_equal(dev->region_write(vfio::region_bar0, reg, &v, sizeof(v)), 0);
	}
	void wait_command()
	{
		const deadline end = deadline::in_ms(patience);

		while (get<u32>(off_cmdstatus) & cmd_active)
			assert_false(end.passed());
	}
	/* The error of a command. */
	cmd_error run(command c, u32 operand = 0, u32 more = 0)
	{
		put<u32>(off_cmd, u32(c) << cmd_code_shift | operand | more);
		wait_command();
		return cmd_error(get<u32>(off_cmdstatus) & cmd_error_mask);
	}
	void good(command c, u32 operand = 0) { assert_int_equal(run(c, operand), cmd_error::none); }
	u32 queue_reg(u32 q, u32 word) { return wqcfg + q * (is_v2 ? 64 : 32) + word * 4; }
	device_state state() { return device_state(get<u32>(off_gensts) & 3); }
	wq_state queue_state(u32 q = 0) { return wq_state(get<u32>(queue_reg(q, wq_word_state)) >> wq_state_shift); }
	void configure(u32 q = 0, u32 mode = wq_dedicated, u32 slots = 16)
	{
		put<u32>(queue_reg(q, wq_word_size), slots);
		put<u32>(queue_reg(q, wq_word_threshold), slots / 2);
		put<u32>(queue_reg(q, wq_word_mode), mode | 1 << wq_priority_shift);
		put<u32>(queue_reg(q, wq_word_limits), 20 | 8 << wq_batch_shift);
		put<u64>(grpcfg + q * 64, u64(1) << q);
		put<u64>(grpcfg + q * 64 + 32, u64(1) << q);
	}
	/* As DPDK and the VFIO selftests start. */
	void start(u32 mode = wq_dedicated, u32 slots = 16)
	{
		good(command::reset_device);
		configure(0, mode, slots);
		good(command::enable_device);
		good(command::enable_wq, 0);
		assert_int_equal(state(), device_state::enabled);
		assert_int_equal(queue_state(), wq_state::enabled);
	}
	static u64 record_of(u32 i) { return iova + records_at + i * sizeof(completion); }
	static u64 data(u64 at) { return iova + data_at + at; }
	/* A descriptor that writes record i. */
	static work make(operation op, u64 src, u64 dst, u32 len, u32 flags = with_record, u32 i = 0)
	{
		return {0, op_and_flags(op, flags), flags & flag_record ? record_of(i) : 0, src, dst, len, 0, 0, {}};
	}
	int submit(const work &w, u32 q = 0, u32 page = portal_unlimited)
	{
		return dev->region_write(vfio::region_bar2, q * portals_step + page * portal_page, &w, sizeof(w));
	}
	const completion &await(u32 i = 0)
	{
		const deadline end = deadline::in_ms(patience);

		while (!load_acquire(&records[i].status)) {
			assert_false(end.passed());
			sched_yield();
		}
		return records[i];
	}
	/* Runs one that writes record 0. */
	completion result(const work &w)
	{
		memset(records, 0, sizeof(*records));
		assert_int_equal(submit(w), 0);
		return await();
	}
	u8 status_of(const work &w) { return result(w).status; }
	/* Until the queue has run all. */
	void drain(u32 q = 0) { good(command::drain_wq, 1u << q); }
	u64 signals(unsigned i, bool wait)
	{
		pollfd p = {irq[i].get(), POLLIN, 0};
		u64 n = 0;

		if (poll(&p, 1, wait ? int(patience) : 0) == 1)
			assert_int_equal(read(irq[i].get(), &n, 8), 8);
		return n;
	}
	u8 error_code()
	{
		const u64 e = get<u64>(off_swerror);

		return e & swerr_valid ? u8(e >> swerr_code_shift) : 0;
	}
	void clear_error() { put<u64>(off_swerror, swerr_valid | swerr_overflow); }

	std::unique_ptr<vfio::device> dev;
	mapping map;
	u8 *bytes;
	work *list;
	completion *records;
	unique_fd irq[9];
	u32 vectors;
	bool is_v2;
};

static void test_identity(void **)
{
	bench one, two("sim:model=dsa-2:channels=2");
	u16 id;

	assert_int_equal(vfio::config_read16(*one.dev, 2, &id), 0);
	assert_int_equal(id, id_spr);
	assert_int_equal(one.get<u32>(off_version), 0x100);
	const u64 gencap = one.get<u64>(off_gencap);
	assert_int_equal(gencap >> gencap_xfer_shift & 0x1f, 31);
	assert_int_equal(gencap >> gencap_batch_shift & 0xf, 10);
	assert_true(gencap & gencap_config && gencap & gencap_overlap && gencap & gencap_block_on_fault);
	assert_false(gencap & gencap_cmdcap);
	assert_int_equal(one.get<u64>(off_wqcap) & 0xffffff, 128 | 8 << 16);
	assert_int_equal(one.get<u8>(off_grpcap), 4);
	assert_int_equal(one.get<u8>(off_engcap), 4);
	assert_int_equal(one.get<u64>(off_opcap), 0x3027f);
	assert_int_equal(one.get<u64>(off_offsets), 6 | 8 << 16 | u64(4) << 32);
	assert_int_equal(one.vectors, 9);
	assert_int_equal(one.get<u64>(grpcfg + 40) >> group_allowed_shift & 0xff, 96);
	assert_int_equal(vfio::config_read16(*two.dev, 2, &id), 0);
	assert_int_equal(id, id_gnrd);
	assert_int_equal(two.get<u32>(off_version), 0x200);
	assert_int_equal(two.get<u64>(off_wqcap) & 0xfffffff, 128 | 2 << 16 | 1 << 24);
	assert_int_equal(two.get<u8>(off_grpcap), 2); /* no more than queues */
	assert_int_equal(two.get<u32>(off_cmdcap), 0x7ffe);
	assert_int_equal(two.get<u64>(two.queue_reg(1, wq_word_opcfg)), 0x3027f);
	assert_int_equal(two.vectors, 3);
	assert_int_equal(one.dev->region_read(vfio::region_bar0, 2, &id, 8), -EINVAL);
	u64 portal = 0;
	assert_int_equal(one.dev->region_read(vfio::region_bar2, 64, &portal, 8), 0);
	assert_int_equal(portal, ~u64(0));
}

static void test_device_enable_checks(void **)
{
	bench b;

	assert_int_equal(b.run(command(0)), cmd_error::unsupported);
	assert_int_equal(b.run(command::request_handle, 1), cmd_error::unsupported);
	assert_int_equal(b.run(command::disable_device), cmd_error::device_not_enabled);
	assert_int_equal(b.run(command::enable_wq, 0), cmd_error::not_enabled);
	assert_int_equal(b.run(command::enable_wq, 8), cmd_error::wq_index);
	assert_int_equal(b.run(command::drain_wq, 1), cmd_error::wq_not_enabled);
	assert_int_equal(b.run(command::drain_wq, 1 << 8), cmd_error::wq_index);
	b.configure();
	b.put<u32>(b.queue_reg(1, wq_word_size), 113);
	assert_int_equal(b.run(command::enable_device), cmd_error::wq_sizes);
	b.put<u32>(b.queue_reg(1, wq_word_size), 8);
	assert_int_equal(b.run(command::enable_device), cmd_error::group_queues); /* in no group */
	b.put<u64>(grpcfg + 64, 2);
	assert_int_equal(b.run(command::enable_device), cmd_error::group_half);
	b.put<u64>(grpcfg + 64 + 32, 1);
	assert_int_equal(b.run(command::enable_device), cmd_error::group_engines); /* in two groups */
	b.put<u64>(grpcfg + 64 + 32, 2);
	b.put<u64>(grpcfg + 64, 3);
	assert_int_equal(b.run(command::enable_device), cmd_error::group_queues);
	b.put<u64>(grpcfg + 64, 2);
	b.put<u64>(grpcfg + 64 + 40, u64(3) << group_allowed_shift);
	assert_int_equal(b.run(command::enable_device), cmd_error::read_buffers); /* fewer than four an engine */
	b.put<u64>(grpcfg + 64 + 40, u64(90) << group_allowed_shift | 97 << group_reserved_shift);
	assert_int_equal(b.run(command::enable_device), cmd_error::read_buffers);
	b.put<u64>(grpcfg + 64 + 40, u64(48) << group_allowed_shift | 4 << group_reserved_shift);
	assert_int_equal(b.run(command::enable_device), cmd_error::read_buffers); /* group 0 may use all 96 */
	b.put<u64>(grpcfg + 40, u64(48) << group_allowed_shift);
	assert_int_equal(vfio::config_bus_master(*b.dev, false), 0);
	assert_int_equal(b.run(command::enable_device), cmd_error::bus_master);
	assert_int_equal(vfio::config_bus_master(*b.dev, true), 0);
	b.good(command::enable_device);
	assert_int_equal(b.run(command::enable_device), cmd_error::not_disabled);
	/* Then it is read-only. */
	b.put<u64>(grpcfg, 0);
	b.put<u32>(b.queue_reg(0, wq_word_size), 1);
	assert_int_equal(b.get<u64>(grpcfg), 1);
	assert_int_equal(b.get<u32>(b.queue_reg(0, wq_word_size)), 16);
	b.good(command::reset_device);
	assert_int_equal(b.get<u64>(grpcfg), 0);
	assert_int_equal(b.state(), device_state::disabled);
}

static void test_queue_enable_checks(void **)
{
	bench b("sim:model=dsa-2");
	const u32 usual = 1 << wq_priority_shift, limits = 20 | 8 << wq_batch_shift;
	const struct {
		u32 mode, limits;
		u64 opcfg;
		cmd_error error;
	} cases[] = {
		{wq_dedicated, limits, 0x3027f, cmd_error::wq_priority},
		{wq_dedicated | usual | wq_block_on_fault, limits, 0x3027f, cmd_error::wq_block_on_fault},
		{usual, limits, 0x3027f, cmd_error::wq_pasid}, /* a shared queue needs one */
		{wq_dedicated | usual | wq_pasid_enable, limits, 0x3027f, cmd_error::wq_pasid},
		{wq_dedicated | usual, 20, 0x3027f, cmd_error::wq_batch},
		{wq_dedicated | usual, 20 | 11 << wq_batch_shift, 0x3027f, cmd_error::wq_batch},
		{wq_dedicated | usual, limits, 0x80, cmd_error::wq_opcfg},
		{wq_dedicated | usual, limits, 0x3027f, cmd_error::none},
	};

	b.configure();
	b.good(command::enable_device);
	assert_int_equal(b.run(command::enable_wq, 1), cmd_error::wq_size);
	for (const auto &c : cases) {
		b.put<u32>(b.queue_reg(0, wq_word_mode), c.mode);
		b.put<u32>(b.queue_reg(0, wq_word_limits), c.limits);
		b.put<u64>(b.queue_reg(0, wq_word_opcfg), c.opcfg);
		assert_int_equal(b.run(command::enable_wq, 0), c.error);
	}
	assert_int_equal(b.run(command::enable_wq, 0), cmd_error::wq_not_disabled);
	/* A reset clears all but the size. */
	b.good(command::reset_wq, 1);
	assert_int_equal(b.queue_state(), wq_state::disabled);
	assert_int_equal(b.get<u32>(b.queue_reg(0, wq_word_mode)), 0);
	assert_int_equal(b.get<u32>(b.queue_reg(0, wq_word_size)), 16);
	assert_int_equal(b.run(command::disable_wq, 1), cmd_error::wq_not_enabled);
}

static void test_moves_and_fills(void **)
{
	bench b;
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
	/* A success without a request writes no record. */
	memset(b.records, 0, 64);
	assert_int_equal(b.submit(b.make(operation::move, b.data(0), b.data(MiB), 64, flag_record)), 0);
	assert_int_equal(b.submit(b.make(operation::noop, 0, 0, 0, with_record, 1)), 0);
	b.await(1);
	assert_int_equal(b.records[0].status, 0);
	assert_memory_equal(data + MiB, data, 64);
}

static void test_compare_and_dualcast(void **)
{
	bench b;
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
	/* Whether that is a success: against what is expected. */
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
	/* Results need their record. */
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

/* Bit by bit, from the definition: not as the model does it. */
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
	bench b;
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
	/* All bits reversed: the same register, read from its other side. */
	w = b.make(operation::crc, b.data(0), 0, 4, with_record | flag_crc_raw | flag_crc_data_msb);
	memset(data, 0, 4);
	data[3] = 1;
	assert_int_equal(b.result(w).detail, 0x1edc6f41);
}

static void test_batches(void **)
{
	bench b;
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
	/* One fails: the others run, until a fence. */
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
	/* A result that is not as expected counts, too. */
	b.list[50] = b.make(operation::compare_pattern, b.data(0), 0, 8, with_record | flag_check, 60);
	c = b.result(batch);
	assert_int_equal(c.bytes, 100);
	assert_int_equal(b.records[60].status, status::false_predicate);
	/* What a batch must not be, or have. */
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
	bench b;
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

/* A fault says how much was done, and where it stopped. */
static void test_page_faults(void **)
{
	bench b("sim:model=dsa-2");
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
	/* Not allowed is a fault, too. */
	void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(b.dev->dma_map({.iova = 0x7000, .size = 4096, .vaddr = page, .prot = vfio::dma_read}), 0);
	assert_int_equal(b.status_of(b.make(operation::move, 0x7000, b.data(0), 64)), status::success);
	assert_int_equal(b.status_of(b.make(operation::move, b.data(0), 0x7000, 64)),
			 u8(status::page_fault) | status_write);
	assert_int_equal(b.dev->dma_unmap(0x7000, 4096), 0);
	munmap(page, 4096);
	/* Without a record, or of the record itself, it is in SWERROR. */
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

/* The descriptor waits for its page, for as long as a page request may take. */
static void test_block_on_fault(void **)
{
	bench b;
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

static void test_interrupts(void **)
{
	bench b;
	work w = b.make(operation::noop, 0, 0, 0, with_record | flag_interrupt);

	b.start();
	w.handle = 2;
	assert_int_equal(b.status_of(w), status::success);
	assert_int_equal(b.signals(2, true), 1);
	/* Without a record, and after an error. */
	w = b.make(operation::noop, 0, 0, 0, flag_interrupt);
	w.handle = 3;
	assert_int_equal(b.submit(w), 0);
	assert_int_equal(b.signals(3, true), 1);
	w = b.make(operation::move, 0, 0, 64, with_record | flag_interrupt);
	w.handle = 3;
	assert_int_equal(b.status_of(w), status::page_fault);
	assert_int_equal(b.signals(3, true), 1);
	/* A vector that does not exist, one of another address space, one that is ignored. */
	b.put<u32>(off_genctrl, genctrl_swerror);
	w.handle = 9;
	assert_int_equal(b.status_of(w), status::handle);
	assert_int_equal(b.signals(0, true), 1);
	assert_int_equal(b.get<u32>(off_intcause), cause_swerror);
	b.put<u32>(off_intcause, cause_swerror);
	assert_int_equal(b.get<u32>(off_intcause), 0);
	assert_int_equal(b.error_code(), status::handle);
	w.handle = 4;
	b.put<u32>(permissions + 4 * msixperm_step, perm_pasid);
	assert_int_equal(b.status_of(w), status::handle);
	b.put<u32>(permissions + 4 * msixperm_step, perm_ignore);
	assert_int_equal(b.status_of(w), status::page_fault);
	assert_int_equal(b.signals(4, false), 0);
	/* The end of a command. */
	assert_int_equal(b.run(command::drain_all, 0, cmd_interrupt), cmd_error::none);
	assert_int_equal(b.signals(0, true), 1);
	assert_int_equal(b.get<u32>(off_intcause), cause_command);
}

/* Where the device has the command, only its handles are valid. */
static void test_interrupt_handles(void **)
{
	bench b("sim:model=dsa-2");
	work w = b.make(operation::noop, 0, 0, 0, with_record | flag_interrupt);

	b.start();
	w.handle = 1;
	assert_int_equal(b.status_of(w), status::handle);
	assert_int_equal(b.run(command::request_handle, 9), cmd_error::handle_index);
	assert_int_equal(b.run(command::request_handle, 1 | cmd_ims), cmd_error::handle_index);
	b.good(command::request_handle, 1);
	w.handle = u16(b.get<u32>(off_cmdstatus) >> cmd_result_shift);
	assert_int_not_equal(w.handle, 1);
	assert_int_equal(b.status_of(w), status::success);
	assert_int_equal(b.signals(1, true), 1);
	b.good(command::release_handle, 1);
	assert_int_equal(b.status_of(w), status::handle);
}

/* A descriptor by stores of each width; anything else is ignored, and a new beginning begins anew. */
static void test_portals(void **)
{
	bench b;
	work w = b.make(operation::noop, 0, 0, 0);
	const auto *bytes = reinterpret_cast<const u8 *>(&w);
	const auto write = [&](u64 at, u64 from, u32 len) {
		assert_int_equal(b.dev->region_write(vfio::region_bar2, at + from, bytes + from, len), 0);
	};

	b.start();
	b.put<u32>(b.queue_reg(1, wq_word_mode), wq_dedicated);
	for (u32 width : {4, 8, 16, 32}) {
		memset(b.records, 0, 32);
		for (u32 i = 0; i < 64; i += width) {
			assert_int_equal(load_acquire(&b.records[0].status), 0);
			write(portal_page * portal_limited + 0x140, i, width);
		}
		assert_int_equal(b.await().status, status::success);
	}
	memset(b.records, 0, 32);
	/* With a gap, from the middle, on two slots at once, bytes, and by a portal of the IMS. */
	write(0, 0, 32);
	write(0, 40, 8);
	write(0, 32, 8);
	write(64, 0, 32);
	write(128, 32, 32);
	for (u32 i = 0; i < 64; i++)
		write(0, i, 1);
	write(portal_page * portal_ims, 0, 64);
	write(portals_step, 0, 64); /* a queue that is not enabled */
	b.drain();
	assert_int_equal(b.records[0].status, 0);
	assert_int_equal(b.error_code(), 0);
	write(0, 0, 32);
	write(0, 0, 32);
	write(0, 32, 32);
	assert_int_equal(b.await().status, status::success);
}

static void test_full_queues(void **)
{
	bench b;
	const u16 on = 1;
	const work w = b.make(operation::noop, 0, 0, 0, 0);

	/* Dedicated: dropped, with an error. */
	b.start(wq_dedicated, 4);
	assert_int_equal(b.dev->inject("hang@1/device"), 0);
	const deadline end = deadline::in_ms(patience);
	assert_int_equal(b.submit(w), 0);
	while (b.get<u32>(b.queue_reg(0, wq_word_state)) & 0xffff) /* it has left the queue, and hangs */
		assert_false(end.passed());
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(b.submit(w), 0);
	assert_int_equal(b.error_code(), 0);
	assert_int_equal(b.submit(w), 0);
	assert_int_equal(b.error_code(), swerr_no_space);
	/* Shared: refused, above the threshold by the limited portal, above the size by both. */
	assert_int_equal(b.dev->reset(), 0);
	assert_int_equal(vfio::config_bus_master(*b.dev, true), 0);
	assert_int_equal(b.dev->region_write(vfio::region_config, 0x126, &on, sizeof(on)), 0);
	assert_int_equal(b.dev->inject(""), 0);
	b.start(wq_pasid_enable, 4);
	assert_int_equal(b.status_of(b.make(operation::noop, 0, 0, 0)), status::success);
	assert_int_equal(b.dev->inject("hang@1/device"), 0);
	assert_int_equal(b.submit(w), 0);
	while (b.get<u32>(b.queue_reg(0, wq_word_state)) & 0xffff)
		assert_false(end.passed());
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(b.submit(w, 0, portal_limited), 0);
	assert_int_equal(b.submit(w, 0, portal_limited), -EAGAIN);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(b.submit(w), 0);
	assert_int_equal(b.submit(w), -EAGAIN);
	assert_int_equal(b.error_code(), 0);
}

/* Waits for descriptors, or drops them. */
static void test_disable_abort_reset(void **)
{
	bench b;

	b.start();
	assert_int_equal(b.dev->inject("slow%1/20000"), 0);
	memset(b.records, 0, 16 * 32);
	for (u32 i = 0; i < 8; i++)
		assert_int_equal(b.submit(b.make(operation::noop, 0, 0, 0, with_record, i)), 0);
	b.put<u32>(off_cmd, u32(command::disable_wq) << cmd_code_shift | 1);
	/* A second command is an error, and so is no descriptor. */
	if (b.get<u32>(off_cmdstatus) & cmd_active) {
		assert_int_equal(b.queue_state(), wq_state::busy);
		b.put<u32>(off_cmd, u32(command::drain_all) << cmd_code_shift);
		assert_int_equal(b.submit(b.make(operation::noop, 0, 0, 0, with_record, 8)), 0);
		b.wait_command();
		assert_int_equal(b.error_code(), swerr_command);
	}
	b.wait_command();
	assert_int_equal(b.queue_state(), wq_state::disabled);
	for (u32 i = 0; i < 8; i++)
		assert_int_equal(b.records[i].status, status::success);
	assert_int_equal(b.records[8].status, 0);
	for (command c : {command::abort_wq, command::abort_all, command::reset_wq, command::reset_device}) {
		b.start();
		memset(b.records, 0, 16 * 32);
		for (u32 i = 0; i < 16; i++)
			assert_int_equal(b.submit(b.make(operation::noop, 0, 0, 0, with_record, i)), 0);
		assert_int_equal(b.run(c, c == command::abort_wq || c == command::reset_wq), cmd_error::none);
		assert_int_equal(b.records[15].status, 0);
		assert_int_equal(b.queue_state(), c == command::abort_wq || c == command::abort_all ?
							  wq_state::enabled :
							  wq_state::disabled);
		assert_int_equal(b.state(),
				 c == command::reset_device ? device_state::disabled : device_state::enabled);
	}
	/* A batch is left in its middle. */
	b.start();
	for (u32 i = 0; i < 100; i++)
		b.list[i] = b.make(operation::noop, 0, 0, 0, with_record, 100 + i);
	memset(b.records, 0, 256 * 32);
	assert_int_equal(b.submit(b.make(operation::batch, iova + list_at, 0, 100)), 0);
	b.await(100);
	b.good(command::abort_wq, 1);
	assert_int_equal(b.records[199].status, 0);
	assert_int_equal(b.records[0].status, 0);
	/* Others go on beside a queue that hangs; only it waits. */
	assert_int_equal(b.dev->inject("hang@1"), 0);
	b.good(command::reset_device);
	b.configure(0);
	b.configure(1);
	b.good(command::enable_device);
	b.good(command::enable_wq, 0);
	b.good(command::enable_wq, 1);
	assert_int_equal(b.submit(b.make(operation::noop, 0, 0, 0, with_record, 1)), 0);
	std::string hit;
	while (hit.find("struck 1") == hit.npos)
		assert_int_equal(b.dev->injected(&hit), 0);
	assert_int_equal(b.submit(b.make(operation::noop, 0, 0, 0, with_record, 2), 1), 0);
	b.await(2);
	b.good(command::drain_wq, 2);
	b.good(command::reset_wq, 1);
	assert_int_equal(b.records[1].status, 0);
	/* The function: nothing stays. */
	assert_int_equal(b.dev->reset(), 0);
	assert_int_equal(b.state(), device_state::disabled);
	assert_int_equal(b.get<u32>(b.queue_reg(1, wq_word_size)), 0);
	assert_int_equal(b.error_code(), 0);
}

/* 5.7: it halts, and only a reset of the function recovers it. */
static void test_bus_mastering(void **)
{
	bench b;

	b.start();
	b.put<u32>(off_genctrl, genctrl_halt);
	for (u32 i = 0; i < 200; i++)
		b.list[i] = b.make(operation::fill, ~u64(0), b.data(i * 4096), 4096, with_record, 10 + i);
	memset(b.records, 0, 256 * 32);
	assert_int_equal(b.submit(b.make(operation::batch, iova + list_at, 0, 200)), 0);
	b.await(12);
	assert_int_equal(vfio::config_bus_master(*b.dev, false), 0);
	/* Nothing comes after the reply. */
	memset(b.records, 0, 256 * 32);
	memset(b.bytes + data_at, 0, 800 * KiB);
	assert_int_equal(b.state(), device_state::halt);
	assert_int_equal(b.get<u32>(off_gensts) >> 2, needs_flr);
	assert_int_equal(b.error_code(), swerr_config);
	assert_int_equal(b.get<u32>(off_intcause), cause_halt);
	assert_int_equal(b.run(command::reset_device), cmd_error::halted);
	assert_int_equal(vfio::config_bus_master(*b.dev, true), 0);
	assert_int_equal(b.run(command::enable_wq, 0), cmd_error::halted);
	for (u64 i = 0; i < 800 * KiB; i++)
		assert_int_equal(b.bytes[data_at + i], 0);
	for (u32 i = 0; i < 256; i++)
		assert_int_equal(b.records[i].status, 0);
	assert_int_equal(b.dev->reset(), 0);
	assert_int_equal(vfio::config_bus_master(*b.dev, true), 0);
	b.start();
	assert_int_equal(b.status_of(b.make(operation::noop, 0, 0, 0)), status::success);
}

static void test_injected_errors(void **)
{
	bench b;
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
	/* Mistakes, for the drivers of others to notice. */
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

static void test_settings(void **)
{
	std::unique_ptr<vfio::device> dev;

	for (const char *spec : {"sim:model=dsa-3", "sim:model=dsa:channels=9", "sim:model=dsa:timing=late"})
		assert_int_equal(dma::open_device(spec, &dev), -EINVAL);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_device_enable_checks),
		cmocka_unit_test(test_queue_enable_checks),
		cmocka_unit_test(test_moves_and_fills),
		cmocka_unit_test(test_compare_and_dualcast),
		cmocka_unit_test(test_crc),
		cmocka_unit_test(test_batches),
		cmocka_unit_test(test_bad_descriptors),
		cmocka_unit_test(test_page_faults),
		cmocka_unit_test(test_block_on_fault),
		cmocka_unit_test(test_interrupts),
		cmocka_unit_test(test_interrupt_handles),
		cmocka_unit_test(test_portals),
		cmocka_unit_test(test_full_queues),
		cmocka_unit_test(test_disable_abort_reset),
		cmocka_unit_test(test_bus_mastering),
		cmocka_unit_test(test_injected_errors),
		cmocka_unit_test(test_settings),
	};

	return cmocka_run_group_tests_name("dsa-model", tests, nullptr, nullptr);
}
