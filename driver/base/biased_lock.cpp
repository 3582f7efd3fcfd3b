/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/biased_lock.h"

#include "driver/base/biased_lock_slow.h"

#include <ctime>

namespace usdma {

/* An owner holds the lock for tens of nanoseconds, unless it is descheduled. */
void machine_memory::wait_outside(const u32 *inside)
{
	const timespec nap = {0, 50'000};

	/* Acquire: pairs with the owner's release of its flag. */
	for (unsigned i = 0; load_acquire(inside); i++)
		if (i < 100)
			cpu_relax();
		else
			nanosleep(&nap, nullptr);
}

template class biased_lock_over<machine_memory>;

} // namespace usdma
