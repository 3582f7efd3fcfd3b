/* SPDX-License-Identifier: BSD-3-Clause */
/* Another name of dev.h. */
#ifndef USDMA_RUNTIME_CONTEXT_H
#define USDMA_RUNTIME_CONTEXT_H

#include "dev.h"

#endif
