/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that the hardware of a ring_channel lacks: its thread runs them. */
#include "driver/base/await_fds.h"
#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/base/eventfd.h"
#include "driver/dma/ring_channel.h"

#include <algorithm>
#include <poll.h>

namespace usdma::dma {

/* Polls of a WAIT. */
static constexpr u64 wait_poll_ns = 20 * ns_per_us, wait_poll_max_ns = ns_per_ms;

void soft_backend::beat()
{
	store_relaxed(&c_.record_->heartbeat, c_.record_->heartbeat + 1);
}

bool soft_backend::step(u64, bool)
{
	beat();
	return !load_seq_cst(&c_.stop_);
}

u64 soft_backend::wait_until(u32 limit_ms)
{
	store_relaxed(&c_.waiting_, 1u);
	poll_ns_ = wait_poll_ns;
	return limit_ms ? deadline::in_ms(limit_ms).at() : deadline::never().at();
}

softop::result soft_backend::pause(u64 until_ns)
{
	const u64 left = deadline::sooner(deadline::at_ns(until_ns), deadline::in_ns(poll_ns_)).left_ns();
	pollfd p = {c_.control_.get(), POLLIN, 0};

	if (await_fds_ns(&p, 1, std::min(left, wait_poll_max_ns)) == 1)
		eventfd_clear(c_.control_.get());
	poll_ns_ = std::min(poll_ns_ * 2, wait_poll_max_ns);
	/* It may wait for the record of another channel. */
	c_.eng->collect();
	beat();
	return load_seq_cst(&c_.stop_) ? softop::result::stopped : softop::result::done;
}

softop::result ring_channel::execute(const request &r, fault_reason *why, u64 *at)
{
	soft_backend backend(*this);
	const softop::result got = softop::run(backend, r);

	*why = backend.reason();
	*at = backend.address();
	return got;
}

/* Runs the next request. True: done, run the next. */
bool ring_channel::run_soft(guard &g)
{
	const u64 seq = issued_ + 1;
	const request r = slot(seq);
	fault_reason why = fault_reason::none;
	u64 at = 0;

	soft_running_ = true;
	g.unlock();
	const softop::result got = execute(r, &why, &at);
	g.lock();
	soft_running_ = false;
	store_relaxed(&waiting_, 0u);
	announce();
	if (frozen_ || quit_)
		return false;
	if (got == softop::result::fault)
		halt(seq, r.cookie, why, at);
	else if (got != softop::result::done)
		halt(seq, r.cookie, fault_reason::stopped, 0);
	if (got != softop::result::done)
		return false;
	soft_ = false;
	issued_ = seq;
	set_completed(seq, hw_);
	/* The record is visible before the arms are read. */
	barrier_full();
	raise_due(false);
	serve();
	issue();
	return true;
}

} // namespace usdma::dma
