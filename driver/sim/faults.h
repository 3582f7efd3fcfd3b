/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What can be made to go wrong in the model.  A test or usdma-sim derives from
 * this and answers; any engine may ask at any time, so answers must be
 * thread-safe.  Without one, the data path pays one predictable branch.
 */
#pragma once

#include "driver/engines/sdma/sdma_hw.h"

namespace usdma::sim {

/* What may happen to an answer to the client. */
enum class reply_fault : u8 { none, drop, close, cut_short, too_long, wrong_id, garbage, count };

class faults {
public:
	virtual ~faults() = default;

	/* Before a descriptor runs: a reason fails it, none lets it run. */
	virtual dma::fault_reason descriptor(u32, u64 /* seq */, const sdma::descriptor &, u64 * /* address */)
	{
		return dma::fault_reason::none;
	}
	/* Asked again and again while true: the channel does nothing, and does not say so. */
	virtual bool hang(u32 /* channel */, u64 /* seq */) { return false; }
	/* Asked once a descriptor: the device closes the connection to its client. */
	virtual bool vanish(u32 /* channel */, u64 /* seq */) { return false; }
	/* The channel was switched off; the device was reset: what ends there. */
	virtual void channel_off(u32 /* channel */) {}
	virtual void device_reset() {}
	/* So long a descriptor takes at least. */
	virtual u64 delay_ns(u32 /* channel */, u64 /* seq */) { return 0; }
	virtual bool drop_interrupt(u32 /* vector */) { return false; }
	/* The record is not written this time; a later write tells of these ends as well. */
	virtual bool drop_record(u32 /* channel */, u64 /* completed */) { return false; }
	/* For each answer to the client. */
	virtual reply_fault reply() { return reply_fault::none; }
	/* A positive errno refuses the DMA_MAP. */
	virtual int refuse_map(u64 /* iova */, u64 /* size */) { return 0; }
};

} // namespace usdma::sim
