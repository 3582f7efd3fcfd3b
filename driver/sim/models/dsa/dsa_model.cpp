/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/models/dsa/dsa_model.h"

#include "driver/base/error.h"
#include "driver/base/fd.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <sys/eventfd.h>

namespace usdma::sim {

/* Within BAR0, as in the map of 9.2; the PCI capability has them. */
static constexpr u64 dsa_bar0_size = 64 * KiB, vectors_at = 0x4000, vectors_end = 0x6000, pending_at = 0x5000;
static constexpr u64 buffer_size = 64 * KiB;

dsa_model::dsa_model(const config &cfg, faults *wrong)
	: cfg_(cfg), queues_count_(dsa_queues(cfg)), groups_count_(std::min(queues_count_, max_groups)),
	  space_({.file_bytes = cfg.share, .files = {.any_file = cfg.any_file}}), irqs_(queues_count_ + 1, space_),
	  memory_(space_, copy_for_cpu(cfg.copy_rows)), wrong_(wrong)
{
}

dsa_model::~dsa_model()
{
	quiesce();
}

int dsa_model::start()
{
	static constexpr u32 rw = vfio::region_readable | vfio::region_writable;
	const u64 portals = max_queues * dsa::portals_step;

	queues_.reset(new (std::nothrow) dsa_queue[queues_count_]);
	for (auto &b : buffer_)
		b.reset(new (std::nothrow) u8[buffer_size]);
	if (!queues_ || !buffer_[0] || !buffer_[1] || !try_resize(msix_, vectors_end - vectors_at))
		return no_memory("a device");
	for (u32 i = 0; i < queues_count_; i++)
		queues_[i].index = i;
	power_on();
	pci_.init({.vendor = dsa::vendor_intel,
		   .device = is_v2() ? dsa::id_gnrd : dsa::id_spr,
		   .class_code = dsa::class_dsa,
		   .revision = 0,
		   .bar = {{dsa_bar0_size, bar_64 | bar_prefetch}, {}, {portals, bar_64 | bar_prefetch}, {}, {}, {}},
		   .vectors = irqs_.count(),
		   .msix_bar = 0,
		   .msix_table = vectors_at,
		   .msix_pba = pending_at,
		   .translates = true});
	/* Registers and portals act on access, so neither is mappable. */
	regions_[vfio::region_bar0] = {dsa_bar0_size, rw, -1, {}};
	regions_[vfio::region_bar2] = {portals, rw, -1, {}};
	regions_[vfio::region_config] = {pci_config::size, rw, -1, {}};
	wake_.reset(fd_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
	if (!wake_.valid())
		return fail_errno("sim: cannot make an engine's eventfd");
	if (const int err = memory_.ready(wake_.get(), thread_.quit_flag()))
		return err;
	return thread_.start("dsa-engine", thread_main, this);
}

/* The engine first: this stops its accesses, and nothing else uses what is released next. */
void dsa_model::quiesce()
{
	thread_.stop(wake_.get());
	if (space_.unmap_all())
		log_warn_limited("%s", error_text());
	irqs_.clear(0, irqs_.count());
	error_.reset();
}

void dsa_model::connect(remote_port *port)
{
	remote_ = port;
	memory_.connect(port);
}

/* ---- regions ------------------------------------------------------------------------------------- */

static int bad_access(u64 offset, u32 len)
{
	return fail(EINVAL, "sim: a register is accessed by 1, 2, 4 or 8 bytes, aligned; not %u at 0x%llx", len,
		    static_cast<unsigned long long>(offset));
}

static bool is_access(u64 offset, u32 len)
{
	return is_pow2(len) && len <= 8 && offset % len == 0;
}

int dsa_model::region_read(u32 index, u64 offset, u8 *buf, u32 len)
{
	if (index == vfio::region_config) {
		pci_.read(u32(offset), buf, len, is_resetting());
		return 0;
	}
	if (index == vfio::region_bar2) {
		memset(buf, 0xff, len);
		return 0;
	}
	if (offset >= vectors_at && offset + len <= vectors_end) {
		memcpy(buf, msix_.data() + (offset - vectors_at), len);
		return 0;
	}
	if (!is_access(offset, len))
		return bad_access(offset, len);
	std::lock_guard guard(lock_);
	const u64 value = read_word(u32(offset & ~u64(7))) >> 8 * (offset & 7);

	memcpy(buf, &value, len);
	return 0;
}

int dsa_model::region_write(u32 index, u64 offset, const u8 *buf, u32 len)
{
	u64 value = 0;

	if (index == vfio::region_config) {
		const bool resets = pci_.write(u32(offset), buf, len) == pci_config::effect::reset;
		const bool was_allowed = memory_.is_allowed();

		memory_.allow(pci_.may_reach_memory());
		/* Neither data nor an interrupt comes after the reply. */
		if (was_allowed && !memory_.is_allowed() && !space_.quiesce())
			log_warn("sim: the engine accesses memory for longer than an unmap waits");
		if (was_allowed && !memory_.is_allowed() && !resets) {
			std::lock_guard guard(lock_);

			halt();
		}
		return resets ? reset() : 0;
	}
	if (index == vfio::region_bar2)
		return write_portal(offset, buf, len);
	if (offset >= vectors_at && offset + len <= vectors_end) {
		memcpy(msix_.data() + (offset - vectors_at), buf, len);
		return 0;
	}
	if (!is_access(offset, len))
		return bad_access(offset, len);
	memcpy(&value, buf, len);
	const u32 shift = 8 * (offset & 7);
	const u64 mask = len == 8 ? ~u64(0) : (u64(1) << 8 * len) - 1;
	std::lock_guard guard(lock_);

	write_word(u32(offset & ~u64(7)), value << shift, mask << shift);
	return 0;
}

/* ---- interrupts, memory, reset ------------------------------------------------------------------- */

/* The error interrupt is never raised, but without its eventfd QEMU offers its guest no error recovery. */
u32 dsa_model::irq_count(u32 index) const
{
	return index == vfio::irq_msix ? irqs_.count() : index == vfio::irq_err ? 1 : 0;
}

int dsa_model::irq_set(u32 index, u32 first, std::span<unique_fd> fds)
{
	if (index == vfio::irq_msix)
		irqs_.set(first, fds);
	else
		error_ = std::move(fds[0]);
	return 0;
}

int dsa_model::irq_clear(u32 index, u32 first, u32 count)
{
	if (index == vfio::irq_msix)
		irqs_.clear(first, count);
	else
		error_.reset();
	return 0;
}

/* By the engine's thread: only that writes to descriptors that the client holds. */
int dsa_model::irq_trigger(u32 index, u32 vector)
{
	if (index != vfio::irq_msix)
		return fail(ENOTSUP, "sim: interrupt type %u is not raised", index);
	std::lock_guard guard(lock_);

	due_ |= u64(1) << vector;
	kick();
	return 0;
}

int dsa_model::dma_map(u64 iova, u64 size, u32 prot, unique_fd fd, u64 offset)
{
	if (wrong_)
		if (const int err = wrong_->refuse_map(iova, size))
			return fail(err, "sim: DMA_MAP refused by an injected fault");
	return space_.map(iova, size, prot, std::move(fd), offset);
}

/* A descriptor that is running completes first: is_resetting() until then. */
int dsa_model::reset()
{
	std::lock_guard guard(lock_);

	if (wrong_)
		wrong_->device_reset();
	reset_due_ = true;
	for (u32 i = 0; i < queues_count_; i++)
		if (queues_[i].busy)
			return 0;
	power_on();
	return 0;
}

bool dsa_model::is_resetting() const
{
	std::lock_guard guard(lock_);

	return reset_due_;
}

} // namespace usdma::sim
