/* SPDX-License-Identifier: BSD-3-Clause */
/* C++ only. */
#ifndef USDMA_HCCL_TASK_LOGIC_INFO_PUB_H
#define USDMA_HCCL_TASK_LOGIC_INFO_PUB_H

#include "dispatcher_task_types.h"

#endif
