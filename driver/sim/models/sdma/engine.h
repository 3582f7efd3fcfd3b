/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An engine of the device: a thread that serves the rings of its channels in turn.
 *
 * engine.cpp: thread, sleep, commands. engine_ring.cpp: rings, records, interrupts. engine_ops.cpp: descriptors,
 * by driver/dma/softop. engine_move.cpp: address translation and data movement. engine_backend.cpp: descriptors that a
 * device behind the model runs.
 */
#pragma once

#include "driver/base/page_guard.h"
#include "driver/copy/copy.h"
#include "driver/copy/unordered.h"
#include "driver/dma/softop.h"
#include "driver/sim/engine_thread.h"
#include "driver/sim/models/sdma/hw_channel.h"

namespace usdma::sim {

/* Longer copies are moved in slices. */
inline constexpr u64 at_once = 64 * KiB, probe_every = 64 * KiB;
/* Bytes between two checks for a stop, an unmap or a command. */
inline constexpr u64 slice = 256 * KiB;
/* Size of a bounce buffer. */
inline constexpr u32 bounce_size = 64 * KiB;
using dma::valid_flags;
using dma::valid_spaces;

/* The error in a channel's setup registers; nullptr: none. */
const char *setup_error(const channel_regs &r);

class engine {
public:
	engine(machine &m, unsigned index);
	~engine();
	/* Before start: allocates what the thread needs. */
	int ready();
	engine(const engine &) = delete;
	engine &operator=(const engine &) = delete;

	int start();
	void stop();
	/*
	 * Server thread only: has the engine execute a chan_cmd_* with the current registers; done on return, except
	 * for what waits for an access to end. -ETIMEDOUT: still pending, to be executed later; -EBUSY until then.
	 */
	int command(hw_channel *ch, u32 cmd);
	/* Raises an interrupt on the engine's thread: only engines write to descriptors that the client holds. */
	int raise_for(u32 vector);
	/* A command for this channel is pending. */
	bool pending(const hw_channel *ch) const { return load_acquire(&cmd_pending_) && cmd_.channel == ch; }
	/* Same effect as a write to chan_wake. */
	void kick();
	/* Another engine has stored a word: a WAIT here may hold now. */
	void note_store();
	/* The doorbell eventfd of the client: writing it is a write to chan_wake. Never read or written here. */
	int bell_fd() const { return bell_.get(); }
	bool bell_rung() const; /* its counter is not 0 */

private:
	using result = dma::softop::result;
	using piece = dma::softop::piece; /* host nullptr: accessed by messages */
	class op_backend;
	/* One end of a transfer. */
	struct end {
		dma::space space;
		u64 addr;
		u32 right; /* vfio::dma_read: the source */
		window *cached;
	};
	struct order {
		hw_channel *channel = nullptr; /* nullptr: raise `vector` */
		u32 cmd = 0, vector = 0;
		channel_regs regs;
	};

	static void *thread_main(void *arg);
	int make_wake();
	int carry_out(const order &o);
	void run();
	void begin_poll();
	bool checkpoint(hw_channel &ch);
	void unlist(hw_channel &ch);
	void revalidate();
	bool resolve_control(hw_channel &ch);
	bool resolve_remote(hw_channel &ch);
	void step_others(const hw_channel &ch);
	void lose_ring(hw_channel &ch, const char *why);
	void idle();
	void publish_cpu();
	void sleep();
	bool nothing_to_do();
	u64 sleep_limit();
	bool any_waits() const;
	void note_waits(bool now);
	void let_others_run();
	bool cpu_is_busy();
	u64 polling_share() const;
	bool waits_hold();
	bool only_waits() const;
	void nap();
	void report_store();
	bool wait_wake(u64 limit_ns);

	void serve_command();
	void enable(hw_channel &ch, const channel_regs &regs);
	void disable(hw_channel &ch);
	bool wind_up(hw_channel &ch);
	void handle_stop(hw_channel &ch);
	void resume(hw_channel &ch);

	bool step_remote(hw_channel &ch);

	bool run_channel(hw_channel &ch);
	unsigned run_ring(hw_channel &ch, bool *dry);
	unsigned run_guarded(hw_channel &ch, bool *dry);
	void fault_in_page();
	void save_part(hw_channel &ch, const sdma::descriptor &d, u64 bytes, bool ended);
	bool is_part(const hw_channel &ch, const sdma::descriptor &d) const;
	result run_special(hw_channel &ch, const sdma::descriptor &d, u64 mem_base);
	result run_timed(hw_channel &ch, const sdma::descriptor &d, u64 mem_base);
	result run_delayed(hw_channel &ch, const sdma::descriptor &d, u64 mem_base);
	result after_death(hw_channel &ch, result r, const sdma::descriptor &d);
	void note_death(const window &w);
	void finish(hw_channel &ch, u8 flags);
	void end_one(hw_channel &ch, u8 flags);
	void publish(hw_channel &ch);
	void check_arms(hw_channel &ch);
	void check_tail(hw_channel &ch);
	void service_interrupt(hw_channel &ch);
	void flush_interrupt(hw_channel &ch, bool dry);
	void raise(u32 vector);
	void raise_service(hw_channel &ch);
	void halt(hw_channel &ch, dma::fault_reason reason, u64 address, u64 cookie);

	u64 on_device(const end &e, u64 left, u64 *out);
	bool is_on_device(end e, u64 len);
	bool find_in(end e, u64 len, u64 device, u64 *out);
	static end source_of(hw_channel &ch, const sdma::descriptor &d);
	static end target_of(hw_channel &ch, const sdma::descriptor &d);
	u64 client_address(hw_channel &ch, const sdma::descriptor &d, u64 device);
	bool may_offload(hw_channel &ch, const sdma::descriptor &d);
	bool next_request(hw_channel &ch, u64 most, dma::request *out, u64 *bytes);
	bool post_rest(hw_channel &ch);
	bool run_here(hw_channel &ch, const sdma::descriptor &d);
	static bool take_descriptor(hw_channel &ch, sdma::descriptor *out);
	unsigned begin_more(hw_channel &ch, bool *dry);
	void fail_oldest(hw_channel &ch, const dma::fault *f);
	void end_oldest(hw_channel &ch);
	static u64 ended_on_device(offload &o, dma::fault *f);
	bool met_truncated(hw_channel &ch);
	unsigned collect(hw_channel &ch);
	void stop_between(hw_channel &ch);
	unsigned run_on_device(hw_channel &ch, bool *dry);
	static void beat_on_device(hw_channel &ch);
	bool attach_device(hw_channel &ch);
	static void drop_record(hw_channel &ch);
	bool drain(hw_channel &ch);
	static bool has_news(const hw_channel &ch);

	result execute(hw_channel &ch, const sdma::descriptor &d, u64 mem_base);
	bool copy_elsewhere(hw_channel &ch, const sdma::descriptor &d);

	result fault(dma::fault_reason reason, u64 address);
	static end end_of(hw_channel &ch, const dma::softop::end &e)
	{
		return {e.space, e.addr, e.rights, e.rights == dma::softop::may_read ? &ch.src : &ch.dst};
	}
	bool find_mapped(const end &e, window *w);
	bool check_mapping(const end &e, u64 len);
	void fault_of(const end &e, u64 len);
	bool translate(const end &e, u64 left, piece *out);
	void fill_window(const end &e);
	void order_copies();
	void copy_in_run(copy_run *r, u8 *dst, const u8 *src, u64 len, cache_hint hint);
	bool copy_at_once(hw_channel &ch, const sdma::descriptor &d, u64 mem_base);
	result move(hw_channel &ch, end dst, end src, u64 len, cache_hint hint);
	result move_remote(hw_channel &ch, const end &dst, const piece &t, const end &src, const piece &s, u64 len);
	result remote(hw_channel &ch, bool write, u64 addr, void *buf, u64 len, bool whole = false);
	s32 wait_reply(hw_channel &ch, u64 until, bool whole);
	result verify_read(hw_channel &ch, u64 addr, const u8 *got, u64 len);
	bool pause_until(hw_channel &ch, u64 at_ns);
	u8 *bounce(unsigned which);

	machine &m_;
	dma_reader reader_;
	u64 generation_ = ~u64(0);
	u32 deaths_;            /* bus_deaths when last checked */
	bool met_dead_ = false; /* the current descriptor used a mapping that died since */
	bool special_;
	u8 always_; /* flags that every descriptor counts as having */
	bool napping_ = true;
	bool beat_due_ = false; /* a nap has passed: the next poll of a WAIT is a heartbeat */
	u32 idle_polls_ = 0;
	u32 cpu_ = 0; /* as published in the status blocks */
	u64 idle_since_ = 0, nap_ns_ = 0;
	u64 busy_until_ = 0; /* 0: no other program has taken the CPU */
	u64 spin_ns_;
	u32 cpus_;
	bool waits_ = false;     /* counted in waiting_engines */
	u64 moved_ = 0;          /* bytes in this turn of a channel */
	const copy_fn stream_;   /* stream_unordered() of the machine's tuning */
	bool unordered_ = false; /* copies since the last order_copies() may become visible late */
	u64 mem_base_ = 0;       /* for the current descriptor */
	dma::fault_reason fault_reason_ = dma::fault_reason::none;
	u64 fault_address_ = 0;
	std::vector<hw_channel *> active_;
	std::unique_ptr<u8[]> bounce_;
	remote_access remote_;
	const hw_channel *access_channel_ = nullptr; /* remote_ is in flight for this channel */
	page_guard guard_;                           /* armed while the thread runs descriptors */
	hw_channel *guarded_ = nullptr;              /* the channel of these descriptors */

	/* The server thread's side. */
	unsigned index_;
	unique_fd wake_;   /* private to this process */
	unique_fd bell_;   /* shared with the client */
	unique_fd sleeps_; /* edge-triggered epoll of both: neither is read, as a read could block */
	order cmd_;        /* owned by the engine while pending */
	alignas(cache_line) u32 cmd_pending_ = 0;
	u32 asleep_in_wait_ = 0; /* atomic */
	engine_thread thread_{reader_};
};

/*
 * The client may change the ring at any time: each part is read once, and that copy is checked and run. In few
 * accesses: the client writes the next slots meanwhile, and each access may have to fetch the cache line again.
 *
 * TSan knows no atomic access of 16 bytes, so it gets eight words instead of four pairs. That is equivalent:
 * nothing relies on a pair being one access (x86 does not guarantee it), the preceding acquire load of the tag
 * gives the order, and a client that rewrites a posted slot gets a mix of descriptors either way.
 */
static inline void read_descriptor(const sdma::descriptor *slot, sdma::descriptor *out)
{
	static_assert(sizeof(sdma::descriptor) == 8 * sizeof(u64) && alignof(sdma::descriptor) >= 16);
#if defined(__clang_analyzer__) /* which does not see the stores by words */
	*out = *slot;
#elif defined(__SANITIZE_THREAD__)
	const u64 *from = reinterpret_cast<const u64 *>(slot);
	u64 *to = reinterpret_cast<u64 *>(out);

	for (unsigned i = 0; i < 8; i++)
		to[i] = load_relaxed(from + i);
#else
	typedef u64 pair __attribute__((vector_size(16), may_alias));
	const volatile pair *from = reinterpret_cast<const volatile pair *>(slot);
	pair *to = reinterpret_cast<pair *>(out);
	const pair a = from[0], b = from[1], c = from[2], d = from[3];

	to[0] = a, to[1] = b, to[2] = c, to[3] = d;
#endif
}

/* Host address of [addr, addr + len); nullptr if not wholly in a mapped window. */
inline u8 *in_window(const window &w, u64 addr, u64 len)
{
	const u64 off = addr - w.base;

	return likely(w.host && range_within(off, len, w.size)) ? w.host + off : nullptr;
}

inline void set_status(hw_channel &ch, u8 *line0, u8 *line1)
{
	ch.record = reinterpret_cast<dma::completion_record *>(line0);
	ch.asleep = reinterpret_cast<u32 *>(line1 + offsetof(sdma::status_block, asleep) - cache_line);
	ch.cpu = reinterpret_cast<u32 *>(line1 + offsetof(sdma::status_block, cpu) - cache_line);
}

inline cache_hint hint_of(const sdma::descriptor &d)
{
	return d.flags & dma::flag_cache ? cache_hint::keep : cache_hint::none;
}

/* What was copied is visible before what this thread stores next. */
inline void engine::order_copies()
{
	if (likely(!unordered_))
		return;
	copy_order();
	unordered_ = false;
}

/*
 * Whether the source is cached, by all that is queued rather than by this piece: one that continues a copy of
 * stream_min bytes is not; scattered ones are probed once in 64 KiB. The first probe_min bytes in an empty ring count
 * as cached.
 */
static inline bool is_cached(copy_run *r, const copy_tuning &t, const u8 *src, u64 len)
{
	r->queued += len;
	r->contiguous = src == r->end ? r->contiguous + len : len;
	r->end = src + len;
	if (r->contiguous >= t.stream_min)
		return false;
	if (r->queued >= t.probe_min && r->queued >= r->next_probe) {
		r->cached = source_is_local(t, src, len);
		r->next_probe = r->queued + probe_every;
	}
	return r->queued < t.probe_min || r->cached;
}

inline void engine::copy_in_run(copy_run *r, u8 *dst, const u8 *src, u64 len, cache_hint hint)
{
	const copy_tuning &t = m_.tuning;

	if (likely(len <= t.small_max)) {
		order_copies();
		memmove(dst, src, len);
		return;
	}
	const copy_fn copy = is_cached(r, t, src, len) ? t.medium : hint == cache_hint::keep ? t.fetch : stream_;
	if (copy == stream_)
		unordered_ = true;
	else
		order_copies();
	copy(dst, src, len);
}

/*
 * Fast path: a short copy between the areas of the channel's last copies or device memory. False: not such a copy,
 * or an invalid one; nothing was done.
 */
inline bool engine::copy_at_once(hw_channel &ch, const sdma::descriptor &d, u64 mem_base)
{
	const window own = {mem_base, m_.mem_size, m_.mem, nullptr, 0};

	if (unlikely(d.op != u8(dma::opcode::copy) || d.reserved || (d.flags & ~valid_flags) ||
		     (d.spaces & ~valid_spaces) || d.len - 1 >= at_once))
		return false;
	const u8 *src = in_window(dma::src_space(d.spaces) == dma::space::device ? own : ch.src, d.src, d.len);
	u8 *dst = in_window(dma::dst_space(d.spaces) == dma::space::device ? own : ch.dst, d.dst, d.len);

	if (unlikely(!src || !dst))
		return false;
	copy_in_run(&ch.run, dst, src, d.len, hint_of(d));
	moved_ += d.len;
	return true;
}

} // namespace usdma::sim
