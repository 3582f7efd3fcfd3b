/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/dma/channel.h"

#include <algorithm>

namespace usdma::dma {

bool record_fault(const completion_record *r, fault *out)
{
	/* The device stores state after the fault fields, which stay valid until resume. */
	if (load_device(&r->state) == state_running)
		return false;
	out->seq = load_relaxed(&r->fault_seq);
	out->reason = fault_reason(load_relaxed(&r->reason));
	out->address = load_relaxed(&r->fault_address);
	out->cookie = load_relaxed(&r->fault_cookie);
	return true;
}

bool read_fault(channel *ch, fault *out)
{
	return ch->ops->read_fault ? ch->ops->read_fault(ch, out) : record_fault(ch->record, out);
}

bool any_halted(const channel *const *rings, u32 n)
{
	return std::any_of(rings, rings + n, halted);
}

progress read_progress(const channel *ch)
{
	if (ch->ops->read_progress)
		return ch->ops->read_progress(ch);
	return {completed(ch), load_relaxed(&ch->record->heartbeat), halted(ch)};
}

} // namespace usdma::dma
