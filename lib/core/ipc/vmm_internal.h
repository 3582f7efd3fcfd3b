/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by vmm_map.cpp and vmm_share.cpp. */
#pragma once

#include "lib/core/ipc/foreign.h"
#include "lib/core/memory/memory.h"
#include "lib/core/ipc/vmm.h"

#include <map>
#include <mutex>

namespace usdma::core {

inline constexpr size_t max_physicals = 65536;

struct alignas(64) physical {
	u64 alive = 0;         /* the handle, 0 if none is left */
	u32 refs = 1;          /* handles and mappings; atomic */
	u32 handles = 1;       /* under the lock */
	bool host = false;     /* host memory; else of device class */
	bool carved = false;   /* allocated from dev's memory, at offset */
	device *dev = nullptr; /* a reference */
	u64 size = 0, offset = 0;
	unique_fd fd;       /* own host memory */
	foreign_memory mem; /* host memory, or another process's memory */
	share *shared = nullptr;
	alignas(8) u8 user[64] = {};
};

int physical_new(device *dev, u64 size, physical **out);
void physical_ready(physical *p);
/* Stops its export. */
void physical_unshare(physical *p);
/* Addresses for [0, size), until window_give(). */
int vmm_take_addresses(u64 size, u64 align, u64 expect, u64 *va);

} // namespace usdma::core
