/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocation failures. Containers and strings of the standard library report them by an exception. It is caught
 * here, and nowhere else in driver/ and lib/, and becomes a bool or -ENOMEM; the container is unchanged.
 *
 * Code that must undo something when a container cannot grow calls a try_ function. Code that only builds
 * strings and lists of its own (reading settings, scanning sysfs, answering a console) is run as a whole by
 * within_memory, and its objects are destroyed. Where nothing may fail (a completion, a release, teardown),
 * space is reserved in advance.
 */
#pragma once

#include "driver/base/error.h"

#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

namespace usdma {

/* Runs f; false: out of memory. */
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

/* Runs f, which returns 0 or -errno; -ENOMEM: no memory for `what`. */
template <class F> [[nodiscard]] inline int within_memory(const char *what, F &&f) noexcept
{
	int err = 0;

	return fits([&] { err = f(); }) ? err : no_memory(what);
}

template <class C, class... A> [[nodiscard]] inline bool try_push(C &c, A &&...a) noexcept
{
	return fits([&] { c.emplace_back(std::forward<A>(a)...); });
}

/* Into space reserved when the item was created: cannot fail. */
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

/* Before `at`, which is a hint for sets and maps. */
template <class C, class P, class T> [[nodiscard]] inline bool try_insert(C &c, P at, T &&v) noexcept
{
	return fits([&] { c.insert(at, std::forward<T>(v)); });
}

/* The map's value for a key, inserted if missing; nullptr: no memory. */
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

/* nullptr: no memory for it, or in its constructor. */
template <class T, class... A> [[nodiscard]] inline std::unique_ptr<T> try_unique(A &&...a) noexcept
{
	T *made = nullptr;

	/* Not a unique_ptr: clang-tidy 14 does not track it through the lambda and reports a leak. */
	(void)fits([&] { made = std::make_unique<T>(std::forward<A>(a)...).release(); });
	return std::unique_ptr<T>(made);
}

template <class T, class... A> [[nodiscard]] inline std::shared_ptr<T> try_shared(A &&...a) noexcept
{
	std::shared_ptr<T> made;

	return fits([&] { made = std::make_shared<T>(std::forward<A>(a)...); }) ? std::move(made) : nullptr;
}

} // namespace usdma
