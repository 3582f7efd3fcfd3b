/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/python/acl/args.h"

#include <acl/acl.h>

namespace pyacl {
namespace {

std::tuple<int, int> query(void *event)
{
	aclrtEventStatus status = {};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* pyACL still has it */
	int ret = aclrtQueryEvent(event, &status);
#pragma GCC diagnostic pop

	return {int(status), ret};
}

void add_creation(py::module_ &rt)
{
	def(rt, "create_event", "event, ret = create_event()", [] {
		aclrtEvent event = nullptr;
		int ret = without_gil([&] { return aclrtCreateEvent(&event); });

		return std::tuple(number(event), ret);
	});
	def(rt, "create_event_with_flag", "event, ret = create_event_with_flag(flag)", [](uint32_t flag) {
		aclrtEvent event = nullptr;
		int ret = without_gil([&] { return aclrtCreateEventWithFlag(&event, flag); });

		return std::tuple(number(event), ret);
	});
	def(rt, "create_event_ex_with_flag", "event, ret = create_event_ex_with_flag(flag)", [](uint32_t flag) {
		aclrtEvent event = nullptr;
		int ret = without_gil([&] { return aclrtCreateEventExWithFlag(&event, flag); });

		return std::tuple(number(event), ret);
	});
	def(rt, "destroy_event", "ret = destroy_event(event)",
	    [](void *event) { return without_gil([&] { return aclrtDestroyEvent(event); }); });
}

void add_timeouts(py::module_ &rt)
{
	def(rt, "set_op_wait_timeout", "ret = set_op_wait_timeout(seconds)",
	    [](uint32_t seconds) { return aclrtSetOpWaitTimeout(seconds); });
	def(rt, "set_op_execute_timeout", "ret = set_op_execute_timeout(seconds)",
	    [](uint32_t seconds) { return aclrtSetOpExecuteTimeOut(seconds); });
	def(rt, "set_op_execute_timeout_v2", "actual, ret = set_op_execute_timeout_v2(microseconds)", [](uint64_t us) {
		uint64_t actual = 0;
		int ret = aclrtSetOpExecuteTimeOutV2(us, &actual);

		return std::tuple(actual, ret);
	});
	def(rt, "get_op_timeout_interval", "microseconds, ret = get_op_timeout_interval()", [] {
		uint64_t us = 0;
		int ret = aclrtGetOpTimeOutInterval(&us);

		return std::tuple(us, ret);
	});
	def(rt, "get_op_execute_timeout", "milliseconds, ret = get_op_execute_timeout()", [] {
		uint32_t ms = 0;
		int ret = aclrtGetOpExecuteTimeout(&ms);

		return std::tuple(ms, ret);
	});
}

void add_event_queries(py::module_ &rt)
{
	def(rt, "query_event", "status, ret = query_event(event)", [](void *event) { return query(event); });
	def(rt, "query_event_status", "status, ret = query_event_status(event)", [](void *event) {
		aclrtEventRecordedStatus status = {};
		int ret = without_gil([&] { return aclrtQueryEventStatus(event, &status); });

		return std::tuple(int(status), ret);
	});
	def(rt, "query_event_wait_status", "status, ret = query_event_wait_status(event)", [](void *event) {
		aclrtEventWaitStatus status = {};
		int ret = without_gil([&] { return aclrtQueryEventWaitStatus(event, &status); });

		return std::tuple(int(status), ret);
	});
	def(rt, "event_elapsed_time", "milliseconds, ret = event_elapsed_time(start, end)", [](void *start, void *end) {
		float ms = 0;
		int ret = without_gil([&] { return aclrtEventElapsedTime(&ms, start, end); });

		return std::tuple(double(ms), ret);
	});
	def(rt, "event_get_timestamp", "microseconds, ret = event_get_timestamp(event)", [](void *event) {
		uint64_t us = 0;
		int ret = without_gil([&] { return aclrtEventGetTimestamp(event, &us); });

		return std::tuple(us, ret);
	});
	def(rt, "get_event_id", "event_id, ret = get_event_id(event)", [](void *event) {
		uint32_t id = 0;
		int ret = aclrtGetEventId(event, &id);

		return std::tuple(id, ret);
	});
	def(rt, "get_event_avail_num", "count, ret = get_event_avail_num()", [] {
		uint32_t count = 0;
		int ret = without_gil([&] { return aclrtGetEventAvailNum(&count); });

		return std::tuple(count, ret);
	});
}

} // namespace

void add_event(py::module_ &rt)
{
	add_creation(rt);
	def(rt, "record_event", "ret = record_event(event, stream)",
	    [](void *event, void *stream) { return without_gil([&] { return aclrtRecordEvent(event, stream); }); });
	def(rt, "reset_event", "ret = reset_event(event, stream)",
	    [](void *event, void *stream) { return without_gil([&] { return aclrtResetEvent(event, stream); }); });
	def(rt, "synchronize_event", "ret = synchronize_event(event)",
	    [](void *event) { return without_gil([&] { return aclrtSynchronizeEvent(event); }); });
	def(rt, "synchronize_event_with_timeout", "ret = synchronize_event_with_timeout(event, timeout_ms)",
	    [](void *event, int32_t ms) {
		    return without_gil([&] { return aclrtSynchronizeEventWithTimeout(event, ms); });
	    });
	def(rt, "stream_wait_event", "ret = stream_wait_event(stream, event)",
	    [](void *stream, void *event) { return without_gil([&] { return aclrtStreamWaitEvent(stream, event); }); });
	add_timeouts(rt);
	add_event_queries(rt);
}

} // namespace pyacl
