/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/stream/stopped.h"

#include "lib/core/stream/guard.h"
#include "lib/core/stream/task.h"

namespace usdma::core {

/* A stream of any hardware queue, whose lock is not held: the words are atomic. */
void stream_stop_new(stream *s, u32 err)
{
	u16 none = 0;

	/* First: who finds the work ended must see that it was stopped. */
	store_release(&s->has_error, 1u);
	cmpxchg_acq_rel(&s->stopped, &none, u16(err));
	call_group_drop_made(s);
}

static stream *next_of(const stream *s, size_t *at)
{
	return all_streams->next_of_all(at, [&](stream &other) {
		return stream_is_there(other) && other.opt.owner == s->opt.owner && &other != s &&
		       ref_if_any(&other.refs);
	});
}

void stream_stop_owned(const stream *s, u32 err)
{
	call_group_drop_made(s);
	/* Each is gated, if it has queued work, and the progress thread drops that. */
	for (size_t at = 0; stream *other = s->opt.owner ? next_of(s, &at) : nullptr;) {
		stream_stop_new(other, err);
		stream_unref(other);
	}
}

bool stream_stops_with_others(const stream *s)
{
	return s->opt.owner && s->mode == fail_mode::stop;
}

u32 stream_failure(const stream *s)
{
	const u32 err = load_relaxed(&s->stopped);

	return err == ECANCELED || err == EBADF ? 0 : err;
}

/* Dropped, or in the ring behind the failed operation. */
static bool is_behind(const record *r, stream *s)
{
	std::lock_guard guard(s->errors_lock);

	return load_acquire(&r->at) == record::reached ? !r->ln :
							 s->error.err && r->ln == s->ln && r->op > s->error.number;
}

bool record_is_behind_failure(const record *r)
{
	const stream_guard on(r->on);

	return on && stream_failure(on) && is_behind(r, on);
}

} // namespace usdma::core
