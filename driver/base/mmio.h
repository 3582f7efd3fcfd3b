/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Access to mapped registers, little-endian as in PCI. Each access is one bus access of its width, neither
 * merged nor split nor reordered by the compiler against other accesses here.
 */
#pragma once

#include "driver/base/barrier.h"

namespace usdma {

/*
 * The barriers of the kernel's writel() and readl(). Release and acquire order the accesses of CPUs; a device is beyond
 * their shareability domain on arm64. On x86 they suffice.
 */
inline void mmio_before_write()
{
#if defined(__aarch64__)
	asm volatile("dmb oshst" ::: "memory");
#endif
}

inline void mmio_after_read()
{
#if defined(__aarch64__)
	asm volatile("dmb oshld" ::: "memory");
#endif
}

inline u8 mmio_read8(const volatile void *reg)
{
	const u8 value = load_acquire(static_cast<const volatile u8 *>(reg));

	mmio_after_read();
	return value;
}

inline u32 mmio_read32(const volatile void *reg)
{
	const u32 value = load_acquire(static_cast<const volatile u32 *>(reg));

	mmio_after_read();
	return value;
}

inline u64 mmio_read64(const volatile void *reg)
{
	const u64 value = load_acquire(static_cast<const volatile u64 *>(reg));

	mmio_after_read();
	return value;
}

/* Release: earlier stores to host memory are visible to the device before the register write. */
inline void mmio_write8(volatile void *reg, u8 value)
{
	mmio_before_write();
	store_release(static_cast<volatile u8 *>(reg), value);
}

inline void mmio_write16(volatile void *reg, u16 value)
{
	mmio_before_write();
	store_release(static_cast<volatile u16 *>(reg), value);
}

inline void mmio_write32(volatile void *reg, u32 value)
{
	mmio_before_write();
	store_release(static_cast<volatile u32 *>(reg), value);
}

inline void mmio_write64(volatile void *reg, u64 value)
{
	mmio_before_write();
	store_release(static_cast<volatile u64 *>(reg), value);
}

} // namespace usdma
