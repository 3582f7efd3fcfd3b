/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/python/acl/args.h"

#include <acl/acl.h>

namespace pyacl {
namespace {

/* {"attrs": [{"attr": 1, "value": {"moduleId": 3}}, …]}; {} becomes NULL. */
class malloc_config {
public:
	explicit malloc_config(const py::dict &d)
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
	aclrtMallocConfig *get() { return given_ ? &cfg_ : nullptr; }

private:
	void add(const py::dict &d)
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

	std::vector<aclrtMallocAttribute> attrs_;
	aclrtMallocConfig cfg_ = {};
	bool given_ = false;
};

py::dict attributes(const aclrtPtrAttributes &a)
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

template <auto Fn> auto allocate()
{
	return [](size_t size, int32_t policy) {
		void *ptr = nullptr;
		int ret = without_gil([&] { return Fn(&ptr, size, aclrtMemMallocPolicy(policy)); });

		return std::tuple(number(ptr), ret);
	};
}

template <auto Fn> auto allocate_with()
{
	return [](size_t size, int32_t policy, const py::dict &d) {
		malloc_config cfg(d);
		void *ptr = nullptr;
		int ret = without_gil([&] { return Fn(&ptr, size, aclrtMemMallocPolicy(policy), cfg.get()); });

		return std::tuple(number(ptr), ret);
	};
}

void add_device_memory(py::module_ &rt)
{
	def(rt, "malloc", "ptr, ret = malloc(size, policy)", allocate<aclrtMalloc>());
	def(rt, "malloc_align32", "ptr, ret = malloc_align32(size, policy)", allocate<aclrtMallocAlign32>());
	def(rt, "malloc_cached", "ptr, ret = malloc_cached(size, policy)", allocate<aclrtMallocCached>());
	def(rt, "malloc_with_cfg", "ptr, ret = malloc_with_cfg(size, policy, cfg)",
	    allocate_with<aclrtMallocWithCfg>());
	def(rt, "malloc_for_task_scheduler", "ptr, ret = malloc_for_task_scheduler(size, policy, cfg)",
	    allocate_with<aclrtMallocForTaskScheduler>());
	def(rt, "free", "ret = free(ptr)", [](void *ptr) { return without_gil([&] { return aclrtFree(ptr); }); });
	def(rt, "get_mem_info", "free, total, ret = get_mem_info(attr)", [](int32_t attr) {
		size_t free = 0, total = 0;
		int ret = without_gil([&] { return aclrtGetMemInfo(aclrtMemAttr(attr), &free, &total); });

		return std::tuple(free, total, ret);
	});
	def(rt, "pointer_get_attributes", "attributes, ret = pointer_get_attributes(ptr)", [](void *ptr) {
		aclrtPtrAttributes a = {};
		int ret = aclrtPointerGetAttributes(ptr, &a);

		return std::tuple(attributes(a), ret);
	});
	def(rt, "mem_flush", "ret = mem_flush(ptr, size)",
	    [](void *ptr, size_t size) { return aclrtMemFlush(ptr, size); });
	def(rt, "mem_invalidate", "ret = mem_invalidate(ptr, size)",
	    [](void *ptr, size_t size) { return aclrtMemInvalidate(ptr, size); });
}

/* {"addr": …, "len": …, "reserved": […]} */
py::dict memory_error(const aclrtMemUceInfo &info)
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

void add_memory_errors(py::module_ &rt)
{
	def(rt, "get_mem_uce_info", "errors, ret = get_mem_uce_info(device_id, most)", [](int32_t id, uint32_t most) {
		std::vector<aclrtMemUceInfo> all(std::min<size_t>(most, MAX_MEM_UCE_INFO_ARRAY_SIZE));
		size_t n = 0;
		int ret = without_gil([&] { return aclrtGetMemUceInfo(id, all.data(), all.size(), &n); });
		py::list errors;

		for (size_t i = 0; i < std::min(n, all.size()); i++)
			errors.append(memory_error(all[i]));
		return std::tuple(errors, ret);
	});
	def(rt, "mem_uce_repair", "ret = mem_uce_repair(device_id, errors)",
	    [](int32_t id, std::vector<py::dict> errors) {
		    std::vector<aclrtMemUceInfo> all(errors.size());

		    for (size_t i = 0; i < errors.size(); i++) {
			    field(errors[i], "addr", all[i].addr);
			    field(errors[i], "len", all[i].len);
		    }
		    return without_gil([&] { return aclrtMemUceRepair(id, all.data(), all.size()); });
	    });
}

void add_registered(py::module_ &rt)
{
	def(rt, "host_register", "dev_ptr, ret = host_register(ptr, size, type)",
	    [](void *ptr, uint64_t size, int32_t type) {
		    void *dev = nullptr;
		    int ret = without_gil(
			    [&] { return aclrtHostRegister(ptr, size, aclrtHostRegisterType(type), &dev); });

		    return std::tuple(number(dev), ret);
	    });
	def(rt, "host_register_v2", "ret = host_register_v2(ptr, size, flag)",
	    [](void *ptr, uint64_t size, uint32_t flag) {
		    return without_gil([&] { return aclrtHostRegisterV2(ptr, size, flag); });
	    });
	def(rt, "host_get_device_pointer", "dev_ptr, ret = host_get_device_pointer(ptr, flag)",
	    [](void *ptr, uint32_t flag) {
		    void *dev = nullptr;
		    int ret = aclrtHostGetDevicePointer(ptr, &dev, flag);

		    return std::tuple(number(dev), ret);
	    });
	def(rt, "host_unregister", "ret = host_unregister(ptr)",
	    [](void *ptr) { return without_gil([&] { return aclrtHostUnregister(ptr); }); });
}

} // namespace

void add_memory(py::module_ &rt)
{
	add_device_memory(rt);
	def(rt, "malloc_host", "ptr, ret = malloc_host(size)", [](size_t size) {
		void *ptr = nullptr;
		int ret = without_gil([&] { return aclrtMallocHost(&ptr, size); });

		return std::tuple(number(ptr), ret);
	});
	def(rt, "malloc_host_with_cfg", "ptr, ret = malloc_host_with_cfg(size, cfg)",
	    [](uint64_t size, const py::dict &d) {
		    malloc_config cfg(d);
		    void *ptr = nullptr;
		    int ret = without_gil([&] { return aclrtMallocHostWithCfg(&ptr, size, cfg.get()); });

		    return std::tuple(number(ptr), ret);
	    });
	def(rt, "free_host", "ret = free_host(ptr)",
	    [](void *ptr) { return without_gil([&] { return aclrtFreeHost(ptr); }); });
	def(rt, "memset", "ret = memset(ptr, max_count, value, count)",
	    [](void *ptr, size_t max, int32_t value, size_t count) {
		    return without_gil([&] { return aclrtMemset(ptr, max, value, count); });
	    });
	def(rt, "memset_async", "ret = memset_async(ptr, max_count, value, count, stream)",
	    [](void *ptr, size_t max, int32_t value, size_t count, void *stream) {
		    return without_gil([&] { return aclrtMemsetAsync(ptr, max, value, count, stream); });
	    });
	add_registered(rt);
	add_memory_errors(rt);
}

} // namespace pyacl
