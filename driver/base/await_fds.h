/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * poll(2) that also works once the program has restricted itself. The kernel counts the entries, not the descriptors,
 * against RLIMIT_NOFILE (EINVAL; poll(2), ERRORS), which sandboxes lower to 0 after they have opened what they need,
 * and a filter of system calls may forbid ppoll(2). select(2) has no such rule. Raw system calls: no cancellation
 * points.
 */
#pragma once

#include "driver/base/clock.h"
#include "driver/base/grow.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace usdma {

/* The two sets of select(2), a bit for each descriptor. */
class select_sets {
public:
	/* How many entries have no open descriptor: these are ready. -1: no memory. */
	int fill(pollfd *p, unsigned n)
	{
		int closed = 0;

		for (unsigned i = 0; i < n; i++) {
			const bool is_closed = p[i].fd >= 0 && fcntl(p[i].fd, F_GETFD) < 0;

			p[i].revents = is_closed ? POLLNVAL : 0;
			closed += is_closed;
			top_ = is_closed ? top_ : std::max(top_, p[i].fd);
		}
		words_ = size_t(top_ + 64) / 64;
		if (!try_resize(bits_, 2 * words_))
			return -1;
		for (unsigned i = 0; i < n; i++)
			for (const short event : {POLLIN, POLLOUT})
				if (p[i].fd >= 0 && !p[i].revents && p[i].events & event)
					word(p[i].fd, event) |= bit(p[i].fd);
		return closed;
	}
	long wait(const timespec *limit)
	{
		timespec left = limit ? *limit : timespec();

		return syscall(SYS_pselect6, top_ + 1, bits_.data(), bits_.data() + words_, nullptr,
			       limit ? &left : nullptr, nullptr);
	}
	/* How many entries are ready. */
	int take(pollfd *p, unsigned n)
	{
		int ready = 0;

		for (unsigned i = 0; i < n; i++) {
			for (const short event : {POLLIN, POLLOUT})
				if (p[i].fd >= 0 && !(p[i].revents & POLLNVAL) && p[i].events & event &&
				    word(p[i].fd, event) & bit(p[i].fd))
					p[i].revents |= event;
			ready += p[i].revents != 0;
		}
		return ready;
	}

private:
	static u64 bit(int fd) { return u64(1) << (fd % 64); }
	u64 &word(int fd, short event) { return bits_[size_t(fd) / 64 + (event == POLLOUT ? words_ : 0)]; }

	std::vector<u64> bits_;
	size_t words_ = 0;
	int top_ = -1;
};

inline timespec timespec_in(u64 ns)
{
	return {time_t(ns / ns_per_s), long(ns % ns_per_s)};
}

[[gnu::cold]] inline int await_by_select(pollfd *p, unsigned n, u64 ns)
{
	select_sets sets;
	const int closed = sets.fill(p, n);
	const timespec limit = timespec_in(closed ? 0 : ns);

	if (closed < 0 || sets.wait(ns == ~u64(0) && !closed ? nullptr : &limit) < 0)
		return -1;
	return sets.take(p, n);
}

/* ppoll(2) has failed with errno. */
[[gnu::cold]] [[gnu::noinline]] inline int await_otherwise(pollfd *p, unsigned n, u64 ns)
{
	const timespec some = timespec_in(std::min(ns, ns_per_ms));

#ifdef SYS_poll
	if (errno != EINTR && errno != EINVAL) {
		const u64 ms = ns / ns_per_ms + (ns % ns_per_ms != 0);

		if (const long got = syscall(SYS_poll, p, n, ns == ~u64(0) ? -1 : int(std::min<u64>(ms, INT_MAX)));
		    got >= 0)
			return int(got);
	}
#endif
	if (errno == EINTR)
		return -1;
	if (const int got = await_by_select(p, n, ns); got >= 0 || errno == EINTR)
		return got;
	/* The caller comes again, but not at once. */
	syscall(SYS_nanosleep, &some, nullptr);
	errno = EINTR;
	return -1;
}

/*
 * As poll(2): the number of entries with revents, 0 when the time (ns, ~0: no limit) is over, or -1: interrupted. Where
 * poll(2) is impossible, POLLIN and POLLOUT only.
 */
inline int await_fds_ns(pollfd *p, unsigned n, u64 ns)
{
	const timespec limit = timespec_in(ns);
	const long got = syscall(SYS_ppoll, p, n, ns == ~u64(0) ? nullptr : &limit, nullptr, 0);

	return got >= 0 ? int(got) : await_otherwise(p, n, ns);
}

/* ms < 0: no limit. */
inline int await_fds(pollfd *p, unsigned n, int ms)
{
	return await_fds_ns(p, n, ms < 0 ? ~u64(0) : u64(ms) * ns_per_ms);
}

} // namespace usdma
