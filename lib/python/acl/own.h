/* SPDX-License-Identifier: BSD-3-Clause */
/* What functions.list refers to: calls of C functions by their signature, and functions that need more than that. */
#pragma once

#include "lib/acl/copy_cached.h"
#include "lib/python/acl/args.h"

#include <acl/acl.h>
#include <pybind11/numpy.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* pyACL has such functions */

namespace pyacl {

/* ---- C functions ---------------------------------------------------------------------------------------- */

/* How Python gives a parameter of a C function. */
template <class T> struct given {
	using type = T;
};
template <class T>
requires std::is_enum_v<T>
struct given<T> {
	using type = int32_t;
};
template <class T> struct given<T *> {
	using type = void *;
};
template <> struct given<const char *> {
	using type = std::string;
};
template <> struct given<float> {
	using type = double;
};

template <class T, class P> T to_c(P &p)
{
	if constexpr (std::is_same_v<P, std::string>)
		return p.c_str();
	else if constexpr (std::is_pointer_v<T>)
		return static_cast<T>(p);
	else
		return T(p);
}

py::object text_or_none(const char *text);

template <class T> auto to_python(T value)
{
	if constexpr (std::is_same_v<T, const char *>)
		return text_or_none(value);
	else if constexpr (std::is_pointer_v<T>)
		return number(value);
	else if constexpr (std::is_enum_v<T>)
		return int(value);
	else if constexpr (std::is_same_v<T, float>)
		return double(value);
	else
		return value;
}

template <class Self, class In> struct takes;
template <class Self, class... In> struct takes<Self, std::tuple<In...>> {
	auto operator()(In... in) const
	{
		std::tuple<In...> all{std::move(in)...};

		return Self::run(all);
	}
};

/* The parameters of a C function: those at the positions Out are pointers to results. */
template <class All, size_t... Out> struct parameters {
	template <size_t i> static constexpr bool is_out = ((i == Out) || ...);
	template <size_t i> static constexpr size_t outs_before = ((Out < i) + ... + 0);
	template <size_t... i>
	static auto inputs(std::index_sequence<i...>) -> decltype(std::tuple_cat(
		std::conditional_t<is_out<i>, std::tuple<>,
				   std::tuple<typename given<std::tuple_element_t<i, All>>::type>>{}...));
	using in = decltype(inputs(std::make_index_sequence<std::tuple_size_v<All>>()));
	using out = std::tuple<std::remove_pointer_t<std::tuple_element_t<Out, All>>...>;

	template <size_t i> static std::tuple_element_t<i, All> argument(in &given, out &results)
	{
		if constexpr (is_out<i>)
			return &std::get<outs_before<i>>(results);
		else
			return to_c<std::tuple_element_t<i, All>>(std::get<i - outs_before<i>>(given));
	}
};

/* Calls Fn; quick: with the GIL. Returns the results and what Fn returns, or only this. */
template <auto Fn, bool quick, size_t... Out> struct c_call;
template <class R, class... A, R (*Fn)(A...), bool quick, size_t... Out>
struct c_call<Fn, quick, Out...> : takes<c_call<Fn, quick, Out...>, typename parameters<std::tuple<A...>, Out...>::in> {
	using params = parameters<std::tuple<A...>, Out...>;

	template <size_t... i>
	static R call([[maybe_unused]] typename params::in &in, [[maybe_unused]] typename params::out &out,
		      std::index_sequence<i...>)
	{
		return Fn(params::template argument<i>(in, out)...);
	}
	static auto run(typename params::in &in)
	{
		typename params::out out{};
		const auto all = [&] { return call(in, out, std::index_sequence_for<A...>()); };
		R ret;

		if constexpr (quick)
			ret = all();
		else
			ret = without_gil(all);
		if constexpr (sizeof...(Out) == 0)
			return to_python(ret);
		else
			return std::apply([&](auto... o) { return std::tuple(to_python(o)..., to_python(ret)); }, out);
	}
};

/* ---- functions of ours ---------------------------------------------------------------------------------- */

template <auto Fn> struct own;
template <class R, class... A, R (*Fn)(A...)> struct own<Fn> {
	R operator()(A... a) const { return Fn(std::forward<A>(a)...); }
};

using ids = std::vector<int32_t>;
template <class T> using and_ret = std::tuple<T, int>;

int init(std::optional<std::string> path);
py::object app_log(int32_t level, std::string text);
and_ret<py::dict> utilization(int32_t id);
std::tuple<int32_t, uint32_t, int> primary_state(int32_t id);
int set_attribute(void *stream, int32_t attr, py::dict value);
and_ret<py::dict> get_attribute(void *stream, int32_t attr);
and_ret<uint64_t> set_desc(void *desc, int32_t kind, void *src, void *dst, size_t count, std::optional<void *> config);

/*
 * Releasing the GIL and taking it again costs more than the copy's submission, and lets another thread in between. All
 * other cases may wait, for a full ring or for work before them, which may be a Python callback.
 */
template <auto slow> int copy_async(void *dst, size_t max, void *src, size_t count, int32_t kind, void *stream)
{
	if (usdma::acl::memcpy_async_at_once(dst, max, src, count, uint32_t(kind), stream)) [[likely]]
		return ACL_SUCCESS;
	return without_gil([&] { return slow(dst, max, src, count, aclrtMemcpyKind(kind), stream); });
}

class malloc_config {
public:
	explicit malloc_config(const py::dict &d);
	aclrtMallocConfig *get() { return given_ ? &cfg_ : nullptr; }

private:
	void add(const py::dict &d);

	std::vector<aclrtMallocAttribute> attrs_;
	aclrtMallocConfig cfg_ = {};
	bool given_ = false;
};

template <auto Fn> and_ret<uint64_t> malloc_with_cfg(size_t size, int32_t policy, py::dict d)
{
	malloc_config cfg(d);
	void *ptr = nullptr;
	int ret = without_gil([&] { return Fn(&ptr, size, aclrtMemMallocPolicy(policy), cfg.get()); });

	return {number(ptr), ret};
}

and_ret<uint64_t> malloc_host_with_cfg(uint64_t size, py::dict cfg);
and_ret<py::dict> pointer_attributes(void *ptr);
and_ret<py::list> memory_errors(int32_t id, uint32_t most);
int repair(int32_t id, std::vector<py::dict> errors);
and_ret<uint64_t> malloc_physical(size_t size, py::dict prop, uint64_t flags);
and_ret<size_t> granularity(py::dict prop, int32_t option);
int allow_shareable(uint64_t shareable, ids pids);
and_ret<std::string> export_memory(void *ptr, size_t size, size_t len, uint64_t flag);
int allow_memory(std::string key, ids pids);
int reset_notifies(std::vector<void *> notifies);
and_ret<std::string> export_notify(void *notify, size_t len, uint64_t flag);
int allow_notify(void *notify, ids pids);

int launch(py::object fn, py::object data, int32_t block, void *stream);
int set_exception_callback(std::optional<py::object> fn);

uint64_t bytes_to_ptr(py::object bytes);
py::bytes ptr_to_bytes(void *ptr, size_t size);
uint64_t numpy_to_ptr(py::object array);
std::tuple<uint64_t, py::array> numpy_contiguous_to_ptr(py::object array);
py::array ptr_to_numpy(void *ptr, py::object shape, int32_t type);
and_ret<uint64_t> start_thread(py::object fn, py::object args);
int stop_thread(uint64_t id);

} // namespace pyacl
