/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/machine.h"

#include <poll.h>

namespace usdma::sim {

/* An eventfd whose counter is full has been signalled already, and writing would block the unit. */
static bool writable(int fd)
{
	pollfd p = {fd, POLLOUT, 0};

	return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT);
}

void interrupts::raise(u32 vector)
{
	const u64 one = 1;

	if (vector >= fds_.size())
		return;
	lock_.lock();
	const int fd = fds_[vector].get();
	if (fd >= 0 && writable(fd) && write(fd, &one, sizeof(one)) < 0) {
		/* Only a peer that gave us no eventfd gets here; it misses its own interrupt. */
	}
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
