/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An engine of the engine: one thread that runs the rings of its channels in turn.
 *
 * engine.cpp: the thread, its sleep, commands.  engine_ring.cpp: rings, records,
 * interrupts.  engine_ops.cpp: descriptors, by driver/dma/softop.  engine_move.cpp:
 * addresses and the moving of bytes.
 */
#pragma once

#include "driver/base/page_guard.h"
#include "driver/dma/softop.h"
#include "driver/engines/sdma/sdma_hw.h"
#include "driver/sim/contiguous.h"
#include "driver/sim/far_ring.h"
#include "driver/sim/machine.h"

#include <memory>
#include <pthread.h>

namespace usdma::sim {

/* What this device can (reg_max_len, reg_ring_order). */
inline constexpr u64 model_max_len = 4 * GiB;
inline constexpr u32 model_min_order = 2, model_max_order = 16;
/* Copies up to here in one go; what is longer is moved in slices. */
inline constexpr u64 at_once = 64 * KiB;
/* A stop, an unmap or a command is noticed after so many bytes. */
inline constexpr u64 slice = 256 * KiB;
/* What goes through the engine itself does so in pieces of at most so many bytes. */
inline constexpr u32 bounce_size = 64 * KiB;
using dma::known_flags;
using dma::known_spaces;

/* What the client wrote into a channel's control page; the server thread's. */
struct channel_regs {
	u64 ring_base = 0;
	u32 ring_order = 0;
	u32 vectors = 0;
	u64 record = 0;
	u64 first_seq = 0;
	u32 coalesce = 0;
};

/* A channel as its engine sees it.  Only state, head, waiting and listed are read by others. */
struct alignas(cache_line) hw_channel {
	const sdma::descriptor *ring = nullptr;
	sdma::status_block *status = nullptr;
	u8 *doorbell = nullptr;
	u64 next = 0;    /* sequence number of the descriptor to run next */
	u64 written = 0; /* completed, as the record says */
	u64 known = 0;   /* posted so far, as the doorbell said */
	u32 mask = 0;    /* of the client's ring */
	u32 slots = 0;   /* mask of `ring`, which may be a part of it (far_ring.h) */
	u32 state = sdma::chan_state_off;
	u64 head = 0;
	window src, dst; /* where the last addresses were found */
	u64 fired[dma::irq_slots] = {};
	u32 vectors[dma::irq_slots] = {};
	bool waiting = false, listed = false; /* atomic: read by others as well, for chan_debug */
	u32 wait_looks = 0;
	bool hung = false; /* by a fault on demand */
	/* A descriptor that a stop cut short: how much of it must not be done again. */
	struct {
		bool valid = false, ended = false;
		u64 seq = 0, bytes = 0;
		sdma::descriptor of = {};
	} part;
	u64 wait_until = 0; /* ns; ~0: no limit */
	u64 mem_base = 0;   /* as it was when the descriptor began that waits now */
	u32 irq_count = 0;  /* service interrupts held back */
	u32 irq_max = 0;
	u64 irq_due = 0, irq_hold_ns = 0;
	u64 heartbeat = 0;
	dma::fault_reason reason = dma::fault_reason::none;
	u32 index = 0;
	u64 ring_iova = 0, record_iova = 0;
	contiguous ring_memory, record_memory;
	std::unique_ptr<far_ring> far; /* nullptr: both lie where the engine reaches them */
	bool stop_due = false;         /* once the access that is in flight has ended */
	channel_regs regs;             /* the server thread's own: engines get copies */

	/* The engine's looks: it takes descriptors from the ring … */
	bool runs() const { return state == sdma::chan_state_running && !waiting; }
	/* … it has a record that it may write … */
	bool has_record() const { return state == sdma::chan_state_running || state == sdma::chan_state_halted; }
	/* … and an interrupt that was asked for is due: the client's record says what it shall find there. */
	bool has_met(u64 arm) const
	{
		if (state == sdma::chan_state_halted)
			return !far || far->told();
		return (far ? far->sent_completed() : written) >= arm;
	}

	/* Its engine, or nobody any more: it has nothing of the client's memory before it. */
	void forget_memory()
	{
		src = dst = window();
		ring = nullptr;
		status = nullptr;
		ring_memory.drop();
		record_memory.drop();
		far.reset();
	}
};

/* What is wrong with a channel's set-up as such; nullptr: nothing. */
const char *setup_error(const channel_regs &r);

class engine {
public:
	engine(machine &m, unsigned index);
	~engine();
	/* Before start: what it needs is there. */
	int ready();
	engine(const engine &) = delete;
	engine &operator=(const engine &) = delete;

	int start();
	void stop();
	/*
	 * From one thread, the server's: has the engine carry out a chan_cmd_*, with the registers as they are now;
	 * done on return, but for what waits for an access to end.  -ETIMEDOUT: it is not yet, and will be; until then
	 * -EBUSY.
	 */
	int command(hw_channel *ch, u32 cmd);
	/* The same for the raising of an interrupt: no thread but an engine's writes to what the client holds. */
	int raise_for(u32 vector);
	/* A command for this channel has not been carried out yet. */
	bool pending(const hw_channel *ch) const { return load_acquire(&cmd_pending_) && cmd_.channel == ch; }
	/* As a write to chan_wake. */
	void kick();
	/* For the client, whose write is one to chan_wake: never read, never written here. */
	int bell_fd() const { return bell_.get(); }
	bool bell_rung() const; /* and nobody has read it since */

private:
	using result = dma::softop::result;
	using piece = dma::softop::piece; /* no host: by messages */
	class op_backend;
	/* One end of a transfer. */
	struct end {
		dma::space space;
		u64 addr;
		u32 right; /* vfio::dma_read: the source */
		window *near;
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
	void begin_pass();
	bool checkpoint(hw_channel &ch);
	void unlist(hw_channel &ch);
	void revalidate();
	bool resolve_control(hw_channel &ch);
	bool resolve_far(hw_channel &ch);
	void step_others(const hw_channel &ch);
	void lose_ring(hw_channel &ch, const char *why);
	void idle();
	void publish_cpu();
	void sleep();
	bool nothing_to_do();
	u64 sleep_limit();
	bool wait_wake(u64 limit_ns);

	void serve_command();
	void enable(hw_channel &ch, const channel_regs &regs);
	void disable(hw_channel &ch);
	bool wind_up(hw_channel &ch);
	void obey_stop(hw_channel &ch);
	void resume(hw_channel &ch);

	bool step_far(hw_channel &ch);

	bool run_channel(hw_channel &ch);
	unsigned run_ring(hw_channel &ch, bool *dry);
	unsigned run_guarded(hw_channel &ch, bool *dry);
	void fault_in_page();
	void keep_part(hw_channel &ch, const sdma::descriptor &d, u64 bytes, bool ended);
	bool is_part(const hw_channel &ch, const sdma::descriptor &d) const;
	result run_special(hw_channel &ch, const sdma::descriptor &d, u64 mem_base);
	result after_death(hw_channel &ch, result r, const sdma::descriptor &d);
	void note_death(const window &w);
	void finish(hw_channel &ch, u8 flags);
	void publish(hw_channel &ch);
	void check_arms(hw_channel &ch);
	void check_tail(hw_channel &ch);
	void service_interrupt(hw_channel &ch);
	void flush_interrupt(hw_channel &ch, bool dry);
	void raise(u32 vector);
	void raise_service(hw_channel &ch);
	void halt(hw_channel &ch, dma::fault_reason reason, u64 address, u64 cookie);

	result execute(hw_channel &ch, const sdma::descriptor &d, u64 mem_base);
	bool copy_elsewhere(hw_channel &ch, const sdma::descriptor &d);

	result fault(dma::fault_reason reason, u64 address);
	static end end_of(hw_channel &ch, const dma::softop::end &e)
	{
		return {e.space, e.addr, e.rights, e.rights == dma::softop::may_read ? &ch.src : &ch.dst};
	}
	bool find_mapped(const end &e, window *w);
	bool check_span(const end &e, u64 len);
	bool locate(const end &e, u64 left, piece *out);
	void meet(const end &e);
	bool copy_at_once(const hw_channel &ch, const sdma::descriptor &d, u64 mem_base);
	result move(hw_channel &ch, end dst, end src, u64 len, cache_hint hint);
	result move_remote(hw_channel &ch, const end &dst, const piece &t, const end &src, const piece &s, u64 len);
	result remote(hw_channel &ch, bool write, u64 addr, void *buf, u64 len, bool whole = false);
	s32 ask(hw_channel &ch, u64 until, bool whole);
	result doubt(hw_channel &ch, u64 addr, const u8 *got, u64 len);
	bool pause_until(hw_channel &ch, u64 at_ns);
	u8 *bounce(unsigned which);

	machine &m_;
	dma_reader reader_;
	u64 generation_ = ~u64(0);
	u32 deaths_;            /* of mappings of files, as far as has been looked */
	bool met_dead_ = false; /* the descriptor that is executed has touched one of those that died since */
	bool special_;
	bool napping_ = true;
	u32 idle_passes_ = 0;
	u32 cpu_ = 0; /* as its channels' status blocks say it */
	u64 idle_since_ = 0, nap_ns_ = 0;
	u64 spin_ns_;
	u64 moved_ = 0;    /* bytes in this turn of a channel */
	u64 mem_base_ = 0; /* for the descriptor that is executed */
	dma::fault_reason fault_reason_ = dma::fault_reason::none;
	u64 fault_address_ = 0;
	std::vector<hw_channel *> active_;
	std::unique_ptr<u8[]> bounce_;
	remote_access remote_;
	const hw_channel *asking_ = nullptr; /* remote_ is in flight for it */
	page_guard guard_;                   /* the thread's; armed while it runs descriptors, … */
	hw_channel *guarded_ = nullptr;      /* … which are this channel's */

	/* The server thread's side. */
	unsigned index_;
	unique_fd wake_;   /* nobody but this process has it */
	unique_fd bell_;   /* the client has it as well */
	unique_fd sleeps_; /* an epoll of both, by edges: neither is read, so that neither can block */
	pthread_t thread_ = {};
	bool running_ = false;
	order cmd_; /* the engine's while it is pending */
	alignas(cache_line) u32 cmd_pending_ = 0;
	u32 quit_ = 0, ended_ = 0;
};

/* The bytes of [addr, addr + len) where all of them lie in the window and can be touched. */
inline u8 *in_window(const window &w, u64 addr, u64 len)
{
	const u64 off = addr - w.base;

	return likely(w.host && range_within(off, len, w.size)) ? w.host + off : nullptr;
}

inline cache_hint hint_of(const sdma::descriptor &d)
{
	return d.flags & dma::flag_cache ? cache_hint::keep : cache_hint::none;
}

/*
 * The fast path: short, from and to where the channel's last ones were, or the device's
 * own memory.  False: it is another one, or not a right one, and nothing was done.
 */
inline bool engine::copy_at_once(const hw_channel &ch, const sdma::descriptor &d, u64 mem_base)
{
	const window own = {mem_base, m_.mem_size, m_.mem, nullptr, 0};

	if (unlikely(d.op != u8(dma::opcode::copy) || d.reserved || (d.flags & ~known_flags) ||
		     (d.spaces & ~known_spaces) || d.len - 1 >= at_once))
		return false;
	const u8 *src = in_window(dma::src_space(d.spaces) == dma::space::device ? own : ch.src, d.src, d.len);
	u8 *dst = in_window(dma::dst_space(d.spaces) == dma::space::device ? own : ch.dst, d.dst, d.len);

	if (unlikely(!src || !dst))
		return false;
	copy_bytes(m_.tuning, dst, src, d.len, hint_of(d));
	moved_ += d.len;
	return true;
}

} // namespace usdma::sim
