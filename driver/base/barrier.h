/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ordering against a device that reads and writes host memory.  Words that both
 * sides touch are accessed by these only, so that a data race checker sees them
 * as what they are: atomic.
 */
#pragma once

#include "driver/base/types.h"

/*
 * For code that moves data for another process: the order between these moves
 * and other accesses is made over there, where a race checker of this process
 * cannot see it.
 */
#define ordered_elsewhere __attribute__((no_sanitize("thread")))

namespace usdma {

/* A word that the device writes: later loads see what it wrote before this word. */
template <class T> inline T load_acquire(const T *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

template <class T> inline T load_relaxed(const T *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

/* A word that the device reads: it sees all stores before this one. */
template <class T> inline void store_release(T *p, T v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

template <class T> inline void store_relaxed(T *p, T v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

/*
 * Stores v and orders it before every later load (store → load, the one order
 * that x86 does not give): one locked exchange.  For "I publish, then look
 * whether you sleep" on both sides.
 */
template <class T> inline void store_fence(T *p, T v)
{
	__atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);
}

/*
 * Asks for a line that will soon be written, as its owner: a write that finds it
 * shared has to wait.  __builtin_prefetch(p, 1) only asks to read unless the
 * compiler is told of a CPU newer than the baseline; older ones take it as a NOP.
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
