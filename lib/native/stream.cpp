/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API: streams. */
#include "lib/native/handles.h"

using namespace usdma;
using native::give;
using native::to_core;

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
	if (o.reserved)
		return fail(EINVAL, "usdma_stream_create: reserved is not 0");
	opt->wait = int(o.wait_mode) - 1;
	opt->priority = o.priority;
	return 0;
}

int usdma_stream_create(usdma_device *dev, const struct usdma_stream_options *options, usdma_stream **out)
{
	core::stream_options opt;
	core::stream *s;

	need_pointer(out);
	*out = nullptr;
	need_device(dev);
	if (const int err = options_of(options, &opt))
		return err;
	if (const int err = core::stream_create(to_core(dev), opt, &s))
		return err;
	*out = static_cast<usdma_stream *>(core::stream_handle(s));
	return 0;
}

int usdma_stream_destroy(usdma_stream *stream)
{
	need_stream(stream);
	return core::stream_destroy(to_core(stream));
}

int usdma_stream_sync(usdma_stream *stream, int timeout_ms)
{
	need_stream(stream);
	return core::stream_sync(to_core(stream), native::until_ms(timeout_ms));
}

int usdma_stream_query(usdma_stream *stream)
{
	need_stream(stream);
	const int pending = core::stream_query(to_core(stream));

	return pending < 0 ? pending : !pending;
}

int usdma_stream_abort(usdma_stream *stream)
{
	need_stream(stream);
	return core::stream_abort(to_core(stream));
}

int usdma_stream_set_fail_mode(usdma_stream *stream, int mode)
{
	need_stream(stream);
	if (mode != USDMA_FAIL_GO_ON && mode != USDMA_FAIL_STOP)
		return fail(EINVAL, "%s: there is no mode %d", __func__, mode);
	return core::stream_set_fail_mode(to_core(stream), core::fail_mode(mode));
}

int usdma_stream_take_error(usdma_stream *stream, struct usdma_error_info *info)
{
	struct usdma_error_info v = {};
	core::stream_error e;

	need_stream(stream);
	need_pointer(info);
	v.error = core::stream_take_error(to_core(stream), &e);
	v.reason = u32(e.reason);
	strncpy(v.reason_name, dma::fault_name(e.reason), sizeof(v.reason_name) - 1);
	v.address = e.address;
	v.sequence = e.seq;
	return give(__func__, info, v);
}

int usdma_stream_get_stats(usdma_stream *stream, struct usdma_stream_stats *stats)
{
	struct usdma_stream_stats v = {};

	need_stream(stream);
	need_pointer(stats);
	const core::stream_stats st = core::stream_stats_get(to_core(stream));

	v.id = to_core(stream)->id;
	v.copies = st.copies;
	v.bytes = st.bytes;
	v.errors = st.errors;
	return give(__func__, stats, v);
}

int usdma_stream_signal_fd(usdma_stream *stream, int fd)
{
	need_stream(stream);
	return core::stream_signal_fd(to_core(stream), fd);
}

int usdma_stream_call(usdma_stream *stream, void (*fn)(void *arg), void *arg, int hold)
{
	need_stream(stream);
	need_pointer(fn);
	return core::stream_host_func(to_core(stream), fn, arg, hold != 0);
}
