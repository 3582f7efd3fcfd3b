/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of software engines in this process that hang for as long as a test wants: in a signal's handler. */
#pragma once

#include <set>

namespace usdma::test {

/* Those of all embedded devices that are open now. */
std::set<int> engine_threads();
/* Each stands when it returns, wherever it was; they may hold locks of their device. */
void hold(const std::set<int> &threads);
/* They have gone on when it returns. */
void release_now();

} // namespace usdma::test
