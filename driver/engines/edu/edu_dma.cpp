/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/engines/edu/edu_dma.h"
#include "driver/base/await_fds.h"
#include "driver/base/error.h"
#include "driver/base/eventfd.h"
#include "driver/base/log.h"
#include "driver/base/mmio.h"

#include <cinttypes>
#include <poll.h>

namespace usdma::edu {

/* A transfer takes 100 ms, and far longer if emulated on a busy machine. */
static constexpr u64 hang_ms = 5000;
/* Poll interval of the command register; with an interrupt, in case one is lost. */
static constexpr int poll_ms = 250, poll_no_irq_ms = 2;

template <class T> int edu_dma::read(u32 reg, T *out)
{
	if (!regs_)
		return dev_.region_read(vfio::region_bar0, reg, out, sizeof(*out));
	if constexpr (sizeof(T) == sizeof(u64))
		*out = mmio_read64(regs_.data() + reg);
	else
		*out = mmio_read32(regs_.data() + reg);
	return 0;
}

template <class T> int edu_dma::write(u32 reg, T value)
{
	if (!regs_)
		return dev_.region_write(vfio::region_bar0, reg, &value, sizeof(value));
	if constexpr (sizeof(T) == sizeof(u64))
		mmio_write64(regs_.data() + reg, value);
	else
		mmio_write32(regs_.data() + reg, value);
	return 0;
}

int edu_dma::check_identity()
{
	const u32 word = 0x5a17c3e1;
	u32 id, echo;

	if (int err = read(reg_id, &id); err < 0)
		return err;
	if ((id & id_mask) != id_value)
		return fail(ENODEV, "identification reads 0x%08x, not 0x....00ed: the device is off or not an edu", id);
	if (int err = write(reg_liveness, word); err < 0)
		return err;
	if (int err = read(reg_liveness, &echo); err < 0)
		return err;
	if (echo != ~word)
		return fail(EIO, "liveness check gives 0x%08x for 0x%08x", echo, word);
	return 0;
}

/* Optional: without an interrupt the command register is polled. */
void edu_dma::setup_interrupt()
{
	vfio::irq_info info;
	unique_fd fd(eventfd_make());
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

int edu_dma::restart()
{
	u64 cmd;

	if (int err = check_identity(); err < 0)
		return err;
	/* Transfers of an earlier user must end before the device may access our memory. */
	for (const deadline until = deadline::in_ms(hang_ms);; nap()) {
		if (int err = read(reg_dma_cmd, &cmd); err < 0)
			return err;
		if (!(cmd & dma_run))
			break;
		if (until.passed())
			return fail(EIO, "a transfer of an earlier user does not complete");
	}
	if (int err = write(reg_irq_ack, ~u32(0)); err < 0)
		return err;
	setup_interrupt();
	if (int err = vfio::config_bus_master(dev_, true); err < 0)
		return err;
	broken_ = false;
	return 0;
}

int edu_dma::start()
{
	vfio::region_info bar;

	if (int err = dev_.region(vfio::region_bar0, &bar); err < 0)
		return err;
	if (bar.size < bar0_size)
		return fail(ENODEV, "BAR0 has %" PRIu64 " bytes, an edu has %" PRIu64, bar.size, bar0_size);
	if (bar.flags & vfio::region_mappable)
		dev_.region_map(vfio::region_bar0, 0, 4096, &regs_); /* otherwise trapped accesses are used */
	return restart();
}

void edu_dma::stop()
{
	broken_ = true;
	if (dev_.lost())
		return;
	/* No longer bus master: a transfer in progress accesses no memory. */
	if (vfio::config_bus_master(dev_, false) < 0)
		log_warn("%s: cannot disable bus mastering: %s", dev_.name(), error_text());
	const int none = -1;
	if (irq_.valid() && dev_.irq_set(vfio::irq_msi, 0, std::span(&none, 1)) < 0)
		log_warn("%s: cannot disable the interrupt: %s", dev_.name(), error_text());
	irq_.reset();
}

/* Waits for the interrupt or the next poll of the register. */
void edu_dma::nap()
{
	pollfd p[2] = {{irq_.get(), POLLIN, 0}, {dev_.lost_fd(), POLLIN, 0}};

	await_fds(p, 2, irq_.valid() ? poll_ms : poll_no_irq_ms);
	if (irq_.valid())
		fetch_add_relaxed(&count_.interrupts, eventfd_clear(irq_.get()));
}

int edu_dma::await_end()
{
	const deadline until = deadline::in_ms(hang_ms);
	const u64 before = load_relaxed(&count_.interrupts);
	u64 cmd = dma_run;

	while (cmd & dma_run) {
		if (until.passed()) {
			stop();
			return fail(EIO, "a transfer has not completed within %" PRIu64 " ms", hang_ms);
		}
		nap();
		if (dev_.lost() || load_seq_cst(&given_up_))
			return fail(ENODEV, "device lost during a transfer");
		/* The read also flushes: earlier writes of the device have reached memory (PCI 3.0 §3.2.5). */
		if (int err = read(reg_dma_cmd, &cmd); err < 0)
			return err;
	}
	if (irq_.valid() && load_relaxed(&count_.interrupts) == before)
		fetch_add_relaxed(&count_.polled, 1);
	return write(reg_irq_ack, irq_dma);
}

int edu_dma::transfer(u64 src, u64 dst, u64 len, u64 cmd)
{
	if (dev_.lost())
		return fail(ENODEV, "device lost");
	if (broken_)
		return fail(EIO, "the device hung before; reset it");
	if (load_seq_cst(&given_up_))
		return fail(ENODEV, "the device was disabled permanently");
	if (int err = write(reg_dma_src, src); err < 0)
		return err;
	if (int err = write(reg_dma_dst, dst); err < 0)
		return err;
	if (int err = write(reg_dma_len, len); err < 0)
		return err;
	/* Release in the write: source data is in memory before the device starts. */
	if (int err = write(reg_dma_cmd, cmd | dma_run | (irq_.valid() ? u64(dma_interrupt) : 0)); err < 0)
		return err;
	fetch_add_relaxed(&count_.transfers, 1);
	return await_end();
}

int edu_dma::to_device(u64 iova, u64 offset, u64 len)
{
	if (!len || !range_within(offset, len, memory_usable))
		return fail(EINVAL, "device memory ends at %" PRIu64, memory_usable);
	return transfer(iova, memory_at + offset, len, 0);
}

int edu_dma::to_host(u64 offset, u64 iova, u64 len)
{
	if (!len || !range_within(offset, len, memory_usable))
		return fail(EINVAL, "device memory ends at %" PRIu64, memory_usable);
	return transfer(memory_at + offset, iova, len, dma_to_host);
}

} // namespace usdma::edu
