/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API: events. */
#include "lib/native/handles.h"

using namespace usdma;
using native::to_core;

static_assert(u32(USDMA_EVENT_TIMING) == u32(core::event_timing));

int usdma_event_create(usdma_device *dev, unsigned flags, usdma_event **out)
{
	core::event *e;

	need_pointer(out);
	*out = nullptr;
	need_device(dev);
	if (flags & ~unsigned(USDMA_EVENT_TIMING))
		return fail(EINVAL, "%s: unknown flags 0x%x", __func__, flags);
	if (const int err = core::event_create(to_core(dev), flags, &e))
		return err;
	*out = static_cast<usdma_event *>(core::event_handle(e));
	return 0;
}

int usdma_event_destroy(usdma_event *event)
{
	need_event(event);
	return core::event_destroy(to_core(event));
}

int usdma_event_record(usdma_event *event, usdma_stream *stream)
{
	need_event(event);
	need_stream(stream);
	return core::event_record(to_core(event), to_core(stream));
}

int usdma_stream_wait_event(usdma_stream *stream, usdma_event *event)
{
	need_stream(stream);
	need_event(event);
	return core::stream_wait_event(to_core(stream), to_core(event), deadline::never());
}

int usdma_event_query(usdma_event *event)
{
	need_event(event);
	return core::event_query(to_core(event)) != core::event_state::pending;
}

int usdma_event_sync(usdma_event *event, int timeout_ms)
{
	need_event(event);
	return core::event_sync(to_core(event), native::until_ms(timeout_ms));
}

int usdma_event_elapsed(usdma_event *start, usdma_event *end, int64_t *ns)
{
	u64 from, to;

	need_event(start);
	need_event(end);
	need_pointer(ns);
	if (const int err = core::event_time_ns(to_core(start), &from))
		return err;
	if (const int err = core::event_time_ns(to_core(end), &to))
		return err;
	*ns = int64_t(to - from);
	return 0;
}
