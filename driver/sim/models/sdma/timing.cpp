/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/models/sdma/timing.h"

#include <mutex>

namespace usdma::sim {

using namespace sdma;

static u64 doorbell_read(const hw_channel &ch, u32 offset)
{
	return load_acquire(reinterpret_cast<u64 *>(ch.doorbell + offset));
}

static void raise_to(u64 *word, u64 value)
{
	u64 seen = load_relaxed(word);

	while (seen < value && !cmpxchg_acquire(word, &seen, value))
		;
}

/* Steele, Lea, Flood: SplitMix64. */
static u64 next_random(u64 *state)
{
	u64 z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* With the lock held. */
static bool is_pending(const hw_channel &ch)
{
	return load_acquire(&ch.state) == chan_state_running && doorbell_read(ch, doorbell_tail) > ch.hold.done;
}

void timing::start(hw_channel &ch)
{
	std::lock_guard guard(lock_);

	ch.hold.held = false;
	ch.hold.last = ch.hold.since = 0;
	store_relaxed(&ch.hold.needed, u64(0));
	ch.hold.done = ch.next - 1;
	ch.hold.record = ch.record_iova;
	ch.hold.blocked = 0;
}

/* A client that waits for a slot may do so without an interrupt. */
static bool is_nearly_full(const hw_channel &ch, u64 tail)
{
	return tail - (ch.next - 1) > (u64(ch.mask) + 1) / 4 * 3;
}

void timing::find_need(hw_channel &ch)
{
	channel_hold &h = ch.hold;
	const u64 tail = doorbell_read(ch, doorbell_tail), arm = doorbell_read(ch, doorbell_arm);
	const u64 service = doorbell_read(ch, doorbell_arm_service), now = now_ns();

	if (h.last < ch.next) {
		h.last = tail > ch.next ? tail : ch.next;
		h.since = now;
	}
	if (arm != arm_none && arm >= ch.next)
		raise_to(&h.needed, arm);
	else if (is_nearly_full(ch, tail))
		raise_to(&h.needed, tail - ch.mask / 2);
	else if (service != arm_none && service >= ch.next && now - h.since > service_delay_ns)
		raise_to(&h.needed, service);
	else if (now - h.since > max_delay_ns)
		raise_to(&h.needed, h.last);
}

/* The channel whose turn is next; nullptr: nothing is needed, or all that is pending is blocked. With the lock held. */
hw_channel *timing::draw()
{
	bool needed = false;
	u64 n = 0;

	for (u32 i = 0; i < count_; i++) {
		const channel_hold &h = channels_[i].hold;

		if (!is_pending(channels_[i]))
			continue;
		needed |= load_relaxed(&h.needed) > h.done;
		n += h.blocked != round_;
	}
	if (!needed || !n)
		return nullptr;
	u64 skip = next_random(&random_) % n;
	for (u32 i = 0; i < count_; i++)
		if (is_pending(channels_[i]) && channels_[i].hold.blocked != round_ && !skip--)
			return &channels_[i];
	return nullptr;
}

/*
 * Which channels take part depends on what was posted, not on when their engines see it: the same program has the
 * same order. A blocked WAIT is polled without a turn when nothing else can run.
 */
bool timing::is_turn(hw_channel &ch)
{
	std::lock_guard guard(lock_);

	if (!turn_ || !is_pending(*turn_))
		turn_ = draw();
	return turn_ ? turn_ == &ch : ch.hold.blocked == round_;
}

bool timing::may_run(hw_channel &ch)
{
	if (ch.next > load_relaxed(&ch.hold.needed))
		find_need(ch);
	ch.hold.held = shuffle_ ? !is_turn(ch) : ch.next > load_relaxed(&ch.hold.needed);
	return !ch.hold.held;
}

void timing::ended(hw_channel &ch, u64 seq)
{
	std::lock_guard guard(lock_);

	ch.hold.done = seq;
	round_++;
	if (turn_ == &ch)
		turn_ = nullptr;
}

/* A WAIT for another channel's record needs what is before that number; one for a word, all that may write it. */
void timing::need_others(const hw_channel &ch, const descriptor &d)
{
	const bool number = dma::src_space(d.spaces) == dma::space::host && d.arg == u8(dma::compare::geq);
	bool found = false;

	for (u32 i = 0; i < count_ && number; i++) {
		channel_hold &h = channels_[i].hold;

		if (h.record != d.src || load_acquire(&channels_[i].state) != chan_state_running)
			continue;
		raise_to(&h.needed, d.a);
		found = true;
	}
	for (u32 i = 0; i < count_ && !found; i++)
		if (&channels_[i] != &ch && is_pending(channels_[i]))
			raise_to(&channels_[i].hold.needed, doorbell_read(channels_[i], doorbell_tail));
}

void timing::blocked(hw_channel &ch, const descriptor &d)
{
	std::lock_guard guard(lock_);

	ch.hold.blocked = round_;
	if (turn_ == &ch)
		turn_ = nullptr;
	if (!shuffle_ && d.op == u8(dma::opcode::wait))
		need_others(ch, d);
}

} // namespace usdma::sim
