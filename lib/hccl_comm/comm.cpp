/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/hccl_comm/comm.h"

#include "driver/base/thread.h"
#include "driver/base/words.h"
#include "lib/core/config/config.h"
#include "lib/hccl_comm/group.h"

#include <algorithm>
#include <cstring>

namespace usdma::hccl_comm {
namespace {

/* HCCL's default, where an Ascend product is followed; else less, as there is less memory. */
constexpr u64 product_mib = 200, default_mib = 8, max_mib = 4096;
constexpr u32 default_wait_s = 1836;

bool follows_product()
{
	return core::config_get().profile != core::product::none;
}

u64 number_of(const char *name, u64 otherwise, u64 low, u64 high)
{
	const char *text = core::config_env(name);
	u64 n = otherwise;

	if (text && *text && !number_parse(text, &n, low, high))
		log_warn("hccl: %s=%s: it takes a number from %llu to %llu", name, text,
			 static_cast<unsigned long long>(low), static_cast<unsigned long long>(high));
	return n;
}

/* HCCL takes twice the size, for input and output: with a profile, memory runs out where it would there. */
u64 buffer_bytes(u64 mib)
{
	return (follows_product() ? 2 : 1) * mib * MiB;
}

struct config_info {
	size_t size;
	u32 magic, version;
	u64 reserved;
};

HcclResult check_config(const HcclCommConfig *config, config_info *info)
{
	memcpy(info, config->reserved, sizeof(*info));
	/* What follows the fields that are used may be longer or shorter in another version. */
	if (info->magic != HCCL_COMM_CONFIG_MAGIC_WORD || info->size < offsetof(HcclCommConfig, hcclUdi))
		return because(HCCL_E_PARA, "config is not of HcclCommConfigInit()");
	if (config->hcclBufferSize != HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET &&
	    (!config->hcclBufferSize || config->hcclBufferSize > max_mib))
		return because(HCCL_E_PARA, "hcclBufferSize is %u MiB: 1 to %llu", config->hcclBufferSize,
			       static_cast<unsigned long long>(max_mib));
	if (!memchr(config->hcclCommName, 0, sizeof(config->hcclCommName)))
		return because(HCCL_E_PARA, "hcclCommName has no end");
	return HCCL_SUCCESS;
}

/* HcclCommResume() may be in progress: it makes no monitor any more, or the second end is of that one. */
void destroy(comm *c)
{
	{
		const std::lock_guard hold(c->state);

		c->ended = true;
	}
	monitor_end(c);
	wait_unused(c);
	monitor_end(c);
	c->sided.reset();
	if (c->handle && !c->error)
		remote_leave(c);
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

HcclResult start(comm *c)
{
	c->peers.reset(new (std::nothrow) peer[c->size]{});
	if (!c->peers)
		return because(HCCL_E_MEMORY, "no memory for a communicator");
	if (HcclResult ret = set_context(c))
		return ret;
	if (HcclResult ret = join(c, c->root))
		return ret;
	return monitor_start(c);
}

HcclResult init(u32 size, const HcclRootInfo *info, u32 rank, const HcclCommConfig *config, HcclComm *out)
{
	root_info root;
	options o;

	if (!info || !out)
		return because(HCCL_E_PTR, "%s is NULL", info ? "comm" : "rootInfo");
	if (HcclResult ret = read_options(config, &o))
		return ret;
	memcpy(&root, info, sizeof(root));
	root.name[sizeof(root.name) - 1] = 0;
	root.fixed_name = false;
	return make_comm(size, rank, root, o, root.name, out);
}

/* A rank of HcclCommInitAll(), in a thread of its own. */
struct member {
	const HcclRootInfo *root;
	u32 size, rank;
	s32 device;
	HcclComm *out;
	cause why;
	pthread_t thread;
	bool started;
};

HcclResult init_member(const member &m)
{
	if (aclError code = aclrtSetDevice(m.device))
		return acl_failed("aclrtSetDevice", code);
	if (HcclResult ret = init(m.size, m.root, m.rank, nullptr, m.out)) {
		(void)aclrtResetDevice(m.device);
		return ret;
	}
	const comm_use c(*m.out);
	c->owns_device = true;
	return HCCL_SUCCESS;
}

void *member_main(void *arg)
{
	auto *m = static_cast<member *>(arg);
	const HcclResult ret = init_member(*m);

	m->why = cause_here();
	m->why.code = ret;
	return nullptr;
}

HcclResult init_members(member *all, u32 n)
{
	HcclResult ret = HCCL_SUCCESS;

	for (u32 i = 0; i < n; i++)
		all[i].started = !thread_start(&all[i].thread, "usdma-hccl-init", member_main, &all[i]);
	for (u32 i = 0; i < n; i++) {
		if (all[i].started)
			pthread_join(all[i].thread, nullptr);
		else
			all[i].why = {HCCL_E_SYSCALL, "no thread for a rank"};
		if (all[i].why.code)
			ret = because(ret ? ret : all[i].why.code, "rank %u: %.200s", i, all[i].why.text);
	}
	return ret;
}

/* Before any rank waits for the others; a device once (hcomm: HcclCommInitAll in op_base.cc). */
HcclResult check_devices(u32 ndev, const s32 *devices)
{
	u32 count = 0;

	if (aclError code = aclrtGetDeviceCount(&count))
		return acl_failed("aclrtGetDeviceCount", code);
	for (u32 i = 0; i < ndev; i++) {
		if (devices[i] < 0 || u32(devices[i]) >= count)
			return because(HCCL_E_PARA, "devices[%u] is %d, there are %u", i, devices[i], count);
		if (std::find(devices, devices + i, devices[i]) != devices + i)
			return because(HCCL_E_PARA, "devices[%u] is %d, as another one", i, devices[i]);
	}
	return HCCL_SUCCESS;
}

HcclResult init_all(u32 ndev, const s32 *devices, HcclComm *comms)
{
	member all[max_ranks] = {};
	HcclRootInfo root;

	if (!devices || !comms)
		return because(HCCL_E_PTR, "%s is NULL", devices ? "comms" : "devices");
	if (!ndev || ndev > max_ranks)
		return because(HCCL_E_PARA, "ndev is %u: 1 to %u", ndev, max_ranks);
	if (HcclResult ret = check_devices(ndev, devices))
		return ret;
	if (HcclResult ret = make_root(&root, false))
		return ret;
	for (u32 i = 0; i < ndev; i++)
		all[i] = {&root, ndev, i, devices[i], &comms[i], {}, {}, false};
	const HcclResult ret = init_members(all, ndev);
	for (u32 i = 0; ret && i < ndev; i++)
		if (!all[i].why.code)
			destroy(withdraw(comms[i]));
	return ret;
}

bool has_bound(HcclComm handle)
{
	const comm_use c(handle);

	return c && c->sided && c->sided->has_bound();
}

HcclResult destroy_comm(HcclComm handle)
{
	if (has_bound(handle))
		return because(HCCL_E_PARA, "memory is bound to the communicator: HcclCommUnbindMem() first");
	comm *const c = withdraw(handle);

	if (!c)
		return because(HCCL_E_PTR, "comm is not a communicator of this process");
	destroy(c);
	return HCCL_SUCCESS;
}

/* In a group, HcclCommInit* of all devices of a thread are made at once: each in a thread. */
struct init_job {
	u32 size, rank;
	bool has_config;
	HcclRootInfo root;
	HcclCommConfig config;
	HcclComm *out;
};

HcclResult init_later(const char *call, u32 size, const HcclRootInfo *root, u32 rank, const HcclCommConfig *config,
		      HcclComm *out)
{
	auto *job = new (std::nothrow) init_job{size, rank, config != nullptr, {}, {}, out};

	if (!root || !out || !job) {
		delete job;
		return because(HCCL_E_PTR, "rootInfo or comm is NULL");
	}
	job->root = *root;
	if (config)
		job->config = copy_config(config);
	const HcclResult ret = group_add(call, nullptr, nullptr, [=] {
		const std::unique_ptr<init_job> j(job);

		return init(j->size, &j->root, j->rank, j->has_config ? &j->config : nullptr, j->out);
	});
	if (ret)
		delete job;
	return ret;
}

HcclResult init_call(const char *call, u32 size, const HcclRootInfo *root, u32 rank, const HcclCommConfig *config,
		     HcclComm *out)
{
	return called(call, [=] {
		return group_open() ? init_later(call, size, root, rank, config, out) :
				      init(size, root, rank, config, out);
	});
}

/* f(comm) with a result pointer that must not be NULL. */
template <class F> HcclResult get(const char *call, HcclComm handle, const void *out, F f)
{
	return called(call, [&] {
		const comm_use c(handle);

		if (!c || !out)
			return because(HCCL_E_PTR,
				       c ? "the result is NULL" : "comm is not a communicator of this process");
		f(c.get());
		return HCCL_SUCCESS;
	});
}

} // namespace

HcclResult read_options(const HcclCommConfig *config, options *o)
{
	config_info info;

	o->wait_s = u32(number_of("HCCL_EXEC_TIMEOUT", default_wait_s, 0, s32(0x7fffffff)));
	o->bytes = buffer_bytes(number_of("HCCL_BUFFSIZE", follows_product() ? product_mib : default_mib, 1, max_mib));
	if (!config)
		return HCCL_SUCCESS;
	if (HcclResult ret = check_config(config, &info))
		return ret;
	if (config->hcclBufferSize != HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET)
		o->bytes = buffer_bytes(config->hcclBufferSize);
	memcpy(o->name, config->hcclCommName, sizeof(o->name));
	if (info.size >= offsetof(HcclCommConfig, hcclAlgo) && config->hcclExecTimeOut >= 0)
		o->wait_s = u32(config->hcclExecTimeOut);
	return HCCL_SUCCESS;
}

HcclCommConfig copy_config(const HcclCommConfig *config)
{
	HcclCommConfig copy{};
	config_info info;

	memcpy(&info, config->reserved, sizeof(info));
	/* Of HcclCommConfigInit(), or not: then read_options() refuses it. */
	memcpy(&copy, config, std::clamp(info.size, sizeof(copy.reserved), sizeof(copy)));
	return copy;
}

HcclResult make_comm(u32 size, u32 rank, const root_info &root, const options &o, const char *other_name, HcclComm *out)
{
	if (!size || size > max_ranks || rank >= size)
		return because(HCCL_E_PARA, "rank %u of %u: a group has 1 to %u ranks, from 0", rank, size, max_ranks);
	comm *c = new (std::nothrow) comm;
	if (!c)
		return because(HCCL_E_MEMORY, "no memory for a communicator");
	c->rank = rank;
	c->size = size;
	c->root = root;
	c->wait_s = o.wait_s;
	c->buffer_bytes = o.bytes;
	snprintf(c->name, sizeof(c->name), "%s", *o.name ? o.name : other_name);
	if (HcclResult ret = start(c)) {
		destroy(c);
		return ret;
	}
	*out = publish(c);
	return HCCL_SUCCESS;
}

} // namespace usdma::hccl_comm

using namespace usdma::hccl_comm;
using usdma::u32;

HcclResult HcclGetRootInfo(HcclRootInfo *rootInfo)
{
	return called(__func__,
		      [=] { return rootInfo ? make_root(rootInfo, true) : because(HCCL_E_PTR, "rootInfo is NULL"); });
}

HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, HcclComm *out)
{
	return init_call(__func__, nRanks, rootInfo, rank, nullptr, out);
}

HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank,
				      const HcclCommConfig *config, HcclComm *out)
{
	if (!config)
		return called(__func__, [] { return because(HCCL_E_PTR, "config is NULL"); });
	return init_call(__func__, nRanks, rootInfo, rank, config, out);
}

HcclResult HcclCommInitAll(uint32_t ndev, int32_t *devices, HcclComm *comms)
{
	return called(__func__, [=] { return init_all(ndev, devices, comms); });
}

HcclResult HcclCommDestroy(HcclComm handle)
{
	return called(__func__, [=]() -> HcclResult {
		return group_open() ?
			       group_add("HcclCommDestroy", handle, nullptr, [=] { return destroy_comm(handle); }) :
			       destroy_comm(handle);
	});
}

HcclResult HcclGetRankSize(HcclComm handle, uint32_t *rankSize)
{
	return get(__func__, handle, rankSize, [=](const comm *c) { *rankSize = c->size; });
}

HcclResult HcclGetRankId(HcclComm handle, uint32_t *rank)
{
	return get(__func__, handle, rank, [=](const comm *c) { *rank = c->rank; });
}

HcclResult HcclGetCommName(HcclComm handle, char *commName)
{
	return get(__func__, handle, commName, [=](const comm *c) { memcpy(commName, c->name, sizeof(c->name)); });
}

HcclResult HcclCommGetHandleWithName(const char *commName, HcclComm *out)
{
	return called(__func__, [=] {
		if (!commName || !out)
			return because(HCCL_E_PTR, "%s is NULL", commName ? "comm" : "commName");
		const comm_use c(commName);
		if (!c)
			return because(HCCL_E_PARA, "no communicator is named \"%.128s\"", commName);
		*out = c->handle;
		return HCCL_SUCCESS;
	});
}

HcclResult HcclGetCommAsyncError(HcclComm handle, HcclResult *asyncError)
{
	return get(__func__, handle, asyncError, [=](comm *c) {
		const std::lock_guard hold(c->state);

		*asyncError = c->error;
		/* So HcclGetErrorString() says why. */
		cause_here() = c->why;
		cause_here().code = c->error;
	});
}
