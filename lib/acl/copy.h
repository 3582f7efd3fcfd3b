/* SPDX-License-Identifier: BSD-3-Clause */
/* Error reporting shared by the copy calls. */
#pragma once

#include "lib/acl/state.h"
#include "lib/core/copy/copy.h"

namespace usdma::acl {

/* The code of a failed submission; an unallocated address has its own code. */
aclError copy_fault(const char *call, int err, const core::endpoints &e);

/* 507899 unless the devices of both have access to each other. */
[[gnu::cold, gnu::noinline]] aclError check_peers(const char *call, unsigned a, unsigned b);

/* The blocks of two devices; mapped and imported memory brought its access. */
inline aclError check_peers(const char *call, const core::endpoints &e)
{
	const bool apart = e.dst.cls == core::mem_class::device && e.src.cls == core::mem_class::device &&
			   e.dst.slot != e.src.slot && e.dst.kind == core::region_kind::heap &&
			   e.src.kind == core::region_kind::heap;

	return likely(!apart) ? ACL_SUCCESS : check_peers(call, e.dst.slot, e.src.slot);
}

} // namespace usdma::acl
