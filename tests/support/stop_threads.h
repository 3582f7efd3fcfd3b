/* SPDX-License-Identifier: BSD-3-Clause */
/* Stops the threads of software engines in this process, in a signal's handler. */
#pragma once

#include <set>

namespace usdma::test {

/* The threads of all open embedded devices. */
std::set<int> engine_threads();
/* Returns when each has stopped, at any instruction; they may hold locks of their device. */
void stop_threads(const std::set<int> &threads);
/* Returns when all have left the handler. */
void resume_threads();

} // namespace usdma::test
