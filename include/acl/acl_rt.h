/* SPDX-License-Identifier: BSD-3-Clause */
/* The runtime: devices, contexts, memory, copies, streams, events, callbacks, notifies. */
#ifndef USDMA_ACL_RT_H
#define USDMA_ACL_RT_H

#include "acl_rt_types.h"
#include "acl_rt_device.h"
#include "acl_rt_memory.h"
#include "acl_rt_memory_soma.h"
#include "acl_rt_copy.h"
#include "acl_rt_stream.h"
#include "acl_rt_event.h"
#include "acl_rt_sync.h"

#endif
