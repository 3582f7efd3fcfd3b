/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls from the library into Python: each takes the GIL, and reports an exception of the callee. */
#include "lib/python/acl/own.h"

#include <memory>

namespace pyacl {
namespace {

struct call {
	py::object fn, data;
};

/* Runs in the thread that called process_report, which has released the GIL. */
void deliver(void *arg)
{
	if (usdma::python::interpreter_is_ending())
		return;
	const usdma::python::gil_held gil;
	auto *const c = static_cast<call *>(arg);
	py::object fn = std::move(c->fn);
	py::tuple args = py::make_tuple(c->data); /* whose reference is not the last one then */

	delete c;
	usdma::python::run_callback(std::move(fn), std::move(args));
}

void need_callable(const py::object &fn)
{
	if (!PyCallable_Check(fn.ptr()))
		throw py::type_error("parameter must be callable");
}

} // namespace

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

namespace {

/* One per process, as in C; never destroyed, as the interpreter may be finalised before. */
py::object *exception_callback;

void deliver_exception(aclrtExceptionInfo *info)
{
	if (usdma::python::interpreter_is_ending())
		return;
	const usdma::python::gil_held gil;

	if (exception_callback)
		usdma::python::run_callback(*exception_callback, py::make_tuple(number(info)));
}

} // namespace

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* pyACL has no other */
int set_exception_callback(std::optional<py::object> given)
{
	py::object fn = given ? std::move(*given) : py::none();
	const bool none = fn.is_none();
	int ret;

	if (!none)
		need_callable(fn);
	ret = without_gil([&] { return aclrtSetExceptionInfoCallback(none ? nullptr : deliver_exception); });
	if (ret != ACL_SUCCESS)
		return ret;
	py::object *const old = std::exchange(exception_callback, none ? nullptr : new py::object(std::move(fn)));
	const usdma::python::references dropped = {old ? old->release().ptr() : nullptr};
	delete old;
	return ret;
}
#pragma GCC diagnostic pop

} // namespace pyacl
