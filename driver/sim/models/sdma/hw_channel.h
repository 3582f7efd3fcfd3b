/* SPDX-License-Identifier: BSD-3-Clause */
/* A channel of the device. */
#pragma once

#include "driver/hw/sdma_regs.h"
#include "driver/sim/dma_space.h"
#include "driver/sim/models/sdma/machine.h"
#include "driver/sim/models/sdma/offload.h"
#include "driver/sim/models/sdma/remote_ring.h"

#include <memory>

namespace usdma::sim {

/* Limits of this device (reg_max_len, reg_ring_order). */
inline constexpr u64 model_max_len = 4 * GiB;
inline constexpr u32 model_min_order = 2, model_max_order = 16;
inline constexpr u64 ring_pages_max = (sizeof(sdma::descriptor) << model_max_order) / area_page + 1;

/* Of a channel, for timing.h. */
struct channel_hold {
	bool held = false; /* its next descriptor; the engine's, as are the next two */
	u64 last = 0;      /* up to here were posted … */
	u64 since = 0;     /* … when they began to be held, in ns */
	u64 needed = 0;    /* all up to this one are; atomic: any engine raises it */
	u64 done = 0;      /* last that has ended; under the lock, as is the rest */
	u64 record = 0;    /* IOVA of its status block */
	u64 blocked = 0;   /* round in which its WAIT did not hold */
};

/* State of short copies in a row, which selects their routine. */
struct copy_run {
	const u8 *end = nullptr; /* of the last source */
	u64 contiguous = 0;      /* bytes since a source that did not begin at end */
	u64 queued = 0;          /* bytes since the ring was last empty */
	u64 next_probe = 0;      /* value of queued at which a source is probed again */
	bool cached = false;     /* result of the last probe */
};

/* A channel's setup registers, as the client wrote them; server thread only. */
struct channel_regs {
	u64 ring_base = 0;
	u32 ring_order = 0;
	u32 vectors = 0;
	u64 record = 0;
	u64 first_seq = 0;
	u32 coalesce = 0;
	u32 completion = 0;
};

/* A channel, owned by its engine; others only read state, head, waiting and listed. */
struct alignas(cache_line) hw_channel {
	u8 **ring_pages = nullptr; /* ring_pages_max: a guest behind a virtual IOMMU maps scattered single pages */
	u64 ring_skip = 0;         /* offset of the ring in the first */
	/* The two lines of the status block, which may lie in two pages. */
	dma::completion_record *record = nullptr;
	u32 *asleep = nullptr, *cpu = nullptr;
	u8 *doorbell = nullptr;
	u64 next = 0;    /* sequence number of the descriptor to run next */
	u64 written = 0; /* last completed number in the record */
	u64 posted = 0;  /* last posted number read from the doorbell */
	u32 mask = 0;    /* of the client's ring */
	u32 slots = 0;   /* mask of ring_pages, which may hold a part of it (remote_ring.h) */
	u32 state = sdma::chan_state_off;
	u64 head = 0;
	window src, dst; /* areas of the last addresses */
	copy_run run;
	u64 fired[dma::irq_slots] = {};
	u32 vectors[dma::irq_slots] = {};
	bool waiting = false, listed = false; /* atomic: also read for chan_debug */
	bool wait_is_reported = false;        /* its WAIT is a dma::wait_reported */
	u32 wait_polls = 0;
	bool hung = false; /* by an injected fault */
	/* An interrupted descriptor: the part that must not be repeated. */
	struct {
		bool valid = false, ended = false;
		u64 seq = 0, bytes = 0;
		sdma::descriptor of = {};
	} part;
	u64 wait_until = 0; /* ns; ~0: no limit */
	u64 mem_base = 0;   /* as it was when the waiting descriptor started */
	u32 irq_count = 0;  /* coalesced service interrupts */
	u32 irq_max = 0;
	u64 irq_due = 0, irq_hold_ns = 0;
	u64 heartbeat = 0;
	dma::fault_reason reason = dma::fault_reason::none;
	u32 index = 0;
	u64 ring_iova = 0, record_iova = 0;
	std::unique_ptr<remote_ring> remote; /* nullptr: the engine accesses both directly */
	std::unique_ptr<offload> device;     /* nullptr: the engine runs all descriptors */
	bool stop_due = false;               /* stop after what is in flight */
	channel_hold hold;                   /* timing.h */
	channel_regs regs;                   /* server thread only: engines get copies */

	const sdma::descriptor *slot(u64 seq) const
	{
		const u64 at = ring_skip + (seq & slots) * sizeof(sdma::descriptor);

		return reinterpret_cast<const sdma::descriptor *>(ring_pages[at / area_page] + at % area_page);
	}
	/* For the engine: the channel executes descriptors. */
	bool runs() const { return state == sdma::chan_state_running && !waiting; }
	/* It has a record that may be written. */
	bool has_record() const { return state == sdma::chan_state_running || state == sdma::chan_state_halted; }
	/* The client's record shows it. */
	bool has_shown(u64 seq) const { return (remote ? remote->sent_completed() : written) >= seq; }
	/* An armed interrupt is due: the client's record shows what it signals. */
	bool has_reached_arm(u64 arm) const
	{
		return state == sdma::chan_state_halted ? !remote || remote->is_synced() : has_shown(arm);
	}
	bool is_due(unsigned slot, u64 arm) const
	{
		return slot == dma::irq_completion ? has_shown(arm) : has_reached_arm(arm);
	}

	bool is_on_device() const { return device && device->count; }

	/* By its engine, or after that has ended: drops all references to the client's memory. */
	void forget_memory()
	{
		device.reset();
		src = dst = window();
		record = nullptr;
		asleep = cpu = nullptr;
		remote.reset();
	}
};

} // namespace usdma::sim
