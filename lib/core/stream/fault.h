/* SPDX-License-Identifier: BSD-3-Clause */
/* A channel that halted: the streams whose requests failed are told, and it goes on. */
#pragma once

#include "lib/core/device/device.h"

namespace usdma::core {

/* Takes the lane's lock, or those of helpers and of lanes that they help. */
void lane_check_fault(lane *l);
/* The channel's alone, with the lock held; not for helpers. */
void lane_handle_fault(lane *l);

} // namespace usdma::core
