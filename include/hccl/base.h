/* SPDX-License-Identifier: BSD-3-Clause */
/* C++ only. */
/* Integer types of HCCL code, and what its sources expect of this header: HCCL's types and strings. */
#ifndef USDMA_HCCL_BASE_H
#define USDMA_HCCL_BASE_H

#include "hccl_types.h"

#include <string>

typedef signed char s8;
typedef signed short s16;
typedef signed int s32;
typedef signed long long s64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

typedef void *rtStream_t;
typedef void *rtModel_t;

#endif
