/* SPDX-License-Identifier: BSD-3-Clause */
/* The Python module acl: the ACL calls with pyACL's names, arguments and result tuples. */
#include "lib/python/acl/args.h"
#include "lib/python/main_only.h"

using namespace pyacl;

namespace {

/* pyACL has more sub-modules, which a copy engine cannot serve. */
py::object missing(const std::string &name)
{
	static const char *const absent[] = {"mdl", "op", "media", "blas", "prof", "himpi", "fv"};

	for (const char *a : absent) {
		if (name == a)
			throw py::attribute_error("acl." + name +
						  " is not supported: usdma serves memory, streams, "
						  "events and copies, and runs no models or operators");
	}
	throw py::attribute_error("module 'acl' has no attribute '" + name + "'");
}

py::module_ add_part(py::module_ &acl, const char *name, const char *doc)
{
	py::module_ part = acl.def_submodule(name, doc);

	/* makes "import acl.rt" work */
	py::module_::import("sys").attr("modules")[part.attr("__name__")] = part;
	return part;
}

} // namespace

#define PyInit_acl init_acl
PYBIND11_MODULE(acl, m)
{
	m.doc() = "The Ascend ACL runtime's memory, stream, event and copy calls, served by usdma.\n"
		  "Pointers, handles, sizes and enums are ints; results are error codes, 0 for success.";
	py::module_ rt = add_part(m, "rt", "Devices, contexts, memory, streams, events, copies.");
	py::module_ util = add_part(m, "util", "Pointers of Python objects, and threads.");

	add_base(m);
	add_device(rt);
	add_memory(rt);
	add_copy(rt);
	add_virtual(rt);
	add_stream(rt);
	add_event(rt);
	add_callback(rt);
	add_notify(rt);
	add_util(util);
	m.def("__getattr__", missing);
}
#undef PyInit_acl

USDMA_MAIN_ONLY(acl, init_acl)
