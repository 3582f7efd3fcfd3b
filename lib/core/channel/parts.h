/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of striped copies (stream/stripe.h) in the ring of a helper: a hardware queue without streams. */
#pragma once

#include "lib/core/device/device.h"

namespace usdma::core {

struct stripe_part {
	stream *owner;   /* null: destroyed */
	hw_queue *from;  /* the owner's hardware queue */
	u64 seq;         /* in the helper's ring; its WAIT, if any, is right before it */
	u64 after;       /* starts once the owner's ring has completed this; 0: at once */
	u64 first, last; /* sequence numbers of the copy in the owner's ring */
};

/* The parts in a helper's ring; under its lock. */
struct stripe_ledger {
	static constexpr u64 size = 64;
	u64 head = 0, tail = 0; /* free-running */
	stripe_part part[size];

	stripe_part &at(u64 i) { return part[i % size]; }
};

} // namespace usdma::core
