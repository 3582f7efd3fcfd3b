/* SPDX-License-Identifier: BSD-3-Clause */
/* Why a call has failed: a code and a text, of the calling thread, or of a communicator. */
#pragma once

#include <acl/acl.h>
#include <hccl_types.h>

namespace usdma::hccl_comm {

struct cause {
	HcclResult code = HCCL_SUCCESS;
	char text[232] = "";
};

/* The calling thread's: the first failure in its call. */
cause &cause_here();

#ifdef __clang_analyzer__
template <class... T> inline HcclResult because(HcclResult code, const char *, T...)
{
	return code ? code : HCCL_E_INTERNAL;
}
#else
/* Keeps the text, unless the call has one; returns code. */
[[gnu::format(printf, 2, 3), gnu::cold]] HcclResult because(HcclResult code, const char *fmt, ...);
#endif
/* A failed ACL call, whose own text aclGetRecentErrMsg() has. */
[[gnu::cold]] HcclResult acl_failed(const char *call, aclError code);

/* The begin of a public call, and its failure, which goes to the log and to aclGetRecentErrMsg(). */
void call_begins();
[[gnu::cold]] HcclResult call_failed(const char *call, HcclResult code);

template <class F> HcclResult called(const char *call, F work)
{
	call_begins();
	const HcclResult ret = work();

	return ret ? call_failed(call, ret) : HCCL_SUCCESS;
}

} // namespace usdma::hccl_comm
