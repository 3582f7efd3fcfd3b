/* SPDX-License-Identifier: BSD-3-Clause */
/* A channel's ring: descriptors in, completed numbers, interrupts and faults out. */
#include "driver/base/clock.h"
#include "driver/base/log.h"
#include "driver/sim/bus_error.h"
#include "driver/sim/models/sdma/engine.h"
#include "driver/sim/models/sdma/timing.h"

#include <cstring>

namespace usdma::sim {

using namespace sdma;

/* Descriptors that a channel may run before the next one's turn. */
static constexpr unsigned turn = 32;
/* Bytes of one turn, so that one channel's large copies do not starve the others. */
static constexpr u64 turn_bytes = MiB;
/* Completions after which the record is written at the latest. */
static constexpr u64 publish_every = 16;
/*
 * Descriptors are posted in batches. After a few in a row, the doorbell gives the number posted, and those are
 * prefetched: never one that the client may still be writing, whose cache line would have to return to it.
 */
static constexpr unsigned run_length = 8, run_ahead = 16;

static u64 *doorbell_word(const hw_channel &ch, u32 offset)
{
	return reinterpret_cast<u64 *>(ch.doorbell + offset);
}

/* True: something was done. */
bool engine::run_channel(hw_channel &ch)
{
	bool dry = false;
	unsigned n = 0;

	if (unlikely(!ch.has_record()))
		return wind_up(ch);
	if (unlikely(ch.remote != nullptr)) {
		const bool changed = step_remote(ch);

		if (!ch.has_record())
			return true;
		if (!ch.remote->state_is_sent()) {
			check_arms(ch);
			return changed;
		}
	}
	if (likely(ch.state == chan_state_running)) {
		n = run_guarded(ch, &dry);
		if (ch.state != chan_state_running && ch.state != chan_state_halted)
			return true;
		/*
		 * Also at the end of a turn: the next one may be late when other channels copy much. Until then head is
		 * the number of a completed descriptor, and only completed distinguishes that from one in flight.
		 */
		if (ch.next - 1 != ch.written)
			publish(ch);
		if (unlikely(ch.irq_count))
			flush_interrupt(ch, dry);
		/* Now, as another channel's turn may be long. */
		if (unlikely(ch.remote != nullptr) && step_remote(ch) && !ch.has_record())
			return true;
	}
	if (!n)
		check_arms(ch);
	return n != 0;
}

/* True: something has changed; the channel may have lost its ring. */
bool engine::step_remote(hw_channel &ch)
{
	const bool changed = ch.remote->step(ch.next,
					     ch.runs() ? load_acquire(doorbell_word(ch, doorbell_tail)) : ch.next - 1);

	if (ch.remote->lost()) {
		lose_ring(ch, "is not accessible: the client refuses, or does not answer");
		return true;
	}
	ch.remote->note_beat(now_ns());
	if (!changed)
		return false;
	if (ch.remote->interrupt_due && ch.has_reached_arm(ch.remote->interrupt_after)) {
		ch.remote->interrupt_after = ch.remote->interrupt_last;
		ch.remote->interrupt_due = !ch.has_reached_arm(ch.remote->interrupt_last);
		raise(ch.vectors[dma::irq_service]);
	}
	check_arms(ch);
	return true;
}

/* Returns the number of completed descriptors; dry: the next one is not posted yet. */
unsigned engine::run_ring(hw_channel &ch, bool *dry)
{
	unsigned n = 0;

	for (moved_ = 0; n < turn && moved_ < turn_bytes; n++) {
		const descriptor *slot = ch.slot(ch.next);

		/* Acquire: the tag is written last (sdma_regs.h), so the rest is there. */
		if (load_acquire(&slot->tag) != u32(ch.next)) {
			*dry = true;
			ch.run.queued = ch.run.next_probe = 0;
			return n;
		}
		if (n == run_length && s64(ch.posted - ch.next) < s64(turn + run_ahead))
			ch.posted = load_relaxed(doorbell_word(ch, doorbell_tail));
		if (s64(ch.posted - ch.next) >= s64(run_ahead))
			__builtin_prefetch(ch.slot(ch.next + run_ahead));
		descriptor d;
		read_descriptor(slot, &d);
		const u64 mem_base = load_relaxed(&m_.mem_base);

		store_relaxed(&ch.head, ch.next);
		result r = result::done;
		if (unlikely(special_))
			r = run_special(ch, d, mem_base);
		else if (unlikely(!copy_at_once(ch, d, mem_base)))
			r = execute(ch, d, mem_base);
		if (unlikely(load_relaxed(&bus_deaths) != deaths_))
			r = after_death(ch, r, d);
		if (likely(r == result::done)) {
			finish(ch, u8(d.flags | always_));
			continue;
		}
		if (r == result::fault)
			halt(ch, fault_reason_, fault_address_, d.cookie);
		/* One that is held remains what it was, in a WAIT or not. */
		if (likely(!ch.hold.held))
			store_relaxed(&ch.waiting, r == result::blocked);
		return n;
	}
	return n;
}

/* While armed, no function below may own what a destructor releases, nor access program memory under a lock. */
unsigned engine::run_guarded(hw_channel &ch, bool *dry)
{
	guarded_ = &ch;
	guard_.armed = 1;
	const unsigned n = unlikely(ch.device != nullptr) ? run_on_device(ch, dry) : run_ring(ch, dry);
	guard_.armed = 0;
	return n;
}

/* 0: not in an area that the channel used last. */
static u64 to_iova(const hw_channel &ch, const void *host)
{
	for (const window *w : {&ch.src, &ch.dst}) {
		const u64 off = u64(static_cast<const u8 *>(host) - w->host);

		if (w->host && off < w->size)
			return w->base + off;
	}
	return 0;
}

/* The program has truncated, unmapped or protected memory that the current descriptor accesses. */
void engine::fault_in_page()
{
	hw_channel &ch = *guarded_;

	access_channel_ = nullptr;
	met_dead_ = false;
	log_warn_limited("sim: channel %u: the memory at %p cannot be read or written any more", ch.index,
			 guard_.address);
	if (ch.state == chan_state_running)
		halt(ch, dma::fault_reason::transfer, to_iova(ch, guard_.address), ch.slot(ch.next)->cookie);
	ch.src = ch.dst = window();
}

/* Called before a descriptor moves on to another area: records whether it used a dead mapping. */
void engine::note_death(const window &w)
{
	met_dead_ |= is_dead(w.piece);
}

/*
 * The client truncated a file during this descriptor or another engine's, and zeros have replaced the mapping. A
 * descriptor that used it has copied these and fails; later ones cannot use it.
 */
engine::result engine::after_death(hw_channel &ch, result r, const descriptor &d)
{
	deaths_ = load_acquire(&bus_deaths);
	note_death(ch.src);
	note_death(ch.dst);
	const bool met = met_dead_;

	met_dead_ = false;
	revalidate();
	if (ch.state != chan_state_running)
		return result::stopped;
	return r != result::stopped && met ? fault(dma::fault_reason::transfer, d.dst) : r;
}

inline void engine::finish(hw_channel &ch, u8 flags)
{
	store_relaxed(&ch.waiting, false);
	ch.next++;
	if ((flags & (dma::flag_complete | dma::flag_interrupt)) || ch.next - 1 - ch.written >= publish_every) {
		publish(ch);
		/* Each of them, by always_. After the record, so that the next channel's WAIT finds it. */
		if (unlikely(m_.order != nullptr))
			m_.order->ended(ch, ch.next - 1);
	}
	if (unlikely(flags & dma::flag_interrupt))
		service_interrupt(ch);
}

/* For a descriptor that the device behind the model has run. */
void engine::end_one(hw_channel &ch, u8 flags)
{
	finish(ch, flags);
}

void engine::publish(hw_channel &ch)
{
	const u64 completed = ch.next - 1;

	if (unlikely(m_.wrong) && m_.wrong->drop_record(ch.index, completed))
		return;
	order_copies();
	/* Release: what the descriptors wrote is visible before the completed number. */
	store_release(&ch.record->completed, completed);
	ch.written = completed;
	if (unlikely(ch.remote != nullptr))
		ch.remote->note_completed();
	check_arms(ch);
}

/*
 * Interrupts armed for a number. No barrier between the record's store and this load: an engine that is awake
 * polls again, and one about to sleep does so after the barrier in sleep().
 */
void engine::check_arms(hw_channel &ch)
{
	for (unsigned slot = 0; slot < dma::irq_slots; slot++) {
		const u64 arm = load_acquire(doorbell_word(ch, doorbell_arm + slot * u32(cache_line)));

		if (likely(arm == arm_none || arm == ch.fired[slot]))
			continue;
		if (!ch.is_due(slot, arm))
			continue;
		ch.fired[slot] = arm;
		raise(ch.vectors[slot]);
	}
}

/* Only here the tail is compared with the ring: a wrong tag in a posted slot is a fault. */
void engine::check_tail(hw_channel &ch)
{
	if (!ch.runs() || ch.is_on_device())
		return;
	const u64 tail = load_acquire(doorbell_word(ch, doorbell_tail));

	if (s64(tail - ch.next) < 0 || (ch.remote && ch.remote->lacks(ch.next, tail)))
		return;
	if (load_acquire(&ch.slot(ch.next)->tag) != u32(ch.next))
		halt(ch, dma::fault_reason::bad_tag, ch.ring_iova + (ch.next & ch.mask) * sizeof(descriptor), 0);
}

void engine::raise(u32 vector)
{
	if (unlikely(m_.wrong) && m_.wrong->drop_interrupt(vector))
		return;
	m_.irqs.raise(vector);
}

/* Delayed until the client's record shows the completion that it signals. */
void engine::raise_service(hw_channel &ch)
{
	if (ch.remote && !ch.has_reached_arm(ch.written)) {
		if (!ch.remote->interrupt_due)
			ch.remote->interrupt_after = ch.written;
		ch.remote->interrupt_last = ch.written;
		ch.remote->interrupt_due = true;
	} else {
		raise(ch.vectors[dma::irq_service]);
	}
}

void engine::service_interrupt(hw_channel &ch)
{
	ch.irq_count++;
	if (ch.irq_count >= ch.irq_max) {
		ch.irq_count = 0;
		ch.irq_due = 0;
		raise_service(ch);
	} else if (ch.irq_hold_ns && !ch.irq_due) {
		ch.irq_due = now_ns() + ch.irq_hold_ns;
	}
}

/* Coalesced interrupts are raised when they are due; without a hold time, when the ring runs dry. */
void engine::flush_interrupt(hw_channel &ch, bool dry)
{
	const bool halted = ch.state == chan_state_halted;

	if (!halted && (ch.irq_hold_ns ? now_ns() < ch.irq_due : !dry && !ch.waiting))
		return;
	ch.irq_count = 0;
	ch.irq_due = 0;
	raise_service(ch);
}

void engine::halt(hw_channel &ch, dma::fault_reason reason, u64 address, u64 cookie)
{
	dma::completion_record &r = *ch.record;

	order_copies();
	if (ch.next - 1 != ch.written)
		publish(ch);
	store_relaxed(&r.reason, u32(reason));
	store_relaxed(&r.fault_seq, ch.next);
	store_relaxed(&r.fault_address, address);
	store_relaxed(&r.fault_cookie, cookie);
	/* Release: a reader that sees the state also sees the fault. */
	store_release(&r.state, u32(dma::state_halted));
	if (ch.remote)
		ch.remote->note_state();
	ch.reason = reason;
	store_relaxed(&ch.waiting, false);
	ch.stop_due = false;
	store_release(&ch.state, u32(chan_state_halted));
	if (ch.irq_count)
		flush_interrupt(ch, true);
	check_arms(ch);
}

/* Interrupted: when the same descriptor runs again, it continues from here. */
void engine::save_part(hw_channel &ch, const descriptor &d, u64 bytes, bool ended)
{
	ch.part.valid = true;
	ch.part.ended = ended;
	ch.part.seq = ch.next;
	ch.part.bytes = bytes;
	ch.part.of = d;
}

/* The client may have replaced the descriptor while the channel was halted. */
bool engine::is_part(const hw_channel &ch, const descriptor &d) const
{
	return unlikely(ch.part.valid) && ch.part.seq == ch.next && !memcmp(&ch.part.of, &d, sizeof(d));
}

/* Slow path: with hostile timing, delays or injected faults. */
engine::result engine::run_special(hw_channel &ch, const descriptor &d, u64 mem_base)
{
	return m_.order ? run_timed(ch, d, mem_base) : run_delayed(ch, d, mem_base);
}

engine::result engine::run_timed(hw_channel &ch, const descriptor &d, u64 mem_base)
{
	/* Held descriptors are no hang. */
	static constexpr u32 polls_per_beat = 8;

	if (!m_.order->may_run(ch)) {
		if (++ch.wait_polls % polls_per_beat == 0)
			store_relaxed(&ch.record->heartbeat, ++ch.heartbeat);
		return result::blocked;
	}
	const result r = run_delayed(ch, d, mem_base);
	if (r == result::blocked)
		m_.order->blocked(ch, d);
	else if (r == result::fault)
		m_.order->ended(ch, ch.next);
	return r;
}

engine::result engine::run_delayed(hw_channel &ch, const descriptor &d, u64 mem_base)
{
	const u64 begin = now_ns(), seq = ch.next;
	u64 delay = m_.cfg.latency_us * ns_per_us;

	ch.wait_is_reported = false;
	/* Once per descriptor, not at each poll of a WAIT. */
	if (m_.wrong && (!ch.waiting || ch.hung)) {
		u64 address = 0;

		ch.hung = m_.wrong->hang(ch.index, seq);
		if (ch.hung)
			return result::blocked;
		store_relaxed(&ch.waiting, false);
		ch.hung = m_.wrong->vanish(ch.index, seq);
		if (ch.hung) {
			if (m_.remote)
				m_.remote->hang_up();
			return result::blocked;
		}
		const dma::fault_reason reason = m_.wrong->descriptor(ch.index, seq, d.dst, &address);
		if (reason != dma::fault_reason::none)
			return fault(reason, address);
		const u64 more = m_.wrong->delay_ns(ch.index, seq);
		delay = more > delay ? more : delay;
	}
	const u64 before = moved_;
	const bool ended = is_part(ch, d) && ch.part.ended;
	const result r = ended ? result::done : execute(ch, d, mem_base);
	if (r != result::done)
		return r;
	const u64 moved = ended ? ch.part.bytes : moved_ - before;
	if (m_.cfg.rate) {
		const double ns = double(moved) * double(ns_per_s) / double(m_.cfg.rate);

		delay = ns > double(delay) ? u64(ns) : delay;
	}
	if (!delay || pause_until(ch, begin + delay))
		return r;
	save_part(ch, d, moved, true);
	return result::stopped;
}

} // namespace usdma::sim
