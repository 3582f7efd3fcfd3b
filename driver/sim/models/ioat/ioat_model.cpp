/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/models/ioat/ioat_model.h"

#include "driver/base/error.h"
#include "driver/base/fd.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"

#include <algorithm>
#include <cstring>
#include <sys/eventfd.h>

namespace usdma::sim {

using namespace ioat;

/* Skylake's, which DPDK's driver and the kernel's VFIO selftests know; and the one whose XOR and PQ Linux uses. */
static constexpr u16 device_3_2 = 0x2021, device_3_3 = 0x0c50;

ioat_model::ioat_model(const config &cfg, faults *wrong)
	: cfg_(cfg), channels_count_(ioat_channels(cfg)),
	  space_({.file_bytes = cfg.share, .files = {.any_file = cfg.any_file}}), irqs_(channels_count_, space_),
	  memory_(space_, copy_for_cpu(cfg.copy_rows)), wrong_(wrong)
{
	for (u32 i = 0; i < max_channels; i++)
		channels_[i].index = i;
}

ioat_model::~ioat_model()
{
	quiesce();
}

int ioat_model::start()
{
	static constexpr u32 rw = vfio::region_readable | vfio::region_writable;

	if (!try_resize(msix_, bar0_size - msix_table))
		return no_memory("the MSI-X table");
	pci_.init({.vendor = pci_vendor,
		   .device = cfg_.ioat_version == version_3_3 ? device_3_3 : device_3_2,
		   .class_code = pci_class,
		   .revision = 0,
		   .bar = {{bar0_size, bar_64}, {}, {}, {}, {}, {}},
		   .vectors = channels_count_,
		   .msix_bar = 0,
		   .msix_table = msix_table,
		   .msix_pba = msix_pba});
	/* Registers act on access, so BAR0 is not mappable. */
	regions_[vfio::region_bar0] = {bar0_size, rw, -1, {}};
	regions_[vfio::region_config] = {pci_config::size, rw, -1, {}};
	wake_.reset(fd_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
	if (!wake_.valid())
		return fail_errno("sim: cannot make an engine's eventfd");
	if (const int err = memory_.ready(wake_.get(), thread_.quit_flag()))
		return err;
	return thread_.start("ioat-engine", thread_main, this);
}

/* The engine first: this stops its accesses, and nothing else uses what is released next. */
void ioat_model::quiesce()
{
	thread_.stop(wake_.get());
	if (space_.unmap_all())
		log_warn_limited("%s", error_text());
	irqs_.clear(0, irqs_.count());
	error_.reset();
}

void ioat_model::connect(remote_port *port)
{
	remote_ = port;
	memory_.connect(port);
}

/* ---- regions ------------------------------------------------------------------------------------- */

int ioat_model::region_read(u32 index, u64 offset, u8 *buf, u32 len)
{
	if (index == vfio::region_config) {
		pci_.read(u32(offset), buf, len, is_resetting());
		return 0;
	}
	if (offset >= msix_table) {
		memcpy(buf, msix_.data() + (offset - msix_table), len);
		return 0;
	}
	if (!is_pow2(len) || len > 8 || offset % len)
		return usdma::fail(EINVAL, "sim: a register is read by 1, 2, 4 or 8 bytes, aligned; not %u at 0x%llx",
				   len, static_cast<unsigned long long>(offset));
	std::lock_guard guard(lock_);
	const u64 value = read_reg(u32(offset), len);

	memcpy(buf, &value, len);
	return 0;
}

/* Neither data nor an interrupt comes after the reply to the write. */
void ioat_model::end_accesses()
{
	if (space_.quiesce())
		memory_.cancel_unsent();
	else
		log_warn("sim: the engine accesses memory for longer than an unmap waits");
}

int ioat_model::region_write(u32 index, u64 offset, const u8 *buf, u32 len)
{
	u64 value = 0;

	if (index == vfio::region_config) {
		const bool resets = pci_.write(u32(offset), buf, len) == pci_config::effect::reset;
		const bool was_allowed = memory_.is_allowed();

		memory_.allow(pci_.may_reach_memory());
		if (was_allowed && !memory_.is_allowed())
			end_accesses();
		return resets ? reset() : 0;
	}
	if (offset >= msix_table) {
		memcpy(msix_.data() + (offset - msix_table), buf, len);
		return 0;
	}
	if (!is_pow2(len) || len > 8 || offset % len)
		return usdma::fail(EINVAL,
				   "sim: a register is written by 1, 2, 4 or 8 bytes, aligned; not %u at 0x%llx", len,
				   static_cast<unsigned long long>(offset));
	memcpy(&value, buf, len);
	std::lock_guard guard(lock_);

	write_reg(u32(offset), value, len);
	return 0;
}

/* ---- interrupts, memory, reset ------------------------------------------------------------------- */

/* The error interrupt is never raised, but without its eventfd QEMU offers its guest no error recovery. */
u32 ioat_model::irq_count(u32 index) const
{
	return index == vfio::irq_msix ? irqs_.count() : index == vfio::irq_err ? 1 : 0;
}

int ioat_model::irq_set(u32 index, u32 first, std::span<unique_fd> fds)
{
	if (index != vfio::irq_msix) {
		error_ = std::move(fds[0]);
		return 0;
	}
	const u32 count = u32(fds.size());
	irqs_.set(first, fds);
	std::lock_guard guard(lock_);
	for (u32 i = first; i < first + count; i++)
		channels_[i].mute = false;
	return 0;
}

int ioat_model::irq_clear(u32 index, u32 first, u32 count)
{
	if (index == vfio::irq_msix)
		irqs_.clear(first, count);
	else
		error_.reset();
	return 0;
}

/* By the engine's thread: only that writes to descriptors that the client holds. */
int ioat_model::irq_trigger(u32 index, u32 vector)
{
	if (index != vfio::irq_msix)
		return usdma::fail(ENOTSUP, "sim: interrupt type %u is not raised", index);
	std::lock_guard guard(lock_);

	triggered_ |= u64(1) << vector;
	kick();
	return 0;
}

int ioat_model::dma_map(u64 iova, u64 size, u32 prot, unique_fd fd, u64 offset)
{
	if (wrong_)
		if (const int err = wrong_->refuse_map(iova, size))
			return usdma::fail(err, "sim: DMA_MAP refused by an injected fault");
	return space_.map(iova, size, prot, std::move(fd), offset);
}

/* A descriptor that is running completes first: is_resetting() until then. */
int ioat_model::reset()
{
	std::lock_guard guard(lock_);

	if (wrong_)
		wrong_->device_reset();
	intrctrl_ = genctrl_ = 0;
	intrdelay_ = 0;
	attention_ = 0;
	for (ioat_channel &ch : channels_) {
		ch.reset_due = ioat_channel::pending::power_on;
		apply_pending(ch);
	}
	return 0;
}

bool ioat_model::is_resetting() const
{
	std::lock_guard guard(lock_);

	return std::any_of(std::begin(channels_), std::end(channels_),
			   [](const ioat_channel &ch) { return ch.reset_due == ioat_channel::pending::power_on; });
}

} // namespace usdma::sim
