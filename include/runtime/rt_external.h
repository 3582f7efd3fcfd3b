/* SPDX-License-Identifier: BSD-3-Clause */
/* The whole layer. */
#ifndef USDMA_RUNTIME_RT_EXTERNAL_H
#define USDMA_RUNTIME_RT_EXTERNAL_H

#include "rt.h"

#endif
