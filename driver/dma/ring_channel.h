/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A channel over a hardware ring that runs some operations. An engine's driver adds the hardware: how a request becomes
 * a slot of the ring, how the ring is started, suspended and reset, and why it has halted.
 *
 * The hardware reports completions in a record of its own kind, by slots. The caller of completed() derives
 * completion_record::completed from it first, so no thread is on the path of a copy. The channel has a thread that
 * sleeps until the hardware's interrupt; it raises the eventfds of waiters, reports faults, and runs operations that
 * the hardware lacks, each when all before it have ended (softop.h). Slots of the ring have numbers of their own, as
 * these operations take none.
 *
 * What the hardware must do: run slots in order, or what order the API demands by a flag on each; say which slot ended
 * last, in memory or in a register, after its data; stop on command, behind what it has begun; begin anywhere in a
 * ring, or at its beginning, after a reset. If it stops at a slot that fails, and that is the one behind the last that
 * ended, derive from this class. If it goes on and writes a status for each, derive from status_channel. Else make it
 * stop: hand over one request, or one batch, at a time, and the next from took_news() (ptdma), or, if that takes lock_,
 * from proceed() (dsa).
 *
 *   ring_channel.cpp   the path of a request, interrupts, the thread
 *   ring_soft.cpp      operations that the hardware lacks
 *   ring_collect.cpp   completions
 *   ring_recover.cpp   faults, stop, resume, cancel, abort
 *   ring_memory.cpp    the memory that the hardware accesses
 */
#pragma once

#include "driver/base/futex_lock.h"
#include "driver/base/mapping.h"
#include "driver/base/unique_fd.h"
#include "driver/dma/engine.h"
#include "driver/dma/host_memory.h"

#include <mutex>
#include <pthread.h>
#include <vector>

#pragma GCC visibility push(default) /* for libusdma-sim, too */
namespace usdma::dma {

class ring_channel : public channel {
public:
	ring_channel(engine &e, host_memory &host, u32 index_);
	virtual ~ring_channel();
	ring_channel(const ring_channel &) = delete;
	ring_channel &operator=(const ring_channel &) = delete;

	/* size: requests. make_memory(), then begin(). */
	virtual int open(const channel_config &cfg, u32 size) = 0;
	/* Stops the thread and whatever it runs, and the hardware, if that may still execute something. */
	int end(bool is_off);
	/* Its memory stays, and mapped, as long as the device: end() has failed. */
	void retain_memory();
	/* Stops what the thread runs, until restart(). -ETIMEDOUT. */
	int freeze();
	bool is_begun() const { return load_acquire(&begun_); }
	/* Takes a freeze() back: nothing was reset. */
	void thaw();
	/* Stops and deletes it. */
	void close();
	/* The function was reset, and with it the hardware. */
	void forget();

protected:
	/* Zeroed memory that the hardware accesses; the record is at its beginning. */
	int make_memory(const char *name, u64 bytes);
	u8 *memory() const { return memory_.data(); }
	u64 iova() const { return iova_; }
	/* Otherwise the hardware's interrupt stays off, and rearm() is not called. */
	bool has_vector() const { return vector_ >= 0; }
	u64 iova_of(const void *at) const { return iova_ + u64(static_cast<const u8 *>(at) - memory_.data()); }
	/* The list of areas explains a fault of r. */
	bool find_fault(const request &r, fault_reason *why, u64 *at);

	/*
	 * Before begin(): ring_size. vector: the hardware's interrupt; -1: none, the thread polls. stores: ring() is a
	 * store to a mapped register, no message. Starts the hardware and the thread.
	 */
	int begin(const channel_config &cfg, int vector, bool stores = false);

	/* ---- the hardware: with lock_ held, unless said otherwise ---- */
	/*
	 * All else, and bad arguments, is softop's, each with a drained ring. True for nop, which a cancelled request
	 * becomes: a device without one copies an unused word. limits_.ops has the same operations.
	 */
	virtual bool in_hardware(const request &r) const = 0;
	/*
	 * Hot. A request into slot number i, of which as many are in use as the ring of requests has. The first is 1.
	 * Again after start(), which follows a fault, for each slot that is pending: it may have moved in the ring.
	 */
	virtual void build(u64 i, const request &r) = 0;
	/* Hot. Slots up to number last, the last one and not the one behind it, are to be run. */
	virtual void ring(u64 last) = 0;
	/* The thread runs, and it has not halted: hands over what had to wait. */
	virtual void proceed() {}
	/*
	 * After quiesce(): it will begin with slot number first. Clears what memory reports of before, and turns the
	 * interrupt on, or leaves it off without has_vector(). Slots are built, and rung, after it.
	 */
	virtual int start(u64 first) = 0;
	/* Stops between two requests, or has halted. -ETIMEDOUT: it has not, and goes on as before.
	 */
	virtual int suspend() = 0;
	/*
	 * From any state, also one that hangs. On return of 0 it accesses no memory; its report shows what completed
	 * before, and is not changed any more.
	 */
	virtual int reset() = 0;
	/* The same, if it may still run something. */
	virtual int quiesce() { return reset(); }
	/* It was, alone or with the function. */
	virtual void was_reset() {}
	/* It has halted by an error, read from memory: often. A device that does not write it there reads a register.
	 */
	virtual bool has_halted() = 0;
	/* The same, read from registers: right if the write to memory was lost. */
	virtual int read_halted(bool *out) = 0;
	/* The same, for a channel that may merely take long. */
	virtual int poll_halted(bool *halted) { return read_halted(halted); }
	/*
	 * Why; r: the request that failed, behind all that has completed. Clears the error, and stops what goes on
	 * after one. find_fault() knows more than most devices.
	 */
	virtual void read_fault(const request &r, fault_reason *why, u64 *at) = 0;
	/*
	 * Any thread: it may raise one interrupt when the next slot completes or it halts. flush: on return, a slot
	 * that completed before shows in the record: a write to a register, and a read to push it.
	 */
	virtual void rearm(bool flush) = 0;
	/* The thread, after an interrupt: it need raise none until the next rearm(). Empty if it masks itself. */
	virtual void disarm() {}
	/*
	 * The thread, without the lock: an operation that the hardware lacks. Of a fault why and where. By a
	 * soft_backend, or one derived from it.
	 */
	virtual softop::result execute(const request &r, fault_reason *why, u64 *at);
	/* Its state, for messages. */
	virtual void describe_hardware(char *buf, size_t size) = 0;
	/* ---- its report of completions: any thread ---- */
	/* Hot, without a lock. Slot next, which has been handed over, or a later one has ended. */
	virtual bool has_news(u64 next) const = 0;
	/*
	 * With collect_lock_ held: calls neither completed() nor what takes lock_. The last slot that has completed,
	 * before the first that failed; next - 1: none has.
	 */
	virtual u64 read_news(u64 next) = 0;
	/*
	 * With collect_lock_ held, after each read_news(). The record has them, so has_news() need not report them
	 * again. A report that the driver clears is cleared here: who found it cleared before the record has it would
	 * sleep for ever.
	 */
	virtual void took_news() {}
	/* After quiesce(), if the device goes on after an error: a slot that has not completed was run, and well. */
	virtual bool has_run(u64) const { return false; }
	/* Numbers of the last slot that was found completed, and of the last one handed over. */
	u64 collected() const { return load_acquire(&collected_); }
	u64 handed() const { return load_acquire(&handed_); }
	/* A word that a thread with collect_lock_ released. */
	static u64 read_shared(const u64 *word) { return load_acquire(word); }
	futex_lock collect_lock_; /* one thread reads the hardware's report */

	host_memory &host_;

private:
	friend struct ring_table;
	friend class soft_backend;
	using guard = std::unique_lock<futex_lock>;

	void submit_copy(u32 spaces, u64 src, u64 dst, u64 len, u64 cookie);
	unsigned post(const request *r, unsigned n);
	void doorbell();
	void arm(unsigned slot, u64 seq);
	bool withdraw(u64 seq);
	int completion_fd();
	unsigned cancel(u64 cookie);
	int resume();
	int stop();
	int abort();
	int restart();
	void describe(char *buf, size_t size);
	bool last_use(const iova_range &where, u64 *seq) const;

	void collect();
	void set_completed(u64 seq, u64 i);
	int map_memory(vfio::dma_area area);
	void unmap_memory();
	static void *thread_main(void *arg);
	void end_thread();
	void run();
	bool sleep(guard &g);
	void advance(guard &g, bool raised);
	bool run_soft(guard &g);
	void issue();
	bool hand_over();
	void announce();
	template <class F> bool wait_for(guard &g, const F &is_so);
	bool soft_is_next() const { return soft_ && !is_halted_ && !frozen_ && issued_ == completed(this); }
	request &slot(u64 seq) { return slots_[seq & (ring_size - 1)]; }
	u64 number_of(u64 seq) const { return hw_ - (issued_ - seq); }
	void raise(unsigned slot);
	void raise_due(bool all);
	void serve();
	bool expects_interrupt() const;
	bool is_behind() const;
	u64 awaited() const;
	bool is_due(u64 want) const;
	void rearm_if_due();
	int poll_ms();
	void wake_thread();

	void check_halt();
	void recheck(bool raised);
	void fault();
	void halt(u64 seq, u64 cookie, fault_reason why, u64 at);
	void handle_stop();
	int start_hardware();
	void run_again();
	u64 cookie_of(u64 seq) { return s64(tail_ - seq) >= 0 ? slot(seq).cookie : 0; }

	channel_config cfg_;
	unique_fd file_;
	mapping memory_;
	u64 iova_ = 0;
	completion_record *record_ = nullptr;
	u32 never_asleep_ = 0;
	unique_fd irq_[irq_slots], control_;
	int vector_ = -1;

	u64 collected_ = 0, handed_ = 0; /* atomic */
	u64 shift_ = 0;                  /* of a slot's number to its request's; under collect_lock_ */
	bool begun_ = false;             /* atomic */

	u64 arm_[irq_slots]; /* atomic, as the next three */
	u32 armed_ = 0;      /* the hardware may raise an interrupt, or the thread has one to handle */
	u32 waiting_ = 0;    /* in a WAIT */
	u32 stop_ = 0;

	futex_lock lock_; /* protects what follows */
	u32 changes_ = 0; /* of what wait_for() waits for; atomic */
	std::vector<request> slots_;
	u64 tail_ = 0;    /* last sequence number of a doorbell */
	u64 issued_ = 0;  /* last one handed to the hardware, or run by the thread */
	u64 hw_ = 0;      /* number of the last slot handed to the hardware */
	u64 seen_ = 0;    /* tail_ when the thread went to sleep */
	u64 served_ = 0;  /* last one that was checked for service interrupts … */
	u64 flagged_ = 0; /* … and the last one that has one */
	u32 held_ = 0;    /* coalesced service interrupts, and since when */
	u64 held_since_ = 0, rearm_at_ = 0;
	u64 rechecked_ = 0, rechecked_at_ = 0; /* completed when the registers were read last, or it moved, and when */
	bool deep_ = false;                    /* the thread sleeps until it is woken */
	bool soft_ = false;                    /* the next one is run by the thread … */
	bool soft_running_ = false;            /* … which has begun */
	bool is_halted_ = false, frozen_ = false, quit_ = false;
	pthread_t thread_ = {};
	bool started_ = false;
};

/* softop for the thread of a channel, which may be requested to stop. */
class soft_backend : public host_backend {
public:
	explicit soft_backend(ring_channel &c, const softop::bounds *limits = nullptr)
		: host_backend(c.host_, limits), c_(c)
	{
	}
	virtual ~soft_backend() = default;

protected:
	bool step(u64, bool) override;
	u64 wait_until(u32 limit_ms) override;
	softop::result pause(u64 until_ns) override;

private:
	void beat();

	ring_channel &c_;
	u64 poll_ns_ = 0;
};

} // namespace usdma::dma
#pragma GCC visibility pop
