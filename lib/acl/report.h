/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codes and messages. Argument errors (100000) and other codes of that layer (100002 and so on) do not change the
 * thread's last error; runtime errors set it. Both add a line to the text of aclGetRecentErrMsg: "CALL: CODE: what
 * was wrong".
 */
#pragma once

#include "acl/acl.h"
#include "driver/base/error.h"
#include "driver/base/types.h"

namespace usdma::acl {

#ifdef __clang_analyzer__
/* As in error.h: states for the analyzer that a failure is never ACL_SUCCESS. */
template <class... T> inline aclError bad_arg(const char *, const char *, T...)
{
	return ACL_ERROR_INVALID_PARAM;
}
template <class... T> inline aclError fault(const char *, aclError code, const char *, T...)
{
	return code ? code : ACL_ERROR_INTERNAL_ERROR;
}
template <class... T> inline aclError unsupported(const char *, const char *, T...)
{
	return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}
#else
/* 100000. */
[[gnu::format(printf, 2, 3), gnu::cold]] aclError bad_arg(const char *call, const char *fmt, ...);
/* Any other code; a runtime code becomes the thread's last error. */
[[gnu::format(printf, 3, 4), gnu::cold]] aclError fault(const char *call, aclError code, const char *fmt, ...);
/* 207000: cannot be done here. */
[[gnu::format(printf, 2, 3), gnu::cold]] aclError unsupported(const char *call, const char *fmt, ...);
#endif
/* Returns a code without a message and without setting the last error, for results that callers poll for. */
inline aclError code_only(aclError code)
{
	return code;
}

/* Where a -errno of the core came from; selects the ACL code. */
enum class at : u8 {
	submit, /* building or queueing work */
	task,   /* the result of work that has run */
	wait,   /* as task, but -ETIMEDOUT is the caller's own deadline (507046) */
	event,  /* as wait, with code 507047 */
	copy,   /* a copy without a stream */
	open,   /* opening a device */
	memory, /* allocating, mapping, registering */
	fabric, /* exporting and importing by a FABRIC handle */
};
aclError code_of(int err, at where);
/* err: 0 or -errno of the core, whose text becomes the message. */
#ifdef __clang_analyzer__
template <class = void> inline aclError core_fault(const char *, int err, at)
{
	return err ? ACL_ERROR_INTERNAL_ERROR : ACL_SUCCESS;
}
#else
[[gnu::cold, gnu::noinline]] aclError core_fault(const char *call, int err, at where);
#endif

inline aclError check(const char *call, int err, at where)
{
	return likely(!err) ? ACL_SUCCESS : core_fault(call, err, where);
}

void messages_by_process(bool on);

/* The stream whose limits of cores count for the calling thread; nullptr: no memory for it. */
const void **stream_of_limits();

} // namespace usdma::acl
