/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects with validated handles. The memory of objects is never unmapped, so an untrusted handle can be
 * checked safely: its slot must be the start of an object in the slab, and the object must be alive under
 * exactly this handle.
 *
 * A handle is, from the top: 0 (for languages with signed handles), the generation, the object's offset in the slab,
 * and in the low six bits, as objects are aligned to 64, the kind, so that the handles of two slabs differ. The
 * generation counts the objects of a slot. It has the bits that the offset leaves, 34 and more for 65,536 objects of
 * up to 8 KiB. A slot whose generations are used up is not used again, so a handle never names another object: this
 * costs the memory of one object for each 2^34 objects and more.
 */
#pragma once

#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/base/no_destructor.h"
#include "driver/base/memory_limit.h"
#include "driver/base/page.h"
#include "driver/base/types.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <mutex>
#include <new>
#include <sys/mman.h>

/* LeakSanitizer does not scan mappings: register slabs as roots. */
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

using usdma::no_destructor;

/* What a handle is of; none: a slab without handles. */
enum class handle_kind : u8 {
	none,
	device,
	stream,
	event,
	file,
	pool,
	physical,
	completion,
	completion_set,
	context,
	notify,
	model,
	task_group,
	dispatcher,
	test,
};

inline constexpr unsigned handle_kind_bits = 6, handle_bits = 63;

/*
 * Invalidates a handle; true for one of several concurrent callers. Acquire and release: orders the caller's
 * earlier and later accesses around the invalidation.
 */
template <class T> inline bool handle_end(T *t, const void *handle)
{
	u64 name = reinterpret_cast<u64>(handle);

	return cmpxchg_acq_rel(&t->alive, &name, u64(0));
}

/* Takes a reference unless the count is 0 (being freed): false. */
inline bool ref_if_any(u32 *refs)
{
	u32 n = load_relaxed(refs);

	while (n && !cmpxchg_acquire(refs, &n, n + 1))
		;
	return n != 0;
}

/* Of an odd number, modulo 2^64: each step doubles the number of right bits, of which there are three at first. */
constexpr u64 inverse_of(u64 odd)
{
	u64 inverse = odd;

	for (unsigned bits = 3; bits < 64; bits *= 2)
		inverse *= 2 - odd * inverse;
	return inverse;
}

/*
 * T's first member is `alive`, accessed atomically; 0: no object. For objects with handles (T aligned to 64) it
 * is a u64, the handle itself; others may use a u32 of 1. At most max objects. Address space is reserved and
 * made writable in steps, as RLIMIT_DATA counts writable memory; pages are allocated on first use.
 */
template <class T, size_t max, handle_kind kind = handle_kind::none> class slab {
	static constexpr bool has_handles = kind != handle_kind::none;
	static constexpr unsigned generation_at = unsigned(std::bit_width(u64(max) * sizeof(T) - 1));
	static constexpr u64 below_generation = (u64(1) << generation_at) - 1;

public:
	static constexpr u64 max_generation = (u64(1) << (handle_bits - generation_at)) - 1;

	/*
	 * A default-constructed T with alive == 0, for publish() when it is ready; nullptr: none left (errno
	 * 0), or no memory (errno set).
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
	/* Call right after get() returned nullptr: fails with err if all are used, else with the memory error. */
	int fail_full(int err, const char *what) const
	{
		if (!errno)
			return fail(err, "all %zu %s are in use, which is the limit%s", cap_, what,
				    cap_ < max ? ": there was no address space for a larger table (ulimit -v)" : "");
		return fail_map((base_ ? step : cap_) * each_bytes, base_, what);
	}
	/* Destroys the object; its memory stays readable with alive == 0. */
	void put(T *t)
	{
		const u32 slot = u32(t - base_);

		t->~T();
		std::lock_guard guard(lock_);
		store_release(&t->alive, 0);
		if (has_handles && generations()[slot] == max_generation)
			retired_++;
		else
			unused()[free_++] = slot;
	}
	/* True: p is the start of an object, alive or not. */
	bool within(const T *p) const
	{
		return starts_object(reinterpret_cast<u64>(p) - reinterpret_cast<u64>(load_acquire(&base_)));
	}
	/* By index, alive or not; nullptr: there was none so far. */
	T *nth(size_t i) const { return i < load_acquire(&ready_) ? load_acquire(&base_) + i : nullptr; }
	size_t index_of(const T *t) const { return size_t(t - base_); }
	/* The object of a live handle; nullptr: not live. */
	T *find(const void *handle) const
	{
		if (!starts_object(offset_of(handle)))
			return nullptr;
		T *t = at(handle);

		return load_acquire(&t->alive) == reinterpret_cast<u64>(handle) ? t : nullptr;
	}
	/* The same of a handle that holds() has accepted, live or not. */
	[[gnu::returns_nonnull]] T *at(const void *handle) const
	{
		return reinterpret_cast<T *>(reinterpret_cast<u64>(base_) + offset_of(handle));
	}
	/* True: the handle of a live object. */
	bool holds(const void *handle) const { return find(handle) != nullptr; }
	/* The object of a live handle with a reference (T::refs), which unref() drops; nullptr: not live. */
	T *ref(const void *handle, void (*unref)(T *t)) const
	{
		T *t = find(handle);

		if (!t || !ref_if_any(&t->refs))
			return nullptr;
		/* Check again: the slot may have been reused. */
		if (holds(handle))
			return t;
		unref(t);
		return nullptr;
	}
	/*
	 * Makes the object alive, under a new handle; of an object that had more handles than there are generations,
	 * under its last one.
	 */
	void publish(T *t)
	{
		static_assert(has_handles && alignof(T) >= 1 << handle_kind_bits && sizeof(t->alive) == sizeof(u64));
		static_assert(u8(kind) < 1 << handle_kind_bits);
		const u64 offset = reinterpret_cast<u64>(t) - reinterpret_cast<u64>(base_);
		u64 *const n = &generations()[offset / sizeof(T)];

		*n = std::min(*n + 1, max_generation);
		store_release(&t->alive, *n << generation_at | offset | u64(kind));
	}
	/* For tests: as if the slot of the object had been used that often. */
	void age(const T *t, u64 generation) { generations()[t - base_] = generation; }
	size_t live() const
	{
		std::lock_guard guard(lock_);

		return used_ - free_ - retired_;
	}
	/*
	 * The first live object from index *at for which fn(T&) is true, nullptr: none; advances *at. fn as for
	 * each().
	 */
	template <class F> T *next(size_t *at, F fn)
	{
		return next_of_all(at, [&](T &t) { return load_acquire(&t.alive) && fn(t); });
	}
	/* As next(), but includes objects that are not alive. */
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
	/* Calls fn(T&) for each live object; fn must not call back into the slab. */
	template <class F> void each(F fn)
	{
		std::lock_guard guard(lock_);

		for (size_t i = 0; i < used_; i++)
			if (load_acquire(&base_[i].alive))
				fn(base_[i]);
	}

private:
	static constexpr size_t each_bytes = sizeof(T) + (has_handles ? sizeof(u64) : 0) + sizeof(u32);
	static constexpr size_t step = std::max(size_t(1),
						size_t(MiB) / sizeof(T)); /* objects made writable at a time */

	/* Not the start of an object for a handle of another kind, such as 0, which is what dead objects have. */
	static u64 offset_of(const void *handle)
	{
		return (reinterpret_cast<u64>(handle) & below_generation) - u64(kind);
	}
	/*
	 * The index of an object that starts there; without one, more than any index. Multiplying by the inverse of an
	 * odd number divides multiples of it, and gives for all others more than the largest quotient.
	 */
	static constexpr u64 index_at(u64 offset)
	{
		constexpr u64 odd = sizeof(T) >> std::countr_zero(sizeof(T));

		return std::rotr(offset, std::countr_zero(sizeof(T))) * inverse_of(odd);
	}
	/* Acquire: what is ready has a base_, which at() reads. */
	bool starts_object(u64 offset) const { return index_at(offset) < load_acquire(&ready_); }
	/* After the objects: the latest generation of each slot; of the thread that has the object, or under lock_. */
	u64 *generations() { return reinterpret_cast<u64 *>(base_ + cap_); }
	/* After these: a stack of free_ indices of unused slots, so that put() needs no memory. */
	u32 *unused() { return reinterpret_cast<u32 *>(generations() + (has_handles ? cap_ : 0)); }
	static void *map_table(size_t n)
	{
		return mmap(nullptr, n * each_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	}
	/* Under a limit on address space use a smaller table, to leave space for the program. */
	bool reserve()
	{
		void *p = map_table(cap_ = max);

		if (p == MAP_FAILED)
			p = map_table(cap_ = std::max(size_t(1), max / 64));
		if (p == MAP_FAILED)
			return false;
		usdma_lsan_root(p, cap_ * sizeof(T));
		store_release(&base_, static_cast<T *>(p));
		return true;
	}

	static bool make_writable(void *from, void *to)
	{
		const u64 page = os_page_size(), at = align_down(reinterpret_cast<u64>(from), page);

		return !mprotect(reinterpret_cast<void *>(at), align_up(reinterpret_cast<u64>(to), page) - at,
				 PROT_READ | PROT_WRITE);
	}
	/* Makes more objects and what belongs to them writable. */
	bool make_ready()
	{
		const size_t n = std::min(cap_, ready_ + step);

		if (!make_writable(base_ + ready_, base_ + n) || !make_writable(unused() + ready_, unused() + n) ||
		    (has_handles && !make_writable(generations() + ready_, generations() + n)))
			return false;
		store_release(&ready_, n);
		return true;
	}

	mutable std::mutex lock_;
	T *base_ = nullptr;
	size_t cap_ = 0;   /* max, or less under a limit on address space */
	size_t ready_ = 0; /* writable */
	size_t used_ = 0;
	size_t free_ = 0;
	size_t retired_ = 0; /* slots whose generations are used up */
};

} // namespace usdma::core
