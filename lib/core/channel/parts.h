/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of spread copies (stream/stripe.h) in the ring of a hardware queue that no stream has. */
#pragma once

#include "lib/core/device/device.h"

namespace usdma::core {

struct stripe_part {
	stream *owner;   /* null: it is gone */
	hw_queue *from;  /* the owner's hardware queue */
	u64 seq;         /* in the helper's ring; its WAIT, if any, is right before it */
	u64 after;       /* begins when the owner's ring has come so far; 0: at once */
	u64 first, last; /* the copy's numbers in the owner's ring */
};

/* What is in a helper's ring; under its lock. */
struct stripe_ledger {
	static constexpr u64 size = 64;
	u64 head = 0, tail = 0; /* free-running */
	stripe_part part[size];

	stripe_part &at(u64 i) { return part[i % size]; }
};

} // namespace usdma::core
