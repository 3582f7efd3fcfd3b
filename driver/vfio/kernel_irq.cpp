/* SPDX-License-Identifier: BSD-3-Clause */
/* Interrupts and loss detection of kernel devices (linux/vfio.h: VFIO_DEVICE_SET_IRQS). */
#include "driver/base/await_fds.h"
#include "driver/base/barrier.h"
#include "driver/base/eventfd.h"
#include "driver/base/fd.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/base/thread.h"
#include "driver/vfio/kernel_device.h"

#include <algorithm>
#include <cstring>
#include <linux/vfio.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace usdma::vfio {

int kernel_device::irq_count(unsigned index, u32 *count)
{
	vfio_irq_info info{};

	*count = 0;
	if (index >= num_irqs_)
		return 0;
	info.argsz = sizeof(info);
	info.index = index;
	/* A type that this function lacks (PCI Express errors) has no vectors. */
	if (ioctl(fd_.get(), VFIO_DEVICE_GET_IRQ_INFO, &info))
		return errno == EINVAL ? 0 : failed("query an interrupt");
	/*
	 * An automasked line needs an unmask after each interrupt, which this interface lacks: INTx is not supported.
	 */
	if ((info.flags & VFIO_IRQ_INFO_EVENTFD) && !(info.flags & VFIO_IRQ_INFO_AUTOMASKED))
		*count = info.count < 2048 ? info.count : 2048;
	return 0;
}

/*
 * A CPU has some 200 vectors for all devices (x86: 256 less the system's), and the first devices to be opened
 * would take them all. With four vectors of each CPU per device, dozens of devices have enough; small machines
 * can provide a few more.
 */
static u32 fair_share()
{
	static constexpr u32 per_cpu = 4, least = 17;
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return std::max(least, 1 + per_cpu * u32(std::clamp(cpus, 1L, 4096L)));
}

int kernel_device::irq(unsigned index, irq_info *out)
{
	out->share = fair_share();
	return lost() ? lost_error() : irq_count(index, &out->count);
}

int kernel_device::irq_ioctl(unsigned index, u32 flags, unsigned first, std::span<const int> fds)
{
	static constexpr size_t enough = 256; /* also for disabling vectors, which must not fail */
	alignas(vfio_irq_set) u8 few[enough];
	std::unique_ptr<u8[]> many;
	std::span<u8> raw(few);
	vfio_irq_set s{};
	int n;

	const size_t size = sizeof(s) + fds.size_bytes();
	if (size > enough) {
		many.reset(new (std::nothrow) u8[size]);
		if (!many)
			return no_memory("setting up interrupts");
		raw = {many.get(), size};
	}
	raw = raw.first(size);
	s.argsz = u32(raw.size());
	s.flags = flags | VFIO_IRQ_SET_ACTION_TRIGGER;
	s.index = index;
	s.start = first;
	s.count = u32(fds.size());
	memcpy(raw.data(), &s, sizeof(s));
	if (!fds.empty())
		memcpy(raw.data() + sizeof(s), fds.data(), fds.size_bytes());
	n = ioctl(fd_.get(), VFIO_DEVICE_SET_IRQS, raw.data());
	if (n < 0)
		return failed("configure interrupts");
	if (n > 0)
		return fail(ENOSPC, "%s: the machine has %d interrupts left for it, %zu are needed", name_.c_str(), n,
			    fds.size());
	return 0;
}

/* Duplicates the eventfds, so that a loss can be signalled after the caller closed its own. */
int kernel_device::irq_take(vectors *v, unsigned first, std::span<const int> fds)
{
	std::vector<unique_fd> copies;

	if (!try_resize(copies, fds.size()))
		return no_memory("the list of interrupts");
	for (size_t i = 0; i < fds.size(); i++) {
		if (fds[i] < 0)
			continue;
		copies[i].reset(fd_copy(fds[i]));
		if (!copies[i].valid())
			return fail_errno("interrupt eventfd %d", fds[i]);
	}
	std::lock_guard guard(fd_lock_);

	if (v->fd.size() < first + fds.size() && !try_resize(v->fd, first + fds.size()))
		return no_memory("the list of interrupts");
	for (size_t i = 0; i < fds.size(); i++)
		v->fd[first + i] = std::move(copies[i]);
	return 0;
}

/*
 * Enabled vectors can be changed one by one. To add more, older kernels require all vectors at once, from the
 * first on: then all are disabled and re-enabled, and *gap is set: interrupts may have been lost in between.
 */
int kernel_device::irq_apply(unsigned index, vectors *v, unsigned first, size_t count, bool *gap)
{
	std::vector<int> all;
	int err = 0;

	if (!try_reserve(all, std::max(v->fd.size(), size_t(v->enabled))))
		return no_memory("setting up interrupts");
	for (const unique_fd &fd : v->fd)
		push_reserved(all, fd.get());
	while (!all.empty() && all.back() < 0)
		all.pop_back();
	if (!all.empty() && first + count <= v->enabled) {
		while (all.size() < v->enabled)
			push_reserved(all, -1);
		return irq_ioctl(index, VFIO_IRQ_SET_DATA_EVENTFD, first, std::span(all).subspan(first, count));
	}
	if (v->enabled)
		err = irq_ioctl(index, VFIO_IRQ_SET_DATA_NONE, 0, {});
	if (err)
		return err;
	*gap |= v->enabled != 0;
	v->enabled = 0;
	if (all.empty())
		return 0;
	err = irq_ioctl(index, VFIO_IRQ_SET_DATA_EVENTFD, 0, all);
	if (!err)
		v->enabled = unsigned(all.size());
	return err;
}

int kernel_device::irq_set(unsigned index, unsigned first, std::span<const int> fds)
{
	u32 count;
	int err;

	if (lost())
		return lost_error();
	err = irq_count(index, &count);
	if (err)
		return err;
	if (fds.empty() || !range_within(first, fds.size(), count))
		return fail(EINVAL, "%s: interrupts %u to %zu of type %u, the device has %u", name_.c_str(), first,
			    first + fds.size(), index, count);
	/* Reserved: it signals the loss. */
	if (index == irq_req)
		return fail(EBUSY, "%s: the request interrupt is reserved for lost_fd()", name_.c_str());
	std::lock_guard guard(irq_lock_);
	vectors &v = vectors_[index];
	bool gap = false;

	err = irq_take(&v, first, fds);
	if (!err)
		err = irq_apply(index, &v, first, fds.size(), &gap);
	const saved_error why;

	/* Previously enabled vectors stay enabled; the vectors of this call are disabled. */
	if (err) {
		irq_drop(&v, first, fds.size());
		irq_apply(index, &v, first, fds.size(), &gap);
	}
	if (gap)
		irq_raise_all(v);
	return err ? why.again(err) : 0;
}

/* For who waits for one of them. */
void kernel_device::irq_raise_all(const vectors &v)
{
	for (const unique_fd &fd : v.fd)
		if (fd.valid())
			eventfd_write(fd.get(), 1);
}

void kernel_device::irq_drop(vectors *v, unsigned first, size_t count)
{
	std::lock_guard guard(fd_lock_);

	for (size_t i = first; i < v->fd.size() && i < first + count; i++)
		v->fd[i].reset();
}

int kernel_device::irqs_off()
{
	std::lock_guard guard(irq_lock_);

	for (unsigned i = 0; i < vectors_.size(); i++) {
		if (vectors_[i].enabled)
			irq_ioctl(i, VFIO_IRQ_SET_DATA_NONE, 0, {});
		vectors_[i].enabled = 0;
	}
	return 0;
}

/* Takes effect once; called by the monitor thread, or by a call that got ENODEV. */
void kernel_device::mark_lost(const char *why)
{
	if (!set_lost(&lost_))
		return;
	log_warn("%s: device lost: %s", name_.c_str(), why);
	bars_->replace_all();
	eventfd_write(lost_fd_.get(), 1);
	std::lock_guard guard(fd_lock_);

	for (const vectors &v : vectors_)
		irq_raise_all(v);
}

/* Sleeps until the kernel requests the device back, or until the device is closed. */
void *kernel_device::monitor_main(void *arg)
{
	auto *const dev = static_cast<kernel_device *>(arg);
	pollfd p[] = {{dev->request_fd_.get(), POLLIN, 0}, {dev->stop_fd_.get(), POLLIN, 0}};

	while (await_fds(p, 2, -1) < 0)
		;
	if (p[1].revents || !p[0].revents)
		return nullptr;
	/* Before the write: see config_bus_master(). */
	store_seq_cst(&dev->leaving_, true);
	/* The device still runs, and its users reclaim its memory once it is marked lost. */
	dev->bus_master_off();
	dev->mark_lost("the kernel requests it back (unplug, or unbind)");
	return nullptr;
}

int kernel_device::monitor_start()
{
	int request;
	u32 count;
	int err;

	lost_fd_.reset(eventfd_make());
	request_fd_.reset(eventfd_make());
	stop_fd_.reset(eventfd_make());
	if (!lost_fd_.valid() || !request_fd_.valid() || !stop_fd_.valid())
		return fail_errno("eventfd");
	err = irq_count(irq_req, &count);
	/* Kernels without it (before 4.0) report a loss by ENODEV only. */
	if (err || !count)
		return err;
	request = request_fd_.get();
	err = irq_ioctl(irq_req, VFIO_IRQ_SET_DATA_EVENTFD, 0, {&request, 1});
	if (!err)
		err = thread_start(&monitor_, "usdma-vfio", monitor_main, this);
	monitoring_ = !err;
	return err;
}

void kernel_device::monitor_stop()
{
	if (!monitoring_)
		return;
	eventfd_write(stop_fd_.get(), 1);
	pthread_join(monitor_, nullptr);
	monitoring_ = false;
	irq_ioctl(irq_req, VFIO_IRQ_SET_DATA_NONE, 0, {});
}

} // namespace usdma::vfio
