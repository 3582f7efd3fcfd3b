/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts of results, and why calls failed. */
#include "driver/base/log.h"
#include "lib/acl/bridge.h"
#include "lib/hccl_comm/cause.h"

#include <hccl.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>

namespace usdma::hccl_comm {

namespace {

/* Of a thread. Not thread_local: a library that is loaded at run time has little static TLS. */
struct texts {
	cause here;
	char text[sizeof(cause::text) + 64];
};

pthread_key_t make_key()
{
	pthread_key_t key;

	return pthread_key_create(&key, free) ? ~pthread_key_t(0) : key;
}

/* Without memory all threads share one: a text may be another thread's then. */
texts &texts_here()
{
	static texts shared;
	static const pthread_key_t key = make_key();
	void *at = pthread_getspecific(key);

	if (likely(at))
		return *static_cast<texts *>(at);
	at = calloc(1, sizeof(texts));
	if (!at || pthread_setspecific(key, at)) {
		free(at);
		return shared;
	}
	return *static_cast<texts *>(at);
}

} // namespace

cause &cause_here()
{
	return texts_here().here;
}

#ifndef __clang_analyzer__
HcclResult because(HcclResult code, const char *fmt, ...)
{
	cause &here = cause_here();
	va_list ap;

	if (*here.text)
		return code;
	here.code = code;
	va_start(ap, fmt);
	vsnprintf(here.text, sizeof(here.text), fmt, ap);
	va_end(ap);
	return code;
}
#endif

HcclResult acl_failed(const char *call, aclError code)
{
	return because(code == ACL_ERROR_RT_MEMORY_ALLOCATION ? HCCL_E_OOM : HCCL_E_RUNTIME, "%s returned %d", call,
		       code);
}

void call_begins()
{
	cause &here = cause_here();

	here.code = HCCL_SUCCESS;
	*here.text = 0;
}

HcclResult call_failed(const char *call, HcclResult code)
{
	cause &here = cause_here();
	char text[sizeof(here.text)];

	/* A text that is there is the cause, whatever code the call makes of it. */
	if (*here.text)
		snprintf(text, sizeof(text), "%s: %.180s", call, here.text);
	else
		snprintf(text, sizeof(text), "%s", call);
	log_warn("hccl: %s (%d)", text, code);
	usdma_acl_message(call, code, *here.text ? here.text : "failed");
	here.code = code;
	snprintf(here.text, sizeof(here.text), "%s", text);
	return code;
}

static const char *plain_text(HcclResult code)
{
	static constexpr const char *texts[] = {
		"no error",                           /* 0 */
		"parameter error",                    /* 1 */
		"empty pointer",                      /* 2 */
		"memory error",                       /* 3 */
		"internal error",                     /* 4 */
		"feature not supported",              /* 5 */
		"resource not found",                 /* 6 */
		"resource unavailable",               /* 7 */
		"system call error",                  /* 8 */
		"timeout",                            /* 9 */
		"open file error",                    /* 10 */
		"cannot connect to the root rank",    /* 11 */
		"RoCE connection error",              /* 12 */
		"TCP transfer error",                 /* 13 */
		"RoCE transfer error",                /* 14 */
		"runtime (ACL) call error",           /* 15 */
		"driver call error",                  /* 16 */
		"profiling error",                    /* 17 */
		"CCE error",                          /* 18 */
		"network error",                      /* 19 */
		"try again",                          /* 20 */
		"another rank has failed or is lost", /* 21 */
		"the communicator is suspended",      /* 22 */
		"the operation's retry failed",       /* 23 */
		"out of memory",                      /* 24 */
	};
	const unsigned n = unsigned(code);

	if (code == HCCL_E_IN_STATUS)
		return "an error is pending";
	return n < sizeof(texts) / sizeof(*texts) ? texts[n] : "unknown error code";
}

} // namespace usdma::hccl_comm

using namespace usdma::hccl_comm;

const char *HcclGetErrorString(HcclResult code)
{
	texts &t = texts_here();
	const cause &here = t.here;
	const char *const plain = plain_text(code);

	if (!code || here.code != code || !*here.text)
		return plain;
	snprintf(t.text, sizeof(t.text), "%s: %s", plain, here.text);
	return t.text;
}
