/* SPDX-License-Identifier: BSD-3-Clause */
/* What the copying calls share. */
#pragma once

#include "lib/acl/state.h"
#include "lib/core/copy/copy.h"

namespace usdma::acl {

/* A submission that failed; an address that is not allocated has a code of its own. */
aclError copy_fault(const char *call, int err, const core::ends &e);
/* The error of a stream's earlier task, met by a call that had to wait for the stream. */
aclError sync_error(const char *call, core::stream *s, int err);

} // namespace usdma::acl
