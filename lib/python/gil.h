/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Releases and takes the GIL, for both modules. The interpreter may finalise while daemon threads are in a call and
 * callbacks are running. CPython before 3.14 then terminates a thread that requests the GIL by pthread_exit(), which
 * unwinds its C++ frames: their destructors would drop references to Python objects without the GIL, or unwinding would
 * meet a noexcept destructor, which terminates the process. Such a thread is parked here forever instead, as from 3.14
 * on; the process does not wait for it.
 */
#pragma once

#include "lib/python/frames.h"

#include <pybind11/pybind11.h>

#include <cxxabi.h>
#include <initializer_list>
#include <unistd.h>
#include <vector>

namespace usdma::python {

[[noreturn]] inline void park()
{
	for (;;)
		pause();
}

/* Runs code that may take the GIL, or run Python code, which releases it and takes it again. */
template <class F> auto guarded(F &&f)
{
	try {
		return f();
	} catch (abi::__forced_unwind &) {
		park();
	}
}

/* True: Python must not be called any more. False may be outdated at once, which gil_held handles. */
inline bool interpreter_is_ending()
{
#if PY_VERSION_HEX >= 0x030d0000
	return !Py_IsInitialized() || Py_IsFinalizing();
#else
	return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

class gil_released {
public:
	gil_released()
		: noted_(core::race_on()), state_(noted_ ? save_thread_noting_frames(&before_) : PyEval_SaveThread())
	{
	}
	~gil_released()
	{
		if (noted_) [[unlikely]]
			core::race().frames({}, before_);
		guarded([this] { PyEval_RestoreThread(state_); });
	}
	gil_released(const gil_released &) = delete;

private:
	const bool noted_;
	u32 before_ = 0; /* frames, for the race check */
	PyThreadState *state_;
};

/* Also for threads that Python did not create. */
class gil_held {
public:
	gil_held() : state_(guarded([] { return PyGILState_Ensure(); })) {}
	~gil_held() { PyGILState_Release(state_); }
	gil_held(const gil_held &) = delete;

private:
	PyGILState_STATE state_;
};

/* Runs a library call without the GIL: any may wait for a lock, a ring or a device. */
template <class F> auto without_gil(F &&f)
{
	const gil_released released;

	return f();
}

/* A new reference, or nullptr with the exception set. */
inline PyObject *call_python(PyObject *fn, PyObject *args)
{
	return guarded([&] { return PyObject_CallObject(fn, args); });
}

/* References that are dropped together: that may run Python code, which no other C++ frame's destructor may. */
class references {
public:
	references() = default;
	references(std::initializer_list<PyObject *> taken) : all_(taken) {}
	~references()
	{
		guarded([this] {
			for (PyObject *o : all_)
				Py_XDECREF(o);
		});
	}
	references(const references &) = delete;
	void add(pybind11::object o)
	{
		all_.push_back(o.ptr());
		(void)o.release();
	}

private:
	std::vector<PyObject *> all_;
};

/* A callback of the library, with the GIL: takes both references, and reports an exception. */
inline void run_callback(pybind11::object fn, pybind11::tuple arguments)
{
	PyObject *const f = fn.release().ptr(), *const args = arguments.release().ptr();
	PyObject *const result = call_python(f, args);

	if (!result)
		guarded([&] { PyErr_WriteUnraisable(f); });
	const references dropped = {result, args, f};
}

} // namespace usdma::python
