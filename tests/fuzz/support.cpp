/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fuzz/fuzz.h"

#include "driver/base/clock.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

namespace usdma::fuzz {

int next_descriptor()
{
	const int fd = fcntl(2, F_DUPFD_CLOEXEC, 3);

	if (fd >= 0)
		close(fd);
	return fd;
}

bool descriptors_are_back_at(int lowest)
{
	const deadline until = deadline::in_ms(20000);

	while (next_descriptor() != lowest)
		if (until.passed() || sched_yield())
			return false;
	return true;
}

} // namespace usdma::fuzz
