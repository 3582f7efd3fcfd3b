/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/engines/edu/dma_unit.h"
#include "driver/base/error.h"
#include "driver/base/eventfd.h"
#include "driver/base/fd.h"
#include "driver/base/log.h"
#include "driver/base/mmio.h"

#include <cinttypes>
#include <poll.h>
#include <sys/eventfd.h>

namespace usdma::edu {

/* A transfer takes 100 ms; emulated on a busy machine, far longer. */
static constexpr u64 hang_ms = 5000;
/* The interrupt may be lost: so often the command register is read all the same. */
static constexpr int look_ms = 250, look_blind_ms = 2;

int dma_unit::read32(u32 reg, u32 *out)
{
	if (!regs_)
		return dev_.region_read(vfio::region_bar0, reg, out, sizeof(*out));
	*out = mmio_read32(regs_.data() + reg);
	return 0;
}

int dma_unit::read64(u32 reg, u64 *out)
{
	if (!regs_)
		return dev_.region_read(vfio::region_bar0, reg, out, sizeof(*out));
	*out = mmio_read64(regs_.data() + reg);
	return 0;
}

int dma_unit::write32(u32 reg, u32 value)
{
	if (!regs_)
		return dev_.region_write(vfio::region_bar0, reg, &value, sizeof(value));
	mmio_write32(regs_.data() + reg, value);
	return 0;
}

int dma_unit::write64(u32 reg, u64 value)
{
	if (!regs_)
		return dev_.region_write(vfio::region_bar0, reg, &value, sizeof(value));
	mmio_write64(regs_.data() + reg, value);
	return 0;
}

int dma_unit::check_identity()
{
	const u32 word = 0x5a17c3e1;
	u32 id, echo;

	if (int rc = read32(reg_id, &id); rc < 0)
		return rc;
	if ((id & id_mask) != id_value)
		return fail(ENODEV, "identification reads 0x%08x, not 0x....00ed: the device is off or not an edu", id);
	if (int rc = write32(reg_liveness, word); rc < 0)
		return rc;
	if (int rc = read32(reg_liveness, &echo); rc < 0)
		return rc;
	if (echo != ~word)
		return fail(EIO, "liveness check gives 0x%08x for 0x%08x", echo, word);
	return 0;
}

/* Without an interrupt the device still works: the command register tells. */
void dma_unit::setup_interrupt()
{
	vfio::irq_info info;
	unique_fd fd(keep_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
	const int raw = fd.get();

	irq_.reset();
	if (!fd.valid()) {
		log_warn("%s: no eventfd for the interrupt; polling", dev_.name());
		return;
	}
	if (dev_.irq(vfio::irq_msi, &info) < 0 || !info.count ||
	    dev_.irq_set(vfio::irq_msi, 0, std::span(&raw, 1)) < 0) {
		log_warn("%s: no MSI, polling: %s", dev_.name(), error_text());
		return;
	}
	irq_ = std::move(fd);
}

int dma_unit::restart()
{
	u64 cmd;

	if (int rc = check_identity(); rc < 0)
		return rc;
	/* What an earlier user started ends before the device may reach our memory. */
	for (const deadline until = deadline::in_ms(hang_ms);; nap()) {
		if (int rc = read64(reg_dma_cmd, &cmd); rc < 0)
			return rc;
		if (!(cmd & dma_run))
			break;
		if (until.passed())
			return fail(EIO, "a transfer of an earlier user does not end");
	}
	if (int rc = write32(reg_irq_ack, ~u32(0)); rc < 0)
		return rc;
	setup_interrupt();
	if (int rc = vfio::config_bus_master(dev_, true); rc < 0)
		return rc;
	broken_ = false;
	return 0;
}

int dma_unit::start()
{
	vfio::region_info bar;

	if (int rc = dev_.region(vfio::region_bar0, &bar); rc < 0)
		return rc;
	if (bar.size < bar0_size)
		return fail(ENODEV, "BAR0 has %" PRIu64 " bytes, an edu has %" PRIu64, bar.size, bar0_size);
	if (bar.flags & vfio::region_mappable)
		dev_.region_map(vfio::region_bar0, 0, 4096, &regs_); /* else trapped accesses do */
	return restart();
}

void dma_unit::stop()
{
	broken_ = true;
	if (dev_.lost())
		return;
	/* Not a master any more: a transfer still in the device goes nowhere. */
	if (vfio::config_bus_master(dev_, false) < 0)
		log_warn("%s: cannot take bus mastering away: %s", dev_.name(), error_text());
	const int none = -1;
	if (irq_.valid() && dev_.irq_set(vfio::irq_msi, 0, std::span(&none, 1)) < 0)
		log_warn("%s: cannot switch the interrupt off: %s", dev_.name(), error_text());
	irq_.reset();
}

/* Until the interrupt comes, or it is time to look at the register. */
void dma_unit::nap()
{
	pollfd p[2] = {{irq_.get(), POLLIN, 0}, {dev_.lost_fd(), POLLIN, 0}};

	poll(p, 2, irq_.valid() ? look_ms : look_blind_ms);
	if (irq_.valid())
		count_.interrupts.fetch_add(eventfd_clear(irq_.get()), std::memory_order_relaxed);
}

int dma_unit::await_end()
{
	const deadline until = deadline::in_ms(hang_ms);
	const u64 before = count_.interrupts.load(std::memory_order_relaxed);
	u64 cmd = dma_run;

	while (cmd & dma_run) {
		if (until.passed()) {
			stop();
			return fail(EIO, "a transfer has not ended in %" PRIu64 " ms", hang_ms);
		}
		nap();
		if (dev_.lost() || given_up_.load(std::memory_order_seq_cst))
			return fail(ENODEV, "the device was lost in a transfer");
		/* The read also orders: what the device wrote before it has arrived (PCI 3.0 §3.2.5). */
		if (int rc = read64(reg_dma_cmd, &cmd); rc < 0)
			return rc;
	}
	if (irq_.valid() && count_.interrupts.load(std::memory_order_relaxed) == before)
		count_.polled.fetch_add(1, std::memory_order_relaxed);
	return write32(reg_irq_ack, irq_dma);
}

int dma_unit::transfer(u64 src, u64 dst, u64 len, u64 cmd)
{
	if (dev_.lost())
		return fail(ENODEV, "the device is gone");
	if (broken_)
		return fail(EIO, "the device hung before; reset it");
	if (given_up_.load(std::memory_order_seq_cst))
		return fail(ENODEV, "the device was given up");
	if (int rc = write64(reg_dma_src, src); rc < 0)
		return rc;
	if (int rc = write64(reg_dma_dst, dst); rc < 0)
		return rc;
	if (int rc = write64(reg_dma_len, len); rc < 0)
		return rc;
	/* Release in the write: the data to be read is in memory before the device is told. */
	if (int rc = write64(reg_dma_cmd, cmd | dma_run | (irq_.valid() ? u64(dma_interrupt) : 0)); rc < 0)
		return rc;
	count_.transfers.fetch_add(1, std::memory_order_relaxed);
	return await_end();
}

int dma_unit::to_device(u64 iova, u64 offset, u64 len)
{
	if (!len || !range_within(offset, len, memory_usable))
		return fail(EINVAL, "device memory ends at %" PRIu64, memory_usable);
	return transfer(iova, memory_at + offset, len, 0);
}

int dma_unit::to_host(u64 offset, u64 iova, u64 len)
{
	if (!len || !range_within(offset, len, memory_usable))
		return fail(EINVAL, "device memory ends at %" PRIu64, memory_usable);
	return transfer(memory_at + offset, iova, len, dma_to_host);
}

} // namespace usdma::edu
