/* SPDX-License-Identifier: BSD-3-Clause */
/* USDMA_CHECK=race: the Python frames of a call, for the reports. */
#pragma once

#include "lib/core/config/race.h"

#include <Python.h>
#include <string>

namespace usdma::python {

inline void add_text(std::string *to, PyObject *text)
{
	const char *const utf8 = PyUnicode_AsUTF8(text);

	if (!utf8)
		PyErr_Clear();
	*to += utf8 ? utf8 : "?";
}

/* With the GIL. */
inline std::string frames_here()
{
	static constexpr unsigned most = 8;
	std::string lines;
	auto *f = reinterpret_cast<PyFrameObject *>(Py_XNewRef(reinterpret_cast<PyObject *>(PyEval_GetFrame())));

	for (unsigned n = 0; f; n++) {
		PyFrameObject *const back = n + 1 < most ? PyFrame_GetBack(f) : nullptr;
		PyCodeObject *const code = PyFrame_GetCode(f);

		add_text(&lines, code->co_filename);
		lines += ":" + std::to_string(PyFrame_GetLineNumber(f)) + " in ";
		add_text(&lines, code->co_name);
		lines += '\n';
		Py_DECREF(code);
		Py_DECREF(f);
		f = back;
	}
	return lines;
}

/*
 * PyEval_SaveThread(), and the calling thread is in these frames from now on; *before: those it was in. The race
 * check's lock is taken without the GIL: who has it may be writing a report into a pipe that a thread of Python reads.
 */
[[gnu::noinline]] inline PyThreadState *save_thread_noting_frames(u32 *before)
{
	const std::string lines = frames_here();
	PyThreadState *const state = PyEval_SaveThread();

	*before = core::race().frames(lines, 0);
	return state;
}

} // namespace usdma::python
