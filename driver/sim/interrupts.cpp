/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/interrupts.h"

#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/sim/signal_fd.h"

namespace usdma::sim {

interrupts::~interrupts()
{
	/* The engines have ended. */
	for (int fd : fds_)
		unique_fd(fd).reset();
}

/* No lock: the client decides how long the write takes. */
void interrupts::raise(u32 vector)
{
	if (vector >= fds_.size())
		return;
	const int fd = load_acquire(&fds_[vector]);
	if (fd >= 0)
		in_client_ ? signal_own_eventfd(fd) : signal_eventfd(fd);
}

void interrupts::set(u32 first, std::span<unique_fd> fds)
{
	for (size_t i = 0; i < fds.size(); i++) {
		const int old = fds_[first + i];

		store_release(&fds_[first + i], fds[i].release());
		fds[i].reset(old);
	}
	retire(fds);
}

void interrupts::clear(u32 first, u32 count)
{
	/* In batches as large as a message's; each is closed once the engines have ended their passes. */
	for (u32 at = 0; at < count;) {
		unique_fd none[64];
		const u32 n = std::min(count - at, u32(std::size(none)));

		set(first + at, {none, n});
		at += n;
	}
}

/* Closed once every engine has left the pass in which it may have read them. */
void interrupts::retire(std::span<unique_fd> fds)
{
	bool any = false;

	for (const unique_fd &fd : fds)
		any |= fd.valid();
	if (!any || space_.quiesce())
		return;
	log_warn("sim: an engine does not release an interrupt's eventfd");
	/* Without memory to store them they stay open for good. */
	const bool stored = try_reserve(stuck_, stuck_.size() + fds.size());
	for (unique_fd &fd : fds)
		if (fd.valid() && stored)
			push_reserved(stuck_, std::move(fd));
		else
			(void)fd.release();
}

} // namespace usdma::sim
