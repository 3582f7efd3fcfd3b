/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory by configurations and properties, keys for other processes, lists of notifies. */
#include "lib/python/acl/own.h"

namespace pyacl {

constexpr size_t key_space = 1024;

malloc_config::malloc_config(const py::dict &d)
{
	std::vector<py::dict> attrs;

	if (!d.size())
		return;
	field(d, "attrs", attrs);
	for (const py::dict &a : attrs)
		add(a);
	cfg_ = {attrs_.data(), attrs_.size()};
	field(d, "numAttrs", cfg_.numAttrs);
	if (cfg_.numAttrs > attrs_.size())
		throw bad_args();
	given_ = true;
}

void malloc_config::add(const py::dict &d)
{
	aclrtMallocAttribute a = {};
	py::dict value;

	field(d, "attr", a.attr);
	field(d, "value", value);
	field(value, "deviceId", a.value.deviceId);
	field(value, "vaFlag", a.value.vaFlag);
	field(value, "moduleId", a.value.moduleId);
	attrs_.push_back(a);
}

and_ret<uint64_t> malloc_host_with_cfg(uint64_t size, py::dict d)
{
	malloc_config cfg(d);
	void *ptr = nullptr;
	int ret = without_gil([&] { return aclrtMallocHostWithCfg(&ptr, size, cfg.get()); });

	return {number(ptr), ret};
}

static py::dict attributes(const aclrtPtrAttributes &a)
{
	py::dict location, out;
	py::list rsv;

	location["id"] = a.location.id;
	location["type"] = int(a.location.type);
	for (uint32_t r : a.rsv)
		rsv.append(r);
	out["location"] = location;
	out["page_size"] = a.pageSize;
	out["rsv"] = rsv;
	return out;
}

and_ret<py::dict> pointer_attributes(void *ptr)
{
	aclrtPtrAttributes a = {};
	int ret = aclrtPointerGetAttributes(ptr, &a);

	return {attributes(a), ret};
}

static py::dict memory_error(const aclrtMemUceInfo &info)
{
	py::dict d;
	py::list reserved;

	for (size_t r : info.reserved)
		reserved.append(r);
	d["addr"] = number(info.addr);
	d["len"] = info.len;
	d["reserved"] = reserved;
	return d;
}

and_ret<py::list> memory_errors(int32_t id, uint32_t most)
{
	std::vector<aclrtMemUceInfo> all(std::min<size_t>(most, MAX_MEM_UCE_INFO_ARRAY_SIZE));
	size_t n = 0;
	int ret = without_gil([&] { return aclrtGetMemUceInfo(id, all.data(), all.size(), &n); });
	py::list errors;

	for (size_t i = 0; i < std::min(n, all.size()); i++)
		errors.append(memory_error(all[i]));
	return {errors, ret};
}

int repair(int32_t id, std::vector<py::dict> errors)
{
	std::vector<aclrtMemUceInfo> all(errors.size());

	for (size_t i = 0; i < errors.size(); i++) {
		field(errors[i], "addr", all[i].addr);
		field(errors[i], "len", all[i].len);
	}
	return without_gil([&] { return aclrtMemUceRepair(id, all.data(), all.size()); });
}

static aclrtPhysicalMemProp property(const py::dict &d)
{
	aclrtPhysicalMemProp prop = {};
	py::dict location;

	field(d, "handleType", prop.handleType);
	field(d, "allocationType", prop.allocationType);
	field(d, "memAttr", prop.memAttr);
	field(d, "location", location);
	field(location, "id", prop.location.id);
	field(location, "type", prop.location.type);
	field(d, "reserve", prop.reserve);
	return prop;
}

and_ret<uint64_t> malloc_physical(size_t size, py::dict d, uint64_t flags)
{
	aclrtPhysicalMemProp prop = property(d);
	aclrtDrvMemHandle handle = nullptr;
	int ret = without_gil([&] { return aclrtMallocPhysical(&handle, size, &prop, flags); });

	return {number(handle), ret};
}

and_ret<size_t> granularity(py::dict d, int32_t option)
{
	aclrtPhysicalMemProp prop = property(d);
	size_t grain = 0;
	int ret = without_gil(
		[&] { return aclrtMemGetAllocationGranularity(&prop, aclrtMemGranularityOptions(option), &grain); });

	return {grain, ret};
}

int allow_shareable(uint64_t shareable, ids pids)
{
	return without_gil([&] { return aclrtMemSetPidToShareableHandle(shareable, pids.data(), pids.size()); });
}

/* ---- keys ----------------------------------------------------------------------------------------------- */

template <class F> static and_ret<std::string> export_key(size_t len, const F &f)
{
	char key[key_space] = "";

	if (len >= key_space)
		throw bad_args();
	int ret = without_gil([&] { return f(key); });
	return {std::string(key), ret};
}

and_ret<std::string> export_memory(void *ptr, size_t size, size_t len, uint64_t flag)
{
	return export_key(len, [&](char *key) { return aclrtIpcMemGetExportKey(ptr, size, key, len, flag); });
}

int allow_memory(std::string key, ids pids)
{
	return without_gil([&] { return aclrtIpcMemSetImportPid(key.c_str(), pids.data(), pids.size()); });
}

and_ret<std::string> export_notify(void *notify, size_t len, uint64_t flag)
{
	return export_key(len, [&](char *key) { return aclrtNotifyGetExportKey(notify, key, len, flag); });
}

int allow_notify(void *notify, ids pids)
{
	return without_gil([&] { return aclrtNotifySetImportPid(notify, pids.data(), pids.size()); });
}

int reset_notifies(std::vector<void *> notifies)
{
	return without_gil([&] { return aclrtNotifyBatchReset(notifies.data(), notifies.size()); });
}

} // namespace pyacl
