/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/python/acl/args.h"

namespace pyacl {

static const char *type_of(PyObject *o)
{
	return o == Py_None ? "None" : Py_TYPE(o)->tp_name;
}

[[noreturn]] static void not_a(const char *type, PyObject *o, size_t i)
{
	throw py::type_error("argument " + std::to_string(i + 1) + " must be " + type + ", not " + type_of(o));
}

void wrong_count(size_t least, size_t most, size_t given)
{
	const size_t wanted = given < least ? least : most;

	throw py::type_error(std::string("function takes ") +
			     (least == most ? "exactly " :
			      given < least ? "at least " :
					      "at most ") +
			     std::to_string(wanted) + (wanted == 1 ? " argument (" : " arguments (") +
			     std::to_string(given) + " given)");
}

void wrong_number(PyObject *o, size_t i, bool wide)
{
	if (PyIndex_Check(o)) /* too large, or negative */
		throw bad_args();
	if (wide)
		not_a("int", o, i);
	throw py::type_error(std::string("'") + Py_TYPE(o)->tp_name + "' object cannot be interpreted as an integer");
}

void wrong_text(PyObject *o, size_t i)
{
	if (PyUnicode_Check(o)) /* not UTF-8 */
		throw bad_args();
	not_a("str", o, i);
}

PyObject *raise(PyObject *module, const char *name)
{
	try {
		throw;
	} catch (const bad_args &) {
		PyErr_Format(PyExc_TypeError, "%s.%s args parse failed", PyModule_GetName(module), name);
	} catch (py::error_already_set &e) {
		e.restore();
	} catch (const py::builtin_exception &e) {
		e.set_error();
	} catch (const std::bad_alloc &) {
		PyErr_NoMemory();
	} catch (const std::exception &e) {
		PyErr_SetString(PyExc_RuntimeError, e.what());
	}
	return nullptr;
}

void add_function(py::module_ &m, PyMethodDef *method)
{
	const py::object part = m.attr("__name__");
	const py::object made = py::reinterpret_steal<py::object>(PyCFunction_NewEx(method, m.ptr(), part.ptr()));

	if (!made)
		throw py::error_already_set();
	m.attr(method->ml_name) = made;
}

} // namespace pyacl
