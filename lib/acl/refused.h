/* SPDX-License-Identifier: BSD-3-Clause */
/* What a function of refused.list does. */
#pragma once

#include "acl/acl_prof.h"
#include "lib/acl/state.h"

#include <algorithm>
#include <type_traits>

namespace usdma::acl {

/* An enumeration's value for "none". */
template <class E> inline constexpr E undefined_value = E(-1);
template <> inline constexpr aclprofSubscribeOpFlag undefined_value<aclprofSubscribeOpFlag> = ACL_SUBSCRIBE_NONE;

/* 207000 leaves the last error, another code is that of the layer above it. */
template <class R> R refuse(const char *call, aclError code, const char *reason)
{
	const aclError err = code == ACL_ERROR_RT_FEATURE_NOT_SUPPORT ? unsupported(call, "%s", reason) :
									fault(call, code, "%s", reason);

	if constexpr (std::is_same_v<R, aclError>)
		return err;
	else if constexpr (std::is_enum_v<R>)
		return undefined_value<R>;
	else if constexpr (!std::is_void_v<R>)
		return {};
}

inline aclError check_live(const char *call, aclrtStream stream)
{
	stream_guard s;

	return get_any_stream(call, stream, &s);
}

inline bool valid_locations(const aclrtMemManagedLocation *all, size_t n)
{
	return std::all_of(all, all + n, [](const aclrtMemManagedLocation &l) {
		return l.type > ACL_MEM_LOCATIONTYPE_INVALID && l.type <= ACL_MEM_LOCATIONTYPE_HOST_NUMA_CURRENT;
	});
}

} // namespace usdma::acl
