/* SPDX-License-Identifier: BSD-3-Clause */
/* Aborting a stream: drops queued work and removes its requests from the ring. */
#include "driver/base/error.h"
#include "lib/core/channel/wait.h"
#include "lib/core/stream/fault.h"
#include "lib/core/stream/task.h"

namespace usdma::core {

/* Stops the channel, cancels this stream's requests and resumes. With the hardware queue's lock held. */
static int cancel_own(stream *s)
{
	dma::channel *ch = s->ln->ch;
	dma::fault f;
	int err;

	if (hwq_done(s->ln, s->last))
		return 0;
	err = ch->ops->stop(ch);
	if (err)
		return err;
	ch->ops->cancel(ch, reinterpret_cast<u64>(s));
	if (dma::read_fault(ch, &f) && f.reason != dma::fault_reason::stopped)
		hwq_handle_fault(s->ln);
	else
		ch->ops->resume(ch);
	return err;
}

int stream_abort(stream *s)
{
	hw_queue *l = s->ln;
	u64 seq;
	int err;

	l->lock.lock();
	store_relaxed(&s->stopped, u32(ECANCELED));
	stream_drop_queue(s);
	err = s->dev->lost() ? 0 : cancel_own(s);
	/* Keep an earlier failure: stream_destroy() returns it. */
	if (!s->error.err)
		s->error = {ECANCELED, dma::fault_reason::stopped, 0, s->last};
	store_release(&s->has_error, 1u);
	seq = s->last;
	l->lock.unlock();
	progress_kick();
	if (err)
		return err;
	err = hwq_wait(l, seq, deadline::in_ms(hang_over_ms()), wait_mode::hybrid);
	return err == -ENODEV ? 0 : err;
}

} // namespace usdma::core
