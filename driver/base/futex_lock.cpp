/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/futex_lock.h"

#include "driver/base/clock.h"

#include <cerrno>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace usdma {

static int wait_on(u32 *word, int op, u32 expected, u64 abs_ns)
{
	timespec t = {time_t(abs_ns / ns_per_s), long(abs_ns % ns_per_s)};
	const bool bounded = abs_ns != ~u64(0);

	if (syscall(SYS_futex, word, op, expected, bounded ? &t : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY) == 0)
		return 0;
	return -errno;
}

int futex_wait_until(u32 *word, u32 expected, u64 abs_ns)
{
	return wait_on(word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected, abs_ns);
}

int futex_wait_shared(u32 *word, u32 expected, u64 abs_ns)
{
	return wait_on(word, FUTEX_WAIT_BITSET, expected, abs_ns);
}

void futex_wake(u32 *word, int count)
{
	syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, nullptr, nullptr, 0);
}

void futex_wake_shared(u32 *word, int count)
{
	syscall(SYS_futex, word, FUTEX_WAKE, count, nullptr, nullptr, 0);
}

/* unlock_light() may have overwritten the 2: then no one wakes the sleeper. */
static constexpr u64 recheck_ns = 100 * ns_per_us;

void futex_lock::lock_slow()
{
	/* The holder is on the data path and releases within tens of nanoseconds, unless it is descheduled. */
	for (int i = 0; i < 100; i++) {
		if (load_relaxed(&word_) == 0 && try_lock())
			return;
		cpu_relax();
	}
	while (exchange_acquire(&word_, 2) != 0)
		futex_wait_until(&word_, 2, now_ns() + recheck_ns);
}

bool futex_lock::lock_until(u64 abs_ns)
{
	if (try_lock())
		return true;
	/* 2 from now on: there may be other waiters. */
	while (exchange_acquire(&word_, 2) != 0) {
		if (now_ns() >= abs_ns)
			return false;
		futex_wait_until(&word_, 2, abs_ns);
	}
	return true;
}

void futex_lock::wake_one()
{
	futex_wake(&word_, 1);
}

} // namespace usdma
