/* SPDX-License-Identifier: BSD-3-Clause */
/* The whole layer. */
#ifndef USDMA_RUNTIME_RT_H
#define USDMA_RUNTIME_RT_H

#include "dev.h"
#include "kernel.h"
#include "mem.h"
#include "stream.h"

#endif
