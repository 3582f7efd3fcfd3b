/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion of the C API's handles, timeouts and extensible structs to core's, and back. */
#pragma once

#include "driver/base/error.h"
#include "lib/core/stream/guard.h"
#include "lib/core/info.h"
#include "usdma/usdma.h"

#include <algorithm>
#include <cstring>

namespace usdma::native {

[[gnu::cold]] inline int null_argument(const char *call, const char *what)
{
	return fail(EINVAL, "%s: %s is NULL", call, what);
}
/* -EBADF for an invalid handle, with its text; any other error unchanged. */
[[gnu::cold]] inline int fail_guard(const char *call, const char *what, int err)
{
	return err == -EBADF ? fail(EBADF, "%s: the %s is NULL, unknown, or destroyed already", call, what) : err;
}

inline deadline until_ms(int timeout_ms)
{
	return timeout_ms < 0 ? deadline::never() : deadline::in_ms(u64(timeout_ms));
}

/* A later version's struct may be longer than ours by this; a longer one is a struct_size that was never set. */
inline constexpr u32 max_newer = 256;

template <class T> int check_struct_size(const char *call, u32 theirs)
{
	if (theirs < 8 || theirs > sizeof(T) + max_newer)
		return fail(EINVAL,
			    "%s: struct_size is %u, which is no size of this struct (here %zu): it must be set to "
			    "sizeof(the struct) before the call",
			    call, theirs, sizeof(T));
	return 0;
}

/*
 * Copies a struct to a caller that may be older (knows fewer fields) or newer (the rest becomes zero). Every such
 * struct begins with its size as the caller knows it.
 */
template <class T> int give(const char *call, T *out, T &value)
{
	const u32 theirs = out->struct_size;

	if (const int err = check_struct_size<T>(call, theirs))
		return err;
	value.struct_size = theirs;
	memset(static_cast<void *>(out), 0, theirs);
	memcpy(static_cast<void *>(out), &value, std::min<size_t>(theirs, sizeof(T)));
	return 0;
}

/* Copies a struct from the caller: fields unknown to this version must be zero. */
template <class T> int take(const char *call, const T *in, T *out)
{
	const u32 theirs = in->struct_size;
	const auto *bytes = reinterpret_cast<const u8 *>(in);

	if (const int err = check_struct_size<T>(call, theirs))
		return err;
	for (size_t i = sizeof(T); i < theirs; i++)
		if (bytes[i])
			return fail(E2BIG, "%s: an option at byte %zu that this version does not know", call, i);
	memset(static_cast<void *>(out), 0, sizeof(T));
	memcpy(static_cast<void *>(out), in, std::min<size_t>(theirs, sizeof(T)));
	return 0;
}

inline usdma_error_info info_of(const core::stream_error &e, int error)
{
	usdma_error_info v = {};

	v.error = error;
	v.reason = u32(e.reason);
	v.more = e.more;
	strncpy(v.reason_name, dma::fault_name(e.reason), sizeof(v.reason_name) - 1);
	v.address = e.address;
	v.sequence = e.number;
	return v;
}

} // namespace usdma::native

/* For a call that may block: `name` references the object of the handle until the call returns. */
#define guard_device(name, handle)                                                                                     \
	const ::usdma::core::device_guard name(handle);                                                                \
	if (unlikely((name).error()))                                                                                  \
	return ::usdma::native::fail_guard(__func__, "device", (name).error())
#define guard_stream(name, handle)                                                                                     \
	const ::usdma::core::stream_guard name(handle);                                                                \
	if (unlikely((name).error()))                                                                                  \
	return ::usdma::native::fail_guard(__func__, "stream", (name).error())
#define guard_event(name, handle)                                                                                      \
	const ::usdma::core::event_guard name(handle);                                                                 \
	if (unlikely((name).error()))                                                                                  \
	return ::usdma::native::fail_guard(__func__, "event", (name).error())
#define need_pointer(p)                                                                                                \
	do {                                                                                                           \
		if (unlikely(!(p)))                                                                                    \
			return ::usdma::native::null_argument(__func__, #p);                                           \
	} while (0)
