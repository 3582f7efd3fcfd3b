/* SPDX-License-Identifier: BSD-3-Clause */
/* Another name of stream.h. */
#ifndef USDMA_RUNTIME_EVENT_H
#define USDMA_RUNTIME_EVENT_H

#include "stream.h"

#endif
