/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ordering against a device that reads and writes host memory. Words that both sides access go through these
 * helpers only, so that a race checker sees atomic accesses.
 */
#pragma once

#include "driver/base/types.h"

/*
 * For code that copies data on behalf of another process: that process orders the copies against other
 * accesses, which a race checker in this process cannot see.
 */
#define ordered_elsewhere __attribute__((no_sanitize("thread")))

namespace usdma {

/* For a word that the device writes: later loads see what it wrote before this word. */
template <class T> inline T load_acquire(const T *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

template <class T> inline T load_relaxed(const T *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

/* For a word that the device reads: it sees all stores before this one. */
template <class T> inline void store_release(T *p, T v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

template <class T> inline void store_relaxed(T *p, T v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

/*
 * Stores v and orders it before every later load (store → load, the only order that x86 does not give): one
 * locked exchange. For both sides of a sleep/wake-up protocol: publish, then check whether the peer sleeps.
 */
template <class T> inline void store_fence(T *p, T v)
{
	__atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);
}

/*
 * Prefetches a cache line in exclusive state, since a store to a shared line has to wait. __builtin_prefetch(p,
 * 1) emits a read prefetch unless compiled for a CPU newer than the baseline; older CPUs execute prefetchw as a
 * NOP.
 */
inline void prefetch_write(const void *p)
{
#if defined(__x86_64__)
	asm volatile("prefetchw %0" : : "m"(*static_cast<const char *>(p)));
#else
	__builtin_prefetch(p, 1);
#endif
}

inline void cpu_relax()
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	asm volatile("yield" ::: "memory");
#endif
}

} // namespace usdma
