/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device behind the models of several clients (usdma-sim --backend). Each channel of a client posts on a channel of
 * the device, which it may share; each area that a client maps for its model is mapped for the device, too, at an
 * address of the device that no other area has.
 *
 * A request that fails halts the device's channel. The monitor, a thread, records the fault for the client's channel
 * that posted the request, cancels what that one posted behind it, and resumes. It resets a channel that hangs, then
 * the device, and then gives the device up, as the library does.
 */
#pragma once

#include "driver/base/clock.h"
#include "driver/base/eventfd.h"
#include "driver/base/unique_fd.h"
#include "driver/dma/engine.h"
#include "driver/sim/shares.h"

#include <map>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <string>

#pragma GCC visibility push(default)
namespace usdma::sim {

class submitter;

/* A channel of the device, and who posts on it. */
struct backend_channel {
	static constexpr u32 most_submitters = 4096;
	struct entry {
		submitter *who = nullptr;
		u64 last = 0; /* number of the entry's last request: until it has ended, no other submitter gets it */
	};

	/* Protects what follows. Waiters sleep until it is free: all clients may wait for it on one CPU. */
	std::mutex lock;
	dma::channel *ch = nullptr;
	u32 used = 0; /* entries with a submitter; atomic */
	entry entries[most_submitters];
	bool stuck = false; /* it cannot be resumed */

	u32 polling = 0;  /* atomic: a thread reads the device's report of completions */
	u32 reported = 0; /* atomic: it has halted, and the monitor was woken */
	static constexpr u64 nowhere = ~u64(0);
	u64 stuck_at = nowhere; /* atomic: with so many completed, unmap() has given up */
	int wake_fd = -1;       /* the monitor's */

	/* The monitor's. */
	u64 completed = 0, heartbeat = 0, sampled_ns = 0, still_ns = 0, tried_at = 0;
	u8 tried = 0;
};

/* What a channel of a client has posted. Used by one thread, but for note(). */
class submitter {
public:
	submitter(backend_channel &on, u32 index) : on_(on), index_(index) {}
	~submitter();
	submitter(const submitter &) = delete;
	submitter &operator=(const submitter &) = delete;

	/* False: the ring is full, or a request has failed. *seq: its number among those of the device's channel. */
	bool post(dma::request r, u64 *seq);
	/* After posts: the device runs them. */
	void announce();
	/* The last number that has ended; that of a request which failed, only after failed() is true. */
	u64 ended();
	/* A request has failed, and those posted behind it do not run. */
	bool has_failed() const { return load_acquire(&failed_); }
	/* After has_failed(): which, and why; posts again. */
	dma::fault take_fault();
	/* Grows while the device's channel makes progress. */
	u64 progress() const;
	/* The request of this number is not the one that the device's channel runs now. */
	bool is_queued(u64 seq) const;

	/* With the lock of the device's channel: the first fault counts. */
	void note(const dma::fault &f);

private:
	backend_channel &on_;
	const u32 index_; /* entry of on_, and owner of the cookies */
	bool posted_ = false;
	dma::fault fault_ = {};
	u32 failed_ = 0; /* atomic */
};

/* Of a client, for users (usdmactl share). */
struct client_counts {
	u64 copies, bytes, failed;      /* that the device made, or that failed */
	u64 in_flight, in_flight_bytes; /* now */
	u64 areas, mapped;              /* now; bytes */
	u32 weight, channels;
};

/* Of the device, since it was opened. */
struct device_counts {
	u32 channels, submitters; /* of the device; channels of clients that use them */
	u64 mapped, faults, channel_resets, device_resets;
};

/* A client of the device, as its model uses it. What it has in flight on all its channels is limited (shares.h). */
class backend_client {
public:
	static constexpr u64 request_bytes = 256 * KiB; /* of one request, at most … */
	static constexpr u64 least_bytes = 4096;        /* … and of one that others of its user hold back */

	explicit backend_client(class backend &b) : on_(b) {}
	~backend_client();
	backend_client(const backend_client &) = delete;
	backend_client &operator=(const backend_client &) = delete;

	/* First: -EBUSY with a text. */
	int enter(u32 user, u32 weight_of_user);

	/* As those of the device. */
	const char *name() const;
	bool runs(dma::opcode op) const;
	u64 max_len() const;
	u32 most_areas() const;
	std::unique_ptr<submitter> attach();
	int map(const vfio::dma_area &area, u64 *iova);
	int unmap(u64 iova, u64 size);

	/*
	 * Most bytes of the next request of a channel; 0: the client has as much in flight as it may. A channel without
	 * any (idle) always gets some, so that the client's busy channels leave something to its others.
	 */
	u64 next_bytes(bool idle) const;
	void note_begun(u64 bytes)
	{
		fetch_add_relaxed(&in_flight_, 1);
		fetch_add_relaxed(&in_flight_bytes_, bytes);
	}
	void note_ended(u64 bytes)
	{
		fetch_add_relaxed(&in_flight_, ~u64(0));
		fetch_add_relaxed(&in_flight_bytes_, 0 - bytes);
	}
	void note_made(u64 bytes)
	{
		fetch_add_relaxed(&copies_, 1);
		fetch_add_relaxed(&bytes_, bytes);
	}
	void note_failed() { fetch_add_relaxed(&failed_, 1); }
	void note_detached() { fetch_add_relaxed(&channels_, ~u32(0)); }
	/* A channel has work for the device now, or none any more. */
	void note_work(bool begins);

	/* Any thread. */
	client_counts counts() const;
	void set_weight(u32 weight);

private:
	class backend &on_;
	shares::member share_;
	u32 channels_ = 0, working_ = 0; /* atomic, as are the next; working: channels that have work */
	u64 in_flight_ = 0, in_flight_bytes_ = 0;
	u64 copies_ = 0, bytes_ = 0, failed_ = 0;
	u64 areas_ = 0, mapped_ = 0;
};

class backend {
public:
	/* Opens the device and its channels; a channel that makes no progress for hang_ms hangs. */
	static int open(const std::string &device, u64 hang_ms, std::unique_ptr<backend> *out);
	~backend();
	backend(const backend &) = delete;
	backend &operator=(const backend &) = delete;

	/* Any thread. */
	u64 max_len() const { return engine_->limits().max_len; }
	bool runs(dma::opcode op) const { return engine_->limits().ops & dma::op_bit(op); }
	const char *name() const { return engine_->transport().name(); }
	const char *driver() const { return engine_->driver_name(); }

	void set_hang_ms(u64 ms) { store_relaxed(&hang_ns_, ms * ns_per_ms); }
	device_counts counts();
	/* What its clients share it by. */
	shares parts;

	/* Of one client, so that a hundred leave something to each other. */
	u32 most_areas() const { return most_areas_; }
	/* On the channel with the fewest; nullptr: there are too many, or no memory. */
	std::unique_ptr<submitter> attach();
	/* Maps the area at an address of the device, *iova. */
	int map(vfio::dma_area area, u64 *iova);
	/*
	 * Waits for what the device may do in the area, and for nothing else. On return of 0 it accesses it no more;
	 * -errno: it may.
	 */
	int unmap(u64 iova, u64 size);

	/* Readable when the device is lost, and accesses no memory any more. */
	int lost_fd() const { return lost_.get(); }

private:
	backend() = default;
	int start();
	int open_channels();
	int find_window(u64 size, u64 *iova);
	void drop_window(u64 iova);
	bool may_wait(backend_channel &c, u64 done, u64 *seen, deadline *until) const;
	bool wait_unused(backend_channel &c, const dma::iova_range &where);
	static void *monitor_main(void *arg);
	void monitor();
	void handle_fault(backend_channel &c);
	bool check(u64 now);
	bool is_hung(backend_channel &c, u64 now) const;
	void recover(backend_channel &c);
	int reset_channel(backend_channel &c);
	int reset_device();
	int restart_channels();
	int timeout() const;

	std::unique_ptr<dma::engine> engine_;
	std::unique_ptr<backend_channel[]> channels_;
	u32 count_ = 0;
	u64 hang_ns_ = 0; /* atomic, as the next */
	u64 faults_ = 0, channel_resets_ = 0, device_resets_ = 0;
	u32 most_areas_ = 0;
	vfio::address_limits limits_;
	unique_fd lost_, stop_, wake_;
	u32 ended_ = 0; /* atomic: the device is lost, and certain to access no memory */

	std::mutex window_lock_;     /* protects what follows */
	std::map<u64, u64> windows_; /* address → size */
	u64 next_window_ = 0;

	bool monitored_ = false;
	pthread_t monitor_ = {};
};

} // namespace usdma::sim
#pragma GCC visibility pop
