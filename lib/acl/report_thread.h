/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that serve streams' callbacks. */
#pragma once

#include "lib/acl/state.h"

namespace usdma::acl {

/* The stream goes: no thread serves it any more. */
void forget_subscriptions(core::stream *s);

} // namespace usdma::acl
