/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/python/acl/args.h"

#include <acl/acl.h>

namespace pyacl {
namespace {

void add_attributes(py::module_ &rt)
{
	def(rt, "set_stream_failure_mode", "ret = set_stream_failure_mode(stream, mode)",
	    [](void *stream, uint64_t mode) {
		    return without_gil([&] { return aclrtSetStreamFailureMode(stream, mode); });
	    });
	def(rt, "set_stream_attribute", "ret = set_stream_attribute(stream, attr, value)",
	    [](void *stream, int32_t attr, const py::dict &d) {
		    aclrtStreamAttrValue value = {};

		    field(d, "failureMode", value.failureMode);
		    field(d, "overflowSwitch", value.overflowSwitch);
		    field(d, "userCustomTag", value.userCustomTag);
		    field(d, "cacheOpInfoSwitch", value.cacheOpInfoSwitch);
		    field(d, "streamPriority", value.streamPriority);
		    return without_gil([&] { return aclrtSetStreamAttribute(stream, aclrtStreamAttr(attr), &value); });
	    });
	def(rt, "get_stream_attribute", "value, ret = get_stream_attribute(stream, attr)",
	    [](void *stream, int32_t attr) {
		    aclrtStreamAttrValue value = {};
		    int ret = without_gil(
			    [&] { return aclrtGetStreamAttribute(stream, aclrtStreamAttr(attr), &value); });
		    py::dict d;

		    d["failureMode"] = value.failureMode;
		    d["overflowSwitch"] = value.overflowSwitch;
		    d["userCustomTag"] = value.userCustomTag;
		    d["cacheOpInfoSwitch"] = value.cacheOpInfoSwitch;
		    d["streamPriority"] = value.streamPriority;
		    return std::tuple(d, ret);
	    });
}

void add_stream_queries(py::module_ &rt)
{
	def(rt, "stream_query", "status, ret = stream_query(stream)", [](void *stream) {
		aclrtStreamStatus status = {};
		int ret = without_gil([&] { return aclrtStreamQuery(stream, &status); });

		return std::tuple(int(status), ret);
	});
	def(rt, "stream_get_id", "stream_id, ret = stream_get_id(stream)", [](void *stream) {
		int32_t id = 0;
		int ret = aclrtStreamGetId(stream, &id);

		return std::tuple(id, ret);
	});
	def(rt, "get_thread_last_task_id", "task_id, ret = get_thread_last_task_id()", [] {
		uint32_t id = 0;
		int ret = aclrtGetThreadLastTaskId(&id);

		return std::tuple(id, ret);
	});
	def(rt, "get_stream_available_num", "count, ret = get_stream_available_num()", [] {
		uint32_t count = 0;
		int ret = without_gil([&] { return aclrtGetStreamAvailableNum(&count); });

		return std::tuple(count, ret);
	});
}

} // namespace

void add_stream(py::module_ &rt)
{
	def(rt, "create_stream", "stream, ret = create_stream()", [] {
		aclrtStream stream = nullptr;
		int ret = without_gil([&] { return aclrtCreateStream(&stream); });

		return std::tuple(number(stream), ret);
	});
	def(rt, "create_stream_with_config", "stream, ret = create_stream_with_config(priority, flag)",
	    [](uint32_t priority, uint32_t flag) {
		    aclrtStream stream = nullptr;
		    int ret = without_gil([&] { return aclrtCreateStreamWithConfig(&stream, priority, flag); });

		    return std::tuple(number(stream), ret);
	    });
	def(rt, "destroy_stream", "ret = destroy_stream(stream)",
	    [](void *stream) { return without_gil([&] { return aclrtDestroyStream(stream); }); });
	def(rt, "destroy_stream_force", "ret = destroy_stream_force(stream)",
	    [](void *stream) { return without_gil([&] { return aclrtDestroyStreamForce(stream); }); });
	def(rt, "synchronize_stream", "ret = synchronize_stream(stream)",
	    [](void *stream) { return without_gil([&] { return aclrtSynchronizeStream(stream); }); });
	def(rt, "synchronize_stream_with_timeout", "ret = synchronize_stream_with_timeout(stream, timeout_ms)",
	    [](void *stream, int32_t ms) {
		    return without_gil([&] { return aclrtSynchronizeStreamWithTimeout(stream, ms); });
	    });
	def(rt, "stream_abort", "ret = stream_abort(stream)",
	    [](void *stream) { return without_gil([&] { return aclrtStreamAbort(stream); }); });
	add_stream_queries(rt);
	add_attributes(rt);
}

} // namespace pyacl
