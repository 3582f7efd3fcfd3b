/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/python/acl/args.h"

#include <acl/acl.h>

namespace pyacl {
namespace {

void add_contexts(py::module_ &rt)
{
	def(rt, "create_context", "context, ret = create_context(device_id)", [](int32_t id) {
		aclrtContext context = nullptr;
		int ret = without_gil([&] { return aclrtCreateContext(&context, id); });

		return std::tuple(number(context), ret);
	});
	def(rt, "destroy_context", "ret = destroy_context(context)",
	    [](void *context) { return without_gil([&] { return aclrtDestroyContext(context); }); });
	def(rt, "set_context", "ret = set_context(context)",
	    [](void *context) { return without_gil([&] { return aclrtSetCurrentContext(context); }); });
	def(rt, "get_context", "context, ret = get_context()", [] {
		aclrtContext context = nullptr;
		int ret = aclrtGetCurrentContext(&context);

		return std::tuple(number(context), ret);
	});
	def(rt, "ctx_get_current_default_stream", "stream, ret = ctx_get_current_default_stream()", [] {
		aclrtStream stream = nullptr;
		int ret = aclrtCtxGetCurrentDefaultStream(&stream);

		return std::tuple(number(stream), ret);
	});
	def(rt, "get_primary_ctx_state", "active, flags, ret = get_primary_ctx_state(device_id)", [](int32_t id) {
		int32_t active = 0;
		int ret = without_gil([&] { return aclrtGetPrimaryCtxState(id, nullptr, &active); });

		return std::tuple(active, 0u, ret);
	});
}

std::tuple<py::dict, int> utilization(int32_t id)
{
	aclrtUtilizationInfo info = {};
	int ret = without_gil([&] { return aclrtGetDeviceUtilizationRate(id, &info); });
	py::dict d;

	d["cube_utilization"] = info.cubeUtilization;
	d["vector_utilization"] = info.vectorUtilization;
	d["aicpu_utilization"] = info.aicpuUtilization;
	d["memory_utilization"] = info.memoryUtilization;
	d["utilization_extend"] = number(info.utilizationExtend);
	return {d, ret};
}

void add_device_queries(py::module_ &rt)
{
	def(rt, "get_device_count", "count, ret = get_device_count()", [] {
		uint32_t count = 0;
		int ret = without_gil([&] { return aclrtGetDeviceCount(&count); });

		return std::tuple(count, ret);
	});
	def(rt, "get_run_mode", "run_mode, ret = get_run_mode()", [] {
		aclrtRunMode mode = {};
		int ret = aclrtGetRunMode(&mode);

		return std::tuple(int(mode), ret);
	});
	def(rt, "query_device_status", "status, ret = query_device_status(device_id)", [](int32_t id) {
		aclrtDeviceStatus status = {};
		int ret = without_gil([&] { return aclrtQueryDeviceStatus(id, &status); });

		return std::tuple(int(status), ret);
	});
	def(rt, "device_get_stream_priority_range", "least, greatest, ret = device_get_stream_priority_range()", [] {
		int32_t least = 0, greatest = 0;
		int ret = aclrtDeviceGetStreamPriorityRange(&least, &greatest);

		return std::tuple(least, greatest, ret);
	});
	def(rt, "get_device_info", "value, ret = get_device_info(device_id, attr)", [](uint32_t id, int32_t attr) {
		int64_t value = 0;
		int ret = without_gil([&] { return aclrtGetDeviceInfo(id, aclrtDevAttr(attr), &value); });

		return std::tuple(value, ret);
	});
	def(rt, "get_device_utilization_rate", "rates, ret = get_device_utilization_rate(device_id)",
	    [](int32_t id) { return utilization(id); });
	def(rt, "device_get_bare_tgid", "pid, ret = device_get_bare_tgid()", [] {
		int32_t pid = 0;
		int ret = aclrtDeviceGetBareTgid(&pid);

		return std::tuple(pid, ret);
	});
}

void add_peers(py::module_ &rt)
{
	def(rt, "device_can_access_peer", "can, ret = device_can_access_peer(device_id, peer_id)",
	    [](int32_t id, int32_t peer) {
		    int32_t can = 0;
		    int ret = without_gil([&] { return aclrtDeviceCanAccessPeer(&can, id, peer); });

		    return std::tuple(can, ret);
	    });
	def(rt, "device_enable_peer_access", "ret = device_enable_peer_access(peer_id, flags)",
	    [](int32_t peer, uint32_t flags) {
		    return without_gil([&] { return aclrtDeviceEnablePeerAccess(peer, flags); });
	    });
	def(rt, "device_disable_peer_access", "ret = device_disable_peer_access(peer_id)",
	    [](int32_t peer) { return without_gil([&] { return aclrtDeviceDisablePeerAccess(peer); }); });
	def(rt, "device_peer_access_status", "status, ret = device_peer_access_status(device_id, peer_id)",
	    [](int32_t id, int32_t peer) {
		    int32_t status = 0;
		    int ret = without_gil([&] { return aclrtDevicePeerAccessStatus(id, peer, &status); });

		    return std::tuple(status, ret);
	    });
}

} // namespace

void add_device(py::module_ &rt)
{
	def(rt, "set_device", "ret = set_device(device_id)",
	    [](int32_t id) { return without_gil([&] { return aclrtSetDevice(id); }); });
	def(rt, "reset_device", "ret = reset_device(device_id)",
	    [](int32_t id) { return without_gil([&] { return aclrtResetDevice(id); }); });
	def(rt, "reset_device_force", "ret = reset_device_force(device_id)",
	    [](int32_t id) { return without_gil([&] { return aclrtResetDeviceForce(id); }); });
	def(rt, "get_device", "device_id, ret = get_device()", [] {
		int32_t id = 0;
		int ret = aclrtGetDevice(&id);

		return std::tuple(id, ret);
	});
	def(rt, "synchronize_device", "ret = synchronize_device()", [] { return without_gil(aclrtSynchronizeDevice); });
	def(rt, "synchronize_device_with_timeout", "ret = synchronize_device_with_timeout(timeout_ms)",
	    [](int32_t ms) { return without_gil([&] { return aclrtSynchronizeDeviceWithTimeout(ms); }); });
	def(rt, "peek_at_last_error", "ret = peek_at_last_error(level)",
	    [](int32_t level) { return aclrtPeekAtLastError(aclrtLastErrLevel(level)); });
	def(rt, "get_last_error", "ret = get_last_error(level)",
	    [](int32_t level) { return aclrtGetLastError(aclrtLastErrLevel(level)); });
	add_device_queries(rt);
	add_contexts(rt);
	add_peers(rt);
}

} // namespace pyacl
