/* SPDX-License-Identifier: BSD-3-Clause */
/* Error reporting shared by the copy calls. */
#pragma once

#include "lib/acl/state.h"
#include "lib/core/copy/copy.h"

namespace usdma::acl {

/* The code of a failed submission; an unallocated address has its own code. */
aclError copy_fault(const char *call, int err, const core::endpoints &e);
/* The code of a stream's earlier task error, found by a call that had to wait for the stream. */
aclError sync_error(const char *call, core::stream *s, int err);

} // namespace usdma::acl
