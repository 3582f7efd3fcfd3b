/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/python/acl/own.h"

#include <map>
#include <memory>
#include <pthread.h>

namespace pyacl {

/* ---- pointers -------------------------------------------------------------------------------------- */

uint64_t bytes_to_ptr(py::object o)
{
	if (!PyBytes_Check(o.ptr()))
		throw py::value_error("acl.util.bytes_to_ptr expects bytes");
	return number(PyBytes_AS_STRING(o.ptr()));
}

/* Access to a device address would terminate the process. */
static void need_host(const char *call, void *ptr)
{
	aclrtPtrAttributes at = {};

	if (!ptr || aclrtPointerGetAttributes(ptr, &at) != ACL_SUCCESS ||
	    at.location.type == ACL_MEM_LOCATION_TYPE_DEVICE)
		throw py::value_error(std::string(call) + " expects an address of host memory");
}

py::bytes ptr_to_bytes(void *ptr, size_t size)
{
	need_host("acl.util.ptr_to_bytes", ptr);
	return py::bytes(static_cast<const char *>(ptr), size);
}

static py::array need_array(const char *call, const py::object &o)
{
	if (!py::isinstance<py::array>(o))
		throw py::value_error(std::string(call) + " expects a numpy.ndarray");
	return py::reinterpret_borrow<py::array>(o);
}

static void warn(PyObject *category, const char *text)
{
	if (PyErr_WarnEx(category, text, 1))
		throw py::error_already_set();
}

static bool contiguous(const py::array &a)
{
	return a.flags() & py::array::c_style;
}

uint64_t numpy_to_ptr(py::object o)
{
	py::array a = need_array("acl.util.numpy_to_ptr", o);

	warn(PyExc_DeprecationWarning, "acl.util.numpy_to_ptr is deprecated, use acl.util.numpy_contiguous_to_ptr");
	if (!contiguous(a))
		warn(PyExc_UserWarning, "acl.util.numpy_to_ptr: the array is not contiguous in memory");
	return number(a.data());
}

std::tuple<uint64_t, py::array> numpy_contiguous_to_ptr(py::object o)
{
	py::array a = need_array("acl.util.numpy_contiguous_to_ptr", o);

	if (!contiguous(a))
		a = py::module_::import("numpy").attr("ascontiguousarray")(a);
	return {number(a.data()), a};
}

py::array ptr_to_numpy(void *ptr, py::object shape, int32_t type)
{
	std::vector<ssize_t> dims;

	if (!PyTuple_Check(shape.ptr()) || !read(shape.ptr(), dims))
		throw bad_args();
	for (ssize_t d : dims) {
		if (d < 0)
			throw bad_args();
	}
	need_host("acl.util.ptr_to_numpy", ptr);
	/* any base object makes it a view of the memory instead of a copy */
	return py::array(py::dtype(type), dims, ptr, py::capsule(ptr, "acl.util.ptr_to_numpy"));
}

/* ---- threads --------------------------------------------------------------------------------------- */

namespace {
struct thread {
	py::object fn, args;
	std::string error; /* text of the exception */
	bool raised = false;
};
} // namespace

/* Live threads by id.  Protected by the GIL; never destroyed: threads may outlive the module. */
static std::map<uint64_t, std::unique_ptr<thread>> &threads()
{
	static auto *all = new std::map<uint64_t, std::unique_ptr<thread>>;

	return *all;
}

static void *thread_main(void *arg)
{
	if (usdma::python::interpreter_is_ending())
		return nullptr;
	const usdma::python::gil_held gil;
	thread *t = static_cast<thread *>(arg);
	py::tuple args = t->args.is_none() ? py::tuple() : py::make_tuple(t->args);
	PyObject *const result = usdma::python::call_python(t->fn.ptr(), args.ptr());

	if (!result) {
		t->error = py::error_already_set().what();
		t->raised = true;
	}
	const usdma::python::references dropped = {result, args.release().ptr(), t->fn.release().ptr(),
						   t->args.release().ptr()};
	return nullptr;
}

std::tuple<uint64_t, int> start_thread(py::object fn, py::object args)
{
	pthread_t id = {};
	int err;

	if (!PyCallable_Check(fn.ptr()))
		throw bad_args();
	auto t = std::make_unique<thread>();
	t->fn = std::move(fn);
	t->args = std::move(args);
	/* Not by thread_start(): the program's thread keeps the program's signals, which its children inherit. */
	err = pthread_create(&id, nullptr, thread_main, t.get());
	if (err)
		return {0, ACL_ERROR_INTERNAL_ERROR};
	threads()[uint64_t(id)] = std::move(t); /* it cannot run yet: this thread has the GIL */
	return {uint64_t(id), ACL_SUCCESS};
}

int stop_thread(uint64_t id)
{
	auto at = threads().find(id);
	int err;

	if (at == threads().end())
		return ACL_ERROR_INVALID_PARAM;
	std::unique_ptr<thread> t = std::move(at->second);
	threads().erase(at); /* before the GIL is released: an id is joined once */
	err = without_gil([&] { return pthread_join(pthread_t(id), nullptr); });
	if (err) {
		(void)t.release(); /* it may still run */
		return ACL_ERROR_INTERNAL_ERROR;
	}
	if (t->raised)
		throw std::runtime_error("the thread raised " + t->error);
	return ACL_SUCCESS;
}

} // namespace pyacl
