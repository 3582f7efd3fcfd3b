/* SPDX-License-Identifier: BSD-3-Clause */
/* What a function of refused.list does. */
#pragma once

#include "acl/acl_prof.h"
#include "lib/acl/report.h"

#include <type_traits>

namespace usdma::acl {

/* An enumeration's value for "none". */
template <class E> inline constexpr E undefined_value = E(-1);
template <> inline constexpr aclprofSubscribeOpFlag undefined_value<aclprofSubscribeOpFlag> = ACL_SUBSCRIBE_NONE;

template <class R> R refuse(const char *call, const char *reason)
{
	const aclError err = unsupported(call, "%s", reason);

	if constexpr (std::is_same_v<R, aclError>)
		return err;
	else if constexpr (std::is_enum_v<R>)
		return undefined_value<R>;
	else if constexpr (!std::is_void_v<R>)
		return {};
}

} // namespace usdma::acl
