/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/stream/fault.h"

#include "lib/core/queue/wait.h"
#include "lib/core/stream/task.h"

namespace usdma::core {

/*
 * The cookie comes from the device: verify that it is of a stream of this hardware queue, which has not ended. Such a
 * stream does not end while the queue's lock is held.
 */
static stream *stream_of_fault(const hw_queue *l, const dma::fault &f)
{
	stream *s = all_streams->nth(dma::cookie_owner(f.cookie) - 1);

	return s && stream_is_there(*s) && s->ln == l ? s : nullptr;
}

/* A number that the stream has given. */
static u64 number_of_fault(const stream *s, const dma::fault &f)
{
	const u64 number = number_of_cookie(s, f.cookie), last = stream_number(s);

	return number - 1 < last ? number : last;
}

bool stream_cancels_after(const hw_queue *l, const dma::fault &f)
{
	const stream *s = stream_of_fault(l, f);

	return s && (load_relaxed(&s->stopped) ||
		     (f.reason != dma::fault_reason::stopped && stream_stops_at(s, number_of_fault(s, f))));
}

void stream_note_fault(const hw_queue *l, const dma::fault &f)
{
	stream *s = stream_of_fault(l, f);

	if (s && f.reason != dma::fault_reason::stopped)
		stream_note_failure(s, f, number_of_fault(s, f));
	if (s && load_relaxed(&s->stopped))
		stream_drop_queue(s);
}

/* Also one that is being destroyed: that call returns the error. */
static stream *next_on(const hw_queue *l, size_t *at)
{
	return all_streams->next_of_all(
		at, [&](stream &s) { return stream_is_there(s) && s.ln == l && ref_if_any(&s.refs); });
}

void streams_note_reset(hw_queue *l)
{
	/* Iterate by reference, not by visitor: noting an error may call back into the list. */
	for (size_t at = 0; stream *s = next_on(l, &at);) {
		if (!hwq_done(l, s->last)) {
			stream_note_reset(s);
			if (load_relaxed(&s->stopped))
				stream_drop_queue(s);
		}
		stream_unref(s);
	}
}

} // namespace usdma::core
