/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of other machines, imported by a FABRIC handle. It has addresses that nothing can access but copies, which
 * pass through memory that this process shares with its usdma-net (helper.h).
 */
#pragma once

#include "lib/share/vmm.h"

namespace usdma::core {

/*
 * -EOPNOTSUPP: this program, or the exporter, has no setting net. -ENOENT: it is not exported there (any more), or that
 * machine does not answer. -EACCES: it is not for other machines, or the keys of the machines differ.
 */
int remote_import(const fabric_handle *h, const char *key, device *dev, physical **out);

} // namespace usdma::core
