/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/wakes.h"

#include "driver/base/await_fds.h"
#include "driver/base/clock.h"
#include "driver/base/futex_lock.h"

#include <algorithm>
#include <cerrno>

namespace usdma {

static wake_counts before_any_device;
wake_counts *wakes = &before_any_device;
u64 wake_late_ns;

void wake_count(u64 wake_counts::*what)
{
	fetch_add_relaxed(&(load_acquire(&wakes)->*what), u64(1));
}

void wake_missed(int fd)
{
	pollfd p = {fd, POLLIN, 0};

	if (await_fds_ns(&p, 1, load_relaxed(&wake_late_ns)) == 0)
		wake_count(&wake_counts::lost);
}

void wake_missed(u32 *word, u32 asleep)
{
	const u64 until = now_ns() + load_relaxed(&wake_late_ns);

	while (load_acquire(word) == asleep && now_ns() < until)
		futex_wait_until(word, asleep, until);
	if (load_acquire(word) == asleep)
		wake_count(&wake_counts::lost);
}

[[gnu::visibility("default")]] int futex_wait_checked(u32 *word, u32 expected, u32 signalled, u64 abs_ns,
						      u64 recheck_ns)
{
	const u64 check = now_ns() + std::max(recheck_ns, load_relaxed(&wake_late_ns));
	const int err = futex_wait_until(word, expected, std::min(abs_ns, check));
	const u32 now = load_acquire(word);

	if (err == -ETIMEDOUT && check < abs_ns && (signalled == any_value ? now != expected : now == signalled))
		wake_count(&wake_counts::lost);
	return err;
}

} // namespace usdma
