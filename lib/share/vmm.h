/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual memory management: ranges of device addresses, physical memory, and mappings of physical memory in ranges. */
#pragma once

#include "lib/core/device/device.h"
#include "lib/share/fabric.h"
#include "lib/share/share.h"

#pragma GCC visibility push(default) /* each front end is a library of its own */

namespace usdma::core {

inline constexpr u64 vmm_grain = 2 * MiB;
inline constexpr u64 vmm_limit = u64(1) << 48; /* bytes of a reservation: a process has fewer addresses */

struct physical;

/*
 * size is rounded up to the grain; align 0 or a power of two; expect 0 or the requested address. -ENOMEM,
 * -EEXIST, -EINVAL.
 */
int vmm_reserve(u64 size, u64 align, u64 expect, u64 *va);
/* -ENOENT: not the start of a reservation. -EBUSY: something is mapped there. */
int vmm_release(u64 va);

/* Device memory; size: a multiple of the grain. */
int physical_device(device *dev, u64 size, u64 align, physical **out);
/* Pinned host memory for the process's engines; holds a reference to dev. */
int physical_host(device *dev, u64 size, int node, physical **out);
/* Takes a reference, dropped by physical_leave(); nullptr: invalid handle. */
physical *physical_enter(const void *handle);
void physical_leave(physical *p);
void *physical_handle(const physical *p);
/* Drops a handle; the memory stays while it is mapped. */
void physical_put(physical *p);
bool physical_on_host(const physical *p);
/* Storage for the front end. */
void *physical_user(physical *p, size_t size);

/* -EINVAL: size is not that of p, or va not aligned. -ENOENT: not reserved. -EEXIST: mapped already. */
int vmm_map(u64 va, u64 size, physical *p, bool access);
/* -ENOENT: not the start of a mapping. */
int vmm_unmap(u64 va);
int vmm_set_access(u64 va, u64 size);
int vmm_get_access(u64 va, bool *granted, bool *host);
/* Adds a handle of the memory mapped at va. */
int vmm_retain(u64 va, physical **out);

/* Exports a physical once, as a number for other processes; -EEXIST, -EOPNOTSUPP: its memory has no file. */
int physical_export(physical *p, bool open, u64 *number);
int physical_allow(u64 number, const s32 *pids, size_t n);
/* All processes of the user. -ENOENT: this process exports nothing under the number. */
int physical_allow_all(u64 number);
int physical_import(u64 number, device *dev, physical **out);
/* The same by a FABRIC handle. Each import has its own handle and mapping, in the exporting process, too. */
int physical_export_fabric(physical *p, bool open, fabric_handle *out);
/*
 * -EINVAL: not a FABRIC handle, or no process is named. -EACCES: exported by another process. -ENOENT: not exported
 * (any more). -EPERM: any process may import it already.
 */
int physical_allow_fabric(const fabric_handle *h, const s32 *pids, size_t n);
/* -EINVAL: not a FABRIC handle. -ENOENT: nothing is exported under it (any more). -EACCES, -EOPNOTSUPP: as by key. */
int physical_import_fabric(const fabric_handle *h, device *dev, physical **out);

/* ---- device memory shared by key -------------------------------------------------------------------- */

/* -EFAULT: not within one block of device memory. -EOPNOTSUPP: it has no file. */
int ipc_memory_export(const void *ptr, u64 size, bool open, char *key);
/* -ENOENT: no such key of this process. */
int ipc_memory_allow(const char *key, const s32 *pids, size_t n);
/* Maps it as device memory of dev; imports of a key for one device are counted, another device gets its own mapping. */
int ipc_memory_import(device *dev, const char *key, void **out);
/*
 * Closes the import of this key for the device in the slot; without one, the export; without that, the import for
 * another device. -ENOENT.
 */
int ipc_memory_close(const char *key, unsigned slot);
int ipc_memory_close_at(const void *ptr);
bool ipc_memory_known(const char *key);

} // namespace usdma::core

#pragma GCC visibility pop
