/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/barrier.h"
#include "driver/base/eventfd.h"
#include "driver/base/grow.h"
#include "driver/base/thread.h"
#include "driver/engines/edu/edu.h"

#include <unistd.h>

namespace usdma::edu {

using dma::fault_reason;

static constexpr u64 no_arm = ~u64(0);
/* Longer than the timeout of a hung transfer (edu_dma.cpp). */
static constexpr u64 stop_ms = 8000;

int edu_channel::begin(const dma::channel_config &cfg, u32 size, dma::completion_record *rec, u64 rec_iova)
{
	record = record_ = rec;
	record_iova = rec_iova;
	asleep = &never_asleep_;
	asleep_ordered = true;
	cfg_ = cfg;
	ring_size = size;
	posted = tail_ = taken_ = cfg.first_seq;
	post_limit = cfg.first_seq + size;
	if (!try_resize(slots_, size))
		return no_memory("a channel's ring");
	*rec = dma::completion_record{};
	store_release(&rec->completed, cfg.first_seq);
	for (unsigned i = 0; i < dma::irq_slots; i++) {
		store_seq_cst(&arm_[i], no_arm);
		irq_fd[i] = -1;
		if (i == dma::irq_completion)
			continue;
		irq_[i].reset(eventfd_make_for_ring());
		if (!irq_[i].valid())
			return fail_errno("no eventfd for a channel");
		irq_fd[i] = irq_[i].get();
	}
	return start_worker();
}

void *edu_channel::thread_main(void *arg)
{
	static_cast<edu_channel *>(arg)->work();
	return nullptr;
}

int edu_channel::start_worker()
{
	const int err = thread_start(&worker_, "usdma-edu", thread_main, this);

	started_ = !err;
	return err;
}

void edu_channel::end()
{
	if (!started_)
		return;
	{
		std::lock_guard guard(lock_);

		quit_ = true;
	}
	changed_.notify_all();
	pthread_join(worker_, nullptr);
	started_ = false;
}

/* ---- the worker ---------------------------------------------------------------------------------- */

/* Sleeps until there is a request to run; false: shut down. */
bool edu_channel::next(dma::request *r, u64 *seq)
{
	std::unique_lock guard(lock_);

	for (;;) {
		if (quit_)
			return false;
		if (stop_ && !is_halted_) {
			const u64 at = taken_ + 1;
			const bool there = tail_ != taken_;

			guard.unlock();
			halt(at, there ? slots_[at % ring_size].cookie : 0, {fault_reason::stopped});
			guard.lock();
			continue;
		}
		if (!is_halted_ && tail_ != taken_)
			break;
		/* A coalesced interrupt is raised at its timeout. */
		if (held_)
			changed_.wait_for(guard, std::chrono::microseconds(cfg_.coalesce_us));
		else
			changed_.wait(guard);
		if (held_ && now_ns() - held_since_ >= cfg_.coalesce_us * ns_per_us) {
			held_ = 0;
			raise(dma::irq_service);
		}
	}
	*seq = ++taken_;
	*r = slots_[*seq % ring_size];
	return true;
}

void edu_channel::work()
{
	dma::request r;
	u64 seq;

	while (next(&r, &seq)) {
		const outcome o = exec.run(r);

		if (o)
			finish(seq, r.flags);
		else
			halt(seq, r.cookie, o);
	}
}

void edu_channel::raise(unsigned slot)
{
	const u64 one = 1;

	/* If the counter is full, the waiter is already signalled. */
	if (write(irq_[slot].get(), &one, sizeof(one)) < 0)
		return;
}

void edu_channel::raise_armed(bool all)
{
	const u64 done = load_relaxed(&record_->completed);

	for (unsigned slot = 0; slot < dma::irq_slots; slot++) {
		u64 want = load_seq_cst(&arm_[slot]);

		if (want == no_arm || ((!all || slot == dma::irq_completion) && s64(done - want) < 0))
			continue;
		if (cmpxchg_seq_cst(&arm_[slot], &want, no_arm))
			raise(slot);
	}
}

/* At most one interrupt per coalesce_count completions or coalesce_us. */
void edu_channel::hold_service(bool wanted)
{
	if (!wanted)
		return;
	if (!held_++)
		held_since_ = now_ns();
	if (held_ < cfg_.coalesce_count && now_ns() - held_since_ < cfg_.coalesce_us * ns_per_us)
		return;
	held_ = 0;
	raise(dma::irq_service);
}

void edu_channel::finish(u64 seq, u8 flags)
{
	/*
	 * Full barrier: completed is visible before the arms are read; a waiter stores its arm before it re-reads
	 * completed.
	 */
	store_fence(&record_->completed, seq);
	raise_armed(false);
	hold_service(flags & dma::flag_interrupt);
}

void edu_channel::halt(u64 seq, u64 cookie, const outcome &o)
{
	{
		std::lock_guard guard(lock_);

		is_halted_ = true;
		stop_ = false;
		taken_ = seq - 1;
		store_relaxed(&record_->reason, u32(o.reason));
		store_relaxed(&record_->fault_seq, seq);
		store_relaxed(&record_->fault_address, o.address);
		store_relaxed(&record_->fault_cookie, cookie);
		/* After the fault fields, and before the arms are read. */
		store_fence(&record_->state, u32(dma::state_halted));
	}
	halted_.notify_all();
	raise_armed(true);
}

bool edu_channel::should_continue(bool made)
{
	if (made)
		store_relaxed(&record_->heartbeat, load_relaxed(&record_->heartbeat) + 1);
	std::lock_guard guard(lock_);
	return !stop_ && !quit_;
}

void edu_channel::pause(deadline until)
{
	std::unique_lock guard(lock_);

	if (!stop_ && !quit_)
		changed_.wait_for(guard, std::chrono::nanoseconds(until.left_ns()));
}

/* ---- operations of the channel --------------------------------------------------------------------------- */

unsigned edu_channel::post(const dma::request *r, unsigned n)
{
	/* Acquire in completed(): the worker has read a slot before it counts it as completed. */
	post_limit = dma::completed(this) + ring_size;
	const u64 space = post_limit - posted;

	if (n > space)
		n = unsigned(space);
	for (unsigned i = 0; i < n; i++)
		slots_[(posted + 1 + i) % ring_size] = r[i];
	store_relaxed(&posted, posted + n);
	return n;
}

/* Under the owner's lock nothing changes a slot. */
bool edu_channel::last_use(const dma::iova_range &where, u64 *seq) const
{
	return find_last_use(this, where, seq,
			     [this](u64 at) -> const dma::request & { return slots_[at % ring_size]; });
}

void edu_channel::ring_doorbell()
{
	{
		std::lock_guard guard(lock_);

		tail_ = posted;
	}
	changed_.notify_all();
}

void edu_channel::arm(unsigned slot, u64 seq)
{
	/* Sequentially consistent: orders the arm before the caller's next read of the record. */
	store_seq_cst(&arm_[slot], seq);
	barrier_full();
}

unsigned edu_channel::cancel(u64 cookie)
{
	std::lock_guard guard(lock_);
	unsigned count = 0;
	dma::fault f;

	if (!is_halted_ || !dma::read_fault(this, &f))
		return 0;
	/* A failed request has run; a stopped one has not and would run again. */
	for (u64 seq = f.reason == fault_reason::stopped ? f.seq : f.seq + 1; s64(posted - seq) >= 0; seq++) {
		dma::request &r = slots_[seq % ring_size];

		if (dma::cookie_owner(r.cookie ^ cookie) || r.op == dma::opcode::nop)
			continue;
		r = dma::request{.flags = r.flags, .cookie = r.cookie};
		count++;
	}
	return count;
}

int edu_channel::resume()
{
	{
		std::lock_guard guard(lock_);

		if (!is_halted_)
			return fail(EINVAL, "channel %u is not halted", index);
		if (load_relaxed(&record_->reason) != u32(fault_reason::stopped))
			store_release(&record_->completed, ++taken_);
		store_relaxed(&record_->reason, 0u);
		/* After completed: an observer of the running state sees that the failed request is completed. */
		store_release(&record_->state, u32(dma::state_running));
		is_halted_ = false;
	}
	changed_.notify_all();
	return 0;
}

int edu_channel::stop()
{
	std::unique_lock guard(lock_);

	if (is_halted_)
		return 0;
	stop_ = true;
	changed_.notify_all();
	if (!halted_.wait_for(guard, std::chrono::milliseconds(stop_ms), [this] { return is_halted_; }))
		return fail(ETIMEDOUT, "channel %u does not stop", index);
	return 0;
}

/* ---- the table ----------------------------------------------------------------------------------- */

static edu_channel *to_edu(dma::channel *ch)
{
	return static_cast<edu_channel *>(ch);
}

const dma::channel_ops channel_table = {
	.post = [](dma::channel *ch, const dma::request *r, unsigned n) { return to_edu(ch)->post(r, n); },
	.doorbell = [](dma::channel *ch) { to_edu(ch)->ring_doorbell(); },
	.submit_copy = nullptr,
	.wake = [](dma::channel *) {}, /* never reported as asleep */
	.arm = [](dma::channel *ch, unsigned slot, u64 seq) { to_edu(ch)->arm(slot, seq); },
	.withdraw = [](dma::channel *ch, u64 seq) { return to_edu(ch)->withdraw(seq); },
	.completion_fd = [](dma::channel *ch) { return to_edu(ch)->completion_fd(); },
	.cancel = [](dma::channel *ch, u64 cookie) { return to_edu(ch)->cancel(cookie); },
	.resume = [](dma::channel *ch) { return to_edu(ch)->resume(); },
	.stop = [](dma::channel *ch) { return to_edu(ch)->stop(); },
	.abort = nullptr,
	.restart = nullptr,
	.begun = nullptr,
	.describe = nullptr,
	.last_use = [](const dma::channel *ch, const dma::iova_range &where,
		       u64 *seq) { return static_cast<const edu_channel *>(ch)->last_use(where, seq); },
	.close =
		[](dma::channel *ch) {
			edu_channel *c = to_edu(ch);

			c->end();
			c->owner->release_index(c->index);
			delete c;
		},
};

} // namespace usdma::edu
