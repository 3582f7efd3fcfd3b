/* SPDX-License-Identifier: BSD-3-Clause */
/* Integer types of HCCL code. */
#ifndef USDMA_HCCL_BASE_H
#define USDMA_HCCL_BASE_H

typedef signed char s8;
typedef signed short s16;
typedef signed int s32;
typedef signed long long s64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

typedef void *rtStream_t;

#endif
