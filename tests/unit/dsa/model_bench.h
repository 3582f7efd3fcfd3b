/* SPDX-License-Identifier: BSD-3-Clause */
/* The registers and portals of the DSA model, as foreign drivers use them (driver/hw/dsa_regs.h has the sources). */
#pragma once

#include "tests/unit/sim/model_bench.h"

#include "driver/hw/dsa_regs.h"

namespace usdma::test {

using namespace usdma::dsa;

/* Offsets in the memory: a batch, records, data. */
inline constexpr u64 list_at = 0, records_at = 64 * KiB, data_at = MiB;
inline constexpr u32 grpcfg = 0x600, wqcfg = 0x800, permissions = 0x400;
inline constexpr u32 with_record = flag_record | flag_record_always;

struct dsa_bench : model_bench {
	explicit dsa_bench(const char *spec = "sim:model=dsa:faults=") : model_bench(spec)
	{
		list = reinterpret_cast<work *>(bytes + list_at);
		records = reinterpret_cast<completion *>(bytes + records_at);
		is_v2 = get<u32>(off_version) == 0x200;
	}

	void wait_command()
	{
		const deadline end = deadline::in_ms(patience);

		while (get<u32>(off_cmdstatus) & cmd_active)
			assert_false(end.passed());
	}
	/* Runs a command and returns its error. */
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
	/* As DPDK and the VFIO selftests start the device. */
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
	/* Runs a descriptor that writes record 0. */
	completion result(const work &w)
	{
		memset(records, 0, sizeof(*records));
		assert_int_equal(submit(w), 0);
		return await();
	}
	u8 status_of(const work &w) { return result(w).status; }
	/* Waits until the queue has run all descriptors. */
	void drain(u32 q = 0) { good(command::drain_wq, 1u << q); }
	u8 error_code()
	{
		const u64 e = get<u64>(off_swerror);

		return e & swerr_valid ? u8(e >> swerr_code_shift) : 0;
	}
	void clear_error() { put<u64>(off_swerror, swerr_valid | swerr_overflow); }

	work *list;
	completion *records;
	bool is_v2;
};

} // namespace usdma::test
