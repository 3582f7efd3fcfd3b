/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rank tables, version 1.0 and 1.2 (hicann/hccl, docs/en/user_guide/cluster_info_config). The table itself names the
 * group: rank 0 listens, and there is no root info. Ranks of other servers connect to the usdma-net of its program, at
 * the host_ip of its server, or else the device_ip.
 */
#include "driver/base/fd.h"
#include "driver/base/grow.h"
#include "driver/base/words.h"
#include "lib/hccl_comm/comm.h"
#include "lib/hccl_comm/group.h"

#include <hccl_one_sided_services.h>
#include <nlohmann/json.hpp>

#include <arpa/inet.h>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>

namespace usdma::hccl_comm {
namespace {

using json = nlohmann::json;

constexpr size_t max_table = 16 * MiB;

/* What of a table is used; by rank. */
struct table {
	u32 size = 0, servers = 0;
	u64 devices[max_ranks] = {};
	u32 server[max_ranks] = {};
	core::net_address first{}; /* where rank 0's usdma-net is; family 0: the table does not say it */
};

HcclResult read_file(const char *path, std::string *out)
{
	/* Without waiting for the writer of a pipe. */
	const unique_fd fd(fd_above_stdio(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)));
	struct stat is;
	char part[16384];
	ssize_t n = 0;

	if (!fd.valid())
		return because(HCCL_E_PARA, "rank table %.128s: %s", path, strerrordesc_np(errno));
	if (fstat(fd.get(), &is) || !S_ISREG(is.st_mode))
		return because(HCCL_E_PARA, "rank table %.128s: it is not a regular file", path);
	while (out->size() <= max_table && (n = read(fd.get(), part, sizeof(part))) > 0)
		out->append(part, size_t(n));
	if (n)
		return because(HCCL_E_PARA, "rank table %.128s: %s", path, n < 0 ? strerrordesc_np(errno) : "too long");
	return HCCL_SUCCESS;
}

/* "" without it, or if it is no string. */
std::string text_of(const json &of, const char *name)
{
	const auto at = of.is_object() ? of.find(name) : of.end();

	return of.is_object() && at != of.end() && at->is_string() ? at->get<std::string>() : "";
}

/* An empty array without it. */
const json &array_of(const json &of, const char *name)
{
	static const json none = json::array();
	const auto at = of.is_object() ? of.find(name) : of.end();

	return of.is_object() && at != of.end() && at->is_array() ? *at : none;
}

HcclResult check_head(const json &j)
{
	const std::string version = text_of(j, "version"), status = text_of(j, "status");

	if (!j.is_object())
		return because(HCCL_E_PARA, "the rank table is not JSON");
	if (status != "completed")
		return because(HCCL_E_PARA, "the rank table's status is \"%.32s\", not \"completed\"", status.c_str());
	if (version != "1.0" && version != "1.2")
		return because(HCCL_E_NOT_SUPPORT, "the rank table's version is \"%.32s\": 1.0 and 1.2 can be read",
			       version.c_str());
	if (array_of(j, "server_list").empty() || array_of(j, "server_list").size() > max_ranks)
		return because(HCCL_E_PARA, "the rank table has %zu servers: 1 to %u",
			       array_of(j, "server_list").size(), max_ranks);
	return HCCL_SUCCESS;
}

/* Port 0, if there is none: any of usdma-net's. */
HcclResult read_address(const json &server, const json &d, table *t)
{
	const bool host = !text_of(server, "host_ip").empty();
	const std::string ip = host ? text_of(server, "host_ip") : text_of(d, "device_ip");
	const std::string port = host ? text_of(server, "host_port") : "";
	const bool six = ip.find(':') != ip.npos;
	u64 number = 0;

	t->first.family = six ? 6 : 4;
	if (inet_pton(six ? AF_INET6 : AF_INET, ip.c_str(), t->first.address) != 1)
		return because(HCCL_E_PARA, "the rank table has \"%.64s\" as host_ip or device_ip of rank 0",
			       ip.c_str());
	if (!port.empty() && !number_parse(port, &number, 1, 0xffff))
		return because(HCCL_E_PARA, "the rank table has host_port \"%.16s\"", port.c_str());
	t->first.port = u16(number);
	return HCCL_SUCCESS;
}

HcclResult add_device(const json &d, u32 size, u32 server, bool *seen, table *t)
{
	const std::string rank = text_of(d, "rank_id"), device = text_of(d, "device_id");
	u64 r, id;

	if (!number_parse(rank, &r, 0, size - 1) || !number_parse(device, &id, 0, 0xffff))
		return because(HCCL_E_PARA,
			       "the rank table has rank_id \"%.16s\", device_id \"%.16s\" among %u devices",
			       rank.c_str(), device.c_str(), size);
	if (seen[r])
		return because(HCCL_E_PARA, "the rank table has two ranks %u", u32(r));
	seen[r] = true;
	t->devices[r] = id;
	t->server[r] = server;
	return HCCL_SUCCESS;
}

/* Of a table with several servers. */
HcclResult find_first(const json &server, table *t)
{
	for (const json &d : array_of(server, "device"))
		if (text_of(d, "rank_id") == "0")
			return read_address(server, d, t);
	return because(HCCL_E_PARA, "the rank table has no rank 0");
}

HcclResult parse(const std::string &text, table *t)
{
	const json j = json::parse(text, nullptr, false);
	bool seen[max_ranks] = {};

	if (HcclResult ret = check_head(j))
		return ret;
	const json &servers = array_of(j, "server_list");
	size_t size = 0;
	for (const json &s : servers)
		size += array_of(s, "device").size();
	if (!size || size > max_ranks)
		return because(HCCL_E_PARA, "the rank table has %zu devices: 1 to %u", size, max_ranks);
	t->size = u32(size);
	t->servers = u32(servers.size());
	for (u32 i = 0; i < t->servers; i++)
		for (const json &d : array_of(servers[i], "device"))
			if (HcclResult ret = add_device(d, t->size, i, seen, t))
				return ret;
	return t->servers > 1 ? find_first(servers[t->server[0]], t) : HCCL_SUCCESS;
}

/* The root of the group, as this rank sees it: on its own machine, or on another one. */
HcclResult set_root(const table &t, u32 rank, root_info *root)
{
	if (t.servers < 2)
		return HCCL_SUCCESS;
	if (!rank)
		return core::net_is_on() ? remote_here(&root->at) :
					   because(HCCL_E_NOT_SUPPORT,
						   "the rank table has %u servers: the setting net "
						   "(USDMA_NET) reaches other machines",
						   t.servers);
	root->at = t.first;
	if (t.server[rank] != t.server[0])
		memset(root->boot_id, 0, sizeof(root->boot_id)); /* the table does not say it */
	return HCCL_SUCCESS;
}

/*
 * The thread's device must be the table's, if this process has a device of that number. It has not where each process
 * has its own list of devices.
 */
HcclResult check_device(const table &t, u32 rank)
{
	u32 count = 0;
	s32 device = 0, physical = 0;

	if (aclError code = aclrtGetDevice(&device))
		return acl_failed("aclrtGetDevice", code);
	if (aclError code = aclrtGetDeviceCount(&count))
		return acl_failed("aclrtGetDeviceCount", code);
	if (aclError code = aclrtGetPhyDevIdByLogicDevId(device, &physical))
		return acl_failed("aclrtGetPhyDevIdByLogicDevId", code);
	if (t.devices[rank] < count && t.devices[rank] != u64(physical))
		return because(HCCL_E_PARA, "the thread's device is %d, the rank table has %u for rank %u", physical,
			       u32(t.devices[rank]), rank);
	return HCCL_SUCCESS;
}

HcclResult init_by_text(const std::string &text, u32 rank, const HcclCommConfig *config, HcclComm *out)
{
	options o;
	table t;

	if (HcclResult ret = parse(text, &t))
		return ret;
	if (rank >= t.size)
		return because(HCCL_E_PARA, "rank is %u, the rank table has %u", rank, t.size);
	if (HcclResult ret = check_device(t, rank))
		return ret;
	if (HcclResult ret = read_options(config, &o))
		return ret;
	root_info root = fixed_root({{text.data(), text.size()}, {o.name, strlen(o.name)}});
	if (HcclResult ret = set_root(t, rank, &root))
		return ret;
	return make_comm(t.size, rank, root, o, root.name, out);
}

HcclResult init(const char *path, u32 rank, const HcclCommConfig *config, HcclComm *out)
{
	HcclResult ret = HCCL_SUCCESS;
	std::string text;

	if (!path || !out)
		return because(HCCL_E_PTR, "%s is NULL", path ? "comm" : "clusterInfo");
	const bool fitted = fits([&] {
		ret = read_file(path, &text);
		ret = ret ? ret : init_by_text(text, rank, config, out);
	});
	return fitted ? ret : because(HCCL_E_MEMORY, "no memory for a rank table");
}

/* The table itself; the name is required, and new on the device, as in HCCL. */
HcclResult init_named(const char *text, u32 rank, const HcclCommConfig *config, HcclComm *out)
{
	HcclResult ret = HCCL_SUCCESS;
	s32 device = 0;
	options o;

	if (!text || !config || !out)
		return because(HCCL_E_PTR, "rankTableString, config or comm is NULL");
	if ((ret = read_options(config, &o)))
		return ret;
	if (aclError code = aclrtGetDevice(&device))
		return acl_failed("aclrtGetDevice", code);
	if (!*o.name || name_in_use(o.name, device))
		return because(HCCL_E_PARA, *o.name ? "a communicator of this device has that hcclCommName" :
						      "config has no hcclCommName");
	const bool fitted = fits([&] { ret = init_by_text(text, rank, config, out); });
	return fitted ? ret : because(HCCL_E_MEMORY, "no memory for a rank table");
}

struct init_job {
	std::string path;
	bool has_config;
	HcclCommConfig config;
	u32 rank;
	HcclComm *out;
};

HcclResult init_later(const char *call, const char *path, u32 rank, const HcclCommConfig *config, HcclComm *out)
{
	auto job = path ? try_unique<init_job>(init_job{path, config != nullptr, {}, rank, out}) : nullptr;

	if (!job)
		return path ? because(HCCL_E_MEMORY, "no memory for a group") :
			      because(HCCL_E_PTR, "clusterInfo is NULL");
	if (config)
		job->config = copy_config(config);
	init_job *const raw = job.get();
	const HcclResult ret = group_add(call, nullptr, nullptr, [=] {
		const std::unique_ptr<init_job> j(raw);

		return init(j->path.c_str(), j->rank, j->has_config ? &j->config : nullptr, j->out);
	});
	if (!ret)
		(void)job.release();
	return ret;
}

HcclResult init_call(const char *call, const char *path, u32 rank, const HcclCommConfig *config, HcclComm *out)
{
	return called(call, [=] {
		return group_open() ? init_later(call, path, rank, config, out) : init(path, rank, config, out);
	});
}

} // namespace
} // namespace usdma::hccl_comm

using namespace usdma::hccl_comm;

HcclResult HcclCommInitClusterInfo(const char *clusterInfo, uint32_t rank, HcclComm *out)
{
	return init_call(__func__, clusterInfo, rank, nullptr, out);
}

HcclResult HcclCommInitClusterInfoConfig(const char *clusterInfo, uint32_t rank, HcclCommConfig *config, HcclComm *out)
{
	if (!config)
		return called(__func__, [] { return because(HCCL_E_PTR, "config is NULL"); });
	return init_call(__func__, clusterInfo, rank, config, out);
}

HcclResult HcclCommInitClusterInfoMemConfig(const char *rankTableString, uint32_t rank, HcclCommConfig *config,
					    HcclComm *out)
{
	return called(__func__, [=] { return init_named(rankTableString, rank, config, out); });
}
