/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API: events. */
#include "lib/native/handles.h"

using namespace usdma;

static_assert(u32(USDMA_EVENT_TIMING) == u32(core::event_timing));

int usdma_event_create(usdma_device *dev, unsigned flags, usdma_event **out)
{
	core::event *e;

	need_pointer(out);
	*out = nullptr;
	guard_device(d, dev);
	if (flags & ~unsigned(USDMA_EVENT_TIMING))
		return fail(EINVAL, "%s: unknown flags 0x%x", __func__, flags);
	if (const int err = core::event_create(d, flags, &e))
		return err;
	*out = static_cast<usdma_event *>(core::event_handle(e));
	return 0;
}

int usdma_event_destroy(usdma_event *event)
{
	const int err = core::event_destroy(event);

	return err == -EBADF ? native::fail_guard(__func__, "event", err) : err;
}

int usdma_event_record(usdma_event *event, usdma_stream *stream)
{
	guard_event(e, event);
	guard_stream(s, stream);
	return core::event_record(e, s);
}

int usdma_stream_wait_event(usdma_stream *stream, usdma_event *event)
{
	guard_stream(s, stream);
	guard_event(e, event);
	return core::stream_wait_event(s, e, deadline::never());
}

[[gnu::noinline]] static int query_slow(usdma_event *event)
{
	const core::event_guard e(event);

	if (unlikely(!e))
		return native::fail_guard("usdma_event_query", "event", e.error());
	/* An event of a lost device counts as reached: a poller would never stop otherwise. */
	return core::event_query(e) != core::event_state::pending || core::event_is_lost(e);
}

/* Fast path: usually the event has been reached. */
static inline bool query_quick(const usdma_event *event)
{
	const core::read_section in;

	return in && core::event_is_reached(event);
}

int usdma_event_query(usdma_event *event)
{
	return query_quick(event) ? 1 : query_slow(event);
}

int usdma_event_sync(usdma_event *event, int timeout_ms)
{
	guard_event(e, event);
	return core::event_sync(e, native::until_ms(timeout_ms));
}

int usdma_event_elapsed(usdma_event *start, usdma_event *end, int64_t *ns)
{
	u64 from, to;

	guard_event(first, start);
	guard_event(last, end);
	need_pointer(ns);
	if (const int err = core::event_time_ns(first, &from))
		return err;
	if (const int err = core::event_time_ns(last, &to))
		return err;
	*ns = int64_t(to - from);
	return 0;
}
