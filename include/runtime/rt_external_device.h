/* SPDX-License-Identifier: BSD-3-Clause */
/* Another name of dev.h. */
#ifndef USDMA_RUNTIME_RT_EXTERNAL_DEVICE_H
#define USDMA_RUNTIME_RT_EXTERNAL_DEVICE_H

#include "dev.h"

#endif
