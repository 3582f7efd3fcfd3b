/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual ranges, physical memory, and memory of other processes. */
#include "lib/python/acl/args.h"

#include <acl/acl.h>

namespace pyacl {
namespace {

aclrtPhysicalMemProp property(const py::dict &d)
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

void add_ranges(py::module_ &rt)
{
	def(rt, "reserve_mem_address", "ptr, ret = reserve_mem_address(size, alignment, expect_ptr, flags)",
	    [](size_t size, size_t align, void *expect, uint64_t flags) {
		    void *ptr = nullptr;
		    int ret = without_gil([&] { return aclrtReserveMemAddress(&ptr, size, align, expect, flags); });

		    return std::tuple(number(ptr), ret);
	    });
	def(rt, "release_mem_address", "ret = release_mem_address(ptr)",
	    [](void *ptr) { return without_gil([&] { return aclrtReleaseMemAddress(ptr); }); });
	def(rt, "map_mem", "ret = map_mem(ptr, size, offset, handle, flags)",
	    [](void *ptr, size_t size, size_t offset, void *handle, uint64_t flags) {
		    return without_gil([&] { return aclrtMapMem(ptr, size, offset, handle, flags); });
	    });
	def(rt, "unmap_mem", "ret = unmap_mem(ptr)",
	    [](void *ptr) { return without_gil([&] { return aclrtUnmapMem(ptr); }); });
}

void add_physical(py::module_ &rt)
{
	def(rt, "malloc_physical", "handle, ret = malloc_physical(size, prop, flags)",
	    [](size_t size, const py::dict &d, uint64_t flags) {
		    aclrtPhysicalMemProp prop = property(d);
		    aclrtDrvMemHandle handle = nullptr;
		    int ret = without_gil([&] { return aclrtMallocPhysical(&handle, size, &prop, flags); });

		    return std::tuple(number(handle), ret);
	    });
	def(rt, "free_physical", "ret = free_physical(handle)",
	    [](void *handle) { return without_gil([&] { return aclrtFreePhysical(handle); }); });
	def(rt, "mem_get_allocation_granularity", "granularity, ret = mem_get_allocation_granularity(prop, option)",
	    [](const py::dict &d, int32_t option) {
		    aclrtPhysicalMemProp prop = property(d);
		    size_t granularity = 0;
		    int ret = without_gil([&] {
			    return aclrtMemGetAllocationGranularity(&prop, aclrtMemGranularityOptions(option),
								    &granularity);
		    });

		    return std::tuple(granularity, ret);
	    });
}

void add_shareable(py::module_ &rt)
{
	def(rt, "mem_export_to_shareable_handle",
	    "shareable, ret = mem_export_to_shareable_handle(handle, handle_type, flags)",
	    [](void *handle, int32_t type, uint64_t flags) {
		    uint64_t shareable = 0;
		    int ret = without_gil([&] {
			    return aclrtMemExportToShareableHandle(handle, aclrtMemHandleType(type), flags, &shareable);
		    });

		    return std::tuple(shareable, ret);
	    });
	def(rt, "mem_set_pid_to_shareable_handle", "ret = mem_set_pid_to_shareable_handle(shareable, pids)",
	    [](uint64_t shareable, std::vector<int32_t> pids) {
		    return without_gil(
			    [&] { return aclrtMemSetPidToShareableHandle(shareable, pids.data(), pids.size()); });
	    });
	def(rt, "mem_import_from_shareable_handle",
	    "handle, ret = mem_import_from_shareable_handle(shareable, device_id)", [](uint64_t shareable, int32_t id) {
		    aclrtDrvMemHandle handle = nullptr;
		    int ret = without_gil([&] { return aclrtMemImportFromShareableHandle(shareable, id, &handle); });

		    return std::tuple(number(handle), ret);
	    });
}

constexpr size_t key_space = 1024;

void add_keys(py::module_ &rt)
{
	def(rt, "ipc_mem_get_export_key", "key, ret = ipc_mem_get_export_key(ptr, size, length, flag)",
	    [](void *ptr, size_t size, size_t len, uint64_t flag) {
		    char key[key_space] = "";

		    if (len >= key_space)
			    throw bad_args();
		    int ret = without_gil([&] { return aclrtIpcMemGetExportKey(ptr, size, key, len, flag); });
		    return std::tuple(std::string(key), ret);
	    });
	def(rt, "ipc_mem_set_import_pid", "ret = ipc_mem_set_import_pid(key, pids)",
	    [](const std::string &key, std::vector<int32_t> pids) {
		    return without_gil([&] { return aclrtIpcMemSetImportPid(key.c_str(), pids.data(), pids.size()); });
	    });
	def(rt, "ipc_mem_import_by_key", "ptr, ret = ipc_mem_import_by_key(key, flag)",
	    [](const std::string &key, uint64_t flag) {
		    void *ptr = nullptr;
		    int ret = without_gil([&] { return aclrtIpcMemImportByKey(&ptr, key.c_str(), flag); });

		    return std::tuple(number(ptr), ret);
	    });
	def(rt, "ipc_mem_close", "ret = ipc_mem_close(key)",
	    [](const std::string &key) { return without_gil([&] { return aclrtIpcMemClose(key.c_str()); }); });
}

} // namespace

void add_virtual(py::module_ &rt)
{
	add_ranges(rt);
	add_physical(rt);
	add_shareable(rt);
	add_keys(rt);
}

} // namespace pyacl
