/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Argument parsing as in pyACL: positional only; integers for C pointers, handles,
 * sizes and enums.  A wrong argument raises a TypeError, "NAME args parse failed";
 * None is not an integer.
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

/* False, without a Python error: the object does not fit the parameter. */
template <std::integral T> bool read(PyObject *o, T &out)
{
	using wide = std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>;
	wide value = 0;

	if (!PyIndex_Check(o))
		return false;
	py::object number = py::reinterpret_steal<py::object>(PyNumber_Index(o));
	if (number)
		value = std::is_signed_v<T> ? wide(PyLong_AsLongLong(number.ptr())) :
					      wide(PyLong_AsUnsignedLongLong(number.ptr()));
	if (PyErr_Occurred()) {
		PyErr_Clear();
		return false;
	}
	out = T(value);
	return value >= wide(std::numeric_limits<T>::min()) && value <= wide(std::numeric_limits<T>::max());
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

/* Thrown by a function that detects an invalid argument after parsing. */
struct bad_args {};

[[noreturn]] inline void parse_failed(const std::string &name)
{
	throw py::type_error(name + " args parse failed");
}

template <class T> struct is_optional : std::false_type {
};
template <class T> struct is_optional<std::optional<T>> : std::true_type {
};

template <class T> T take(const py::args &args, size_t i)
{
	if constexpr (is_optional<T>::value) {
		if (i >= args.size())
			return std::nullopt;
		return take<typename T::value_type>(args, i);
	} else {
		T out{};

		if (i >= args.size() || !read(PyTuple_GET_ITEM(args.ptr(), Py_ssize_t(i)), out))
			throw bad_args();
		return out;
	}
}

template <class F> struct signature;
template <class R, class C, class... A> struct signature<R (C::*)(A...) const> {
	template <class F> static R call(const F &f, const py::args &args)
	{
		if (args.size() > sizeof...(A))
			throw bad_args();
		return spread(f, args, std::index_sequence_for<A...>());
	}

private:
	template <class F, size_t... I> static R spread(const F &f, const py::args &args, std::index_sequence<I...>)
	{
		/* braces: evaluated from left to right */
		std::tuple<std::decay_t<A>...> values{take<std::decay_t<A>>(args, I)...};

		return std::apply(f, std::move(values));
	}
};

template <class R> py::object as_object(R &&value)
{
	if constexpr (std::is_base_of_v<py::object, std::decay_t<R>>)
		return std::forward<R>(value);
	else
		return py::cast(std::forward<R>(value));
}

/* doc: the call in Python syntax. */
template <class F> void def(py::module_ &m, const char *name, const char *doc, F f)
{
	std::string full = py::cast<std::string>(m.attr("__name__")) + "." + name;
	auto wrapped = [full, f](const py::args &args, const py::kwargs &kwargs) -> py::object {
		if (kwargs.size())
			parse_failed(full);
		try {
			return as_object(signature<decltype(&F::operator())>::call(f, args));
		} catch (const bad_args &) {
			parse_failed(full);
		}
	};
	py::options options;

	options.disable_function_signatures();
	m.def(name, wrapped, doc);
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

void add_base(py::module_ &acl);
void add_device(py::module_ &rt);
void add_memory(py::module_ &rt);
void add_copy(py::module_ &rt);
void add_virtual(py::module_ &rt);
void add_stream(py::module_ &rt);
void add_event(py::module_ &rt);
void add_callback(py::module_ &rt);
void add_notify(py::module_ &rt);
void add_util(py::module_ &util);

} // namespace pyacl
