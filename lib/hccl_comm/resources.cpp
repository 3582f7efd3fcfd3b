/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/hccl_comm/comm.h"
#include "lib/hccl_comm/schedule.h"

#include "lib/share/fabric.h"
#include "runtime/rt.h"

#include <dispatcher.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <sys/random.h>
#include <unistd.h>

namespace usdma::hccl_comm {
namespace {

constexpr u64 slot_align = 512; /* a multiple of each element's size */
constexpr u64 page = 4096;      /* what is exported begins a page */

HcclResult make_pair(pair_info *p)
{
	for (slot_info &s : p->slots)
		for (aclrtNotify *n : {&s.arrived, &s.taken})
			if (aclError code = aclrtCreateNotify(n, 0))
				return acl_failed("aclrtCreateNotify", code);
	return HCCL_SUCCESS;
}

HcclResult export_pair(pair_info *p)
{
	for (slot_info &s : p->slots)
		for (auto [notify, key] : {std::pair(s.arrived, s.arrived_key), std::pair(s.taken, s.taken_key)})
			if (aclError code = aclrtNotifyGetExportKey(notify, key, key_len,
								    ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION))
				return acl_failed("aclrtNotifyGetExportKey", code);
	return HCCL_SUCCESS;
}

HcclResult make_memory(comm *c)
{
	const u64 count = u64(c->size > 1 ? c->size - 1 : 1) * depth;
	const u64 slot = c->buffer_bytes / count / slot_align * slot_align;
	void *memory;

	if (aclError code = aclrtMalloc(&c->block, slot * count + page, ACL_MEM_MALLOC_HUGE_FIRST))
		return acl_failed("aclrtMalloc", code);
	memory = reinterpret_cast<void *>((reinterpret_cast<u64>(c->block) + page - 1) / page * page);
	c->memory = static_cast<char *>(memory);
	if (aclError code = aclrtIpcMemGetExportKey(memory, slot * count, c->own.key, key_len,
						    ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION))
		return acl_failed("aclrtIpcMemGetExportKey", code);
	c->own.rank = c->rank;
	c->own.pid = getpid();
	if (!process_id(&c->own.process))
		return because(HCCL_E_SYSCALL, "no random number for this process: %s", strerror(errno));
	c->own.device = c->device;
	c->own.slot_bytes = slot;
	c->own.buffer_bytes = c->buffer_bytes;
	core::fabric_boot_id(c->own.host);
	c->own.memory = memory;
	return HCCL_SUCCESS;
}

/* Where this rank's slots are in the peer's memory. */
char *slots_in(const comm *c, const peer &p, void *memory)
{
	return static_cast<char *>(memory) + p.is.slot_bytes * index_of(c->rank, p.is.rank) * depth;
}

/* A peer of this process is reached by its address. */
HcclResult reach_here(const comm *c, peer *p, const pair_info &theirs)
{
	if (p->is.device != c->device)
		if (HcclResult failed = enable_both(c->device, p->is.device))
			return failed;
	p->slots = slots_in(c, *p, p->is.memory);
	for (u32 i = 0; i < depth; i++) {
		p->arrived[i] = theirs.slots[i].arrived;
		p->taken[i] = theirs.slots[i].taken;
	}
	return HCCL_SUCCESS;
}

HcclResult import(const comm *c, peer *p, const pair_info &theirs)
{
	if (aclError code = aclrtIpcMemImportByKey(&p->memory, p->is.key,
						   ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS))
		return acl_failed("aclrtIpcMemImportByKey", code);
	p->slots = slots_in(c, *p, p->memory);
	for (u32 i = 0; i < depth; i++) {
		if (aclError code = aclrtNotifyImportByKey(&p->arrived[i], theirs.slots[i].arrived_key, 0))
			return acl_failed("aclrtNotifyImportByKey", code);
		if (aclError code = aclrtNotifyImportByKey(&p->taken[i], theirs.slots[i].taken_key, 0))
			return acl_failed("aclrtNotifyImportByKey", code);
	}
	return HCCL_SUCCESS;
}

bool is_remote(const comm *c, const rank_info &other)
{
	return memcmp(other.host, c->own.host, sizeof(other.host)) != 0;
}

/* What the accepting rank has sent of all. */
HcclResult check_ranks(const comm *c, const rank_info *all)
{
	for (u32 r = 0; r < c->size; r++)
		if (all[r].rank != r || !all[r].slot_bytes || all[r].slot_bytes % slot_align ||
		    (r == c->rank && is_remote(c, all[r])))
			return because(HCCL_E_REMOTE,
				       "rank %u sends something else than another rank: another version?", r);
	return HCCL_SUCCESS;
}

void destroy(aclrtNotify notify)
{
	if (notify)
		(void)aclrtDestroyNotify(notify);
}

void drop_peer(peer *p)
{
	for (u32 i = 0; p->memory && i < depth; i++) {
		destroy(p->arrived[i]);
		destroy(p->taken[i]);
	}
	if (p->memory)
		(void)rtIpcCloseMemory(p->memory); /* by key it might be that of another device's rank */
	for (const slot_info &s : p->mine.slots) {
		destroy(s.arrived);
		destroy(s.taken);
	}
	*p = {};
}

} // namespace

bool process_id(u64 *out)
{
	static std::mutex lock;
	static u64 id;
	std::lock_guard guard(lock);

	if (!id && getrandom(&id, sizeof(id), 0) != ssize_t(sizeof(id)))
		return false;
	*out = id;
	return true;
}

HcclResult enable_both(s32 own, s32 other)
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

HcclResult make_resources(comm *c)
{
	if (HcclResult ret = HcclDispatcherInit(DispatcherType::DISPATCHER_NORMAL, c->device, &c->reducer))
		return because(ret, "HcclDispatcherInit returned %d", ret);
	if (HcclResult ret = make_memory(c))
		return ret;
	for (u32 r = 0; r < c->size; r++)
		if (r != c->rank)
			if (HcclResult ret = make_pair(&c->peers[r].mine))
				return ret;
	return HCCL_SUCCESS;
}

HcclResult export_pairs(comm *c, const rank_info *all, pair_info *pairs)
{
	if (HcclResult ret = check_ranks(c, all))
		return ret;
	if (HcclResult ret = remote_make(c, all))
		return ret;
	for (u32 r = 0; r < c->size; r++) {
		pair_info *mine = &c->peers[r].mine;

		if (r != c->rank && is_remote(c, all[r]))
			mine->remote = c->remote->own;
		else if (r != c->rank && !same_process(all[r], c->own))
			if (HcclResult ret = export_pair(mine))
				return ret;
		pairs[r] = *mine;
	}
	return HCCL_SUCCESS;
}

HcclResult import_peers(comm *c, const rank_info *all, const pair_info *pairs)
{
	c->slot_bytes = c->own.slot_bytes;
	find_grid(c, all);
	for (u32 r = 0; r < c->size; r++) {
		peer *p = &c->peers[r];

		p->is = all[r];
		c->slot_bytes = std::min(c->slot_bytes, p->is.slot_bytes);
		if (r == c->rank)
			continue;
		const HcclResult ret = is_remote(c, p->is)         ? remote_import(c, all, p, pairs[r].remote) :
				       same_process(p->is, c->own) ? reach_here(c, p, pairs[r]) :
								     import(c, p, pairs[r]);
		if (ret)
			return ret;
	}
	return HCCL_SUCCESS;
}

void drop_resources(comm *c)
{
	remote_drop(c);
	for (u32 r = 0; c->peers && r < c->size; r++)
		drop_peer(&c->peers[r]);
	(void)HcclDispatcherDestroy(std::exchange(c->reducer, nullptr)); /* null: nothing */
	if (c->block)
		(void)aclrtFree(std::exchange(c->block, nullptr));
	drop_streams(c);
}

} // namespace usdma::hccl_comm
