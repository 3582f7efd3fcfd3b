/* SPDX-License-Identifier: BSD-3-Clause */
/* From the C API's handles, timeouts and growing structs to core's, and back. */
#pragma once

#include "driver/base/error.h"
#include "lib/core/stream/hold.h"
#include "lib/core/info.h"
#include "usdma/usdma.h"

#include <algorithm>
#include <cstring>

namespace usdma::native {

[[gnu::cold]] inline int null_argument(const char *call, const char *what)
{
	return fail(EINVAL, "%s: %s is NULL", call, what);
}
/* A handle that leads to nothing: -EBADF with its text, or what else there was. */
[[gnu::cold]] inline int not_held(const char *call, const char *what, int err)
{
	return err == -EBADF ? fail(EBADF, "%s: the %s is NULL, unknown, or destroyed already", call, what) : err;
}

inline deadline until_ms(int timeout_ms)
{
	return timeout_ms < 0 ? deadline::never() : deadline::in_ms(u64(timeout_ms));
}

/*
 * A struct out to a caller who may be older (knows less of it) or newer (knows
 * more, gets zeros).  Every such struct begins with its size as the caller knows it.
 */
template <class T> int give(const char *call, T *out, T &value)
{
	const u32 theirs = out->struct_size;

	if (theirs < 8 || theirs > 64 * KiB)
		return fail(EINVAL, "%s: struct_size is %u: set it to sizeof(the struct)", call, theirs);
	value.struct_size = theirs;
	memset(static_cast<void *>(out), 0, theirs);
	memcpy(static_cast<void *>(out), &value, std::min<size_t>(theirs, sizeof(T)));
	return 0;
}

/* A struct in: what this version does not know must be zero. */
template <class T> int take(const char *call, const T *in, T *out)
{
	const u32 theirs = in->struct_size;
	const auto *bytes = reinterpret_cast<const u8 *>(in);

	if (theirs < 8 || theirs > 64 * KiB)
		return fail(EINVAL, "%s: struct_size is %u: set it to sizeof(the struct)", call, theirs);
	for (size_t i = sizeof(T); i < theirs; i++)
		if (bytes[i])
			return fail(E2BIG, "%s: an option at byte %zu that this version does not know", call, i);
	memset(static_cast<void *>(out), 0, sizeof(T));
	memcpy(static_cast<void *>(out), in, std::min<size_t>(theirs, sizeof(T)));
	return 0;
}

} // namespace usdma::native

/* For a call that may block: `name` is the object behind the handle, and stays until the call returns. */
#define hold_device(name, handle)                                                                                      \
	const ::usdma::core::device_hold name(handle);                                                                 \
	if (unlikely((name).error()))                                                                                  \
	return ::usdma::native::not_held(__func__, "device", (name).error())
#define hold_stream(name, handle)                                                                                      \
	const ::usdma::core::stream_hold name(handle);                                                                 \
	if (unlikely((name).error()))                                                                                  \
	return ::usdma::native::not_held(__func__, "stream", (name).error())
#define hold_event(name, handle)                                                                                       \
	const ::usdma::core::event_hold name(handle);                                                                  \
	if (unlikely((name).error()))                                                                                  \
	return ::usdma::native::not_held(__func__, "event", (name).error())
#define need_pointer(p)                                                                                                \
	do {                                                                                                           \
		if (unlikely(!(p)))                                                                                    \
			return ::usdma::native::null_argument(__func__, #p);                                           \
	} while (0)
