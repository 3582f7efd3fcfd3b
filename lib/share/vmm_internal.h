/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by vmm_map.cpp and vmm_share.cpp. */
#pragma once

#include "lib/share/foreign.h"
#include "lib/core/memory/memory.h"
#include "lib/share/vmm.h"

#include <map>
#include <mutex>

namespace usdma::core {

struct helper;

inline constexpr size_t max_physicals = 65536;

/* Memory of another machine, until it is closed. */
struct remote_memory {
	helper *by = nullptr; /* with a reference */
	u64 id = 0;

	remote_memory() = default;
	remote_memory(const remote_memory &) = delete;
	remote_memory &operator=(const remote_memory &) = delete;
	~remote_memory();
};

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
	remote_memory remote;
	u64 offered_by = 0; /* helper_number(): to other machines; under the export lock */
	alignas(8) u8 user[64] = {};
};

int physical_new(device *dev, u64 size, physical **out);
void physical_ready(physical *p);
/* Stops its export. */
void physical_unshare(physical *p);
/* What is mapped at an address: *offset in it, *left bytes up to its end; with a reference. -ENOENT. */
int vmm_find(u64 va, physical **out, u64 *offset, u64 *left);
/* Addresses for [0, size), until window_give(). */
int vmm_take_addresses(u64 size, u64 align, u64 expect, u64 *va);

} // namespace usdma::core
