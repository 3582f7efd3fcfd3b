/* SPDX-License-Identifier: BSD-3-Clause */
/* USDMA_CHECK=race: the Python frames of a call, for the reports. */
#pragma once

#include "lib/core/check/race.h"

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

/* Made and destroyed by one thread; made with the GIL. */
class frames_noted {
public:
	frames_noted() : on_(core::race_on())
	{
		if (on_) [[unlikely]]
			before_ = core::race_frames_enter(core::race_frames(frames_here()));
	}
	~frames_noted()
	{
		if (on_) [[unlikely]]
			core::race_frames_enter(before_);
	}
	frames_noted(const frames_noted &) = delete;

private:
	const bool on_;
	u32 before_ = 0;
};

} // namespace usdma::python
