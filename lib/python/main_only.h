/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Callbacks take the GIL by PyGILState_Ensure(), which supports only the main interpreter: in another one it blocks
 * forever, as pybind11 does already while a module is loaded.  So the modules' PyInit_ functions refuse others.
 *
 *	#define PyInit_x init_x
 *	PYBIND11_MODULE(x, m) { … }
 *	#undef PyInit_x
 *	USDMA_MAIN_ONLY(x, init_x)
 */
#pragma once

#include <pybind11/pybind11.h>

namespace usdma::python {

/* The module that the interpreter has, or a new one. */
inline PyObject *find_or_make(const char *name, PyObject *(*init)())
{
	PyObject *const dict = PyInterpreterState_GetDict(PyInterpreterState_Get());

	if (!dict)
		return PyErr_NoMemory();
	if (PyObject *const m = PyDict_GetItemString(dict, name))
		return Py_NewRef(m);
	PyObject *m = init();
	if (m && PyDict_SetItemString(dict, name, m))
		Py_CLEAR(m);
	return m;
}

inline PyObject *init_in_main(const char *name, PyObject *(*init)())
{
	if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
		PyErr_SetString(PyExc_ImportError,
				"acl and usdma work in the main interpreter only, and this is a sub-interpreter: use "
				"threads of the main one, or processes");
		return nullptr;
	}
	/* For an import by a sub-interpreter, Python 3.13 calls PyInit_ in the main one first; init() works once. */
	PyObject *const m = find_or_make(name, init);
	/*
	 * Otherwise Python would copy the module's names into another interpreter; this makes it call PyInit_
	 * there as well.
	 */
	if (m && PyModule_Check(m))
		PyModule_GetDef(m)->m_size = 0;
	return m;
}

} // namespace usdma::python

/* NOLINTBEGIN(bugprone-macro-parentheses): a part of a name cannot have any */
#define USDMA_MAIN_ONLY(name, init)                                                                                    \
	extern "C" PYBIND11_EXPORT PyObject *PyInit_##name()                                                           \
	{                                                                                                              \
		return usdma::python::init_in_main(#name, init);                                                       \
	}
/* NOLINTEND(bugprone-macro-parentheses) */
