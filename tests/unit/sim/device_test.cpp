/* SPDX-License-Identifier: BSD-3-Clause */
/* The device as a whole: registers, configuration space, resets, device strings. */
#include "tests/unit/sim/rig.h"

#include "driver/dma/registry.h"

#include <cstring>

using namespace usdma;
using namespace usdma::test;
using namespace usdma::sdma;

static constexpr u64 iova = 0x10000000, size = 4 * MiB;

static void test_reset(void **)
{
	for (bool by_register : {false, true}) {
		rig r;
		chan ch(r, 0);

		ch.put_ready(descriptor());
		assert_true(ch.done(1));
		if (by_register)
			r.write32(reg_ctrl, ctrl_reset);
		else
			assert_int_equal(r.dev->reset(), 0);
		assert_int_equal(ch.state(), chan_state_off);
		assert_int_equal(r.read64(reg_mem_base), 0);
		assert_int_equal(r.read64(chan_ctrl(0) + chan_ring_base), 0);
		assert_int_equal(r.read64(chan_doorbell(0) + doorbell_arm), arm_none);
	}
}

/* The offset of a capability in configuration space. */
static u8 find_capability(rig &r, u8 id)
{
	u8 at = 0, head[2];

	assert_int_equal(r.dev->region_read(vfio::region_config, 0x34, &at, 1), 0);
	for (unsigned n = 0; at && n < 48; n++, at = head[1]) {
		assert_int_equal(r.dev->region_read(vfio::region_config, at, head, 2), 0);
		if (head[0] == id)
			return at;
	}
	return 0;
}

static u16 config16(rig &r, unsigned at)
{
	u16 v = 0;

	assert_int_equal(vfio::config_read16(*r.dev, at, &v), 0);
	return v;
}

static void put_config16(rig &r, unsigned at, u16 v)
{
	assert_int_equal(r.dev->region_write(vfio::region_config, at, &v, sizeof(v)), 0);
}

/* Resets through configuration space: a function-level reset (PCI Express 7.8.4), and D3hot to D0. */
static void test_config_reset(void **)
{
	for (bool flr : {true, false}) {
		rig r;
		chan ch(r, 0);
		const u8 express = find_capability(r, 0x10), power = find_capability(r, 0x01),
			 msix = find_capability(r, 0x11);

		assert_true(express && power && msix);
		assert_int_equal(config16(r, express + 6) >> 12 & 1, 1); /* FLR capability */
		assert_int_equal(config16(r, power + 4) & 8, 0);         /* No_Soft_Reset is clear */
		put_config16(r, msix + 2, 0x8000);
		ch.put_ready(descriptor());
		assert_true(ch.done(1));
		if (flr) {
			put_config16(r, express + 8, u16(config16(r, express + 8) | 0x8000));
			assert_int_equal(config16(r, express + 8) & 0x8000, 0);
		} else {
			put_config16(r, power + 4, 3);
			/* In D3hot it accesses no memory. */
			assert_int_equal(ch.state(), chan_state_off);
			ch.command(chan_cmd_enable);
			assert_int_equal(ch.state(), chan_state_error);
			assert_int_equal(config16(r, 4) & 4, 4);
			put_config16(r, power + 4, 1); /* there is no D1 */
			assert_int_equal(config16(r, power + 4) & 3, 3);
			put_config16(r, power + 4, 0);
		}
		assert_int_equal(ch.state(), chan_state_off);
		assert_int_equal(r.read64(reg_mem_base), 0);
		assert_int_equal(r.read32(reg_ctrl), 0);
		assert_int_equal(r.read64(chan_ctrl(0) + chan_ring_base), 0);
		assert_int_equal(config16(r, 4) & 6, 0);
		assert_int_equal(config16(r, msix + 2) & 0x8000, 0);
		/* And it works again, as after power-on. */
		assert_int_equal(vfio::config_bus_master(*r.dev, true), 0);
		r.write32(reg_ctrl, ctrl_enable);
		chan again(r, 1);
		again.put_ready(descriptor());
		assert_true(again.done(1));
	}
}

static void test_registers(void **)
{
	rig r;
	u8 byte;

	assert_int_equal(r.read32(reg_id), id_value);
	assert_int_equal(r.read32(reg_version), version_major << 16 | version_minor);
	assert_int_equal(r.read64(reg_caps), hw_cap_sleep | hw_cap_memory | hw_cap_heartbeat | hw_cap_memory_zeroed |
						     hw_cap_memory_cached | hw_cap_wait_takes | hw_cap_completion);
	assert_int_equal(r.read32(reg_channels), 8);
	assert_int_equal(r.read32(reg_engines), 2);
	assert_int_equal(r.read64(reg_mem_size), 8 * MiB);
	assert_int_equal(r.read32(reg_mem_size + 4), 0);
	assert_int_equal(r.read32(reg_mem_base + 4), mem_base >> 32);
	assert_int_equal(r.read32(reg_vectors), 24);
	assert_int_equal(r.read64(chan_ctrl(8) + chan_state), 0);
	assert_int_equal(r.read64(0x8000), 0);
	assert_true(r.read64(reg_clock) != 0);
	assert_int_equal(r.dev->region_read(vfio::region_bar0, reg_id, &byte, 1), -EINVAL);
	u32 id;
	assert_int_equal(vfio::config_read32(*r.dev, 0, &id), 0);
	assert_int_equal(id, pci_vendor | u32(pci_device) << 16);
}

/* With a rate, a latency or a timing, only the engines may copy: the memory is not reported as cached. */
static void test_memory_is_not_cached(void **)
{
	sim::config slow = rig::small(), late = rig::small(), timed = rig::small();

	slow.rate = GiB;
	late.latency_us = 1;
	timed.timing = timing_kind::early;
	for (const sim::config &cfg : {slow, late, timed})
		assert_int_equal(rig(cfg).read64(reg_caps) & (hw_cap_memory | hw_cap_memory_cached), hw_cap_memory);
}

static void test_no_memory(void **)
{
	sim::config cfg = rig::small();

	cfg.has_mem = false;
	rig r(cfg);
	host_area a = r.make(iova, size);
	chan ch(r, 0);
	vfio::region_info bar2;

	assert_int_equal(r.read64(reg_caps) & (hw_cap_memory | hw_cap_memory_zeroed | hw_cap_memory_cached), 0);
	assert_int_equal(r.read64(reg_mem_size), 0);
	assert_int_equal(r.dev->region(vfio::region_bar2, &bar2), 0);
	assert_int_equal(bar2.size, 0);
	memset(a.data, 0x5a, 4096);
	assert_int_equal(ch.run(make_copy(space::host, iova, space::host, iova + MiB, 4096)), fault_reason::none);
	assert_memory_equal(a.data, a.data + MiB, 4096);
	assert_int_equal(ch.run(make_copy(space::host, iova, space::device, mem_base, 1)), fault_reason::dst_unmapped);
	r.drop(a);
}

static void test_latency(void **)
{
	sim::config cfg = rig::small();

	cfg.latency_us = 3000;
	rig r(cfg);
	chan ch(r, 0);
	const u64 before = now_ns();

	ch.put(descriptor());
	ch.put_ready(descriptor());
	assert_true(ch.done(2));
	assert_true(now_ns() - before >= 2 * 3 * ns_per_ms);
}

/* Through the whole driver, as the library opens it. */
static void test_device_string(void **)
{
	std::unique_ptr<dma::engine> eng;
	dma::channel *ch;

	assert_int_equal(dma::open("sim:mem=1M:channels=2:engines=1", &eng), 0);
	assert_int_equal(eng->limits().channels, 2);
	assert_int_equal(eng->limits().memory_size, MiB);
	assert_int_equal(eng->set_memory_base(mem_base), 0);
	assert_int_equal(eng->channel_open(1, {}, &ch), 0);
	eng->memory()[100] = 42;
	dma::request req;
	req.op = opcode::copy;
	req.spaces = dma::spaces(space::device, space::device);
	req.src = mem_base + 100;
	req.dst = mem_base + 200;
	req.len = 1;
	assert_int_equal(ch->ops->post(ch, &req, 1), 1);
	ch->ops->doorbell(ch);
	if (load_acquire(ch->asleep))
		ch->ops->wake(ch);
	const deadline until = deadline::in_ms(wait_ms);
	while (dma::completed(ch) < ch->posted && !until.passed())
		sched_yield();
	assert_int_equal(eng->memory()[200], 42);
	ch->ops->close(ch);
	assert_int_equal(dma::open("sim:memory=1M", &eng), -EINVAL);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_reset),         cmocka_unit_test(test_config_reset),
		cmocka_unit_test(test_registers),     cmocka_unit_test(test_memory_is_not_cached),
		cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_latency),
		cmocka_unit_test(test_device_string),
	};

	return cmocka_run_group_tests_name("sim_device", tests, nullptr, nullptr);
}
