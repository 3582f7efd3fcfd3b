/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that may not be there.  Containers and texts of the standard library
 * say so by an exception.  Here, and nowhere else in driver/ and lib/, it is
 * caught, and becomes a bool or -ENOMEM: what could not grow is as it was.
 *
 * What grows one container where something must be put right when it cannot
 * takes a try_ function.  What only makes texts and lists of its own (reading
 * settings, looking through sysfs, answering a console) is run as a whole by
 * within_memory: its own objects go with it.  Where nothing may fail (a
 * completion, a release, the end of something) room is reserved in advance.
 */
#pragma once

#include "driver/base/error.h"

#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

namespace usdma {

/* Runs f; false: there was no memory for what it made. */
template <class F> [[nodiscard]] inline bool fits(F &&f) noexcept
{
	try {
		f();
		return true;
	} catch (const std::bad_alloc &) {
	} catch (const std::length_error &) {
	}
	return false;
}

/* Runs f, which returns 0 or -errno; or -ENOMEM: there was no memory for `what`. */
template <class F> [[nodiscard]] inline int within_memory(const char *what, F &&f) noexcept
{
	int err = 0;

	return fits([&] { err = f(); }) ? err : no_memory(what);
}

template <class C, class... A> [[nodiscard]] inline bool try_push(C &c, A &&...a) noexcept
{
	return fits([&] { c.emplace_back(std::forward<A>(a)...); });
}

/* Into room that was reserved when what now comes to its end was made: cannot fail. */
template <class C, class T> inline void push_reserved(C &c, T &&v) noexcept
{
	c.push_back(std::forward<T>(v));
}

template <class C> [[nodiscard]] inline bool try_reserve(C &c, size_t n) noexcept
{
	return fits([&] { c.reserve(n); });
}

template <class C, class... A> [[nodiscard]] inline bool try_resize(C &c, size_t n, const A &...a) noexcept
{
	return fits([&] { c.resize(n, a...); });
}

/* Before `at`; for sets and maps a hint. */
template <class C, class P, class T> [[nodiscard]] inline bool try_insert(C &c, P at, T &&v) noexcept
{
	return fits([&] { c.insert(at, std::forward<T>(v)); });
}

/* The map's value for a key, made if it is not there; nullptr: no memory. */
template <class C, class K, class... A>
[[nodiscard]] inline typename C::mapped_type *try_emplace(C &c, K &&key, A &&...a) noexcept
{
	typename C::mapped_type *made = nullptr;

	return fits([&] { made = &c.try_emplace(std::forward<K>(key), std::forward<A>(a)...).first->second; }) ?
		       made :
		       nullptr;
}

template <class T> [[nodiscard]] inline bool try_assign(T *to, const auto &from) noexcept
{
	return fits([&] { *to = from; });
}

/* nullptr: no memory for it, or for what its constructor makes. */
template <class T, class... A> [[nodiscard]] inline std::unique_ptr<T> try_unique(A &&...a) noexcept
{
	T *made = nullptr;

	/* Not a unique_ptr: clang-tidy 14 loses it on its way through the lambda, and calls it leaked. */
	(void)fits([&] { made = std::make_unique<T>(std::forward<A>(a)...).release(); });
	return std::unique_ptr<T>(made);
}

template <class T, class... A> [[nodiscard]] inline std::shared_ptr<T> try_shared(A &&...a) noexcept
{
	std::shared_ptr<T> made;

	return fits([&] { made = std::make_shared<T>(std::forward<A>(a)...); }) ? std::move(made) : nullptr;
}

} // namespace usdma
