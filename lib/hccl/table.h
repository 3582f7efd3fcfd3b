/* SPDX-License-Identifier: BSD-3-Clause */
/* The dispatchers of a process, by handles that are checked, and never name another one. */
#pragma once

#include "lib/hccl/call.h"

#include <dispatcher.h>

namespace hccl {

struct alignas(64) dispatcher {
	usdma::u64 alive = 0; /* the handle */
	DispatcherType type = DispatcherType::DISPATCHER_NORMAL;
	s32 device = HOST_DEVICE_ID;                 /* ACL's logical number */
	bool device_set = false;                     /* set here, so reset by HcclDispatcherDestroy */
	u32 wait_seconds = NOTIFY_DEFAULT_WAIT_TIME; /* atomic */

	bool records_tasks() const { return type == DispatcherType::DISPATCHER_VIRTURAL; }
};

/* nullptr: NULL, never made, or destroyed. */
dispatcher *find_dispatcher(HcclDispatcher handle);

} // namespace hccl
