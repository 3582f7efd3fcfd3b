/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that serve streams' callbacks. */
#pragma once

#include "lib/acl/state.h"

namespace usdma::acl {

/* Removes the stream's subscriptions, before it is destroyed. */
void forget_subscriptions(core::stream *s);
/* Removes the allocator registered for a stream, when none can be registered any more: it is destroyed. */
void forget_allocator(void *stream);

} // namespace usdma::acl
