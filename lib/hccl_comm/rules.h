/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of a collective operation's arguments, before anything of it is submitted. */
#pragma once

#include "driver/base/types.h"
#include "lib/hccl_comm/cause.h"

namespace usdma::hccl_comm {

struct comm;

/* HCCL_E_NOT_SUPPORT: the type; HCCL_E_PARA: more than 2^63 bytes in all ranks' parts. */
HcclResult check_count(u64 count, HcclDataType type, u32 ranks);
/* HCCL_E_NOT_SUPPORT. v: of HcclReduceScatterV, for which products have rules of their own. */
HcclResult check_reduction(HcclDataType type, HcclReduceOp op, bool v = false);
/* HCCL_E_PTR: NULL; HCCL_E_PARA: host memory, or of a device without access, or too short. */
HcclResult check_memory(const comm &c, const char *name, const void *at, u64 bytes);
HcclResult check_rank(const char *name, u32 rank, u32 ranks);

u64 item_bytes(const HcclSendRecvItem &item);
HcclResult check_item(const comm &c, const HcclSendRecvItem &item);
/* What a rank sends to itself it receives: the n-th sending item meets the n-th receiving one. */
HcclResult check_own_items(const comm &c, const HcclSendRecvItem *items, u32 n);
HcclResult check_items(const comm &c, const HcclSendRecvItem *items, u32 n);

} // namespace usdma::hccl_comm
