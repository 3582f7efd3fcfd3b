/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic accesses and barriers. Words that a device, another process or another thread accesses at the same time
 * go through these helpers only, so that a race checker sees atomic accesses; tests/style/tree.py fails on others.
 *
 * Names are operation_order. relaxed: orders nothing. release: a thread that loads the value with acquire sees all
 * accesses before this one. acquire: the other side of it. acq_rel: both. seq_cst: both, and all seq_cst accesses
 * have one order in all threads.
 */
#pragma once

#include "driver/base/types.h"

#include <type_traits>

/*
 * For code that copies data on behalf of another process: that process orders the copies against other
 * accesses, which a race checker in this process cannot see. The helpers below are always inlined, so that it
 * holds for their accesses, too.
 */
#define ordered_elsewhere __attribute__((no_sanitize("thread")))

namespace usdma {

/* Not deduced: a value is converted to the type of its word. */
template <class T> using word_value = std::type_identity_t<T>;

/* ---- loads and stores, of registers too (volatile) ------------------------------------------------------ */

template <class T> [[gnu::always_inline]] inline T load_relaxed(const volatile T *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

template <class T> [[gnu::always_inline]] inline T load_acquire(const volatile T *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

template <class T> [[gnu::always_inline]] inline T load_seq_cst(const volatile T *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

template <class T> [[gnu::always_inline]] inline void store_relaxed(volatile T *p, word_value<T> v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

template <class T> [[gnu::always_inline]] inline void store_release(volatile T *p, word_value<T> v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

template <class T> [[gnu::always_inline]] inline void store_seq_cst(volatile T *p, word_value<T> v)
{
	__atomic_store_n(p, v, __ATOMIC_SEQ_CST);
}

/*
 * Between words that a device writes, or reads. The orders of arm64's acquire and release, as compilers emit them, end
 * at the CPUs' shareability domain, and a device is beyond it. As dma_rmb, dma_wmb and dma_mb of Linux
 * (arch/arm64/include/asm/barrier.h); on x86 loads and stores are in order for devices, too, and the first two are
 * nothing.
 */
inline void dma_rmb()
{
#if defined(__aarch64__)
	asm volatile("dmb oshld" ::: "memory");
#endif
}

inline void dma_wmb()
{
#if defined(__aarch64__)
	asm volatile("dmb oshst" ::: "memory");
#endif
}

inline void dma_mb()
{
#if defined(__aarch64__)
	asm volatile("dmb osh" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* As load_acquire, of a word that a device or a thread writes: later loads see what it wrote before this word. */
template <class T> [[gnu::always_inline]] inline T load_device(const volatile T *p)
{
	const T value = load_acquire(p);

	dma_rmb();
	return value;
}

/* As store_release, of a word that a device or a thread reads: it sees all stores before this one. */
template <class T> [[gnu::always_inline]] inline void store_device(volatile T *p, word_value<T> v)
{
	dma_wmb();
	store_release(p, v);
}

/*
 * Stores v and orders it before every later load (store → load, the only order that x86 does not give), for devices,
 * too; returns the value before. On x86 one locked exchange; elsewhere later loads may overtake the store of an
 * exchange (arm64 without LSE), so a barrier follows.
 */
template <class T> [[gnu::always_inline]] inline T exchange_fence(volatile T *p, word_value<T> v)
{
	const T before = __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);

#if !defined(__x86_64__)
	dma_mb();
#endif
	return before;
}

/* The same. For both sides of a sleep/wake-up protocol: publish, then check whether the peer sleeps. */
template <class T> [[gnu::always_inline]] inline void store_fence(volatile T *p, word_value<T> v)
{
	exchange_fence(p, v);
}

/* ---- read, modify, write: they return the value before ------------------------------------------------ */

/* Stores v. */
template <class T> [[gnu::always_inline]] inline T exchange_relaxed(T *p, word_value<T> v)
{
	return __atomic_exchange_n(p, v, __ATOMIC_RELAXED);
}

template <class T> [[gnu::always_inline]] inline T exchange_acquire(T *p, word_value<T> v)
{
	return __atomic_exchange_n(p, v, __ATOMIC_ACQUIRE);
}

template <class T> [[gnu::always_inline]] inline T exchange_acq_rel(T *p, word_value<T> v)
{
	return __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL);
}

template <class T> [[gnu::always_inline]] inline T exchange_seq_cst(T *p, word_value<T> v)
{
	return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);
}

template <class T> [[gnu::always_inline]] inline T fetch_add_relaxed(T *p, word_value<T> v)
{
	return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}

template <class T> [[gnu::always_inline]] inline T fetch_add_acquire(T *p, word_value<T> v)
{
	return __atomic_fetch_add(p, v, __ATOMIC_ACQUIRE);
}

template <class T> [[gnu::always_inline]] inline T fetch_add_release(T *p, word_value<T> v)
{
	return __atomic_fetch_add(p, v, __ATOMIC_RELEASE);
}

template <class T> [[gnu::always_inline]] inline T fetch_add_acq_rel(T *p, word_value<T> v)
{
	return __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL);
}

template <class T> [[gnu::always_inline]] inline T fetch_add_seq_cst(T *p, word_value<T> v)
{
	return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);
}

/* A reference count: the caller of fetch_sub_acq_rel that gets 1 frees, after all uses by others. */
template <class T> [[gnu::always_inline]] inline T fetch_sub_relaxed(T *p, word_value<T> v)
{
	return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED);
}

template <class T> [[gnu::always_inline]] inline T fetch_sub_release(T *p, word_value<T> v)
{
	return __atomic_fetch_sub(p, v, __ATOMIC_RELEASE);
}

template <class T> [[gnu::always_inline]] inline T fetch_sub_acq_rel(T *p, word_value<T> v)
{
	return __atomic_fetch_sub(p, v, __ATOMIC_ACQ_REL);
}

template <class T> [[gnu::always_inline]] inline T fetch_sub_seq_cst(T *p, word_value<T> v)
{
	return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);
}

template <class T> [[gnu::always_inline]] inline T fetch_or_acq_rel(T *p, word_value<T> v)
{
	return __atomic_fetch_or(p, v, __ATOMIC_ACQ_REL);
}

/* True: the word was *expected and is v now. False: *expected is the word, by a load that is relaxed. */
template <class T> [[gnu::always_inline]] inline bool cmpxchg_acquire(T *p, word_value<T> *expected, word_value<T> v)
{
	return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

template <class T> [[gnu::always_inline]] inline bool cmpxchg_release(T *p, word_value<T> *expected, word_value<T> v)
{
	return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

template <class T> [[gnu::always_inline]] inline bool cmpxchg_acq_rel(T *p, word_value<T> *expected, word_value<T> v)
{
	return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* As above, but that load is seq_cst. */
template <class T> [[gnu::always_inline]] inline bool cmpxchg_seq_cst(T *p, word_value<T> *expected, word_value<T> v)
{
	return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* ---- barriers: between relaxed or plain accesses -------------------------------------------------------- */

/* Loads before it are ordered before all accesses after it. */
inline void barrier_acquire()
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
}

/* All accesses before it are ordered before stores after it. */
inline void barrier_release()
{
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

/* All accesses before it are ordered before all accesses after it, stores before loads, too; also for devices. */
inline void barrier_full()
{
	dma_mb();
}

/* ---- hints to the CPU ----------------------------------------------------------------------------------- */

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
	asm volatile("isb" ::: "memory"); /* yield does not wait on CPUs without hardware threads */
#endif
}

} // namespace usdma
