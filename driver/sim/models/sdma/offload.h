/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors of a channel that the device behind the model runs (driver/sim/backend.h), oldest first. */
#pragma once

#include "driver/hw/sdma_regs.h"
#include "driver/sim/backend.h"
#include "driver/sim/bus_error.h"

namespace usdma::sim {

/* Used by its engine only. */
struct offload {
	static constexpr u32 most = 256; /* descriptors, and requests of the device */

	explicit offload(backend_client *c) : client(c) {}
	~offload()
	{
		clear();
		rest();
		if (to)
			client->note_detached();
	}
	offload(const offload &) = delete;
	offload &operator=(const offload &) = delete;

	struct item {
		sdma::descriptor of;
		u64 mem_base;             /* when it began */
		u64 last;                 /* number of the last request */
		bool open;                /* more are to be posted … */
		u64 done;                 /* … from this byte on */
		dma::fault_reason reason; /* it fails behind its last request … */
		u64 address;              /* … here */
		u32 deaths;               /* of mappings of clients, when it began */
	};

	struct request {
		u64 number, bytes;
	};

	item &front() { return items[first % most]; }
	item &back() { return items[(first + count - 1) % most]; }
	void push(const sdma::descriptor &d, u64 mem_base)
	{
		if (!active)
			client->note_work(true);
		active = true;
		count++;
		back() = {d, mem_base, 0, true, 0, dma::fault_reason::none, 0, load_acquire(&bus_deaths)};
	}
	void pop()
	{
		first++;
		count--;
	}
	/* The device has ended all of the oldest one's requests. */
	bool front_has_ended(u64 number)
	{
		const item &i = front();

		return !i.open && i.reason == dma::fault_reason::none && s64(number - i.last) >= 0;
	}
	/* The device has ended all up to this number. */
	void note_ended(u64 number)
	{
		while (requests && s64(number - oldest().number) >= 0)
			drop_oldest();
	}
	/* The engine is going to sleep: a channel that has work again at once has not rested. */
	void rest()
	{
		if (active && !count)
			client->note_work(false);
		active = count;
	}
	/* Of the next request; 0: it waits. */
	u64 next_bytes() const { return requests < most ? client->next_bytes(!requests) : 0; }
	bool takes_descriptor()
	{
		return count < most && next_bytes() &&
		       (!count || (!back().open && front().reason == dma::fault_reason::none));
	}
	/* note_ended() of this number would change something, or there is nothing to wait for but space in the ring. */
	bool has_ended(u64 number) { return count && (requests ? s64(number - oldest().number) >= 0 : !front().open); }
	void note_request(u64 number, u64 bytes)
	{
		sent[next_sent++ % most] = {number, bytes};
		requests++;
		back().last = number;
		client->note_begun(bytes);
	}
	/* What is in flight was cancelled, or is waited for by who unmaps its memory. */
	void clear()
	{
		while (requests)
			drop_oldest();
		count = 0;
	}

	const request &oldest() const { return sent[(next_sent - requests) % most]; }
	void drop_oldest()
	{
		client->note_ended(oldest().bytes);
		requests--;
	}

	backend_client *const client;
	std::unique_ptr<submitter> to;
	item items[most];
	u32 first = 0, count = 0;
	bool active = false; /* the client knows that the channel has work */
	request sent[most];  /* that have not ended */
	u32 next_sent = 0, requests = 0;
	u64 held_back = 0;             /* the descriptor that waits until the device has ended all before it */
	u64 progress = 0;              /* of the device, when last checked */
	u32 polls = 0;                 /* that have found nothing */
	sdma::status_block spare = {}; /* for a channel that is being switched off, and has lost its own */
};

} // namespace usdma::sim
