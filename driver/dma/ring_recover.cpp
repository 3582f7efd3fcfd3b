/* SPDX-License-Identifier: BSD-3-Clause */
/* Halts of a ring_channel: the hardware has ended by itself, or was suspended or reset, before. */
#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/base/wakes.h"
#include "driver/dma/ring_channel.h"

#include <climits>
#include <cstdio>

namespace usdma::dma {

/* Longer than the timeout of a command of any engine. */
static constexpr u64 stop_ms = 8000;
/* Without progress the registers are read as often. */
static constexpr u64 recheck_ns = 50 * ns_per_ms;

static void make_nop(request *r)
{
	*r = request{.flags = r->flags, .cookie = r->cookie};
}

/*
 * After the last request that has completed. Only now the hardware reads no slot any more: those that are pending are
 * built again, as some were cancelled, and some have run.
 */
int ring_channel::start_hardware()
{
	if (int err = quiesce(); err < 0)
		return fail_in(err, "channel %u does not stop", index);
	const u64 done = completed(this), ran = number_of(done);
	for (u64 seq = done + 1; s64(issued_ - seq) >= 0; seq++)
		if (has_run(number_of(seq)))
			make_nop(&slot(seq));
	store_seq_cst(&armed_, 1u);
	if (int err = start(ran + 1); err < 0)
		return fail_in(err, "channel %u does not start", index);
	for (u64 seq = done + 1; s64(issued_ - seq) >= 0; seq++)
		build(number_of(seq), slot(seq));
	if (hw_ != ran)
		ring(hw_);
	return 0;
}

void ring_channel::halt(u64 seq, u64 cookie, fault_reason why, u64 at)
{
	is_halted_ = true;
	soft_ = false;
	store_seq_cst(&stop_, 0u);
	store_relaxed(&record_->reason, u32(why));
	store_relaxed(&record_->fault_seq, seq);
	store_relaxed(&record_->fault_address, at);
	store_relaxed(&record_->fault_cookie, cookie);
	/* After the fault fields, and before the arms are read. */
	store_fence(&record_->state, u32(state_halted));
	announce();
	raise_due(true);
}

/* The first request that has not completed has failed. */
void ring_channel::fault()
{
	const u64 seq = completed(this) + 1;
	const bool idle = issued_ == completed(this);
	fault_reason why = fault_reason::transfer;
	u64 at = 0;

	read_fault(idle ? request() : slot(seq), &why, &at);
	if (idle)
		log_warn("%s: channel %u halted without a request", eng->transport().name(), index);
	if (!idle || start_hardware() < 0)
		halt(seq, cookie_of(seq), idle ? fault_reason::stopped : why, at);
}

void ring_channel::check_halt()
{
	if (!is_halted_ && has_halted())
		fault();
}

/*
 * Its interrupt came without a completion, or requests are pending for long: its report of a halt may be lost, as
 * Linux' ioat_timer_event() assumes.
 */
void ring_channel::recheck(bool raised)
{
	const u64 done = completed(this), now = now_ns();
	bool halted = false;

	if (done != rechecked_ || issued_ == done || is_halted_) {
		rechecked_ = done;
		rechecked_at_ = now;
		return;
	}
	if (!raised && now - rechecked_at_ < recheck_ns)
		return;
	rechecked_at_ = now;
	if (!poll_halted(&halted) && halted)
		fault();
}

/* With lock_ held: for wait_for(). */
void ring_channel::announce()
{
	store_relaxed(&changes_, changes_ + 1);
	futex_wake(&changes_, INT_MAX);
}

/* False: not in time. */
template <class F> bool ring_channel::wait_for(guard &g, const F &is_so)
{
	const deadline until = deadline::in_ms(stop_ms);

	while (!is_so() && !until.passed()) {
		const u32 seen = changes_;

		g.unlock();
		const int err = futex_wait_until(&changes_, seen, until.at());
		g.lock();
		if (err == -ETIMEDOUT && is_so())
			wake_count(&wake_counts::lost);
	}
	return is_so();
}

/* ---- stop and resume ----------------------------------------------------------------------------------- */

void ring_channel::handle_stop()
{
	const bool idle = issued_ == completed(this);
	bool halted = false;
	int err = idle ? 0 : suspend();

	/* By the register: what the hardware writes of a halt may be lost, or come later. */
	if (!err && !idle)
		err = read_halted(&halted);
	if (halted)
		fault();
	if (is_halted_)
		return;
	if (err < 0) {
		log_warn("%s: channel %u: %s", eng->transport().name(), index, error_text());
		store_seq_cst(&stop_, 0u);
		announce();
		return;
	}
	const u64 seq = completed(this) + 1;
	halt(seq, cookie_of(seq), fault_reason::stopped, 0);
}

int ring_channel::stop()
{
	guard g(lock_);

	if (is_halted_)
		return 0;
	if (!frozen_)
		store_seq_cst(&stop_, 1u);
	wake_thread();
	wait_for(g, [this] { return is_halted_ || frozen_ || !load_seq_cst(&stop_); });
	if (is_halted_)
		return 0;
	/* The request to stop is then freeze()'s. */
	if (frozen_)
		return fail(EBUSY, "channel %u is being reset", index);
	store_seq_cst(&stop_, 0u);
	return fail(ETIMEDOUT, "channel %u does not stop", index);
}

/* An observer of the running state sees that the failed request is completed. */
void ring_channel::run_again()
{
	store_relaxed(&record_->reason, 0u);
	store_release(&record_->state, u32(state_running));
	is_halted_ = false;
}

int ring_channel::resume()
{
	guard g(lock_);

	if (!is_halted_)
		return fail(EINVAL, "channel %u is not halted", index);
	if (frozen_)
		return fail(EBUSY, "channel %u is being reset", index);
	const u64 seq = load_relaxed(&record_->fault_seq);
	const bool stopped = load_relaxed(&record_->reason) == u32(fault_reason::stopped);
	/* One that the thread has run has no slot. */
	if (!stopped && s64(seq - issued_) > 0)
		issued_ = seq;
	if (!stopped)
		set_completed(seq, number_of(seq));
	if (int err = start_hardware(); err < 0)
		return err;
	run_again();
	issue();
	g.unlock();
	/* Of those that the hardware has run meanwhile it reports nothing any more. */
	wake_thread();
	return 0;
}

unsigned ring_channel::cancel(u64 cookie)
{
	std::lock_guard g(lock_);
	unsigned count = 0;
	dma::fault f;

	if (!is_halted_ || !dma::read_fault(this, &f))
		return 0;
	/* A failed request has run; a stopped one has not and would run again. What is in the hardware changes at
	 * resume. */
	for (u64 seq = f.reason == fault_reason::stopped ? f.seq : f.seq + 1; s64(posted - seq) >= 0; seq++) {
		request &r = slot(seq);

		if (cookie_owner(r.cookie ^ cookie) || r.op == opcode::nop)
			continue;
		make_nop(&r);
		count++;
	}
	return count;
}

/* ---- hangs and resets ------------------------------------------------------------------------------------ */

int ring_channel::abort()
{
	std::lock_guard g(lock_);
	bool halted = false;

	if (is_halted_ || issued_ == completed(this))
		return -EAGAIN;
	if (int err = read_halted(&halted); err < 0)
		return err;
	if (halted) {
		fault();
		return 0;
	}
	if (int err = reset(); err < 0)
		return err;
	/* It may have made progress meanwhile. */
	const u64 seq = completed(this) + 1;
	halt(seq, cookie_of(seq), s64(issued_ - seq) >= 0 ? fault_reason::reset : fault_reason::stopped, 0);
	return 0;
}

int ring_channel::freeze()
{
	guard g(lock_);

	frozen_ = true;
	store_seq_cst(&stop_, 1u);
	announce();
	wake_thread();
	if (wait_for(g, [this] { return !soft_running_; }))
		return 0;
	return fail(ETIMEDOUT, "channel %u does not stop", index);
}

void ring_channel::thaw()
{
	{
		std::lock_guard g(lock_);

		frozen_ = false;
		store_seq_cst(&stop_, 0u);
		issue();
	}
	wake_thread();
}

void ring_channel::forget()
{
	std::lock_guard g(lock_);

	was_reset();
}

int ring_channel::restart()
{
	std::lock_guard g(lock_);

	tail_ = issued_ = served_ = flagged_ = posted;
	soft_ = frozen_ = false;
	store_seq_cst(&stop_, 0u);
	set_completed(posted, hw_);
	if (int err = start_hardware(); err < 0)
		return err;
	run_again();
	return 0;
}

void ring_channel::describe(char *buf, size_t size)
{
	std::lock_guard g(lock_);
	char hardware[128];

	describe_hardware(hardware, sizeof(hardware));
	snprintf(buf, size,
		 "posted %llu, doorbell %llu, handed to the hardware %llu, completed %llu; %s; interrupt %s%s",
		 static_cast<unsigned long long>(posted), static_cast<unsigned long long>(tail_),
		 static_cast<unsigned long long>(issued_), static_cast<unsigned long long>(completed(this)), hardware,
		 load_seq_cst(&armed_) ? "armed" : "not armed", soft_running_ ? "; the thread runs the next" : "");
}

} // namespace usdma::dma
