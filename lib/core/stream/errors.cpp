/* SPDX-License-Identifier: BSD-3-Clause */
/* The pending error of a stream. */
#include "driver/base/error.h"
#include "lib/core/base/trace.h"
#include "lib/core/stream/task.h"

#include <cstring>
#include <utility>

namespace usdma::core {

int fail_dead()
{
	return fail(EBADF, "the stream is destroyed already, or is being destroyed");
}

const char *file_error_text(int err)
{
	return err == ETIME ? "the disk did not answer within USDMA_HANG_MS" : strerrordesc_np(err);
}

int fail_task(const stream *s, const stream_error &e)
{
	if (e.file)
		return fail(e.err, "stream %u: %s a file failed at offset %llu: %s", s->id, e.file, ull(e.address),
			    file_error_text(e.err));
	return fail(e.err, "stream %u: a task failed: %s (address 0x%llx, sequence %llu)", s->id,
		    dma::fault_name(e.reason), static_cast<unsigned long long>(e.address),
		    static_cast<unsigned long long>(e.seq));
}

static void note_error(stream *s, const stream_error &e)
{
	trace_error(s->id, e.err, e.reason, e.address, e.seq);
	s->errors++;
	if (!s->error.err) {
		s->error = e;
		s->error_reported = s->error_peeked = false;
		store_release(&s->has_error, 1u);
	}
	if (s->mode == fail_mode::stop && !s->stopped)
		store_relaxed(&s->stopped, u32(e.err));
}

void stream_note_error(stream *s, int err, dma::fault_reason reason, u64 address, u64 seq)
{
	note_error(s, {-as_failure(-err), reason, address, seq});
}

void stream_note_file_error(stream *s, int err, const char *what, u64 offset)
{
	note_error(s, {err, dma::fault_reason::none, offset, s->last, what});
}

int fail_stopped(const stream *s)
{
	const u32 err = load_relaxed(&s->stopped);

	return fail(int(err), err == ECANCELED ? "the stream was aborted" :
			      err == EBADF     ? "the stream's device was closed, which dropped work that waited" :
						 "the stream stopped at an earlier failure (failure mode stop)");
}

static int fail_captured(const stream *s)
{
	return fail(EINPROGRESS, "stream %u is being captured", s->id);
}

int stream_refuses(const stream *s)
{
	if (load_relaxed(&s->stopped))
		return fail_stopped(s);
	if (unlikely(stream_is_captured(s)))
		return fail_captured(s);
	if (unlikely(!load_relaxed(&s->alive)))
		return fail_dead();
	return s->dev->lost() ? fail_lost(s->dev) : 0;
}

/* The pending error as reported to waiters; with the hardware queue's lock held. */
static stream_error pending_error(const stream *s)
{
	if (s->stopped == ECANCELED)
		return {ECANCELED, dma::fault_reason::stopped, 0, s->error.seq};
	return s->error;
}

/* With the hardware queue's lock held. */
static stream_error take_pending(stream *s)
{
	const stream_error e = pending_error(s);

	s->error_reported |= e.err == s->error.err;
	if (!s->stopped) {
		s->error = {};
		store_relaxed(&s->has_error, 0u);
	}
	return e;
}

int stream_take_error(stream *s, stream_error *out)
{
	stream_error e;

	if (likely(!load_acquire(&s->has_error)))
		return 0;
	s->ln->lock.lock();
	e = take_pending(s);
	s->ln->lock.unlock();
	if (out)
		*out = e;
	return e.err ? fail_task(s, e) : 0;
}

int stream_take_error_locked(stream *s)
{
	return take_pending(s).err;
}

int peek_error(stream *s, bool once)
{
	if (likely(!load_acquire(&s->has_error)))
		return 0;
	std::lock_guard guard(s->ln->lock);
	const stream_error e = pending_error(s);
	return e.err && !(once && std::exchange(s->error_peeked, true)) ? fail_task(s, e) : 0;
}

int stream_see_error(stream *s)
{
	return peek_error(s, false);
}

int stream_set_fail_mode(stream *s, fail_mode mode)
{
	s->ln->lock.lock();
	s->mode = mode;
	s->ln->lock.unlock();
	return 0;
}

} // namespace usdma::core
