/* SPDX-License-Identifier: BSD-3-Clause */
/* Latency and bandwidth of a link by size; the figures are lines on standard output. */
#pragma once

#include "net/node.h"

namespace usdma::net {

struct measure_options {
	u64 each_ms = 300; /* of each size */
	u64 largest = sink_most;
};

/*
 * "latency BYTES ROUNDS MIN P50 P99" in nanoseconds, of a message and its answer; "bandwidth BYTES MESSAGES NS".
 * *answered: an answer came, to the first message at least.
 */
int measure(node &n, u32 slot, const measure_options &opt, bool *answered);

} // namespace usdma::net
