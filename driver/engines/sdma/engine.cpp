/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/fd.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/engines/sdma/sdma.h"

#include <algorithm>
#include <sys/eventfd.h>

namespace usdma::sdma {

/* Between two looks at a register. */
static void nap()
{
	const timespec t = {0, 100 * 1000};

	nanosleep(&t, nullptr);
}

static int wait_ready(vfio::device &dev)
{
	const deadline until = deadline::in_ms(command_ms);
	u32 ctrl, status;

	for (;;) {
		if (int rc = reg_read(dev, reg_ctrl, &ctrl); rc < 0)
			return rc;
		if (int rc = reg_read(dev, reg_status, &status); rc < 0)
			return rc;
		if (ctrl == ~u32(0) && status == ~u32(0))
			if (int rc = dev.answers(); rc < 0)
				return rc;
		if (!(ctrl & ctrl_reset) && (status & status_ready))
			return 0;
		if (until.passed())
			return fail(ETIMEDOUT,
				    "the device is not ready %llu ms after reset (control 0x%x, status 0x%x)",
				    static_cast<unsigned long long>(command_ms), ctrl, status);
		nap();
	}
}

/* From whatever the last user left to enabled, with all channels off. */
int sdma_engine::enable()
{
	if (int rc = reg_write(*dev_, reg_ctrl, u32(ctrl_reset)); rc < 0)
		return rc;
	if (int rc = wait_ready(*dev_); rc < 0)
		return rc;
	/* Only now may it reach memory: no channel of an earlier user is left. */
	if (int rc = vfio::config_bus_master(*dev_, true); rc < 0)
		return rc;
	if (memory_base_)
		if (int rc = reg_write(*dev_, reg_mem_base, memory_base_); rc < 0)
			return rc;
	return reg_write(*dev_, reg_ctrl, u32(ctrl_enable));
}

/*
 * Vector 0 is the service interrupt of all channels.  The channels share the others for their waiters, for each is a
 * descriptor here, in the device's server and once more for the loss of the device: a process has few of them.  All
 * are set up at once: kernels before 6.4 cannot add MSI-X vectors later without a gap in which interrupts are lost.
 */
static constexpr u32 waiter_vectors = 4;

int sdma_engine::count_vectors(u32 *out)
{
	vfio::irq_info irq;

	if (int rc = dev_->irq(vfio::irq_msix, &irq); rc < 0)
		return rc;
	const u32 n = std::min({hw_vectors_, irq.count, irq.share, 1 + std::min(limits_.channels, waiter_vectors)});
	if (n < 2)
		return fail(EPROTO,
			    "the device has %u MSI-X vectors (its own count) and %u (its transport's); it takes two",
			    hw_vectors_, irq.count);
	*out = n;
	return 0;
}

int sdma_engine::try_vectors(u32 n)
{
	std::vector<int> raw;

	vectors_.clear();
	if (!try_reserve(raw, n) || !try_reserve(vectors_, n))
		return no_memory("the list of interrupts");
	for (u32 i = 0; i < n; i++) {
		/* Blocking: a read through io_uring then sleeps, where a non-blocking one would fail at once. */
		unique_fd fd(keep_fd(eventfd(0, EFD_CLOEXEC)));

		if (!fd.valid())
			return fail_errno("cannot make eventfd %u of %u for interrupts", i + 1, n);
		push_reserved(raw, fd.get());
		push_reserved(vectors_, std::move(fd));
	}
	return dev_->irq_set(vfio::irq_msix, 0, raw);
}

/*
 * The device's vectors are a promise that the machine may not keep: each CPU has
 * some 200 for all devices, and the process only so many descriptors.  With fewer, more channels share one.
 */
int sdma_engine::setup_vectors()
{
	u32 n;
	int rc = count_vectors(&n);

	if (rc < 0)
		return rc;
	for (rc = try_vectors(n); (rc == -ENOSPC || rc == -EMFILE) && n > 2; rc = try_vectors(n))
		n--;
	return rc;
}

/* Without a view of it the device is of use, too: but a limit of this process is its user's to know. */
int sdma_engine::map_memory()
{
	if (!limits_.memory_size)
		return 0;
	const int rc = dev_->region_map(vfio::region_bar2, 0, limits_.memory_size, &memory_);
	if (rc == -EMFILE || rc == -ENOMEM)
		return rc;
	if (rc < 0)
		log_info("%s: device memory is not mapped: %s", dev_->name(), error_text());
	return 0;
}

int sdma_engine::start()
{
	vfio::address_limits limits;

	if (int rc = dev_->limits(&limits); rc < 0)
		return rc;
	if (int rc = iova_.init(limits); rc < 0)
		return rc;
	if (int rc = enable(); rc < 0)
		return rc;
	if (int rc = setup_vectors(); rc < 0)
		return rc;
	if (!try_resize(channels_, limits_.channels))
		return no_memory("the list of channels");
	return map_memory();
}

sdma_engine::~sdma_engine()
{
	if (!dev_)
		return;
	for (sdma_channel *c : channels_)
		if (c)
			channel_close(c);
	if (!dev_->lost()) {
		/* Leave it as quiet as it was found. */
		reg_write(*dev_, reg_ctrl, u32(ctrl_reset));
		vfio::config_bus_master(*dev_, false);
	}
	/* The device first: it may still reach what stuck_ holds. */
	dev_.reset();
}

int sdma_engine::set_memory_base(u64 base)
{
	if (base + limits_.memory_size < base || base % 4096)
		return fail(EINVAL, "memory base 0x%llx does not fit %llu bytes or is no page",
			    static_cast<unsigned long long>(base),
			    static_cast<unsigned long long>(limits_.memory_size));
	if (int rc = reg_write(*dev_, reg_mem_base, base); rc < 0)
		return rc;
	memory_base_ = base;
	return 0;
}

int sdma_engine::memory_fd(u64 *offset)
{
	*offset = 0;
	return limits_.memory_size ? dev_->region_fd(vfio::region_bar2, offset) : -1;
}

int sdma_engine::reset()
{
	resetting_ = true;
	int rc = dev_->reset();
	if (!rc)
		rc = enable();
	resetting_ = false;
	return rc;
}

} // namespace usdma::sdma
