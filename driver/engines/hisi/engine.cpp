/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/dma/registry.h"
#include "driver/engines/hisi/hisi.h"

#include <new>

namespace usdma::hisi {

/* No source says how long a copy may be; a stop waits for its end. */
static constexpr u64 most_len = MiB;
/* What the driver uses of BAR2. */
static constexpr u64 used_bar = 0x4000;

/* ---- probe ------------------------------------------------------------------------------------------- */

int hisi_engine::check_identity()
{
	vfio::region_info bar;
	u8 revision = 0;
	u32 state = 0;
	int err = dev_->region_read(vfio::region_config, cfg_revision, &revision, sizeof(revision));

	if (!err)
		layout_ = layout_of(revision);
	if (!err && !layout_)
		return fail(EPROTONOSUPPORT, "revision 0x%x: this driver supports 0x%x (HIP08), 0x%x (HIP09) and newer",
			    revision, revision_hip08, revision_hip09);
	if (!err)
		err = dev_->region(vfio::region_bar2, &bar);
	if (!err && bar.size < used_bar)
		return fail(ENODEV, "BAR2 has %llu bytes, the registers have %llu",
			    static_cast<unsigned long long>(bar.size), static_cast<unsigned long long>(used_bar));
	if (!err)
		err = dev_->region_read(vfio::region_bar2, layout_->queue_base + q_fsm, &state, sizeof(state));
	if (err)
		return err;
	if (state == ~0u)
		return fail(ENODEV, "its registers read as ones: it is off, or its memory space is disabled");
	/* No source says how many queues run at the same time. */
	set_limits(most_len, layout_->queues, dma::op_bit(dma::opcode::nop) | dma::op_bit(dma::opcode::copy));
	/* A ring has twice the submissions of its requests. */
	most_ring_ = most_depth / 2;
	return 0;
}

int hisi_engine::set_mode()
{
	u32 value = 0;
	int err = 0;

	/* Other bits stay, as [D] leaves them. */
	if (!layout_->err_bits) {
		err = dev_->region_read(vfio::region_bar2, hip08_mode, &value, sizeof(value));
		value |= mode_rc;
		return err ? err : dev_->region_write(vfio::region_bar2, hip08_mode, &value, sizeof(value));
	}
	for (u32 i = 0; i < hip09_ports && !err; i++) {
		const u32 at = hip09_port + i * hip09_port_step;

		err = dev_->region_read(vfio::region_bar2, at, &value, sizeof(value));
		value |= port_link_mask;
		if (!err)
			err = dev_->region_write(vfio::region_bar2, at, &value, sizeof(value));
	}
	return err;
}

/* No queue of an earlier user may run once the function may access memory. */
int hisi_engine::setup()
{
	for (u32 i = 0; i < limits_.channels; i++)
		if (int err = queue_regs(*dev_, nullptr, *layout_, i).reset(); err < 0)
			return fail_in(err, "channel %u", i);
	int err = set_mode();
	if (!err)
		err = keep_order();
	return err ? err : vfio::config_bus_master(*dev_, true);
}

int hisi_engine::start()
{
	if (int err = check_identity(); err < 0)
		return err;
	map_registers(vfio::region_bar2, used_bar);
	if (int err = setup(); err < 0)
		return err;
	if (int err = setup_interrupts(0, vfio::irq_msi); err < 0)
		return err;
	log_info("%s: HiSilicon %s over %s, %u channels", dev_->name(), layout_->name, dev_->backend(),
		 limits_.channels);
	return 0;
}

hisi_engine::~hisi_engine()
{
	close_all();
}

dma::ring_channel *hisi_engine::make_channel(u32 index)
{
	return new (std::nothrow) hisi_channel(*this, index);
}

static constexpr dma::pci_id ids[] = {
#include "driver/engines/hisi/ids.inc"
};

/* Where a queue of the other revision would be, public drivers read, too ([D] dumps both). */
static constexpr dma::named_register registers[] = {
	{"revision", vfio::region_config, 1, cfg_revision},
	{"MODE (HIP08)", vfio::region_bar2, 4, hip08_mode},
	{"CTRL0 of queue 0 (HIP08)", vfio::region_bar2, 4, hip08.queue_base + q_ctrl0},
	{"FSM of queue 0 (HIP08)", vfio::region_bar2, 4, hip08.queue_base + q_fsm},
	{"CTRL0 of queue 0 (HIP09)", vfio::region_bar2, 4, hip09.queue_base + q_ctrl0},
	{"FSM of queue 0 (HIP09)", vfio::region_bar2, 4, hip09.queue_base + q_fsm},
};

static constexpr dma::checklist_item checklist[] = {
	{"order", "the fence bit 10 is on every submission", "copies that depend on each other"},
	{"lengths", "1 MiB a submission", "long copies; a smaller limits_.max_len"},
	{"interrupts", "interrupts are masked while there is no waiter", "INT_MSK and INT_STS; waits that take 50 ms"},
	{"faults", "the queue is paused after an error, and reset before it goes on",
	 "the abort bits of CTRL0, which are clear; the status at log level debug; the state of the queue (FSM)"},
	{"reset", "FLR_DISABLE is left alone", "a function reset; Linux clears that bit on HIP09"},
};

extern const dma::driver driver = {"hisi",
				   ids,
				   dma::probe_as<hisi_engine>,
				   registers,
				   checklist,
				   {},
				   "hisi_dma",
				   "copies of its users in the kernel are the CPU's again"};

} // namespace usdma::hisi
