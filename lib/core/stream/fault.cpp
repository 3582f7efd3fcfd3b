/* SPDX-License-Identifier: BSD-3-Clause */
/* Fault handling of halted channels. */
#include "lib/core/stream/fault.h"

#include "driver/base/error.h"
#include "driver/base/log.h"
#include "lib/core/channel/wait.h"
#include "lib/core/stream/task.h"

namespace usdma::core {

void hwq_handle_fault(hw_queue *l)
{
	dma::channel *ch = l->ch;
	dma::fault f;

	if (!dma::read_fault(ch, &f))
		return;
	auto *s = reinterpret_cast<stream *>(f.cookie);
	/* The cookie comes from the device: verify that it is a stream of this hardware queue. */
	const bool ours = all_streams->within(s) && s->ln == l;
	const bool failed = f.reason != dma::fault_reason::stopped;
	/* Other rings of the channel must not run what is behind the failure. */
	if (ours && (s->stopped || (failed && s->mode == fail_mode::stop)) && ch->ops->stop(ch))
		return; /* stays halted, the next check retries */
	store_relaxed(&l->count->faults, l->count->faults + 1);
	log_warn("device %u channel %u: request %llu failed: %s at 0x%llx", l->dev->slot, ch->index,
		 static_cast<unsigned long long>(f.seq), dma::fault_name(f.reason),
		 static_cast<unsigned long long>(f.address));
	if (ours && failed)
		stream_note_error(s, dma::fault_errno(f.reason), f.reason, f.address, f.seq);
	if (ours && s->stopped) {
		ch->ops->cancel(ch, f.cookie);
		stream_drop_queue(s);
	}
	const int err = ch->ops->resume(ch);
	if (err && !load_relaxed(&l->stuck))
		log_error("device %u channel %u cannot be resumed: %s", l->dev->slot, ch->index, error_text());
	store_relaxed(&l->stuck, u32(err != 0));
}

void hwq_check_fault(hw_queue *l)
{
	std::lock_guard guard(l->lock);

	hwq_handle_fault(l);
}

void hwq_note_reset(hw_queue *l)
{
	const auto on_hw_queue = [](const stream *s, const void *arg) { return s->ln == arg; };

	/* Iterate by reference, not by visitor: noting an error may call back into the list. */
	for (size_t at = 0; stream *s = stream_next(&at, on_hw_queue, l);) {
		if (!hwq_done(l, s->last)) {
			stream_note_error(s, dma::fault_errno(dma::fault_reason::reset), dma::fault_reason::reset, 0,
					  s->last);
			if (s->stopped)
				stream_drop_queue(s);
		}
		stream_unref(s);
	}
}

} // namespace usdma::core
