/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects behind handles.  The memory of an object is never given back, so that
 * any pointer a caller hands in can be checked without trusting it: it must lie
 * in the slab, at an object's start, and the object must be alive.
 */
#pragma once

#include "driver/base/types.h"

#include <mutex>
#include <new>
#include <sys/mman.h>
#include <vector>

namespace usdma::core {

/* T has `u32 alive` (0 or 1, accessed atomically). At most max objects. Address space is reserved, pages come on use. */
template <class T, size_t max> class slab {
public:
	/* A default-constructed T with alive == 0 (the caller sets it when the object is ready); nullptr: none left. */
	T *get()
	{
		std::lock_guard guard(lock_);

		if (!base_ && !reserve())
			return nullptr;
		if (!free_.empty()) {
			T *t = free_.back();

			free_.pop_back();
			return new (t) T();
		}
		return used_ < max ? new (base_ + used_++) T() : nullptr;
	}
	/* The object is destroyed, its memory stays readable and says alive == 0 (T's first member is alive). */
	void put(T *t)
	{
		t->~T();
		std::lock_guard guard(lock_);
		__atomic_store_n(&t->alive, 0u, __ATOMIC_RELEASE);
		free_.push_back(t);
	}
	/* At the start of an object, alive or not. */
	bool within(const void *p) const
	{
		const T *base = __atomic_load_n(&base_, __ATOMIC_ACQUIRE);
		const size_t off = size_t(reinterpret_cast<u64>(p) - reinterpret_cast<u64>(base));

		return base && off < max * sizeof(T) && off % sizeof(T) == 0;
	}
	bool holds(const void *p) const
	{
		return within(p) && __atomic_load_n(&static_cast<const T *>(p)->alive, __ATOMIC_ACQUIRE) == 1;
	}
	size_t live() const
	{
		std::lock_guard guard(lock_);

		return used_ - free_.size();
	}
	/* Calls fn(T&) for each object that is alive; fn must not call back into the slab. */
	template <class F> void each(F fn)
	{
		std::lock_guard guard(lock_);

		for (size_t i = 0; i < used_; i++)
			if (__atomic_load_n(&base_[i].alive, __ATOMIC_ACQUIRE) == 1)
				fn(base_[i]);
	}

private:
	bool reserve()
	{
		void *p = mmap(nullptr, max * sizeof(T), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (p == MAP_FAILED)
			return false;
		__atomic_store_n(&base_, static_cast<T *>(p), __ATOMIC_RELEASE);
		return true;
	}

	mutable std::mutex lock_;
	T *base_ = nullptr;
	size_t used_ = 0;
	std::vector<T *> free_;
};

/* A global that is never destroyed: threads may still use it while the process exits. */
template <class T> union immortal {
	T v;
	constexpr immortal() : v() {}
	constexpr ~immortal() {}
	constexpr T *operator->() { return &v; }
	constexpr T &operator*() { return v; }
};

} // namespace usdma::core
