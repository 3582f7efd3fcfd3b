/* SPDX-License-Identifier: BSD-3-Clause */
/* A child of fork(2) shares the parent's devices, and may use none of this. */
#pragma once

#pragma GCC visibility push(default)
namespace usdma::core {

/* From now on a child knows that it is one.  Once; later calls do nothing. */
void watch_forks();
/* True in a child of fork(2) that came after watch_forks(). */
bool forked();
/* Says so; -EPERM. */
int fail_forked();

} // namespace usdma::core
#pragma GCC visibility pop
