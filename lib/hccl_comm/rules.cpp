/* SPDX-License-Identifier: BSD-3-Clause */
/* What a collective operation takes: types, reductions, counts, memory. */
#include "lib/hccl_comm/rules.h"

#include "driver/base/error.h"
#include "lib/acl/bridge.h"
#include "lib/core/config/config.h"
#include "lib/core/copy/copy.h"
#include "lib/hccl/data_type.h"
#include "lib/hccl_comm/comm.h"

namespace usdma::hccl_comm {

using ::hccl::element_bytes;

namespace {

/* Sets of types, by HcclDataType. */
constexpr u32 bit(HcclDataType type)
{
	return 1u << type;
}

/*
 * Of Atlas A2 and A3, as the pages HcclAllReduce, HcclReduceScatterV and HcclAllGather of hicann/hccl's
 * docs/en/api_ref/ comm_op_interface list them; the codes are those of hcomm's param_check.cc.
 */
constexpr u32 a2_reducible = bit(HCCL_DATA_TYPE_INT8) | bit(HCCL_DATA_TYPE_INT16) | bit(HCCL_DATA_TYPE_INT32) |
			     bit(HCCL_DATA_TYPE_INT64) | bit(HCCL_DATA_TYPE_FP16) | bit(HCCL_DATA_TYPE_FP32) |
			     bit(HCCL_DATA_TYPE_BFP16);
constexpr u32 a2_not_multiplied = bit(HCCL_DATA_TYPE_INT16) | bit(HCCL_DATA_TYPE_BFP16);
constexpr u32 a2_copied = bit(HCCL_DATA_TYPE_INT128) - 1;

bool is_a2(core::product p)
{
	return p == core::product::ascend_910b || p == core::product::ascend_910b_25;
}

HcclResult no_type(HcclDataType type, const char *of)
{
	return because(HCCL_E_NOT_SUPPORT, "data type %d: %s", int(type), of);
}

HcclResult check_type(HcclDataType type)
{
	if (!element_bytes(type))
		return no_type(type, "there is none of this number");
	if (core::config_get().profile != core::product::none && !(a2_copied & bit(type)))
		return no_type(type, "not on this product (USDMA_PROFILE)");
	return HCCL_SUCCESS;
}

/* The product's rules. */
HcclResult check_product(HcclDataType type, HcclReduceOp op, bool v)
{
	const core::product p = core::config_get().profile;
	u32 types = a2_reducible;

	if (p == core::product::none)
		return HCCL_SUCCESS;
	if (op == HCCL_REDUCE_PROD)
		types &= ~a2_not_multiplied;
	if (v && is_a2(p))
		types &= ~bit(HCCL_DATA_TYPE_INT64);
	if (v && op == HCCL_REDUCE_PROD)
		types = 0;
	return types & bit(type) ?
		       HCCL_SUCCESS :
		       because(HCCL_E_NOT_SUPPORT, "reduction %d of data type %d: not on this product (USDMA_PROFILE)",
			       int(op), int(type));
}

bool is_hosts(const core::translation &p)
{
	return p.cls == core::mem_class::unregistered || p.kind == core::region_kind::pinned ||
	       p.kind == core::region_kind::registered;
}

} // namespace

HcclResult check_count(u64 count, HcclDataType type, u32 ranks)
{
	u64 all;

	if (HcclResult ret = check_type(type))
		return ret;
	/* Of all ranks' parts together, so that no offset overflows. */
	if (__builtin_mul_overflow(count, element_bytes(type) * ranks, &all) || all >> 63)
		return because(HCCL_E_PARA, "%llu elements for each of %u ranks: more than 2^63 bytes",
			       static_cast<unsigned long long>(count), ranks);
	return HCCL_SUCCESS;
}

HcclResult check_reduction(HcclDataType type, HcclReduceOp op, bool v)
{
	dma::element is;

	if (HcclResult ret = check_type(type))
		return ret;
	if (unsigned(op) > unsigned(HCCL_REDUCE_MIN))
		return because(HCCL_E_NOT_SUPPORT, "reduction %d: there is none of this number", int(op));
	if (::hccl::find_element(type, &is))
		return no_type(type, "it can be copied, not reduced");
	return check_product(type, op, v);
}

HcclResult check_memory(const comm &c, const char *name, const void *at, u64 bytes)
{
	if (!at)
		return because(HCCL_E_PTR, "%s is NULL", name);
	if (bytes && core::check_access(at, bytes, name))
		return because(HCCL_E_PARA, "%.220s", error_text());
	if (bytes && is_hosts(core::translate(at)))
		return because(HCCL_E_PARA, "%s is host memory", name);
	if (bytes && c.memory && usdma_acl_check_peers("HCCL", at, c.memory))
		return because(HCCL_E_PARA, "%s is memory of a device to which the communicator's has no access", name);
	return HCCL_SUCCESS;
}

HcclResult check_rank(const char *name, u32 rank, u32 ranks)
{
	return rank < ranks ? HCCL_SUCCESS :
			      because(HCCL_E_PARA, "%s is %u, the group has %u ranks", name, rank, ranks);
}

u64 item_bytes(const HcclSendRecvItem &item)
{
	return item.count * element_bytes(item.dataType);
}

HcclResult check_item(const comm &c, const HcclSendRecvItem &item)
{
	if (unsigned(item.sendRecvType) > unsigned(HCCL_RECV))
		return because(HCCL_E_PARA, "sendRecvType is %d", int(item.sendRecvType));
	if (HcclResult ret = check_rank("remoteRank", item.remoteRank, c.size))
		return ret;
	if (HcclResult ret = check_count(item.count, item.dataType, 1))
		return ret;
	return item.count ? check_memory(c, "buf", item.buf, item_bytes(item)) : HCCL_SUCCESS;
}

HcclResult check_own_items(const comm &c, const HcclSendRecvItem *items, u32 n)
{
	u32 next[2] = {};
	const auto find = [&](u32 kind) {
		u32 &i = next[kind];

		while (i < n && (items[i].remoteRank != c.rank || u32(items[i].sendRecvType) != kind))
			i++;
		return i < n ? &items[i++] : nullptr;
	};

	for (;;) {
		const HcclSendRecvItem *const from = find(HCCL_SEND), *const to = find(HCCL_RECV);

		if (!from && !to)
			return HCCL_SUCCESS;
		if (!from || !to || item_bytes(*from) != item_bytes(*to))
			return because(HCCL_E_PARA, "what rank %u sends to itself and what it receives differ", c.rank);
	}
}

HcclResult check_items(const comm &c, const HcclSendRecvItem *items, u32 n)
{
	for (u32 i = 0; i < n; i++)
		if (HcclResult ret = check_item(c, items[i]))
			return ret;
	return check_own_items(c, items, n);
}

} // namespace usdma::hccl_comm
