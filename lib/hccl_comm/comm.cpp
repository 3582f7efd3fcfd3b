/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/thread.h"
#include "driver/base/words.h"
#include "lib/core/config/config.h"
#include "lib/hccl_comm/comm.h"

#include <cstring>
#include <dispatcher.h>

namespace usdma::hccl_comm {
namespace {

constexpr u64 default_mib = 8, max_mib = 4096;
constexpr u32 default_wait_s = 1836;

/* What of a configuration is used. */
struct options {
	u64 bytes = default_mib * MiB;
	u32 wait_s = default_wait_s;
	const char *name = "";
};

void read_environment(options *o)
{
	const char *text = core::config_env("HCCL_EXEC_TIMEOUT");
	u64 s = o->wait_s;

	if (text && !number_parse(text, &s, 1, s32(0x7fffffff)))
		log_warn("hccl: HCCL_EXEC_TIMEOUT=%s: it takes seconds from 1", text);
	o->wait_s = u32(s);
}

HcclResult read_config(const HcclCommConfig *config, options *o)
{
	struct {
		size_t size;
		u32 magic, version;
		u64 reserved;
	} info;

	read_environment(o);
	if (!config)
		return HCCL_SUCCESS;
	memcpy(&info, config->reserved, sizeof(info));
	/* What follows the fields that are used may be longer or shorter in another version. */
	if (info.magic != HCCL_COMM_CONFIG_MAGIC_WORD || info.size < offsetof(HcclCommConfig, hcclUdi))
		return HCCL_E_PARA;
	if (config->hcclBufferSize != HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET) {
		if (!config->hcclBufferSize || config->hcclBufferSize > max_mib)
			return HCCL_E_PARA;
		o->bytes = config->hcclBufferSize * MiB;
	}
	if (!memchr(config->hcclCommName, 0, sizeof(config->hcclCommName)))
		return HCCL_E_PARA;
	o->name = config->hcclCommName;
	if (info.size >= offsetof(HcclCommConfig, hcclAlgo) && config->hcclExecTimeOut > 0)
		o->wait_s = u32(config->hcclExecTimeOut);
	return HCCL_SUCCESS;
}

void name_comm(comm *c, const options &o, const root_info &root)
{
	snprintf(c->name, sizeof(c->name), "%s", *o.name ? o.name : root.name);
}

void destroy(comm *c)
{
	monitor_end(c);
	drop_resources(c);
	if (c->owns_device)
		(void)aclrtResetDevice(c->device);
	delete c;
}

HcclResult set_context(comm *c)
{
	if (aclError code = aclrtGetDevice(&c->device))
		return acl_failed("aclrtGetDevice", code);
	if (aclError code = aclrtGetCurrentContext(&c->context))
		return acl_failed("aclrtGetCurrentContext", code);
	return HCCL_SUCCESS;
}

HcclResult start(comm *c, const root_info &root, const options &o)
{
	name_comm(c, o, root);
	c->wait_s = o.wait_s;
	c->peers.reset(new (std::nothrow) peer[c->size]{});
	if (!c->peers)
		return HCCL_E_MEMORY;
	if (HcclResult ret = set_context(c))
		return ret;
	if (HcclResult ret = join(c, root, o.bytes))
		return ret;
	return monitor_start(c);
}

HcclResult init(u32 size, const HcclRootInfo *info, u32 rank, const HcclCommConfig *config, HcclComm *out)
{
	root_info root;
	options o;

	if (!info || !out)
		return HCCL_E_PTR;
	if (!size || size > max_ranks || rank >= size)
		return HCCL_E_PARA;
	if (HcclResult ret = read_config(config, &o))
		return ret;
	memcpy(&root, info, sizeof(root));
	root.name[sizeof(root.name) - 1] = 0;
	comm *c = new (std::nothrow) comm;
	if (!c)
		return HCCL_E_MEMORY;
	c->rank = rank;
	c->size = size;
	if (HcclResult ret = start(c, root, o)) {
		destroy(c);
		return ret;
	}
	*out = publish(c);
	return HCCL_SUCCESS;
}

/* A rank of HcclCommInitAll(), in a thread of its own. */
struct member {
	const HcclRootInfo *root;
	u32 size, rank;
	s32 device;
	HcclComm *out;
	HcclResult result;
	pthread_t thread;
	bool started;
};

void *init_member(void *arg)
{
	auto *m = static_cast<member *>(arg);

	if (aclError code = aclrtSetDevice(m->device)) {
		m->result = acl_failed("aclrtSetDevice", code);
		return nullptr;
	}
	m->result = init(m->size, m->root, m->rank, nullptr, m->out);
	if (m->result)
		(void)aclrtResetDevice(m->device);
	else
		find_comm(*m->out)->owns_device = true;
	return nullptr;
}

HcclResult init_members(member *all, u32 n)
{
	HcclResult ret = HCCL_SUCCESS;

	for (u32 i = 0; i < n; i++)
		all[i].started = !thread_start(&all[i].thread, "usdma-hccl-init", init_member, &all[i]);
	for (u32 i = 0; i < n; i++) {
		if (all[i].started)
			pthread_join(all[i].thread, nullptr);
		else
			all[i].result = HCCL_E_SYSCALL;
		ret = ret ? ret : all[i].result;
	}
	return ret;
}

} // namespace
} // namespace usdma::hccl_comm

using namespace usdma::hccl_comm;
using usdma::u32;

HcclResult HcclGetRootInfo(HcclRootInfo *rootInfo)
{
	return rootInfo ? make_root(rootInfo) : HCCL_E_PTR;
}

HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, HcclComm *out)
{
	return init(nRanks, rootInfo, rank, nullptr, out);
}

HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank,
				      const HcclCommConfig *config, HcclComm *out)
{
	return config ? init(nRanks, rootInfo, rank, config, out) : HCCL_E_PTR;
}

HcclResult HcclCommInitAll(uint32_t ndev, int32_t *devices, HcclComm *comms)
{
	member all[max_ranks] = {};
	HcclRootInfo root;

	if (!devices || !comms)
		return HCCL_E_PTR;
	if (!ndev || ndev > max_ranks)
		return HCCL_E_PARA;
	if (HcclResult ret = make_root(&root))
		return ret;
	for (u32 i = 0; i < ndev; i++)
		all[i] = {&root, ndev, i, devices[i], &comms[i], HCCL_SUCCESS, {}, false};
	const HcclResult ret = init_members(all, ndev);
	for (u32 i = 0; ret && i < ndev; i++)
		if (!all[i].result)
			HcclCommDestroy(comms[i]);
	return ret;
}

HcclResult HcclCommDestroy(HcclComm handle)
{
	comm *const c = withdraw(handle);

	if (!c)
		return HCCL_E_PTR;
	destroy(c);
	return HCCL_SUCCESS;
}

HcclResult HcclGetRankSize(HcclComm handle, uint32_t *rankSize)
{
	return with_comm(
		handle,
		[](comm *c, void *out) {
			*static_cast<u32 *>(out) = c->size;
			return HCCL_SUCCESS;
		},
		rankSize);
}

HcclResult HcclGetRankId(HcclComm handle, uint32_t *rank)
{
	return with_comm(
		handle,
		[](comm *c, void *out) {
			*static_cast<u32 *>(out) = c->rank;
			return HCCL_SUCCESS;
		},
		rank);
}

HcclResult HcclGetCommName(HcclComm handle, char *commName)
{
	return with_comm(
		handle,
		[](comm *c, void *out) {
			memcpy(out, c->name, sizeof(c->name));
			return HCCL_SUCCESS;
		},
		commName);
}

HcclResult HcclGetCommAsyncError(HcclComm handle, HcclResult *asyncError)
{
	return with_comm(
		handle,
		[](comm *c, void *out) {
			const std::lock_guard hold(c->state);

			*static_cast<HcclResult *>(out) = c->error;
			return HCCL_SUCCESS;
		},
		asyncError);
}
