/* SPDX-License-Identifier: BSD-3-Clause */
/* A driver's own memory that its device accesses: rings, records, bounce pages. */
#pragma once

#include "driver/base/mapping.h"
#include "driver/base/unique_fd.h"
#include "driver/vfio/device.h"

#pragma GCC visibility push(default)
namespace usdma::dma {

/*
 * In a memfd, which a server in another process can map; a child does not inherit what the device writes. node: of the
 * device; -1: any.
 */
int own_memory_make(const char *name, u64 size, int node, unique_fd *file, mapping *out);
/*
 * Maps the area at a free address between 1 GiB and 4 GiB, which the memory registry leaves to engines: another device
 * in the same address space may have memory there. Sets area->iova. *next: where the search begins, 0 at first.
 */
int own_memory_map(vfio::device &dev, vfio::dma_area *area, u64 *next);
/* The device may map these addresses. */
bool is_usable(const vfio::address_limits &l, u64 iova, u64 size);

} // namespace usdma::dma
#pragma GCC visibility pop
