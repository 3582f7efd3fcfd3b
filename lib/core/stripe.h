/* SPDX-License-Identifier: BSD-3-Clause */
/* One synchronous copy over several units of an engine (setting "stripe"). */
#pragma once

#include "lib/core/copy.h"

namespace usdma::core {

/* A copy that whoever asked for waits for anyway, long enough, on a device with more than one unit. */
bool stripes(const device *dev, u64 len);
/* In parts, one a unit; done, or reported failed as a whole, when it returns. */
int copy_striped(device *dev, void *dst, const void *src, u64 len);

} // namespace usdma::core
