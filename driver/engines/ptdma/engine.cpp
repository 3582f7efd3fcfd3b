/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/dma/registry.h"
#include "driver/engines/ptdma/ptdma.h"

#include <new>

namespace usdma::ptdma {

/* Reads only: nothing is written before the device is identified. No source says which versions there are. */
int ptdma_engine::check_identity()
{
	vfio::region_info bar;
	u32 version = 0;
	int err = dev_->region(vfio::region_bar2, &bar);

	if (!err && bar.size < used_bar)
		return fail(ENODEV, "BAR2 has %llu bytes, the registers have %llu",
			    static_cast<unsigned long long>(bar.size), static_cast<unsigned long long>(used_bar));
	if (!err)
		err = dev_->region_read(vfio::region_bar2, reg_version, &version, sizeof(version));
	if (err)
		return err;
	if (version == ~0u)
		return fail(ENODEV, "its registers read as ones: it is off, or its memory space is disabled");
	set_limits(max_bytes, queue_count, dma::op_bit(dma::opcode::nop) | dma::op_bit(dma::opcode::copy));
	return 0;
}

/* pt_core_init. The queue is stopped before the function may access memory. */
int ptdma_engine::setup()
{
	static constexpr struct {
		u32 reg, value;
	} values[] = {{reg_config, config_vhb},
		      {reg_priority, priority_value},
		      {reg_timeout, timeout_value},
		      {reg_clock, clock_value},
		      {reg_request, request_value}};
	int err = 0;

	for (const auto &v : values)
		if (!err)
			err = dev_->region_write(vfio::region_bar2, v.reg, &v.value, sizeof(v.value));
	if (!err)
		err = queue_regs(*dev_, nullptr).stop();
	if (!err)
		err = keep_order();
	return err ? err : vfio::config_bus_master(*dev_, true);
}

/* What an earlier user has left in flight would be taken for the end of the first request. */
int ptdma_engine::reset_function()
{
	const int err = dev_->reset();

	return err ? err : setup();
}

/* pt_get_irqs. */
unsigned ptdma_engine::interrupt_type()
{
	vfio::irq_info irq;

	return dev_->irq(vfio::irq_msix, &irq) < 0 || !irq.count ? vfio::irq_msi : vfio::irq_msix;
}

int ptdma_engine::start()
{
	int err = check_identity();

	if (err < 0)
		return err;
	map_registers(vfio::region_bar2, used_bar);
	err = reset_function();
	has_reset_ = err != -EOPNOTSUPP && err != -ENOTTY;
	if (!has_reset_) {
		log_warn("%s: it has no reset: a copy that an earlier user has left may still run", dev_->name());
		err = setup();
	}
	if (!err)
		err = setup_interrupts(0, interrupt_type());
	if (!err)
		log_info("%s: AMD PTDMA over %s", dev_->name(), dev_->backend());
	return err;
}

ptdma_engine::~ptdma_engine()
{
	close_all();
}

dma::ring_channel *ptdma_engine::make_channel(u32 index)
{
	return new (std::nothrow) ptdma_channel(*this, index);
}

static constexpr dma::pci_id ids[] = {
#include "driver/engines/ptdma/ids.inc"
};

static constexpr dma::named_register registers[] = {
	{"version", vfio::region_bar2, 4, reg_version},
	{"control", vfio::region_bar2, 4, q_control},
	{"tail", vfio::region_bar2, 4, q_tail},
	{"head", vfio::region_bar2, 4, q_head},
	{"interrupt status", vfio::region_bar2, 4, q_int_status},
	{"status", vfio::region_bar2, 4, q_status},
};

static constexpr dma::checklist_item checklist[] = {
	{"open", "the function is reset when it is opened, and its registers are written again after that",
	 "whether it has a reset; the version and control registers"},
	{"copies", "the interrupt's status, polled, says that the one descriptor in flight has ended",
	 "copies that are reported before their data"},
	{"lengths", "1 MiB a descriptor, any alignment", "the error code of long or odd copies; limits_.max_len"},
	{"interrupts", "interrupts are disabled while there is no waiter", "waits that take 50 ms"},
	{"faults",
	 "after an error head is set to tail, and the next descriptor runs; Linux reports the failed one as done",
	 "copies behind a fault; the error code at log level debug"},
	{"reset", "a descriptor that does not end is ended by a reset of the function", "whether it has a reset"},
};

extern const dma::driver driver = {"ptdma",
				   ids,
				   dma::probe_as<ptdma_engine>,
				   registers,
				   checklist,
				   {},
				   "ptdma",
				   "copies of NTB's users in the kernel are the CPU's again"};

} // namespace usdma::ptdma
