/* SPDX-License-Identifier: BSD-3-Clause */
/* Another name of mem.h. */
#ifndef USDMA_RUNTIME_RT_EXTERNAL_MEM_H
#define USDMA_RUNTIME_RT_EXTERNAL_MEM_H

#include "mem.h"

#endif
