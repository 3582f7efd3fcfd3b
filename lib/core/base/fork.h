/* SPDX-License-Identifier: BSD-3-Clause */
/* Fork detection: a child of fork(2) must not use the parent's devices. */
#pragma once

#pragma GCC visibility push(default)
namespace usdma::core {

/* Installs the fork handler; idempotent. */
void install_fork_handlers();
/* True in a child forked after install_fork_handlers(). */
bool forked();
/* Sets the error text; returns -EPERM. */
int fail_forked();

} // namespace usdma::core
#pragma GCC visibility pop
