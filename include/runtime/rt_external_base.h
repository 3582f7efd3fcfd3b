/* SPDX-License-Identifier: BSD-3-Clause */
/* Another name of base.h. */
#ifndef USDMA_RUNTIME_RT_EXTERNAL_BASE_H
#define USDMA_RUNTIME_RT_EXTERNAL_BASE_H

#include "base.h"

#endif
