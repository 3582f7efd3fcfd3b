/* SPDX-License-Identifier: BSD-3-Clause */
/* The Python module acl: the ACL calls with pyACL's names, arguments and result tuples. */
#include "lib/python/acl/args.h"
#include "lib/python/main_only.h"

#include <pybind11/eval.h>

using namespace pyacl;

namespace {

/* pyACL has more sub-modules, which a copy engine cannot serve. */
py::object missing(const std::string &name)
{
	static const char *const absent[] = {"blas", "himpi", "fv"};

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

/*
 * Of a part whose functions need models or operators: each answers 207000, so that programs take the path for what is
 * not supported; with another result before it, that is 0. What makes an object makes none: 0.
 */
constexpr const char *refusals = R"(
class _Refused(int):
    __slots__ = ()

    def __iter__(self):
        return iter((0, int(self)))


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    result = 0 if name.startswith("create") else _Refused(207000)
    return lambda *_: result
)";

void add_refused(py::module_ &acl, const char *name)
{
	py::module_ part = add_part(acl, name, "Not supported: each function answers 207000.");

	py::exec(refusals, part.attr("__dict__"));
}

} // namespace

#define PyInit_acl init_acl
PYBIND11_MODULE(acl, m)
{
	m.doc() = "The Ascend ACL runtime's memory, stream, event and copy calls, served by usdma.\n"
		  "Pointers, handles, sizes and enums are ints; results are error codes, 0 for success.";
	py::module_ rt = add_part(m, "rt", "Devices, contexts, memory, streams, events, copies.");
	py::module_ util = add_part(m, "util", "Pointers of Python objects, and threads.");

	for (const char *part : {"mdl", "op", "prof", "tdt", "media"})
		add_refused(m, part);
	add_functions(m, rt, util);
	m.def("__getattr__", missing);
}
#undef PyInit_acl

USDMA_MAIN_ONLY(acl, init_acl)
