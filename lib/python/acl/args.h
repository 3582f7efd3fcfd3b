/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of the module: CPython's vector calls, without pybind11, whose dispatch costs more than a copy's
 * submission. Arguments are as in pyACL: positional only; integers for C pointers, handles, sizes and enums; None is
 * not one. A wrong argument raises a TypeError, with the text of PyArg_ParseTuple(), which pyACL uses, or "NAME args
 * parse failed".
 */
#pragma once

#include "lib/python/gil.h"

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace pyacl {

namespace py = pybind11;

/* False, without a Python error: it is no number of this type. o: an int. */
template <std::integral T> bool read_int(PyObject *o, T &out)
{
	using wide = std::conditional_t<std::is_signed_v<T>, long, unsigned long>;
	const wide value = std::is_signed_v<T> ? wide(PyLong_AsLong(o)) : wide(PyLong_AsUnsignedLong(o));

	if (value == wide(-1) && PyErr_Occurred()) {
		PyErr_Clear();
		return false;
	}
	out = T(value);
	return value >= wide(std::numeric_limits<T>::min()) && value <= wide(std::numeric_limits<T>::max());
}

/* False, without a Python error: the object does not fit the parameter. */
template <std::integral T> bool read(PyObject *o, T &out)
{
	if (PyLong_CheckExact(o)) [[likely]]
		return read_int(o, out);
	if (!PyIndex_Check(o))
		return false;
	const py::object number = py::reinterpret_steal<py::object>(PyNumber_Index(o));
	if (number)
		return read_int(number.ptr(), out);
	PyErr_Clear();
	return false;
}

inline bool read(PyObject *o, void *&out)
{
	uintptr_t at = 0;

	if (!read(o, at))
		return false;
	out = reinterpret_cast<void *>(at);
	return true;
}

inline bool read(PyObject *o, double &out)
{
	if (!PyFloat_Check(o) && !PyIndex_Check(o))
		return false;
	out = PyFloat_AsDouble(o);
	if (!PyErr_Occurred())
		return true;
	PyErr_Clear();
	return false;
}

inline bool read(PyObject *o, std::string &out)
{
	Py_ssize_t len;
	const char *text = PyUnicode_Check(o) ? PyUnicode_AsUTF8AndSize(o, &len) : nullptr;

	if (!text) {
		PyErr_Clear();
		return false;
	}
	out.assign(text, size_t(len));
	return true;
}

inline bool read(PyObject *o, py::dict &out)
{
	if (!PyDict_Check(o))
		return false;
	out = py::reinterpret_borrow<py::dict>(o);
	return true;
}

inline bool read(PyObject *o, py::object &out)
{
	out = py::reinterpret_borrow<py::object>(o);
	return true;
}

template <class T> bool read(PyObject *o, std::vector<T> &out)
{
	if (!PyList_Check(o) && !PyTuple_Check(o))
		return false;
	py::sequence items = py::reinterpret_borrow<py::sequence>(o);

	for (size_t i = 0; i < items.size(); i++) {
		T item;
		py::object o_i = items[i];

		if (!read(o_i.ptr(), item))
			return false;
		out.push_back(item);
	}
	return true;
}

/* Thrown for an invalid argument: "NAME args parse failed". */
struct bad_args {};

template <class T> struct is_optional : std::false_type {
};
template <class T> struct is_optional<std::optional<T>> : std::true_type {
};

[[noreturn, gnu::cold]] void wrong_count(size_t least, size_t most, size_t given);
/* The i-th argument, from 0; wide: 8 bytes. */
[[noreturn, gnu::cold]] void wrong_number(PyObject *o, size_t i, bool wide);
[[noreturn, gnu::cold]] void wrong_text(PyObject *o, size_t i);
/* In a handler: makes a C++ exception a Python error. */
[[gnu::cold]] PyObject *raise(PyObject *module, const char *name);

template <class T> [[noreturn, gnu::cold]] void wrong_argument(PyObject *o, size_t i)
{
	if constexpr (std::is_integral_v<T> || std::is_pointer_v<T>)
		wrong_number(o, i, sizeof(T) == 8);
	else if constexpr (std::is_same_v<T, std::string>)
		wrong_text(o, i);
	else
		throw bad_args();
}

template <class T> T take(PyObject *const *args, size_t n, size_t i)
{
	if constexpr (is_optional<T>::value) {
		if (i >= n)
			return std::nullopt;
		return take<typename T::value_type>(args, n, i);
	} else {
		T out{};

		if (!read(args[i], out)) [[unlikely]]
			wrong_argument<T>(args[i], i);
		return out;
	}
}

template <class F> struct signature;
template <class R, class C, class... A> struct signature<R (C::*)(A...) const> {
	static constexpr size_t most = sizeof...(A), least = (size_t(!is_optional<std::decay_t<A>>::value) + ... + 0);

	template <class F> static R call(const F &f, PyObject *const *args, size_t n)
	{
		if (n < least || n > most) [[unlikely]]
			wrong_count(least, most, n);
		return spread(f, args, n, std::index_sequence_for<A...>());
	}

private:
	template <class F, size_t... I>
	static R spread(const F &f, [[maybe_unused]] PyObject *const *args, [[maybe_unused]] size_t n,
			std::index_sequence<I...>)
	{
		/* braces: evaluated from left to right */
		std::tuple<std::decay_t<A>...> values{take<std::decay_t<A>>(args, n, I)...};

		return std::apply(f, std::move(values));
	}
};

/* A new reference. */
template <class R> PyObject *as_object(R &&value)
{
	if constexpr (std::is_same_v<std::decay_t<R>, int>)
		return PyLong_FromLong(value);
	else if constexpr (std::is_base_of_v<py::object, std::decay_t<R>>)
		return value.release().ptr();
	else
		return py::cast(std::forward<R>(value)).release().ptr();
}

/* A function of the module; F: a type of a callable without state, row: its number. */
template <size_t row, class F> struct function {
	static inline PyMethodDef method;

	static PyObject *call(PyObject *module, PyObject *const *args, Py_ssize_t n)
	{
		try {
			return as_object(signature<decltype(&F::operator())>::call(F(), args, size_t(n)));
		} catch (...) {
			return raise(module, method.ml_name);
		}
	}
};

void add_function(py::module_ &m, PyMethodDef *method);

/* doc: the call in Python syntax. Both texts are literals. */
template <size_t row, class F> void def(py::module_ &m, const char *name, const char *doc, F)
{
	using fn = function<row, F>;

	fn::method = {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&fn::call)), METH_FASTCALL, doc};
	add_function(m, &fn::method);
}

using usdma::python::without_gil;

inline uint64_t number(const void *p)
{
	return reinterpret_cast<uintptr_t>(p);
}

/* Reads a field of a dictionary: a missing one leaves out unchanged; a wrong type is a bad argument. */
template <class T> void field(const py::dict &d, const char *key, T &out)
{
	PyObject *o = PyDict_GetItemString(d.ptr(), key);

	if (o && !read(o, out))
		throw bad_args();
}

template <class E>
requires std::is_enum_v<E>
void field(const py::dict &d, const char *key, E &out)
{
	int32_t value = int32_t(out);

	field(d, key, value);
	out = E(value);
}

/* Of functions.list. */
void add_functions(py::module_ &acl, py::module_ &rt, py::module_ &util);

} // namespace pyacl
