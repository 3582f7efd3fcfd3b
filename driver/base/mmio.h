/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Access to mapped registers, little-endian as in PCI. Each access is one bus access of its width, neither
 * merged nor split nor reordered by the compiler against other accesses here.
 */
#pragma once

#include "driver/base/types.h"

namespace usdma {

inline u32 mmio_read32(const volatile void *reg)
{
	return __atomic_load_n(static_cast<const volatile u32 *>(reg), __ATOMIC_ACQUIRE);
}

inline u64 mmio_read64(const volatile void *reg)
{
	return __atomic_load_n(static_cast<const volatile u64 *>(reg), __ATOMIC_ACQUIRE);
}

/* Release: earlier stores to host memory are visible to the device before the register write. */
inline void mmio_write32(volatile void *reg, u32 value)
{
	__atomic_store_n(static_cast<volatile u32 *>(reg), value, __ATOMIC_RELEASE);
}

inline void mmio_write64(volatile void *reg, u64 value)
{
	__atomic_store_n(static_cast<volatile u64 *>(reg), value, __ATOMIC_RELEASE);
}

} // namespace usdma
