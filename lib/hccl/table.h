/* SPDX-License-Identifier: BSD-3-Clause */
/* The dispatchers of a process, in a table so that a handle can be checked without dereferencing it. */
#pragma once

#include "lib/hccl/call.h"

#include <dispatcher.h>

#include <atomic>

namespace hccl {

struct dispatcher {
	enum state : u32 { unused, making, live };

	std::atomic<u32> state{unused};
	DispatcherType type = DispatcherType::DISPATCHER_NORMAL;
	s32 device = HOST_DEVICE_ID; /* ACL's logical number */
	bool device_set = false;     /* set here, so reset by HcclDispatcherDestroy */
	std::atomic<u32> wait_seconds{u32(NOTIFY_DEFAULT_WAIT_TIME)};

	bool records_tasks() const { return type == DispatcherType::DISPATCHER_VIRTURAL; }
};

/* nullptr: NULL, never made, or destroyed. */
dispatcher *find_dispatcher(HcclDispatcher handle);

} // namespace hccl
