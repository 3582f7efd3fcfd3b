/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that answer 207000 because another product or driver does: settings profile and refuse. The exported function
 * of each is a wrapper (wrappers.py) that checks one byte, which the first call of all sets. The calls of the fast path
 * have none: while one of them is refused, no thread caches translations, so that all take their slow path, which calls
 * refuse_hot().
 */
#pragma once

#include "driver/base/barrier.h"
#include "lib/acl/report.h"
#include "lib/acl/soc.h"

namespace usdma::acl {

struct wrapped_call {
	const char *name;
	bool hot; /* of the fast path */
};

extern const wrapped_call wrapped_calls[]; /* sorted */
extern const unsigned wrapped_count;
inline constexpr u8 undecided = 2; /* the settings have not been read */
extern u8 call_refused[];          /* in that order; atomic: 0, 1 or undecided */
extern u8 hot_refused;             /* one of the fast path is */
extern u8 strict_documents;        /* USDMA_CHECK=strict: set before that */

/* 207000 if the call is refused. */
[[gnu::cold, gnu::noinline]] aclError refuse_wrapped(unsigned index);
[[gnu::cold, gnu::noinline]] aclError refuse_named(const char *call);

/* The rest of a wrapper, of a call that is refused or may be. */
template <unsigned index, auto call, class... A> [[gnu::cold, gnu::noinline]] aclError call_unless_refused(A... a)
{
	const aclError refused = refuse_wrapped(index);

	return refused ? refused : call(a...);
}

/* In the slow path of a call of the fast path. */
inline aclError refuse_hot(const char *call)
{
	return likely(!load_relaxed(&hot_refused)) ? ACL_SUCCESS : refuse_named(call);
}

/* Uses that the documents forbid and the runtime accepts are reported. In the slow paths of the fast path's calls. */
inline bool documents_count()
{
	return load_relaxed(&strict_documents);
}

/* Before a context is created. -EINVAL: a name of the setting cannot be refused. */
int refusals_take_effect();
/* The SoC of the product that the profile names. */
const soc &profile_soc();

} // namespace usdma::acl
