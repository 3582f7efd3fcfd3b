/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The GIL, released and taken for both modules.  The interpreter may end at any time, while daemon threads are in a
 * call and callbacks are under way.  CPython before 3.14 then ends a thread that asks for the GIL by pthread_exit(),
 * which unwinds its C++ frames: their destructors would drop references to Python objects without the GIL, or meet
 * one that may not throw, which terminates the process.  Such a thread stops here for good instead, as from 3.14 on;
 * the process does not wait for it.
 */
#pragma once

#include <pybind11/pybind11.h>

#include <cxxabi.h>
#include <unistd.h>

namespace usdma::python {

[[noreturn]] inline void park()
{
	for (;;)
		pause();
}

/* What may take the GIL, or run Python code, which gives it away and takes it again. */
template <class F> auto guarded(F &&f)
{
	try {
		return f();
	} catch (abi::__forced_unwind &) {
		park();
	}
}

/* Nothing of Python may be called any more.  False may be out of date at once: gil_held copes. */
inline bool interpreter_ends()
{
#if PY_VERSION_HEX >= 0x030d0000
	return !Py_IsInitialized() || Py_IsFinalizing();
#else
	return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

class gil_released {
public:
	gil_released() : state_(PyEval_SaveThread()) {}
	~gil_released()
	{
		guarded([this] { PyEval_RestoreThread(state_); });
	}
	gil_released(const gil_released &) = delete;

private:
	PyThreadState *state_;
};

/* For threads that Python does not know, too. */
class gil_held {
public:
	gil_held() : state_(guarded([] { return PyGILState_Ensure(); })) {}
	~gil_held() { PyGILState_Release(state_); }
	gil_held(const gil_held &) = delete;

private:
	PyGILState_STATE state_;
};

/* Runs a call of the library without the GIL: each may wait for a lock, a ring or a device. */
template <class F> auto away(F &&f)
{
	const gil_released released;

	return f();
}

/* A new reference, or nullptr with the exception set. */
inline PyObject *call_python(PyObject *fn, PyObject *args)
{
	return guarded([&] { return PyObject_CallObject(fn, args); });
}

} // namespace usdma::python
