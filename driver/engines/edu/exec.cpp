/* SPDX-License-Identifier: BSD-3-Clause */
/* The softop backend of this device, on top of move.cpp. */
#include "driver/engines/edu/exec.h"

#include <algorithm>

namespace usdma::edu {

using dma::fault_reason;

namespace softop = dma::softop;

static_assert(u32(softop::may_read) == vfio::dma_read && u32(softop::may_write) == vfio::dma_write);
static_assert(memory_usable % 8 == 0);

static constexpr u64 wait_poll_ns = 200 * ns_per_us, wait_poll_max_ns = 5 * ns_per_ms;
/* A transfer takes 100 ms: check for a stop after each. */
static constexpr softop::bounds device_bounds = {max_length, memory_usable, 1, memory_usable};

executor::executor(shared_state &state, progress &p) : backend(device_bounds), s_(state), progress_(p) {}

/* flag_fence is a no-op: requests of a channel are executed one after the other. */
outcome executor::run(const dma::request &r)
{
	switch (softop::run(*this, r)) {
	case result::done:
		return {};
	case result::fault:
		return last_;
	default:
		return {fault_reason::stopped};
	}
}

executor::result executor::report(const outcome &o)
{
	if (o)
		return result::done;
	last_ = o;
	return result::fault;
}

bool executor::check(const end &e, u64 len)
{
	std::lock_guard guard(s_.lock);

	return report(check_locked(e, len)) == result::done;
}

/* Never CPU-accessible: it may be unmapped at any time except under the lock. */
bool executor::translate(const end &, u64 len, softop::piece *out)
{
	*out = {nullptr, std::min(len, memory_usable)};
	return true;
}

executor::result executor::get_piece(const end &src, void *buf, u64 len)
{
	return report(get(src, buf, len));
}

executor::result executor::put_piece(const end &dst, const void *buf, u64 len, bool)
{
	return report(put(dst, buf, len));
}

executor::result executor::move(end dst, end src, u64 len, cache_hint)
{
	for (u64 n; len; len -= n, src.addr += n, dst.addr += n) {
		if (outcome o = transfer(dst, src, len, &n); !o)
			return report(o);
		if (!step(n, len == n) && len > n)
			return result::stopped;
	}
	return result::done;
}

u64 executor::wait_until(u32 limit_ms)
{
	poll_ns_ = wait_poll_ns;
	return limit_ms ? deadline::in_ms(limit_ms).at() : deadline::never().at();
}

executor::result executor::pause(u64 until_ns)
{
	progress_.pause(deadline::sooner(deadline::at_ns(until_ns), deadline::in_ns(poll_ns_)));
	poll_ns_ = std::min(poll_ns_ * 2, wait_poll_max_ns);
	return progress_.should_continue(false) ? result::done : result::stopped;
}

} // namespace usdma::edu
