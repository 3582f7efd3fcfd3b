/* SPDX-License-Identifier: BSD-3-Clause */
/* C++ only. */
/* Constants, handles and links that the other HCCL headers share. */
#ifndef USDMA_HCCL_COMMON_H
#define USDMA_HCCL_COMMON_H

#include <cstddef>
#include <cstdint>

#include "base.h"
#include "hccl_types.h"

#if defined(__GNUC__)
#define USDMA_HCCL_API __attribute__((visibility("default")))
#else
#define USDMA_HCCL_API
#endif

typedef void *HcclDispatcher;
typedef void *HcclRtStream;
typedef void *HcclRtNotify; /* an aclrtNotify */
typedef void *HcclRtContext;
typedef void *HcclRtEvent;

constexpr u32 INVALID_VALUE_RANKID = 0xFFFFFFFF;
constexpr u32 INVALID_UINT = 0xFFFFFFFF;
constexpr u64 INVALID_U64 = 0xFFFFFFFFFFFFFFFFULL;
constexpr s32 INVALID_VALUE_STAGE = -1;
constexpr s32 HOST_DEVICE_ID = -1;
constexpr s32 HCCL_DEVICE_NOT_SET = -1;
constexpr s32 NOTIFY_DEFAULT_WAIT_TIME = 1836; /* seconds */
constexpr u32 NOTIFY_INVALID_WAIT_TIME = 0xFFFFFFFF;

namespace hccl {

/* How two ranks are connected, as stated by the caller; used for traces only. */
enum class LinkType {
	LINK_ONCHIP = 0,
	LINK_HCCS = 1,
	LINK_PCIE = 2,
	LINK_ROCE = 3,
	LINK_SIO = 4,
	LINK_HCCS_SW = 5,
	LINK_STANDARD_ROCE = 6,
	LINK_UB = 7,
	LINK_RESERVED = 255
};

} // namespace hccl

#endif
