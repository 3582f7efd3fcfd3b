/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fault injection in the model. A test or usdma-sim derives from this; engines call at any time, so
 * implementations must be thread-safe. Without one, the data path pays one predictable branch.
 */
#pragma once

#include "driver/dma/request.h"

#pragma GCC visibility push(default)
namespace usdma::sim {

/* Faults of a reply to the client. */
enum class reply_fault : u8 { none, drop, close, cut_short, too_long, wrong_id, garbage, count };

/* What a device does wrong without a word. Made by all models but sdma's. */
enum class mistake : u8 {
	length,     /* a copy or fill leaves out its last byte */
	early,      /* a completion is reported before its data is written */
	completion, /* a completion names the descriptor before it; DSA: it is written behind its record */
	error,      /* a failed descriptor sets the wrong bit of CHANERR; DSA, HiSilicon: it reports success */
	vector,     /* a channel's reset loses its MSI-X vector, as an erratum of S1200 does; I/OAT only */
	count
};

class faults {
public:
	virtual ~faults() = default;

	/* Before a descriptor runs: a reason fails it, at *address (or dst, its destination); none lets it run. */
	virtual dma::fault_reason descriptor(u32, u64 /* seq */, u64 /* dst */, u64 * /* address */)
	{
		return dma::fault_reason::none;
	}
	/* Polled while true: the channel hangs, and does not report it. */
	virtual bool hang(u32 /* channel */, u64 /* seq */) { return false; }
	/* Called once per descriptor; true: the device closes the connection to its client. */
	virtual bool vanish(u32 /* channel */, u64 /* seq */) { return false; }
	/* The channel was disabled, the device was reset: ends the faults that last until then. */
	virtual void channel_off(u32 /* channel */) {}
	virtual void device_reset() {}
	/* Minimum duration of a descriptor. */
	virtual u64 delay_ns(u32 /* channel */, u64 /* seq */) { return 0; }
	virtual bool drop_interrupt(u32 /* vector */) { return false; }
	/* True: this write of the record is skipped; a later one covers its completions. */
	virtual bool drop_record(u32 /* channel */, u64 /* completed */) { return false; }
	/* Called once for each event of that kind. */
	virtual bool wrong(mistake) { return false; }
	/* Called for each reply to the client. */
	virtual reply_fault reply() { return reply_fault::none; }
	/* A positive errno refuses the DMA_MAP. */
	virtual int refuse_map(u64 /* iova */, u64 /* size */) { return 0; }
};

} // namespace usdma::sim
#pragma GCC visibility pop
