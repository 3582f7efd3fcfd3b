/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client may truncate a file that it mapped for the device; an access beyond its end then raises SIGBUS in the
 * server. The guard replaces the whole mapping by anonymous memory and marks it dead: the descriptor that hit it
 * fails, and so does every later one.
 */
#pragma once

#include "driver/base/barrier.h"
#include "driver/base/range_map.h"

#pragma GCC visibility push(default)
namespace usdma::sim {

/* A mapping of the client's memory; base and size are those in this process. Type-stable while engines run. */
struct guarded : range_entry {
	u32 dead = 0; /* by load_acquire */
};

/* Installs a process-wide SIGBUS handler: for usdma-sim, not for a library inside another program. */
int guard_bus_errors();

/* Guards a mapping: added after mmap, removed before munmap. Any thread. */
int guard_add(guarded *g);
void guard_remove(guarded *g);

/* Number of dead mappings in this process. Incremented before the access that raised SIGBUS returns. */
extern constinit u32 bus_deaths; /* by load_acquire */

inline bool is_dead(const guarded *g)
{
	return g && load_acquire(&g->dead);
}

} // namespace usdma::sim
#pragma GCC visibility pop
