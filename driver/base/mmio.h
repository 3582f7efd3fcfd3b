/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Access to mapped registers, little-endian as in PCI. Each access is one bus access of its width, neither
 * merged nor split nor reordered by the compiler against other accesses here.
 */
#pragma once

#include "driver/base/barrier.h"

namespace usdma {

/* With the barriers of the kernel's readl() and writel(), which are dma_rmb() and dma_wmb(). */
inline u8 mmio_read8(const volatile void *reg)
{
	return load_device(static_cast<const volatile u8 *>(reg));
}

inline u32 mmio_read32(const volatile void *reg)
{
	return load_device(static_cast<const volatile u32 *>(reg));
}

inline u64 mmio_read64(const volatile void *reg)
{
	return load_device(static_cast<const volatile u64 *>(reg));
}

/* Release: earlier stores to host memory are visible to the device before the register write. */
inline void mmio_write8(volatile void *reg, u8 value)
{
	store_device(static_cast<volatile u8 *>(reg), value);
}

inline void mmio_write16(volatile void *reg, u16 value)
{
	store_device(static_cast<volatile u16 *>(reg), value);
}

inline void mmio_write32(volatile void *reg, u32 value)
{
	store_device(static_cast<volatile u32 *>(reg), value);
}

inline void mmio_write64(volatile void *reg, u64 value)
{
	store_device(static_cast<volatile u64 *>(reg), value);
}

} // namespace usdma
