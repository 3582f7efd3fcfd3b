/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects behind handles.  The memory of an object is never given back, so that
 * any handle a caller hands in can be checked without trusting it: its address must
 * lie in the slab, at an object's start, and the object must be alive under this
 * very handle.
 *
 * A handle is the object's address with a number in the bits that an address leaves
 * free: the low six, as objects are aligned to 64, and fifteen at the top (the sign
 * stays clear, for languages that see a handle as a signed number).  The number is
 * another one each time, so that a handle of an object that is gone does not match
 * the next one in the same place.
 */
#pragma once

#include "driver/base/error.h"
#include "driver/base/immortal.h"
#include "driver/base/memory_limit.h"
#include "driver/base/types.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <new>
#include <sys/mman.h>

/* What only an object of a slab points to is no leak: that sanitizer looks at the heap, and not into mappings. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define USDMA_HAS_LSAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define USDMA_HAS_LSAN 1
#endif
#ifdef USDMA_HAS_LSAN
#include <sanitizer/lsan_interface.h>
#define usdma_lsan_root(p, size) __lsan_register_root_region(p, size)
#else
#define usdma_lsan_root(p, size) ((void)0)
#endif

namespace usdma::core {

using usdma::immortal;

inline constexpr unsigned handle_low_bits = 6, handle_high_at = 48, handle_high_bits = 15;
inline constexpr u64 handle_address = (u64(1) << handle_high_at) - (u64(1) << handle_low_bits);

/* What a handle says is its object's address; to be believed once the slab holds the handle. */
template <class T> inline T *object_at(const void *handle)
{
	return reinterpret_cast<T *>(reinterpret_cast<u64>(handle) & handle_address);
}

/*
 * Of several that end the object under this handle, one: for it true, and the handle is dead.
 * Acquire, release: what comes after is behind the last look at the handle, what came before is seen.
 */
template <class T> inline bool handle_end(T *t, const void *handle)
{
	u64 name = reinterpret_cast<u64>(handle);

	return __atomic_compare_exchange_n(&t->alive, &name, u64(0), false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* One more reference to what has any; false: it is just going. */
inline bool ref_if_any(u32 *refs)
{
	u32 n = __atomic_load_n(refs, __ATOMIC_RELAXED);

	while (n && !__atomic_compare_exchange_n(refs, &n, n + 1, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		;
	return n != 0;
}

/*
 * T's first member is `alive`, accessed atomically, 0: the object is not there.  For objects with handles
 * (T is aligned to 64) it is a u64, the handle itself; others may have a u32 of 1.
 * At most max objects.  Address space is reserved; it is made writable step by step, as a limit on data counts what
 * is, and pages come on use.
 */
template <class T, size_t max> class slab {
public:
	/*
	 * A default-constructed T with alive == 0, for publish() when it is ready; nullptr: none left, or no memory,
	 * which errno says (0: none left).
	 */
	T *get()
	{
		std::lock_guard guard(lock_);

		errno = 0;
		if (!base_ && !reserve())
			return nullptr;
		if (free_)
			return new (base_ + unused()[--free_]) T();
		if (used_ == cap_ || (used_ == ready_ && !make_ready()))
			return nullptr;
		return new (base_ + used_++) T();
	}
	/* Right after get() gave nullptr: err where all are used, or the limit that there is no memory for. */
	int fail_full(int err, const char *what) const
	{
		if (!errno)
			return fail(err, "%zu %s are there, there can be no more%s", cap_, what,
				    cap_ < max ? ": there were no addresses for a longer table (ulimit -v)" : "");
		return fail_map((base_ ? step : cap_) * each_bytes, base_, what);
	}
	/* The object is destroyed, its memory stays readable and says alive == 0 (T's first member is alive). */
	void put(T *t)
	{
		t->~T();
		std::lock_guard guard(lock_);
		__atomic_store_n(&t->alive, 0, __ATOMIC_RELEASE);
		unused()[free_++] = u32(t - base_);
	}
	/* At the start of an object, alive or not. */
	bool within(const void *p) const
	{
		const T *base = __atomic_load_n(&base_, __ATOMIC_ACQUIRE);
		const size_t off = size_t(reinterpret_cast<u64>(p) - reinterpret_cast<u64>(base));

		return base && off < __atomic_load_n(&ready_, __ATOMIC_ACQUIRE) * sizeof(T) && off % sizeof(T) == 0;
	}
	/* A handle of an object that is alive. */
	bool holds(const void *handle) const
	{
		const T *t = object_at<T>(handle);

		return within(t) && __atomic_load_n(&t->alive, __ATOMIC_ACQUIRE) == reinterpret_cast<u64>(handle);
	}
	/* The object is ready: from now on it is alive, under a handle that it never had. */
	void publish(T *t)
	{
		static_assert(alignof(T) >= 1 << handle_low_bits && sizeof(t->alive) == sizeof(u64));
		const u64 n = __atomic_add_fetch(&names_, 1, __ATOMIC_RELAXED);
		const u64 low = n % (1 << handle_low_bits), high = (n >> handle_low_bits) % (1 << handle_high_bits);

		__atomic_store_n(&t->alive, reinterpret_cast<u64>(t) | low | high << handle_high_at, __ATOMIC_RELEASE);
	}
	size_t live() const
	{
		std::lock_guard guard(lock_);

		return used_ - free_;
	}
	/*
	 * The first from number *at on for which fn(T&) is true, nullptr: none; *at: behind it. As each, which
	 * is a look at all.
	 */
	template <class F> T *next(size_t *at, F fn)
	{
		return next_of_all(at, [&](T &t) { return __atomic_load_n(&t.alive, __ATOMIC_ACQUIRE) && fn(t); });
	}
	/* The same, alive or not: fn says which is there. */
	template <class F> T *next_of_all(size_t *at, F fn)
	{
		std::lock_guard guard(lock_);

		while (*at < used_) {
			T *t = base_ + (*at)++;

			if (fn(*t))
				return t;
		}
		return nullptr;
	}
	/* Calls fn(T&) for each object that is alive; fn must not call back into the slab. */
	template <class F> void each(F fn)
	{
		std::lock_guard guard(lock_);

		for (size_t i = 0; i < used_; i++)
			if (__atomic_load_n(&base_[i].alive, __ATOMIC_ACQUIRE))
				fn(base_[i]);
	}

private:
	static constexpr size_t each_bytes = sizeof(T) + sizeof(u32);
	static constexpr size_t step = std::max(size_t(1), size_t(MiB) / sizeof(T)); /* made writable at a time */

	/*
	 * Behind the objects: the numbers of those that are not used, as many as free_ says.  What is put needs
	 * no memory for it.
	 */
	u32 *unused() { return reinterpret_cast<u32 *>(base_ + cap_); }
	static void *map_table(size_t n)
	{
		return mmap(nullptr, n * each_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	}
	/* Where a limit on address space is in the way, a short table: what is left is for the program. */
	bool reserve()
	{
		void *p = map_table(cap_ = max);

		if (p == MAP_FAILED)
			p = map_table(cap_ = std::max(size_t(1), max / 64));
		if (p == MAP_FAILED)
			return false;
		usdma_lsan_root(p, cap_ * sizeof(T));
		__atomic_store_n(&base_, static_cast<T *>(p), __ATOMIC_RELEASE);
		return true;
	}

	static bool make_writable(void *from, void *to)
	{
		const u64 page = 4096, at = align_down(reinterpret_cast<u64>(from), page);

		return !mprotect(reinterpret_cast<void *>(at), align_up(reinterpret_cast<u64>(to), page) - at,
				 PROT_READ | PROT_WRITE);
	}
	/* More objects, and the place for as many numbers. */
	bool make_ready()
	{
		const size_t n = std::min(cap_, ready_ + step);

		if (!make_writable(base_ + ready_, base_ + n) || !make_writable(unused() + ready_, unused() + n))
			return false;
		__atomic_store_n(&ready_, n, __ATOMIC_RELEASE);
		return true;
	}

	mutable std::mutex lock_;
	T *base_ = nullptr;
	size_t cap_ = 0;   /* max, or as many as there were addresses for */
	size_t ready_ = 0; /* writable */
	size_t used_ = 0;
	size_t free_ = 0;
	u64 names_ = 0;
};

} // namespace usdma::core
