/* SPDX-License-Identifier: BSD-3-Clause */
/* Another name of kernel.h. */
#ifndef USDMA_RUNTIME_RT_FFTS_H
#define USDMA_RUNTIME_RT_FFTS_H

#include "kernel.h"

#endif
