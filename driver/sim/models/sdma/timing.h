/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timing that is legal but hostile (timing=): what a program may not rely on does not happen.
 *
 * late: a descriptor is held until something needs it, so that a source is read, and a destination written, as late
 * as the program permits. shuffle: as late, and the channels that have descriptors take turns in a random order, one
 * descriptor at a time over all engines. early is no matter of this class: each completion is reported at once.
 *
 * A descriptor is needed when
 *   - the client armed the waiter's interrupt (slot 0) for it or for a later one of its channel;
 *   - a WAIT that is needed waits for its channel, or for a word, which any descriptor may write;
 *   - the ring is nearly full;
 *   - it has been held for service_delay_ns while the service interrupt (slot 1) was armed for it, or for max_delay_ns.
 */
#pragma once

#include "driver/base/clock.h"
#include "driver/base/futex_lock.h"
#include "driver/sim/models/sdma/hw_channel.h"

namespace usdma::sim {

class timing {
public:
	static constexpr u64 service_delay_ns = 5 * ns_per_ms, max_delay_ns = 250 * ns_per_ms;
	/* Longest sleep of an engine that holds a descriptor: arms do not wake it. */
	static constexpr u64 nap_ns = 200 * ns_per_us;

	timing(const config &cfg) : shuffle_(cfg.timing == timing_kind::shuffle), random_(cfg.timing_seed) {}
	void set_channels(hw_channel *first, u32 n) { channels_ = first, count_ = n; }

	/* These are called by the channel's engine. */
	/* The channel starts. */
	void start(hw_channel &ch);
	/* Its next descriptor is posted: may it run? */
	bool may_run(hw_channel &ch);
	/* Descriptor seq did, and has ended: its number is in the record. Or it is blocked (a WAIT). */
	void ended(hw_channel &ch, u64 seq);
	void blocked(hw_channel &ch, const sdma::descriptor &d);

private:
	void find_need(hw_channel &ch);
	bool is_turn(hw_channel &ch);
	hw_channel *draw();
	void need_others(const hw_channel &ch, const sdma::descriptor &d);

	const bool shuffle_;
	u64 random_;
	hw_channel *channels_ = nullptr;
	u32 count_ = 0;
	futex_lock lock_;
	hw_channel *turn_ = nullptr; /* shuffle: the only one that may run, if it can; under lock_ */
	u64 round_ = 1;              /* descriptors that ended, of all channels; under lock_ */
};

} // namespace usdma::sim
