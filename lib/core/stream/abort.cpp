/* SPDX-License-Identifier: BSD-3-Clause */
/* Aborting a stream: drops queued work and removes its requests from the ring. */
#include "driver/base/error.h"
#include "lib/core/queue/fault.h"
#include "lib/core/queue/wait.h"
#include "lib/core/stream/task.h"

namespace usdma::core {

/* With the hardware queue's lock held: new work is refused, what is queued is dropped. */
static void stop(stream *s, int why, bool in_ring)
{
	stream_note_stop(s, why, in_ring);
	stream_drop_queue(s);
}

void stream_close_gates(stream *s)
{
	std::lock_guard guard(s->ln->lock);

	if (queue_waits(s))
		stop(s, EBADF, false);
}

/* But for what is behind work in the ring. */
static void deliver_dropped(const stream *s)
{
	const saved_error why;

	if (load_acquire(&s->pending_calls))
		progress_run_behind();
	why.again(0);
}

int stream_abort(stream *s, int why)
{
	hw_queue *l = s->ln;
	u64 seq;
	int err;

	l->lock.lock();
	stop(s, why, true);
	const bool ended = hwq_done(l, s->last) && !s->dev->lost();
	err = ended || s->dev->lost() ? 0 : hwq_cancel(l, s->cookie);
	stream_note_cancelled(s, !ended && !err);
	stream_note_abort(s);
	seq = s->last;
	l->lock.unlock();
	progress_kick();
	deliver_dropped(s);
	const deadline until = deadline::in_ms(hang_over_ms());
	const int outside = stream_outside_wait(s, until);

	if (err)
		return err;
	err = hwq_wait(l, seq, until, wait_mode::hybrid);
	if ((!err || err == -ENODEV) && !outside && s->order)
		race().stream_waited(s->order, race_everything);
	return err == -ENODEV ? outside : err ? err : outside;
}

} // namespace usdma::core
