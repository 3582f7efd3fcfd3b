/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices, numbered as USDMA_DEVICES lists them, each opened on first use and
 * closed with the last reference.  A hardware queue is a channel and the lock that its
 * submitters share; the first hardware queues belong to one stream each, the rest are shared.
 */
#pragma once

#include "driver/base/biased_lock.h"
#include "driver/base/clock.h"
#include "driver/dma/engine.h"
#include "lib/core/base/call_count.h"
#include "lib/core/base/fork.h"
#include "lib/core/config/config.h"
#include "lib/core/base/spin.h"
#include "lib/core/base/stats.h"
#include "lib/core/device/watchdog.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace usdma::core {

struct waiter;
struct stripe_ledger;

/*
 * Whose engines reach what lies at an address: a bit for each slot, and one for all devices that are not isolated.
 * A device reaches what has a bit of its own (device::reaches).
 */
inline constexpr u32 reach_common = u32(1) << max_devices;

class device;
struct hw_queue;

/* The hardware queues whose waiters' interrupt is one eventfd: one thread at a time sleeps on it, for all of them. */
struct irq_line {
	hw_queue *queues = nullptr; /* by hw_queue::next_on_line */
	waiter *leader = nullptr;   /* sleeps on the eventfd, the others on futexes */
	std::mutex lock;
};

struct alignas(64) hw_queue {
	biased_lock lock;       /* the channel's hot calls, and the queues of the streams on it */
	u32 streams = 0;        /* that use it; under dev->lock */
	bool exclusive = false; /* for one stream: may hold waits on the device */
	u64 wait_seq = 0;       /* last WAIT posted: until then the ring may wait for something outside */
	dma::channel *ch = nullptr;
	device *dev = nullptr;
	call_count calls;              /* waits in it for what is not of a stream that the caller holds */
	hwq_counters *count = &unseen; /* relaxed, changed under the lock (wakes, sleeps and spins without) */

	alignas(64) irq_line own_line{this}; /* in use unless another's has the same eventfd */
	irq_line *line = &own_line;          /* under its lock, the next two */
	hw_queue *next_on_line = nullptr;
	waiter *waiters = nullptr;           /* in its ring */
	std::atomic<bool> look_again{false}; /* its waiters are to look: set for the line's leader, which wakes them */
	wait_history waits;                  /* how long they took */
	std::atomic<u64> waited_bytes{0};    /* count->bytes when the last one began */
	watchdog hang;                       /* under dev->recover_lock, as are the next three */
	bool waited = false;                 /* for its turn, when it was last found still */
	u8 tried = 0;                        /* recover.cpp: how far its recovery went … */
	u64 tried_at = 0;                    /* … while completed was that */
	u32 stuck = 0;                       /* halted, and cannot be resumed */
	u64 join_seq = 0;                    /* last WAIT for parts in helpers' rings; changed under lock (stripe.h) */
	stripe_ledger *parts = nullptr;      /* a helper: the parts in its ring; no stream has it then */
	hwq_counters unseen;                 /* for hardware queues of no device in the table */
};

/* Units over which one copy is spread at most. */
inline constexpr u32 stripe_engines = 16;

class alignas(64) device {
public:
	u64 alive = 0;    /* the handle */
	call_count calls; /* that use it without a stream of it */
	unsigned slot = 0;
	u32 reaches = 0; /* bits of what its engine reaches: its own, and reach_common */
	u32 lends = 0;   /* the bit of host memory that is made for it: its own where it is isolated */
	std::string spec;
	std::unique_ptr<dma::engine> eng;
	std::vector<std::unique_ptr<hw_queue>> hw_queues; /* opened one by one as streams come */
	std::mutex lock;                                  /* hardware queues */
	void *heap = nullptr;                             /* memory.cpp's */
	struct stream *idle = nullptr;                    /* internal streams for synchronous copies, not in use */
	struct stream *abandoned = nullptr;               /* those whose call gave up waiting for their work */
	struct stream *forsaken = nullptr;                /* streams that were left when it was closed */
	std::mutex idle_lock;                             /* idle, abandoned */
	std::atomic<int> dead{0}; /* an errno once the device is lost or hung: ends every wait */
	u64 opened_ns = 0;
	u64 opening = 0; /* the number of this opening while its hardware queues are there; atomic */
	u64 kept = 0;    /* the same, from its close until it is known to write nothing any more; atomic */
	u64 attach = 0;  /* the number of this opening, until nothing of it can write any more; under memory's lock */
	u64 retired_bit = 0;            /* in span::retired, of a device that was closed and may still write */
	device *next_retired = nullptr; /* memory's list of those */
	device *next_closed = nullptr;  /* retire.cpp's */
	bool lends_memory = false;      /* its memory is still mapped into one that may */
	std::atomic<u64> lost_ns{0};    /* when dead was set */
	std::atomic<bool> quiet{false}; /* dead, and proven to write nothing any more */
	std::mutex recover_lock;        /* still; taken before lock and the hardware queues' locks */
	std::atomic<u64> looked_ns{0}, watched_ns{0};
	u64 asked_ns = 0; /* under recover_lock */
	std::atomic<hw_queue *> helper[stripe_engines] =
		{}; /* by engine: for parts of copies (stripe.h); changed under lock */

	/* It reaches no memory but its own, and no other device that. */
	bool isolated() const { return !(reaches & reach_common); }
	bool lost() const { return dead.load(std::memory_order_relaxed) || eng->lost(); }
	/* Lost, and known to write nothing any more.  A device that is lost may just hang, and go on later. */
	bool stopped();

	bool bar_cached = false; /* the CPU's loads from it are as cheap as from any memory (a software device) */
};

/* How many devices are configured; 0 and up, or -errno (bad USDMA_DEVICES). Opens none. */
int device_count();
/* The device string of a slot; nullptr: no such slot. */
const char *device_spec(unsigned slot);
/* The slot of the first device with this string; one that is not there yet joins at the end. -EINVAL, -ENOSPC. */
int device_add(const char *spec);
/* device::reaches of the device that is, was or may be open there, and was once. */
u32 slot_reaches(unsigned slot);
/* Opens at the first reference. -ENODEV: no such slot; or what opening gave. */
int device_get(unsigned slot, device **out);
/* At the last reference: waits for calls in progress and for its work, closes. */
void device_put(device *dev);
/* The same for who has a handle, which is dead afterwards if that was the last reference. -EBADF, -EPERM. */
int device_close_handle(const void *handle);
/* The open device of a slot, without a reference: inside a read section, or while something else keeps it. */
device *device_peek(unsigned slot);
/* The same, counted as in use until device_leave: its close waits for that. */
device *device_enter(unsigned slot);
void device_leave(device *dev);
/* One reference more to a device that the caller holds. -ENODEV: it is being closed. */
int device_ref(device *dev);
bool device_valid(const void *handle);
inline void *device_handle(const device *dev)
{
	return reinterpret_cast<void *>(load_relaxed(&dev->alive));
}
/* Calls fn for each open device, which cannot close meanwhile; no lock is held. */
void device_each(void (*fn)(device *dev, void *arg), void *arg);
/* For who opens and closes: an object, nullptr: there are too many; its handle is alive from now on; it is freed. */
device *device_new();
void device_start(device *dev);
void device_delete(device *dev);
void slot_set_reaches(unsigned slot, u32 reaches);
/*
 * After a wait that ended because the device is lost: until the device is proven to be quiet, a second after
 * the loss at most.
 */
void device_quiesce(device *dev);

/* What this floor asks of those above it: lib/core/upcalls.cpp. */
struct device_upcalls {
	/* At the first reference, and at the last one. */
	int (*open)(unsigned slot, device **out);
	void (*close)(device *dev);
};
extern const device_upcalls device_up;

} // namespace usdma::core
#pragma GCC visibility pop
