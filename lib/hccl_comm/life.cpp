/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of some ranks of a group, suspension, and what a communicator says of itself. */
#include "lib/core/config/config.h"
#include "lib/core/copy/copy.h"
#include "lib/hccl_comm/comm.h"
#include "lib/hccl_comm/context.h"
#include "lib/hccl_comm/rules.h"

#include <cstring>

namespace usdma::hccl_comm {
namespace {

/* What a rank passes that belongs to no part (the pages say 32 bits, the parameter has 64). */
constexpr u64 no_part = 0xffffffff;

HcclResult unknown()
{
	return because(HCCL_E_PTR, "comm is not a communicator of this process");
}

/* ---- a group of some ranks ------------------------------------------------------------------------------------ */

HcclResult check_ranks(const comm *c, u32 count, const u32 *ranks, u32 own)
{
	if (!count || count > c->size || own >= count)
		return because(HCCL_E_PARA, "rank %u of %u of a group of %u", own, count, c->size);
	for (u32 i = 0; i < count; i++)
		if (ranks[i] >= c->size || (i && ranks[i] <= ranks[i - 1]))
			return because(HCCL_E_PARA, "rankIds must rise and be below %u: %u at %u", c->size, ranks[i],
				       i);
	if (ranks[own] != c->rank)
		return because(HCCL_E_PARA, "subCommRankId %u is rank %u of the group, this one is %u", own, ranks[own],
			       c->rank);
	return HCCL_SUCCESS;
}

HcclResult make_part(const comm *c, u32 count, const u32 *ranks, u64 id, u32 own, const HcclCommConfig *config,
		     HcclComm *out)
{
	char name[COMM_NAME_MAX_LENGTH + 32];
	options o;

	if (HcclResult ret = check_ranks(c, count, ranks, own))
		return ret;
	if (HcclResult ret = read_options(config, &o))
		return ret;
	snprintf(name, sizeof(name), "%s_sub_%llu", c->name, static_cast<unsigned long long>(id));
	root_info root = fixed_root({{c->root.cookie, sizeof(c->root.cookie)},
				     {&id, sizeof(id)},
				     {ranks, count * sizeof(*ranks)},
				     {o.name, strlen(o.name)}});
	if (HcclResult ret = find_root(c, ranks, count, &root))
		return ret;
	return make_comm(count, own, root, o, name, out);
}

HcclResult create_part(const HcclComm *comm, u32 count, const u32 *ranks, u64 id, u32 own, const HcclCommConfig *config,
		       HcclComm *out)
{
	if (!comm || !config)
		return because(HCCL_E_PTR, "%s is NULL", comm ? "config" : "comm");
	const comm_use c(*comm);
	if (!c)
		return unknown();
	if (!ranks && u32(id) == no_part) {
		if (out)
			*out = nullptr;
		return HCCL_SUCCESS;
	}
	if (!ranks || !out)
		return because(HCCL_E_PTR, "%s is NULL", ranks ? "subComm" : "rankIds");
	return make_part(c, count, ranks, id, own, config, out);
}

/* ---- suspension ----------------------------------------------------------------------------------------------- */

HcclResult suspend(HcclComm handle)
{
	const comm_use c(handle);

	if (!c)
		return unknown();
	const std::lock_guard hold(c->state);
	c->suspended = true;
	return HCCL_SUCCESS;
}

/* As a new communicator; HCCL_E_UNAVAIL: another thread destroys this one. */
HcclResult forget(comm *c)
{
	const std::lock_guard hold(c->state);

	if (c->ended)
		return because(HCCL_E_UNAVAIL, "the communicator is being destroyed");
	c->stop = false;
	c->error = HCCL_SUCCESS;
	c->why = {};
	c->active = {};
	c->idle = true;
	return HCCL_SUCCESS;
}

/* All ranks count the same meetings; operations that were recorded before are over. */
void count_meeting(comm *c, u32 meeting)
{
	const std::lock_guard hold(c->state);

	c->meetings = meeting;
}

/* Closes what other ranks would take for a rank that still comes, or stays. */
void drop_sockets(comm *c)
{
	c->sockets.reset();
	c->socket_count = 0;
}

/* Everything that ranks share is made anew: notifies are clear, an error is forgotten. */
HcclResult meet_again(comm *c)
{
	const u32 meeting = c->meetings + 1;
	root_info root = fixed_root({{c->root.cookie, sizeof(c->root.cookie)},
				     {c->root.name, strlen(c->root.name)},
				     {&meeting, sizeof(meeting)}});

	if (HcclResult ret = find_root(c, &root))
		return ret;
	monitor_end(c);
	drop_resources(c);
	drop_sockets(c);
	c->own = {};
	if (HcclResult ret = forget(c))
		return ret;
	HcclResult ret = join(c, root);
	if (!ret) {
		count_meeting(c, meeting);
		ret = monitor_start(c);
	}
	if (ret)
		drop_sockets(c);
	return ret;
}

HcclResult resume(HcclComm handle)
{
	const comm_use c(handle);

	if (!c)
		return unknown();
	const std::lock_guard order(c->order);
	{
		const std::lock_guard hold(c->state);

		if (!c->suspended)
			return because(HCCL_E_PARA, "the communicator is not suspended");
	}
	const in_context context(c->context);
	if (HcclResult ret = context.failed())
		return ret;
	const HcclResult ret = meet_again(c);
	const std::lock_guard hold(c->state);
	if (ret) {
		c->error = ret;
		c->why = cause_here();
	}
	c->suspended = ret != HCCL_SUCCESS;
	return ret;
}

HcclResult status_of(const char *name, HcclCommStatus *out)
{
	if (!name || !out)
		return because(HCCL_E_PTR, "%s is NULL", name ? "status" : "commId");
	const comm_use c(name);
	if (!c)
		return because(HCCL_E_PARA, "no communicator is named \"%.128s\"", name);
	const std::lock_guard hold(c->state);
	*out = c->suspended ? HCCL_COMM_STATUS_SUSPENDING :
	       c->error     ? HCCL_COMM_STATUS_INVALID :
			      HCCL_COMM_STATUS_READY;
	return HCCL_SUCCESS;
}

/* ---- symmetric windows ------------------------------------------------------------------------------------------ */

/* Of A2 the page says that it has none. */
HcclResult check_windows()
{
	const core::product p = core::config_get().profile;

	if (p == core::product::ascend_910b || p == core::product::ascend_910b_25)
		return because(HCCL_E_NOT_SUPPORT, "symmetric windows are not on this product (USDMA_PROFILE)");
	return HCCL_SUCCESS;
}

HcclResult register_window(HcclComm handle, void *at, u64 size, HcclCommSymWindow *out, u32 flag)
{
	const comm_use c(handle);

	if (!c)
		return unknown();
	if (HcclResult ret = check_windows())
		return ret;
	if (!out)
		return because(HCCL_E_PTR, "winHandle is NULL");
	if (!size || flag != HCCL_WIN_COLL_SYMMETRIC)
		return because(HCCL_E_PARA, "size is %llu, flag %u: flag must be 1",
			       static_cast<unsigned long long>(size), flag);
	if (HcclResult ret = check_memory(*c.get(), "addr", at, size))
		return ret;
	return add_window(c, at, size, out);
}

HcclResult get_window(HcclComm handle, const void *at, size_t size, HcclCommSymWindow *out, size_t *offset)
{
	const comm_use c(handle);
	window w;

	if (!c)
		return unknown();
	if (!at || !out || !offset)
		return because(HCCL_E_PTR, "ptr, winHandle or offset is NULL");
	if (!size)
		return because(HCCL_E_PARA, "size is 0");
	if (!find_window(c, at, size, &w))
		return because(HCCL_E_NOT_FOUND, "%p + %zu bytes is in no registered window", at, size);
	*out = w.handle;
	*offset = size_t(static_cast<const char *>(at) - w.at);
	return HCCL_SUCCESS;
}

/* ---- settings ------------------------------------------------------------------------------------------------- */

HcclResult set_config(HcclConfig config)
{
	return config == HCCL_DETERMINISTIC ?
		       HCCL_SUCCESS :
		       because(HCCL_E_PARA, "config %d: HCCL_DETERMINISTIC is the only one", int(config));
}

HcclResult get_config(HcclConfig config, HcclConfigValue *out)
{
	if (!out)
		return because(HCCL_E_PTR, "configValue is NULL");
	if (HcclResult ret = set_config(config))
		return ret;
	out->value = 1;
	return HCCL_SUCCESS;
}

/* What the host submits, streams execute: as HCCL's mode "host, by the task scheduler". */
HcclResult config_info(HcclConfigType type, u32 len, void *out)
{
	const HcclConfigTypeOpExpansionMode mode = HCCL_OP_EXPANSION_MODE_HOST_TS;

	if (!out)
		return because(HCCL_E_PTR, "info is NULL");
	if (type != HCCL_CONFIG_TYPE_OP_EXPANSION_MODE)
		return because(HCCL_E_NOT_SUPPORT, "cfgType %d: there is no such setting here", int(type));
	if (len < sizeof(mode))
		return because(HCCL_E_PARA, "infoLen is %u, the value has %zu bytes", len, sizeof(mode));
	memcpy(out, &mode, sizeof(mode));
	return HCCL_SUCCESS;
}

template <class F> HcclResult of_comm(HcclComm handle, F f)
{
	const comm_use c(handle);

	return c ? f() : unknown();
}

} // namespace
} // namespace usdma::hccl_comm

using namespace usdma::hccl_comm;

HcclResult HcclCreateSubCommConfig(HcclComm *handle, uint32_t rankNum, uint32_t *rankIds, uint64_t subCommId,
				   uint32_t subCommRankId, HcclCommConfig *config, HcclComm *subComm)
{
	return called(__func__,
		      [=] { return create_part(handle, rankNum, rankIds, subCommId, subCommRankId, config, subComm); });
}

HcclResult HcclCommSuspend(HcclComm handle)
{
	return called(__func__, [=] { return suspend(handle); });
}

HcclResult HcclCommResume(HcclComm handle)
{
	return called(__func__, [=] { return resume(handle); });
}

HcclResult HcclCommGetStatus(const char *commId, HcclCommStatus *status)
{
	return called(__func__, [=] { return status_of(commId, status); });
}

HcclResult HcclCommSymWinRegister(HcclComm handle, void *addr, uint64_t size, HcclCommSymWindow *winHandle,
				  uint32_t flag)
{
	return called(__func__, [=] { return register_window(handle, addr, size, winHandle, flag); });
}

HcclResult HcclCommSymWinDeregister(HcclCommSymWindow winHandle)
{
	return called(__func__, [=] {
		return remove_window(winHandle) ? HCCL_SUCCESS : because(HCCL_E_PARA, "%p is no window", winHandle);
	});
}

HcclResult HcclCommSymWinGet(HcclComm handle, void *ptr, size_t size, HcclCommSymWindow *winHandle, size_t *offset)
{
	return called(__func__, [=] { return get_window(handle, ptr, size, winHandle, offset); });
}

uint32_t HcclGetCommConfigCapability(void)
{
	return HCCL_COMM_CONFIG_RESERVED; /* all items are read, or have no effect here */
}

HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue)
{
	return called(__func__, [=] { return set_config(config); });
}

HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue *configValue)
{
	return called(__func__, [=] { return get_config(config, configValue); });
}

HcclResult HcclSetCommConfig(HcclComm handle, HcclConfig config, HcclConfigValue)
{
	return called(__func__, [=] { return of_comm(handle, [=] { return set_config(config); }); });
}

HcclResult HcclGetCommConfig(HcclComm handle, HcclConfig config, HcclConfigValue *configValue)
{
	return called(__func__, [=] { return of_comm(handle, [=] { return get_config(config, configValue); }); });
}

HcclResult HcclConfigGetInfo(HcclComm handle, HcclConfigType cfgType, uint32_t infoLen, void *info)
{
	return called(__func__, [=] { return of_comm(handle, [=] { return config_info(cfgType, infoLen, info); }); });
}
