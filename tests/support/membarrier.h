/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that loses membarrier(2) while it runs. */
#pragma once

#include "driver/base/asym_barrier.h"
#include "tests/support/refuse_call.h"

#include <cerrno>

namespace usdma::test {

/* As refuse_call().  False: membarrier(2) still works. */
inline bool forbid_membarrier()
{
	return refuse_call(SYS_membarrier, EPERM) && !barrier_for_all();
}

} // namespace usdma::test
