/* SPDX-License-Identifier: BSD-3-Clause */
/* Interrupts of the vfio-user client. */
#include "driver/base/eventfd.h"
#include "driver/base/fd.h"
#include "driver/base/grow.h"
#include "driver/vfio_user/device.h"

#include <algorithm>

namespace usdma::vfio {

/*
 * Wakes all waiters on interrupts of this device, which then find it lost. Non-blocking: the server holds the
 * eventfds, too, and may have filled them.
 */
void user_device::signal_lost()
{
	std::lock_guard guard(irq_lock_);

	for (const auto &[at, fd] : irq_fds_)
		eventfd_raise(fd.get());
}

int user_device::irq(unsigned index, irq_info *out)
{
	proto::irq_info info = {sizeof(info), 0, index, 0};
	int err;

	if (lost())
		return lost_error();
	out->count = 0;
	if (index >= num_irqs_)
		return 0;
	err = exchange(proto::command::device_get_irq_info, &info, sizeof(info));
	if (err)
		return err;
	/* MSI-X has 2048 vectors at most (PCI 3.0 §6.8.2.3), everything else fewer. */
	if (info.index != index || info.count > 2048)
		return broken(fail(EPROTO, "vfio-user reply about interrupt type %u: index %u, count %u", index,
				   info.index, info.count));
	out->count = info.flags & proto::irq_flag_eventfd ? info.count : 0;
	return 0;
}

int user_device::irq_send(unsigned index, u32 flags, unsigned start, unsigned count, std::span<const int> fds)
{
	proto::irq_set_head h = {sizeof(h), flags | proto::irq_set_action_trigger, index, start, count};
	const iovec part = {&h, sizeof(h)};

	return send_command(proto::command::device_set_irqs, {&part, 1}, fds);
}

/* Saves duplicates, so that the loss can be signalled after the caller closed its own. */
int user_device::irq_save(unsigned index, unsigned first, std::span<const int> fds)
{
	for (size_t i = 0; i < fds.size(); i++) {
		unique_fd copy(fd_copy(fds[i]));

		if (!copy.valid())
			return fail_errno("interrupt eventfd %d", fds[i]);
		std::lock_guard guard(irq_lock_);

		unique_fd *at = try_emplace(irq_fds_, std::pair{index, unsigned(first + i)});
		if (!at)
			return no_memory("the list of interrupts");
		*at = std::move(copy);
	}
	return 0;
}

void user_device::irq_forget(unsigned index, unsigned first, size_t count)
{
	std::lock_guard guard(irq_lock_);

	for (size_t i = 0; i < count; i++)
		irq_fds_.erase({index, unsigned(first + i)});
}

/* Consecutive vectors that are all enabled, or all disabled. */
int user_device::irq_set_run(unsigned index, unsigned first, std::span<const int> fds)
{
	int err;

	if (fds[0] < 0) {
		err = irq_send(index, proto::irq_set_data_eventfd, first, unsigned(fds.size()), {});
		if (!err)
			irq_forget(index, first, fds.size());
		return err;
	}
	if (!caps_.max_msg_fds)
		return fail(EOPNOTSUPP, "the vfio-user server accepts no descriptors, hence no interrupts");
	while (!fds.empty()) {
		const auto part = fds.first(std::min(fds.size(), size_t(caps_.max_msg_fds)));

		/* Before the message: a loss must signal these as soon as the reply arrives. */
		err = irq_save(index, first, part);
		if (!err)
			err = irq_send(index, proto::irq_set_data_eventfd, first, unsigned(part.size()), part);
		if (err) {
			irq_forget(index, first, part.size());
			return err;
		}
		first += unsigned(part.size());
		fds = fds.subspan(part.size());
	}
	return 0;
}

int user_device::irq_set(unsigned index, unsigned first, std::span<const int> fds)
{
	const auto off = [](int fd) { return fd < 0; };
	irq_info info;
	int err = irq(index, &info);

	if (err)
		return err;
	if (fds.empty() || !range_within(first, fds.size(), info.count))
		return fail(EINVAL, "interrupts %u to %zu of type %u, the device has %u", first, first + fds.size(),
			    index, info.count);
	if (fds.size() == info.count && std::all_of(fds.begin(), fds.end(), off)) {
		err = irq_send(index, proto::irq_set_data_none, 0, 0, {});
		if (!err)
			irq_forget(index, 0, info.count);
		return err;
	}
	while (!err && !fds.empty()) {
		const bool on = fds[0] >= 0;
		const size_t n = size_t(std::find_if(fds.begin(), fds.end(), [&](int fd) { return (fd >= 0) != on; }) -
					fds.begin());

		err = irq_set_run(index, first, fds.first(n));
		first += unsigned(n);
		fds = fds.subspan(n);
	}
	return err;
}

} // namespace usdma::vfio
