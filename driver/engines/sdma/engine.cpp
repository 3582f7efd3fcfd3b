/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/base/eventfd.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/base/page.h"
#include "driver/engines/sdma/sdma.h"

#include <algorithm>

namespace usdma::sdma {

/* Interval between register polls. */
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
		if (int err = reg_read(dev, reg_ctrl, &ctrl); err < 0)
			return err;
		if (int err = reg_read(dev, reg_status, &status); err < 0)
			return err;
		if (ctrl == ~u32(0) && status == ~u32(0))
			if (int err = dev.answers(); err < 0)
				return err;
		if (!(ctrl & ctrl_reset) && (status & status_ready))
			return 0;
		if (until.passed())
			return fail(ETIMEDOUT,
				    "the device is not ready %llu ms after reset (control 0x%x, status 0x%x)",
				    static_cast<unsigned long long>(command_ms), ctrl, status);
		nap();
	}
}

/* Resets to a defined state and enables the function, with all channels off. */
int sdma_engine::enable()
{
	if (int err = reg_write(*dev_, reg_ctrl, u32(ctrl_reset)); err < 0)
		return err;
	if (int err = wait_ready(*dev_); err < 0)
		return err;
	/* Bus mastering only now: no channel of an earlier user is left. */
	if (int err = vfio::config_bus_master(*dev_, true); err < 0)
		return err;
	if (memory_base_)
		if (int err = reg_write(*dev_, reg_mem_base, memory_base_); err < 0)
			return err;
	return reg_write(*dev_, reg_ctrl, u32(ctrl_enable));
}

/*
 * Vector 0 is the service interrupt of all channels. The channels share the others for their waiters, since
 * each needs a descriptor here, in the device's server and once more to signal device loss, and descriptors are
 * limited. All are set up at once: kernels before 6.4 cannot add MSI-X vectors later without a gap in which
 * interrupts are lost.
 */
static constexpr u32 waiter_vectors = 4;
/* The first channels to be opened get one each for completions in rings of the program, which cannot be shared. */
static constexpr u32 completion_vectors = 8;

int sdma_engine::count_vectors(u32 *out)
{
	vfio::irq_info irq;

	if (int err = dev_->irq(vfio::irq_msix, &irq); err < 0)
		return err;
	const u32 waiters = std::min(limits_.channels, waiter_vectors);
	const u32 completions = has_completion_irq() ? std::min(limits_.channels, completion_vectors) : 0;
	const u32 n = std::min({hw_vectors_, irq.count, irq.share, 1 + waiters + completions});
	if (n < 2)
		return fail(EPROTO, "the device reports %u MSI-X vectors and its transport %u; two are needed",
			    hw_vectors_, irq.count);
	*out = n;
	return 0;
}

int sdma_engine::try_vectors(u32 n)
{
	std::vector<int> raw;

	waiters_ = std::min({n - 1, limits_.channels, waiter_vectors});
	/* Behind the kernel's VFIO all at once; else those for completions when they are needed. */
	const u32 made = dev_->own_connection() ? 1 + waiters_ : n;

	vectors_.clear();
	if (!try_reserve(raw, made) || !try_resize(vectors_, n))
		return no_memory("the list of interrupts");
	for (u32 i = 0; i < made; i++) {
		vectors_[i].reset(eventfd_make_for_ring());
		if (!vectors_[i].valid())
			return fail_errno("cannot make eventfd %u of %u for interrupts", i + 1, made);
		push_reserved(raw, vectors_[i].get());
	}
	return dev_->irq_set(vfio::irq_msix, 0, raw);
}

/*
 * Fewer vectors than the device has may be available: a CPU has some 200 for all devices, and the process's
 * descriptors are limited. With fewer vectors, more channels share one.
 */
int sdma_engine::setup_vectors()
{
	u32 n;
	int err = count_vectors(&n);

	if (err < 0)
		return err;
	for (err = try_vectors(n); (err == -ENOSPC || err == -EMFILE) && n > 2; err = try_vectors(n))
		n--;
	if (!err && !try_resize(completion_of_, n - 1 - waiters_))
		return no_memory("the list of interrupts");
	return err;
}

/* After a failure: not tried again for some seconds. */
int sdma_engine::connect_completion(u32 vector)
{
	static constexpr u64 most_ms = 1000, again_ns = 10 * ns_per_s;
	unique_fd made(eventfd_make_for_ring());
	const int fd = made.get();

	if (fd < 0 || now_ns() < connect_again_ns_)
		return -1;
	dev_->limit_wait(most_ms);
	const int err = dev_->irq_set(vfio::irq_msix, vector, {&fd, 1});
	dev_->limit_wait(0);
	if (err)
		connect_again_ns_ = now_ns() + again_ns;
	if (!err)
		vectors_[vector] = std::move(made);
	return err;
}

int sdma_engine::completion_fd(sdma_channel *c)
{
	if (c->completion_vector == no_vector)
		return -1;
	std::unique_lock guard(connect_lock_, std::try_to_lock);
	if (!guard)
		return -1;
	unique_fd &at = vectors_[c->completion_vector];

	if (!at.valid() && connect_completion(c->completion_vector))
		return -1;
	store_release(&c->irq_fd[dma::irq_completion], at.get());
	return at.get();
}

u32 sdma_engine::take_completion_vector(u32 channel)
{
	std::lock_guard guard(lock_);
	const auto at = std::find(completion_of_.begin(), completion_of_.end(), 0u);

	if (at == completion_of_.end())
		return no_vector;
	*at = channel + 1;
	return 1 + waiters_ + u32(at - completion_of_.begin());
}

/* The device is usable without this mapping, but a limit of this process is reported to its user. */
int sdma_engine::map_memory()
{
	if (!limits_.memory_size)
		return 0;
#if defined(__aarch64__)
	/* There VFIO maps a BAR as Device memory: unaligned accesses, and memcpy() with them, raise SIGBUS. */
	if (!dev_->own_connection()) {
		log_info("%s: device memory is not mapped: no unaligned access to a BAR on arm64", dev_->name());
		return 0;
	}
#endif
	const int err = dev_->region_map(vfio::region_bar2, 0, limits_.memory_size, &memory_);
	if (err == -EMFILE || err == -ENOMEM)
		return err;
	if (err < 0)
		log_info("%s: device memory is not mapped: %s", dev_->name(), error_text());
	return 0;
}

int sdma_engine::start()
{
	vfio::address_limits limits;

	if (int err = dev_->limits(&limits); err < 0)
		return err;
	page_size_ = std::max(limits.page_size, os_page_size());
	if (int err = enable(); err < 0)
		return err;
	if (int err = setup_vectors(); err < 0)
		return err;
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
		/* Quiesce the function. */
		reg_write(*dev_, reg_ctrl, u32(ctrl_reset));
		vfio::config_bus_master(*dev_, false);
	}
	/* Close the device first: it may still access the memory in stuck_. */
	dev_.reset();
}

int sdma_engine::set_memory_base(u64 base)
{
	if (base + limits_.memory_size < base || base % 4096)
		return fail(EINVAL, "memory base 0x%llx is too high for %llu bytes or not page-aligned",
			    static_cast<unsigned long long>(base),
			    static_cast<unsigned long long>(limits_.memory_size));
	if (int err = reg_write(*dev_, reg_mem_base, base); err < 0)
		return err;
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
	store_seq_cst(&resetting_, true);
	int err = dev_->reset();
	if (!err)
		err = enable();
	store_seq_cst(&resetting_, false);
	return err;
}

} // namespace usdma::sdma
