/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls from the library into Python: each takes the GIL, and reports an exception of the callee. */
#include "lib/python/acl/args.h"

#include <acl/acl.h>

#include <memory>

namespace pyacl {
namespace {

struct call {
	py::object fn, data;
};

void run(const py::object &fn, const py::object &arg)
{
	const py::tuple args = py::make_tuple(arg);
	py::object result = py::reinterpret_steal<py::object>(usdma::python::call_python(fn.ptr(), args.ptr()));

	if (!result)
		PyErr_WriteUnraisable(fn.ptr());
}

/* Runs in the thread that called process_report, which has released the GIL. */
void deliver(void *arg)
{
	if (usdma::python::interpreter_is_ending())
		return;
	const usdma::python::gil_held gil;
	std::unique_ptr<call> c(static_cast<call *>(arg));

	run(c->fn, c->data);
}

void need_callable(const py::object &fn)
{
	if (!PyCallable_Check(fn.ptr()))
		throw py::type_error("parameter must be callable");
}

int launch(py::object fn, py::object data, int32_t block, void *stream)
{
	int ret;

	need_callable(fn);
	auto c = std::make_unique<call>(call{std::move(fn), std::move(data)});
	call *raw = c.get();

	ret = without_gil([&] { return aclrtLaunchCallback(deliver, raw, aclrtCallbackBlockType(block), stream); });
	if (ret == ACL_SUCCESS)
		(void)c.release(); /* deliver() frees it */
	return ret;
}

/* One per process, as in C; never destroyed, as the interpreter may be finalised before. */
py::object *exception_callback;

void deliver_exception(aclrtExceptionInfo *info)
{
	if (usdma::python::interpreter_is_ending())
		return;
	const usdma::python::gil_held gil;

	if (exception_callback)
		run(py::object(*exception_callback), py::int_(number(info)));
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* pyACL has no other */
int set_exception_callback(py::object fn)
{
	const bool none = fn.is_none();
	int ret;

	if (!none)
		need_callable(fn);
	ret = without_gil([&] { return aclrtSetExceptionInfoCallback(none ? nullptr : deliver_exception); });
	if (ret != ACL_SUCCESS)
		return ret;
	delete std::exchange(exception_callback, none ? nullptr : new py::object(std::move(fn)));
	return ret;
}
#pragma GCC diagnostic pop

/* info: the number that the exception callback is called with, valid during the call. */
void add_exception_info(py::module_ &rt)
{
	def(rt, "get_error_code_from_exception_info", "code = get_error_code_from_exception_info(info)",
	    [](void *info) { return aclrtGetErrorCodeFromExceptionInfo(static_cast<aclrtExceptionInfo *>(info)); });
	def(rt, "get_task_id_from_exception_info", "task_id = get_task_id_from_exception_info(info)",
	    [](void *info) { return aclrtGetTaskIdFromExceptionInfo(static_cast<aclrtExceptionInfo *>(info)); });
	def(rt, "get_stream_id_from_exception_info", "stream_id = get_stream_id_from_exception_info(info)",
	    [](void *info) { return aclrtGetStreamIdFromExceptionInfo(static_cast<aclrtExceptionInfo *>(info)); });
	def(rt, "get_thread_id_from_exception_info", "thread_id = get_thread_id_from_exception_info(info)",
	    [](void *info) { return aclrtGetThreadIdFromExceptionInfo(static_cast<aclrtExceptionInfo *>(info)); });
	def(rt, "get_device_id_from_exception_info", "device_id = get_device_id_from_exception_info(info)",
	    [](void *info) { return aclrtGetDeviceIdFromExceptionInfo(static_cast<aclrtExceptionInfo *>(info)); });
}

} // namespace

void add_callback(py::module_ &rt)
{
	def(rt, "subscribe_report", "ret = subscribe_report(thread_id, stream)", [](uint64_t thread, void *stream) {
		return without_gil([&] { return aclrtSubscribeReport(thread, stream); });
	});
	def(rt, "unsubscribe_report", "ret = unsubscribe_report(thread_id, stream)", [](uint64_t thread, void *stream) {
		return without_gil([&] { return aclrtUnSubscribeReport(thread, stream); });
	});
	add_exception_info(rt);
	def(rt, "process_report", "ret = process_report(timeout_ms)",
	    [](int32_t ms) { return without_gil([&] { return aclrtProcessReport(ms); }); });
	def(rt, "launch_callback", "ret = launch_callback(fn, user_data, block_type, stream)",
	    [](py::object fn, py::object data, int32_t block, void *stream) {
		    return launch(std::move(fn), std::move(data), block, stream);
	    });
	def(rt, "set_exception_info_callback", "ret = set_exception_info_callback([fn or None])",
	    [](std::optional<py::object> fn) { return set_exception_callback(fn ? std::move(*fn) : py::none()); });
}

} // namespace pyacl
