/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A channel that spreads long copies over several engines of a device (setting "stripe").
 *
 * It has rings of its own: channels of the device, each of another engine. Ring 0 is the channel's ring; the
 * others execute parts of copies only. WAITs keep the order: a part is preceded by a WAIT for the earlier requests,
 * unless they have completed, and ring 0 continues after a WAIT for each part. So the record of ring 0 is the
 * channel's: it counts a copy, and all that follows it, when all its parts have completed.
 *
 *   ring 0   ... NOP  part 0  WAIT ring 1  WAIT ring 2  ...
 *   ring 1   WAIT for the NOP  part 1
 *
 * The WAITs cannot deadlock, as each waits only for requests posted before it. A ring that halts at a failed part
 * has not counted it, so ring 0 does not pass its WAIT until the owner has resumed the channel. If a WAIT or the NOP
 * fails, its ring stays halted until the condition is met. A copy's failure is reported once.
 */
#pragma once

#include "driver/dma/engine.h"

namespace usdma::dma {

/* Shortest copy that is spread, by the value of the setting; 0: none. */
u64 striped_from(u64 setting);
/* The number of channels of striped_open(): each takes one of each engine. */
u32 striped_channels(const engine_limits &lim, u64 setting);
/* As engine::channel_open(), which it calls if there is nothing to spread over. */
int striped_open(engine *eng, unsigned index, const channel_config &cfg, u64 setting, channel **out);

} // namespace usdma::dma
