/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/machine.h"

#include "driver/sim/signal_fd.h"

namespace usdma::sim {

void interrupts::raise(u32 vector)
{
	if (vector >= fds_.size())
		return;
	lock_.lock();
	const int fd = fds_[vector].get();
	if (fd >= 0)
		signal_eventfd(fd);
	lock_.unlock();
}

void interrupts::set(u32 first, std::span<unique_fd> fds)
{
	lock_.lock();
	for (size_t i = 0; i < fds.size(); i++)
		fds_[first + i] = std::move(fds[i]);
	lock_.unlock();
}

void interrupts::clear(u32 first, u32 count)
{
	lock_.lock();
	for (u32 i = 0; i < count; i++)
		fds_[first + i].reset();
	lock_.unlock();
}

} // namespace usdma::sim
