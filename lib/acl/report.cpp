/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/acl/report.h"

#include "lib/acl/state.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <pthread.h>

namespace usdma::acl {

/* ---- codes ------------------------------------------------------------------------------------------ */

struct code_row {
	int err;
	aclError submit, task; /* at submission, and as the result of a task */
};

static constexpr code_row codes[] = {
	{ENODEV, ACL_ERROR_RT_LOST_HEARTBEAT, ACL_ERROR_RT_LOST_HEARTBEAT},
	{EFAULT, ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_DRV_INTERNAL_ERROR},
	{EINVAL, ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_DRV_INTERNAL_ERROR},
	{EBADF, ACL_ERROR_RT_INVALID_HANDLE,
	 ACL_ERROR_RT_INVALID_HANDLE}, /* destroyed while the call was in progress */
	{EXDEV, ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_DRV_INTERNAL_ERROR},
	{EEXIST, ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_DRV_INTERNAL_ERROR},
	{ENOENT, ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_DRV_INTERNAL_ERROR},
	{ENOMEM, ACL_ERROR_RT_MEMORY_ALLOCATION, ACL_ERROR_RT_MEMORY_ALLOCATION},
	{ENOSPC, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL},
	{ECANCELED, ACL_ERROR_RT_STREAM_ABORT, ACL_ERROR_RT_STREAM_ABORT},
	{ETIMEDOUT, ACL_ERROR_RT_TASK_TIMEOUT, ACL_ERROR_RT_TASK_TIMEOUT},
	{ETIME, ACL_ERROR_RT_TASK_TIMEOUT, ACL_ERROR_RT_TASK_TIMEOUT},
	{EDEADLK, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_FEATURE_NOT_SUPPORT},
	{EOPNOTSUPP, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_FEATURE_NOT_SUPPORT},
	{ENOSYS, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_FEATURE_NOT_SUPPORT},
	{EOWNERDEAD, ACL_ERROR_RT_LOST_HEARTBEAT, ACL_ERROR_RT_LOST_HEARTBEAT},
	{EACCES, ACL_ERROR_RT_NO_PERMISSION, ACL_ERROR_RT_NO_PERMISSION},
	{EPERM, ACL_ERROR_RT_NO_PERMISSION, ACL_ERROR_RT_NO_PERMISSION},
	{EIO, ACL_ERROR_RT_SYS_DMA, ACL_ERROR_RT_SYS_DMA},
	{EINPROGRESS, ACL_ERROR_RT_STREAM_CAPTURED, ACL_ERROR_RT_STREAM_CAPTURED},
	/* Another machine has ended, or does not answer. */
	{ECONNRESET, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR},
	{ENOLINK, ACL_ERROR_RT_LINK_ERROR, ACL_ERROR_RT_LINK_ERROR},
};

static aclError row_of(int err, bool task)
{
	for (const code_row &r : codes)
		if (r.err == err)
			return task ? r.task : r.submit;
	return ACL_ERROR_RT_DRV_INTERNAL_ERROR;
}

/* As the driver's codes are translated there: an unknown handle, no permission, exported twice, open to any. */
static aclError of_fabric(int err)
{
	switch (err) {
	case ENOENT:
		return ACL_ERROR_RT_INVALID_HANDLE;
	case EACCES:
	case EEXIST:
		return ACL_ERROR_RT_DRV_INTERNAL_ERROR;
	default:
		return row_of(err, false);
	}
}

aclError code_of(int err, at where)
{
	err = -err;
	if (where == at::fabric)
		return of_fabric(err);
	if (where == at::wait && err == ETIMEDOUT)
		return ACL_ERROR_RT_STREAM_SYNC_TIMEOUT;
	if (where == at::event && err == ETIMEDOUT)
		return ACL_ERROR_RT_EVENT_SYNC_TIMEOUT;
	if (where == at::copy && err == EIO)
		return ACL_ERROR_RT_COPY_DATA;
	if (where == at::open && err != EPERM && err != ENOMEM)
		return ACL_ERROR_RT_DEV_SETUP_ERROR;
	return row_of(err, where == at::task || where == at::wait || where == at::event);
}

/* ---- messages --------------------------------------------------------------------------------------- */

/* Lines added since the last aclGetRecentErrMsg, and the text that it returned last. */
struct message_log {
	static constexpr size_t size = 4096;

	const void *limits = nullptr; /* stream_of_limits(): seldom used, as the log is */
	size_t used = 0;
	char lines[size];
	char given[size];
};

static pthread_key_t log_key;
static bool log_key_made;
static bool by_process;
static std::mutex shared_lock;
static message_log shared_log;

/* Destructors of other keys run after it, and may fail in a call that adds a line: it then makes a new log. */
static void free_log(void *log)
{
	self().log = nullptr;
	free(log);
}

static void make_key()
{
	log_key_made = pthread_key_create(&log_key, free_log) == 0;
}

static message_log *own_log()
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (self().log)
		return self().log;
	pthread_once(&once, make_key);
	auto *log = static_cast<message_log *>(malloc(sizeof(message_log)));
	if (!log || !log_key_made || pthread_setspecific(log_key, log)) {
		free(log);
		return nullptr;
	}
	log->used = 0;
	log->limits = nullptr;
	return self().log = log;
}

const void **stream_of_limits()
{
	message_log *log = own_log();

	return log ? &log->limits : nullptr;
}

void messages_by_process(bool on)
{
	std::lock_guard guard(shared_lock);

	by_process = on;
}

/* Newest first. Drops the oldest lines until the new one fits. */
static void add_line(message_log *log, const char *line, size_t len)
{
	while (log->used && log->used + len >= message_log::size) {
		const void *end = memrchr(log->lines, '\n', log->used - 1);

		log->used = end ? size_t(static_cast<const char *>(end) - log->lines) + 1 : 0;
	}
	memmove(log->lines + len, log->lines, log->used);
	memcpy(log->lines, line, len);
	log->used += len;
}

static void add_message(const char *line, size_t len)
{
	std::unique_lock guard(shared_lock);
	message_log *log = &shared_log;

	if (!by_process) {
		guard.unlock();
		log = own_log();
	}
	if (log)
		add_line(log, line, len);
}

/* The text is the calling thread's, also of lines that threads share: calls of others must not change it. */
static const char *give_messages(message_log *log, message_log *own)
{
	if (!log || !log->used || !own)
		return nullptr;
	memcpy(own->given, log->lines, log->used);
	own->given[log->used - 1] = '\0'; /* the last newline */
	log->used = 0;
	return own->given;
}

static void message(const char *call, aclError code, const char *fmt, va_list ap)
{
	char line[768];
	int n = snprintf(line, sizeof(line), "%s: %d: ", call, code);
	int m = vsnprintf(line + n, sizeof(line) - size_t(n) - 1, fmt, ap);

	n = m < int(sizeof(line)) - n - 1 ? n + m : int(sizeof(line)) - 2;
	line[n] = '\n';
	add_message(line, size_t(n) + 1);
}

aclError bad_arg(const char *call, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	message(call, ACL_ERROR_INVALID_PARAM, fmt, ap);
	va_end(ap);
	return ACL_ERROR_INVALID_PARAM;
}

/* 107xxx, 207xxx and 507xxx are runtime codes; codes of the layer above do not change the last error. */
static bool of_runtime(aclError code)
{
	const int family = code / 1000;

	return family == 107 || family == 207 || family == 507;
}

aclError fault(const char *call, aclError code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	message(call, code, fmt, ap);
	va_end(ap);
	if (of_runtime(code))
		self().last_error = code;
	return code;
}

aclError unsupported(const char *call, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	message(call, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, fmt, ap);
	va_end(ap);
	return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}

aclError core_fault(const char *call, int err, at where)
{
	const char *text = error_text();
	const aclError code = core::forked() ? ACL_ERROR_RT_INTERNAL_ERROR : code_of(err, where);

	return fault(call, code, "%s", *text ? text : strerror(-err));
}

} // namespace usdma::acl

using namespace usdma::acl;

extern "C" {

const char *aclGetRecentErrMsg(void)
{
	std::unique_lock guard(shared_lock);

	if (by_process)
		return give_messages(&shared_log, own_log());
	guard.unlock();
	return give_messages(self().log, self().log);
}

} // extern "C"

#include "lib/acl/calls_report.h"
