/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/dma/channel.h"

namespace usdma::dma {

bool read_fault(const channel *ch, fault *out)
{
	const completion_record *const r = ch->record;

	/* The device stores state after the fault fields, which stay valid until resume. */
	if (load_device(&r->state) == state_running)
		return false;
	out->seq = load_relaxed(&r->fault_seq);
	out->reason = fault_reason(load_relaxed(&r->reason));
	out->address = load_relaxed(&r->fault_address);
	out->cookie = load_relaxed(&r->fault_cookie);
	return true;
}

progress read_progress(const channel *ch)
{
	return {completed(ch), load_relaxed(&ch->record->heartbeat), halted(ch)};
}

} // namespace usdma::dma
