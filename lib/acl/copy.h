/* SPDX-License-Identifier: BSD-3-Clause */
/* Error reporting shared by the copy calls. */
#pragma once

#include "lib/acl/state.h"
#include "lib/core/copy/copy.h"

namespace usdma::acl {

/* The code of a failed submission; an unallocated address has its own code. */
aclError copy_fault(const char *call, int err, const core::endpoints &e);

} // namespace usdma::acl
