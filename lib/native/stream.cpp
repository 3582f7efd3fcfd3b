/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API: streams. */
#include "lib/native/handles.h"
#include "lib/core/memory/memory.h"

using namespace usdma;
using native::give;

static_assert(USDMA_WAIT_POLL == int(core::wait_mode::poll) + 1);
static_assert(USDMA_WAIT_INTERRUPT == int(core::wait_mode::interrupt) + 1);
static_assert(USDMA_WAIT_HYBRID == int(core::wait_mode::hybrid) + 1);
static_assert(USDMA_FAIL_GO_ON == int(core::fail_mode::go_on) && USDMA_FAIL_STOP == int(core::fail_mode::stop));

static int options_of(const struct usdma_stream_options *given, core::stream_options *opt)
{
	struct usdma_stream_options o;

	if (!given)
		return 0;
	if (const int err = native::take("usdma_stream_create", given, &o))
		return err;
	if (o.wait_mode > USDMA_WAIT_HYBRID)
		return fail(EINVAL, "usdma_stream_create: there is no wait mode %u", o.wait_mode);
	if (o.priority)
		return fail(EINVAL, "usdma_stream_create: priority is %u, it must be 0: streams have no priorities",
			    o.priority);
	if (o.reserved)
		return fail(EINVAL, "usdma_stream_create: reserved is not 0");
	opt->wait = int(o.wait_mode) - 1;
	return 0;
}

int usdma_stream_create(usdma_device *dev, const struct usdma_stream_options *options, usdma_stream **out)
{
	core::stream_options opt;
	core::stream *s;

	need_pointer(out);
	*out = nullptr;
	guard_device(d, dev);
	if (const int err = options_of(options, &opt))
		return err;
	if (const int err = core::stream_create(d, opt, &s))
		return err;
	*out = static_cast<usdma_stream *>(core::stream_handle(s));
	return 0;
}

int usdma_stream_destroy(usdma_stream *stream)
{
	return core::stream_destroy(stream);
}

int usdma_stream_sync(usdma_stream *stream, int timeout_ms)
{
	/* Fast path: spins for a microsecond in the read section, after which many are done. */
	bool done;
	{
		const core::read_section in;
		core::stream *const s = in ? core::stream_find(stream) : nullptr;

		done = s && core::stream_spin(s);
	}
	if (likely(done)) {
		core::memory_reclaim();
		return 0;
	}
	guard_stream(s, stream);
	return core::stream_sync(s, native::until_ms(timeout_ms));
}

[[gnu::noinline]] static int query_slow(usdma_stream *stream)
{
	const core::stream_guard s(stream);

	if (unlikely(!s))
		return native::fail_guard("usdma_stream_query", "stream", s.error());
	const int pending = core::stream_query(s);

	return pending < 0 ? pending : !pending;
}

static inline bool query_quick(const usdma_stream *stream)
{
	const core::read_section in;
	core::stream *const s = in ? core::stream_find(stream) : nullptr;

	return s && core::stream_is_done(s);
}

int usdma_stream_query(usdma_stream *stream)
{
	return query_quick(stream) ? 1 : query_slow(stream);
}

int usdma_stream_abort(usdma_stream *stream)
{
	guard_stream(s, stream);
	return core::stream_abort(s);
}

int usdma_stream_set_fail_mode(usdma_stream *stream, int mode)
{
	guard_stream(s, stream);
	if (mode != USDMA_FAIL_GO_ON && mode != USDMA_FAIL_STOP)
		return fail(EINVAL, "%s: there is no mode %d", __func__, mode);
	return core::stream_set_fail_mode(s, core::fail_mode(mode));
}

int usdma_stream_take_error(usdma_stream *stream, struct usdma_error_info *info)
{
	core::stream_error e;

	guard_stream(s, stream);
	need_pointer(info);
	/* Before the error is taken, which would be lost. */
	if (const int err = native::check_struct_size<usdma_error_info>(__func__, info->struct_size))
		return err;
	const int error = core::stream_take_next_error(s, &e);
	struct usdma_error_info v = native::info_of(e, error);
	return give(__func__, info, v);
}

int usdma_stream_get_stats(usdma_stream *stream, struct usdma_stream_stats *stats)
{
	struct usdma_stream_stats v = {};

	guard_stream(s, stream);
	need_pointer(stats);
	const core::stream_stats st = core::stream_stats_get(s);

	v.id = s->id;
	v.copies = st.copies;
	v.bytes = st.bytes;
	v.errors = st.errors;
	v.sequence = core::stream_number(s);
	return give(__func__, stats, v);
}

int usdma_stream_signal_fd(usdma_stream *stream, int fd)
{
	guard_stream(s, stream);
	if (core::is_other_process())
		return core::fail_forked();
	return core::stream_signal_fd(s, fd);
}

int usdma_stream_call_status(usdma_stream *stream, void (*fn)(void *arg, int status), void *arg, int hold)
{
	guard_stream(s, stream);
	need_pointer(fn);
	return core::stream_host_func(s, fn, arg, hold != 0);
}

int usdma_stream_call(usdma_stream *stream, void (*fn)(void *arg), void *arg, int hold)
{
	guard_stream(s, stream);
	need_pointer(fn);
	return core::stream_host_func(s, fn, arg, hold != 0);
}
