/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <unistd.h>

namespace usdma::fuzz {

int next_descriptor()
{
	const int fd = fcntl(2, F_DUPFD_CLOEXEC, 3);

	if (fd >= 0)
		close(fd);
	return fd;
}

} // namespace usdma::fuzz
