/* SPDX-License-Identifier: BSD-3-Clause */
/* The DSA model: its function, queues, commands, portals and interrupts. */
#include "tests/unit/dsa/model_bench.h"

using namespace usdma;
using namespace usdma::test;

static void test_identity(void **)
{
	dsa_bench one, two("sim:model=dsa-2:channels=2");
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
	assert_int_equal(two.get<u8>(off_grpcap), 2); /* as many as queues */
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
	dsa_bench b;

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
	/* It is read-only while enabled. */
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
	dsa_bench b("sim:model=dsa-2");
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
	for (command c : {command::disable_wq, command::drain_wq, command::abort_wq, command::reset_wq}) {
		assert_int_equal(b.run(c, 1), cmd_error::wq_not_enabled);
		/* Of several, one suffices; and none of the others is touched. */
		b.configure(1);
		assert_int_equal(b.run(c, 3), cmd_error::wq_not_enabled);
	}
}

static void test_interrupts(void **)
{
	dsa_bench b;
	work w = b.make(operation::noop, 0, 0, 0, with_record | flag_interrupt);

	b.start();
	w.handle = 2;
	assert_int_equal(b.status_of(w), status::success);
	assert_int_equal(b.signals(2, true), 1);
	/* Interrupts without a record, and after an error. */
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
	/* The completion of a command. */
	assert_int_equal(b.run(command::drain_all, 0, cmd_interrupt), cmd_error::none);
	assert_int_equal(b.signals(0, true), 1);
	assert_int_equal(b.get<u32>(off_intcause), cause_command);
}

/* If the device has the command, only its handles are valid. */
static void test_interrupt_handles(void **)
{
	dsa_bench b("sim:model=dsa-2");
	work w = b.make(operation::noop, 0, 0, 0, with_record | flag_interrupt);

	b.start();
	w.handle = 1;
	assert_int_equal(b.status_of(w), status::handle);
	assert_int_equal(b.run(command::request_handle, b.vectors), cmd_error::handle_index);
	assert_int_equal(b.run(command::request_handle, b.vectors + 1), cmd_error::handle_index);
	assert_int_equal(b.run(command::request_handle, 1 | cmd_ims), cmd_error::handle_index);
	b.good(command::request_handle, 1);
	w.handle = u16(b.get<u32>(off_cmdstatus) >> cmd_result_shift);
	assert_int_not_equal(w.handle, 1);
	assert_int_equal(b.status_of(w), status::success);
	assert_int_equal(b.signals(1, true), 1);
	b.good(command::release_handle, 1);
	assert_int_equal(b.status_of(w), status::handle);
}

/* A descriptor by stores of each width; invalid stores are ignored, and a store at offset 0 restarts. */
static void test_portals(void **)
{
	dsa_bench b;
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
	/* Invalid: a gap, no beginning, two slots, bytes, a portal of the IMS. */
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
	dsa_bench b;
	const u16 on = 1;
	const work w = b.make(operation::noop, 0, 0, 0, 0);

	/* A full dedicated queue drops descriptors with an error. */
	b.start(wq_dedicated, 4);
	assert_int_equal(b.dev->inject("hang@1/device"), 0);
	const deadline end = deadline::in_ms(patience);
	assert_int_equal(b.submit(w), 0);
	while (b.get<u32>(b.queue_reg(0, wq_word_state)) & 0xffff) /* until it has left the queue and hangs */
		assert_false(end.passed());
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(b.submit(w), 0);
	assert_int_equal(b.error_code(), 0);
	assert_int_equal(b.submit(w), 0);
	assert_int_equal(b.error_code(), swerr_no_space);
	/* A full shared queue refuses: the limited portal above the threshold, both above the size. */
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

/* Disable waits for descriptors; abort and reset drop them. */
static void test_disable_abort_reset(void **)
{
	dsa_bench b;

	b.start();
	assert_int_equal(b.dev->inject("slow%1/20000"), 0);
	memset(b.records, 0, 16 * 32);
	for (u32 i = 0; i < 8; i++)
		assert_int_equal(b.submit(b.make(operation::noop, 0, 0, 0, with_record, i)), 0);
	b.put<u32>(off_cmd, u32(command::disable_wq) << cmd_code_shift | 1);
	/* A second command is an error; a descriptor is not. */
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
	/* A descriptor submitted after the command is not dropped. */
	for (u32 i = 0; i < 200; i++) {
		b.start();
		memset(b.records, 0, 16 * 32);
		for (u32 r = 0; r < 15; r++)
			assert_int_equal(b.submit(b.make(operation::noop, 0, 0, 0, with_record, r)), 0);
		b.put<u32>(off_cmd, u32(command::abort_wq) << cmd_code_shift | 1);
		b.submit(b.make(operation::noop, 0, 0, 0, with_record, 15));
		b.wait_command();
		b.await(15);
	}
	/* A batch is aborted in the middle. */
	b.start();
	for (u32 i = 0; i < 100; i++)
		b.list[i] = b.make(operation::noop, 0, 0, 0, with_record, 100 + i);
	memset(b.records, 0, 256 * 32);
	assert_int_equal(b.submit(b.make(operation::batch, iova + list_at, 0, 100)), 0);
	/* Without fences the last one may run first, and does. */
	b.await(199);
	b.good(command::abort_wq, 1);
	assert_int_equal(b.records[100].status, 0);
	assert_int_equal(b.records[0].status, 0);
	/* One queue hangs; others are not affected. */
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
	/* A function reset clears all. */
	assert_int_equal(b.dev->reset(), 0);
	assert_int_equal(b.state(), device_state::disabled);
	assert_int_equal(b.get<u32>(b.queue_reg(1, wq_word_size)), 0);
	assert_int_equal(b.error_code(), 0);
}

/* 5.7: without bus mastering the device halts, until a function reset. */
static void test_bus_mastering(void **)
{
	dsa_bench b;

	b.start();
	b.put<u32>(off_genctrl, genctrl_halt);
	for (u32 i = 0; i < 200; i++)
		b.list[i] = b.make(operation::fill, ~u64(0), b.data(i * 4096), 4096, with_record, 10 + i);
	memset(b.records, 0, 256 * 32);
	assert_int_equal(b.submit(b.make(operation::batch, iova + list_at, 0, 200)), 0);
	b.await(12);
	assert_int_equal(vfio::config_bus_master(*b.dev, false), 0);
	/* No access comes after the reply. */
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

static void test_settings(void **)
{
	std::unique_ptr<vfio::device> dev;

	for (const char *spec : {"sim:model=dsa-3", "sim:model=dsa:channels=9", "sim:model=dsa:timing=late"})
		assert_int_equal(dma::open_device(spec, &dev), -EINVAL);
}

/* An interrupt triggered by the client is no access of the device, and needs no bus mastering. */
static void test_triggered_interrupt(void **)
{
	message_bench b("dsa");
	const unique_fd ev(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	proto::irq_set_head h = {sizeof(h), proto::irq_set_data_eventfd | proto::irq_set_action_trigger, vfio::irq_msix,
				 3, 1};
	pollfd p = {ev.get(), POLLIN, 0};

	b.set_irqs(h, {ev.get()});
	b.master(false);
	h.flags = proto::irq_set_data_none | proto::irq_set_action_trigger;
	b.set_irqs(h);
	assert_int_equal(poll(&p, 1, int(patience)), 1);
}

/* A halt completes a pending command with an error. */
static void test_halt_completes_a_command(void **)
{
	dsa_bench b;

	b.start();
	assert_int_equal(b.dev->inject("hang@1"), 0);
	assert_int_equal(b.submit(b.make(operation::noop, 0, 0, 0)), 0);
	b.put<u32>(off_cmd, u32(command::drain_wq) << cmd_code_shift | 1);
	assert_true(b.get<u32>(off_cmdstatus) & cmd_active);
	assert_int_equal(vfio::config_bus_master(*b.dev, false), 0);
	assert_int_equal(b.get<u32>(off_cmdstatus), cmd_error::halted);
}

/* Bus mastering is switched off during an access of many messages: only the message in flight is sent. */
static void test_last_message(void **)
{
	message_bench b("dsa");
	const work w = dsa_bench::make(operation::move, dsa_bench::data(0), b.remote, b.remote_size);
	const auto run = [&](command c) {
		b.client.put<u32>(off_cmd, u32(c) << cmd_code_shift);
		assert_int_equal(b.client.get<u32>(off_cmdstatus), 0);
	};

	b.client.put<u32>(wqcfg, 16);
	b.client.put<u32>(wqcfg + 4 * wq_word_mode, u32(wq_dedicated) | 1 << wq_priority_shift);
	b.client.put<u32>(wqcfg + 4 * wq_word_limits, 20 | 8 << wq_batch_shift);
	b.client.put<u64>(grpcfg, 1);
	b.client.put<u64>(grpcfg + 32, 1);
	run(command::enable_device);
	run(command::enable_wq);
	b.start(vfio::region_bar2, 0, &w, sizeof(w));
	b.stop_during_write();
	/* The replies would come after any other message: enough reads to give the model time to send one. */
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(b.read_without_access(off_gensts) & 3, device_state::halt);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_device_enable_checks),
		cmocka_unit_test(test_queue_enable_checks),
		cmocka_unit_test(test_interrupts),
		cmocka_unit_test(test_interrupt_handles),
		cmocka_unit_test(test_portals),
		cmocka_unit_test(test_full_queues),
		cmocka_unit_test(test_disable_abort_reset),
		cmocka_unit_test(test_bus_mastering),
		cmocka_unit_test(test_triggered_interrupt),
		cmocka_unit_test(test_halt_completes_a_command),
		cmocka_unit_test(test_last_message),
		cmocka_unit_test(test_settings),
	};

	return cmocka_run_group_tests_name("dsa-model", tests, nullptr, nullptr);
}
