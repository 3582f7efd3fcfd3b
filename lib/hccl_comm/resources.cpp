/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/hccl_comm/comm.h"

#include "acl/rt_compat.h"

#include <dispatcher.h>

#include <algorithm>
#include <cstring>
#include <unistd.h>

namespace usdma::hccl_comm {
namespace {

constexpr u64 slot_align = 512; /* a multiple of each element's size */

HcclResult make_pair(pair_info *p)
{
	if (aclError code = aclrtCreateNotify(&p->arrived, 0))
		return acl_failed("aclrtCreateNotify", code);
	if (aclError code = aclrtCreateNotify(&p->taken, 0))
		return acl_failed("aclrtCreateNotify", code);
	for (auto [notify, key] : {std::pair(p->arrived, p->arrived_key), std::pair(p->taken, p->taken_key)}) {
		if (aclError code = aclrtNotifyGetExportKey(notify, key, key_len,
							    ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION))
			return acl_failed("aclrtNotifyGetExportKey", code);
	}
	return HCCL_SUCCESS;
}

HcclResult make_memory(comm *c, u64 bytes)
{
	const u64 slot = bytes / c->size / slot_align * slot_align;
	void *memory;

	if (aclError code = aclrtMalloc(&memory, slot * c->size, ACL_MEM_MALLOC_HUGE_FIRST))
		return acl_failed("aclrtMalloc", code);
	c->memory = static_cast<char *>(memory);
	if (aclError code = aclrtIpcMemGetExportKey(memory, slot * c->size, c->own.key, key_len,
						    ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION))
		return acl_failed("aclrtIpcMemGetExportKey", code);
	c->own.rank = c->rank;
	c->own.pid = getpid();
	c->own.device = c->device;
	c->own.slot_bytes = slot;
	c->own.memory = memory;
	return HCCL_SUCCESS;
}

/* In both directions: the other rank may not have come to this. */
static HcclResult enable_both(s32 own, s32 other)
{
	s32 here;

	if (aclError code = aclrtDeviceEnablePeerAccess(other, 0))
		return acl_failed("aclrtDeviceEnablePeerAccess", code);
	if (aclError code = aclrtGetPhyDevIdByUserDevId(own, &here))
		return acl_failed("aclrtGetPhyDevIdByUserDevId", code);
	if (aclError code = rtEnableP2P(u32(other), u32(here), 0))
		return acl_failed("rtEnableP2P", code);
	return HCCL_SUCCESS;
}

/* A peer of this process is reached by its address. */
HcclResult reach_here(comm *c, peer *p, const pair_info &theirs)
{
	if (p->is.device != c->device)
		if (HcclResult failed = enable_both(c->device, p->is.device))
			return failed;
	p->slot = static_cast<char *>(p->is.memory) + p->is.slot_bytes * c->rank;
	p->arrived = theirs.arrived;
	p->taken = theirs.taken;
	return HCCL_SUCCESS;
}

HcclResult import(comm *c, peer *p, const pair_info &theirs)
{
	if (aclError code = aclrtIpcMemImportByKey(&p->memory, p->is.key,
						   ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS))
		return acl_failed("aclrtIpcMemImportByKey", code);
	p->slot = static_cast<char *>(p->memory) + p->is.slot_bytes * c->rank;
	if (aclError code = aclrtNotifyImportByKey(&p->arrived, theirs.arrived_key, 0))
		return acl_failed("aclrtNotifyImportByKey", code);
	if (aclError code = aclrtNotifyImportByKey(&p->taken, theirs.taken_key, 0))
		return acl_failed("aclrtNotifyImportByKey", code);
	return HCCL_SUCCESS;
}

void destroy(aclrtNotify notify)
{
	if (notify)
		(void)aclrtDestroyNotify(notify);
}

void drop_peer(peer *p)
{
	if (p->memory) {
		destroy(p->arrived);
		destroy(p->taken);
		(void)rtIpcCloseMemory(p->memory); /* by key it might be that of another device's rank */
	}
	destroy(p->mine.arrived);
	destroy(p->mine.taken);
}

} // namespace

HcclResult acl_failed(const char *call, aclError code)
{
	const char *text = aclGetRecentErrMsg();

	log_warn("hccl: %s returned %d: %s", call, code, text ? text : "");
	return code == ACL_ERROR_RT_MEMORY_ALLOCATION ? HCCL_E_OOM : HCCL_E_RUNTIME;
}

HcclResult make_resources(comm *c, u64 bytes, pair_info *pairs)
{
	if (aclError code = aclrtCreateEventWithFlag(&c->done, ACL_EVENT_SYNC))
		return acl_failed("aclrtCreateEventWithFlag", code);
	if (HcclResult ret = HcclDispatcherInit(DispatcherType::DISPATCHER_NORMAL, c->device, &c->reducer))
		return ret;
	if (HcclResult ret = make_memory(c, bytes))
		return ret;
	for (u32 r = 0; r < c->size; r++) {
		if (r == c->rank)
			continue;
		const HcclResult ret = make_pair(&c->peers[r].mine);
		pairs[r] = c->peers[r].mine;
		if (ret)
			return ret;
	}
	return HCCL_SUCCESS;
}

HcclResult import_peers(comm *c, const rank_info *all, const pair_info *pairs)
{
	c->slot_bytes = c->own.slot_bytes;
	for (u32 r = 0; r < c->size; r++) {
		peer *p = &c->peers[r];

		p->is = all[r];
		c->slot_bytes = std::min(c->slot_bytes, p->is.slot_bytes);
		if (p->is.rank != r || !p->is.slot_bytes || p->is.slot_bytes % slot_align)
			return HCCL_E_REMOTE;
		if (r == c->rank)
			continue;
		if (HcclResult ret = p->is.pid == c->own.pid ? reach_here(c, p, pairs[r]) : import(c, p, pairs[r]))
			return ret;
	}
	return HCCL_SUCCESS;
}

void drop_resources(comm *c)
{
	for (u32 r = 0; c->peers && r < c->size; r++)
		drop_peer(&c->peers[r]);
	(void)HcclDispatcherDestroy(c->reducer); /* null: nothing */
	if (c->memory)
		(void)aclrtFree(c->memory);
	if (c->done)
		(void)aclrtDestroyEvent(c->done);
}

} // namespace usdma::hccl_comm
