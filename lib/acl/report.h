/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codes and messages.  Argument errors (100000) and others of their layer (100002 and
 * so on) leave the thread's last error alone; runtime errors set it.  Both add a line to what aclGetRecentErrMsg
 * gives: "CALL: CODE: what was wrong".
 */
#pragma once

#include "acl/acl.h"
#include "driver/base/error.h"
#include "driver/base/types.h"

namespace usdma::acl {

#ifdef __clang_analyzer__
/* As in error.h: a failure is never ACL_SUCCESS. */
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
/* Any other code; one of the runtime's becomes the thread's last error. */
[[gnu::format(printf, 3, 4), gnu::cold]] aclError fault(const char *call, aclError code, const char *fmt, ...);
/* 207000: cannot be done here. */
[[gnu::format(printf, 2, 3), gnu::cold]] aclError unsupported(const char *call, const char *fmt, ...);
#endif
/* A code without a message or a last error, for answers that callers poll for. */
inline aclError quiet(aclError code)
{
	return code;
}

/* What a -errno of the core means where it was got. */
enum class at : u8 {
	submit, /* building or queueing work */
	task,   /* work has run: an error of a task */
	wait,   /* as task, but a passed deadline is the caller's own (507046) */
	event,  /* as wait, 507047 */
	copy,   /* a copy without a stream */
	open,   /* opening a device */
	memory, /* allocating, mapping, registering */
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

} // namespace usdma::acl
