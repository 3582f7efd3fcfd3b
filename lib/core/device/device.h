/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices, numbered in the order of USDMA_DEVICES, opened on first use and closed with the last reference. A
 * hardware queue is a channel with the lock of its submitters; the first hardware queues are used by one stream
 * each, the rest are shared.
 */
#pragma once

#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/base/futex_lock.h"
#include "driver/dma/engine.h"
#include "lib/core/base/call_count.h"
#include "lib/core/base/fork.h"
#include "lib/core/config/config.h"
#include "lib/core/base/spin.h"
#include "lib/core/base/stats.h"
#include "lib/core/device/watchdog.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace usdma::core {

struct waiter;

/*
 * Reach of memory: the devices that can access it, a bit for each slot and one for all devices that are not
 * isolated. A device can access memory whose reach has a bit of device::reaches.
 */
inline constexpr u32 reach_common = u32(1) << max_devices;

class device;
struct hw_queue;

/* Most batches of deferred frees, see grace_batches. */
inline constexpr unsigned grace_most = 4;

/* Hardware queues whose waiters share one interrupt eventfd: one thread at a time sleeps on it for all of them. */
struct irq_line {
	hw_queue *queues = nullptr; /* by hw_queue::next_on_line */
	waiter *leader = nullptr;   /* sleeps on the eventfd, the others on futexes */
	std::mutex lock;
};

struct alignas(64) hw_queue {
	futex_lock lock;        /* protects the channel's ring and the queues of its streams */
	u32 streams = 0;        /* streams that use it; under dev->lock */
	bool exclusive = false; /* used by one stream: may block the ring in a WAIT */
	u64 wait_seq = 0;       /* last WAIT posted: until then the ring may be blocked in a WAIT; atomic */
	dma::channel *ch = nullptr;
	device *dev = nullptr;
	hw_queue *next_open = nullptr;    /* of device::opened */
	call_count calls;                 /* waits by callers that hold no stream of it */
	hwq_counters *count = &own_count; /* relaxed, changed under the lock (wakes, sleeps and spins without it) */

	alignas(64) irq_line own_line{this}; /* used unless another queue has the same eventfd */
	irq_line *line = &own_line;          /* under its lock, the next two */
	hw_queue *next_on_line = nullptr;
	waiter *waiters = nullptr; /* in its ring */
	bool recheck = false;      /* its waiters must recheck: set for the line's leader, which wakes them; atomic */
	wait_history waits;        /* durations of past waits */
	u64 waited_bytes = 0;      /* count->bytes when the last wait began; atomic */
	watchdog hang;             /* under dev->recover_lock, as are the next three */
	bool waited = false;       /* at the last check its engine was busy with other channels */
	u8 tried = 0;              /* recover.cpp: last recovery step … */
	u64 tried_at = 0;          /* … and the completed number at that time */
	u32 stuck = 0;             /* halted and could not be resumed */
	u64 mark[grace_most] = {}; /* see grace_batches; 0: passed; under memory_state::lock */
	u32 polls = 0;             /* timing late: queries that found work incomplete; atomic */
	struct ring_signal *signal = nullptr; /* see ring_signal.h; set under the lock, atomic */
	bool monitored = false;               /* by the progress thread, for its user; atomic */
	bool stops_others = false;            /* … for streams that stop others when they fail; atomic */
	u64 halt_armed = 0;     /* monitor.cpp: number of service interrupts when it was armed for a halt */
	hwq_counters own_count; /* counters of a queue without a slot in the status page */

	/* False: the lock, which is held during a recovery, was not free in time. */
	bool lock_until(deadline until);
};

/* Deferred frees that wait for the same work of a device. */
struct grace_batch {
	u64 last = 0;        /* up to this free */
	u64 after = 0;       /* the device's work behind gates up to this number must be in its rings; … */
	bool marked = false; /* … it is: then they must complete hw_queue::mark */
};

/*
 * Deferred frees (lib/core/memory/reclaim.cpp) whose earlier work on the device has ended, by their numbers; under
 * memory_state::lock.
 */
struct grace_batches {
	u64 passed = 0; /* up to this free */
	grace_batch batch[grace_most];
	unsigned first = 0, n = 0;
	hw_queue *blocked = nullptr;        /* the first batch waits for its mark */
	u64 posted = 0;                     /* work behind gates up to here is in the rings; found out when … */
	u64 seen_left = 0, seen_queued = 0; /* … gated_left and the latest number were these */
	bool ended = false;                 /* memory_end() */

	unsigned slot(unsigned i) const { return (first + i) % grace_most; }
	u64 newest() const { return n ? batch[slot(n - 1)].last : passed; }
};

class alignas(64) device {
public:
	/* Publishes an opened hardware queue; under lock. */
	void add(unsigned i, std::unique_ptr<hw_queue> l)
	{
		l->next_open = opened;
		/* Release: a reader of the list sees it initialized. */
		store_release(&opened, l.get());
		hw_queues[i] = std::move(l);
	}

	u64 alive = 0;    /* the handle */
	call_count calls; /* calls in progress that hold no stream of it */
	unsigned slot = 0;
	u32 reaches = 0;    /* reach bits that it can access: its own, and reach_common unless isolated */
	u32 host_reach = 0; /* reach of host memory allocated for it: its own bit if isolated */
	std::string spec;
	std::unique_ptr<dma::engine> eng;
	std::vector<std::unique_ptr<hw_queue>> hw_queues; /* opened on demand */
	std::mutex lock;                                  /* the list of hardware queues */
	hw_queue *opened = nullptr;         /* the same by hw_queue::next_open, which only grows; atomic */
	void *heap = nullptr;               /* lib/core/memory: device_heap */
	struct stream *idle = nullptr;      /* unused internal streams for synchronous copies */
	struct stream *timed_out = nullptr; /* internal streams whose call timed out */
	struct stream *orphaned = nullptr;  /* streams not destroyed when it was closed */
	std::mutex idle_lock;               /* idle, timed_out */
	int dead = 0; /* an errno once the device is lost or hung: terminates every wait; atomic */
	u64 opened_ns = 0;
	u64 opening = 0;       /* number of this opening while its hardware queues are valid; atomic */
	u64 closing = 0;       /* the same, from close until it has quiesced; atomic */
	bool attached = false; /* until it has quiesced; under memory_state::lock */
	grace_batches grace;
	u64 lost_bit = 0;               /* in dma_range::mapped_by_lost; of a closed device that may still write */
	device *next_closed = nullptr;  /* list in retire.cpp */
	bool is_mapped_by_lost = false; /* its memory is still mapped into a lost device */
	u64 lost_at_ns = 0;             /* when dead was set; atomic */
	u32 loss_reported = 0;          /* a call has returned -ENODEV; atomic */
	bool quiesced = false;          /* dead, and verified not to write any more; atomic */
	std::mutex recover_lock;        /* hang state; taken before lock and the hardware queues' locks */
	u64 polled_ns = 0, hangs_checked_ns = 0; /* atomic */
	u64 probed_ns = 0;                       /* under recover_lock */

	/* Isolated: no peer access in either direction, and host memory of its own only. */
	bool isolated() const { return !(reaches & reach_common); }
	bool lost() const { return load_acquire(&dead) || eng->lost(); }
	/* Lost and quiesced. A lost device may merely hang and resume its work later. */
	bool stopped();

	check_timing timing = check_timing::plain;
	bool bar_cached = false; /* CPU loads from its memory are cached (a software device) */
	bool cpu_copies = false; /* the CPU makes copies that the engine cannot do directly, of any length */
};

/* Number of configured devices, or -errno (bad USDMA_DEVICES). Opens none. */
int device_count();
/*
 * The device string of a slot, for those that open it or have added it: one that cannot be opened is freed, and
 * replaced by the next new one. nullptr: no such slot.
 */
const char *device_spec(unsigned slot);
/* The start of it, for others. False: no such slot. */
bool device_spec_copy(unsigned slot, char *to, size_t size);
/* device::reaches of the slot's device; valid even while it is closed, once it was opened. */
u32 slot_reaches(unsigned slot);
/* Devices that are open now. */
u32 device_open_count();
/* Opens at the first reference. -ENODEV: no such slot; or the error of opening. */
int device_get(unsigned slot, device **out);
/* The first device with this string; appends it to the list, and keeps it there once it was open. -EINVAL, -ENOSPC. */
int device_get_by_name(const char *spec, device **out);
/* At the last reference: waits for calls in progress and for pending work, then closes. */
void device_put(device *dev);
/*
 * As device_put() by handle, which the last reference invalidates. -EBADF, -EPERM: nothing was done; else an error of
 * work that no call has reported.
 */
int device_close_handle(const void *handle);
/* The open device of a slot, without a reference: inside a read section, or while the caller holds one. */
device *device_peek(unsigned slot);
/* As device_peek(), but counted as in use until device_leave(), for which close waits. */
device *device_enter(unsigned slot);
void device_leave(device *dev);
/* Adds a reference to a device that the caller holds. -ENODEV: it is being closed. */
int device_ref(device *dev);
/* The object of a live handle; nullptr: not live. */
device *device_find(const void *handle);
inline void *device_handle(const device *dev)
{
	return reinterpret_cast<void *>(load_relaxed(&dev->alive));
}
/* Calls fn for each open device, which cannot close meanwhile; no lock is held. */
void device_each(void (*fn)(device *dev, void *arg), void *arg);
/* For open and close: allocate (nullptr: too many), publish the handle, free. */
device *device_new();
void device_start(device *dev);
void device_delete(device *dev);
void slot_set_reaches(unsigned slot, u32 reaches);
/* -ENODEV, for the caller of the library. */
[[gnu::cold]] int fail_lost(device *dev);
/*
 * After a wait that failed because the device is lost: waits until it has quiesced, at most until a second
 * after the loss.
 */
void device_quiesce(device *dev);

/* Functions of upper layers that this layer calls: lib/core/upcalls.cpp. */
struct device_upcalls {
	/* At the first reference, and at the last one. */
	int (*open)(unsigned slot, device **out);
	int (*close)(device *dev);
};
extern const device_upcalls device_up;

} // namespace usdma::core
#pragma GCC visibility pop
