/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/queue/fault.h"

#include "driver/base/error.h"
#include "driver/base/log.h"

namespace usdma::core {

static void resume(hw_queue *l)
{
	const int err = l->ch->ops->resume(l->ch);

	if (err && !load_relaxed(&l->stuck))
		log_error("device %u channel %u cannot be resumed: %s", l->dev->slot, l->ch->index, error_text());
	store_relaxed(&l->stuck, u32(err != 0));
}

void hwq_handle_fault(hw_queue *l)
{
	dma::channel *ch = l->ch;
	dma::fault f;

	if (!dma::read_fault(ch, &f))
		return;
	const bool cancels = queue_up.cancels_after(l, f);
	/* Other rings of the channel must not run what is behind the failure. */
	if (cancels && ch->ops->stop(ch))
		return; /* stays halted, the next check retries */
	store_relaxed(&l->count->faults, l->count->faults + 1);
	log_warn("device %u channel %u: request %llu failed: %s at 0x%llx", l->dev->slot, ch->index,
		 static_cast<unsigned long long>(f.seq), dma::fault_name(f.reason),
		 static_cast<unsigned long long>(f.address));
	queue_up.on_fault(l, f);
	if (cancels)
		ch->ops->cancel(ch, f.cookie);
	resume(l);
}

void hwq_check_fault(hw_queue *l)
{
	std::lock_guard guard(l->lock);

	hwq_handle_fault(l);
}

int hwq_cancel(hw_queue *l, u64 cookie)
{
	dma::channel *ch = l->ch;
	dma::fault f;

	if (const int err = ch->ops->stop(ch))
		return err;
	ch->ops->cancel(ch, cookie);
	if (dma::read_fault(ch, &f) && f.reason != dma::fault_reason::stopped)
		hwq_handle_fault(l);
	else
		ch->ops->resume(ch);
	return 0;
}

} // namespace usdma::core
