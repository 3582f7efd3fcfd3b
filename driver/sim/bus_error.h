/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client may shorten a file that it mapped for the device; touching what is
 * gone then raises SIGBUS in the server.  With the guard, the whole of what was
 * mapped there becomes memory of the server's own and is dead from then on: the
 * descriptor that met it fails, and so does every later one.
 */
#pragma once

#include "driver/base/barrier.h"
#include "driver/base/range_map.h"

namespace usdma::sim {

/* A mapping of the client's memory in this process; base and size are its own.  Type-stable while engines run. */
struct guarded : range_entry {
	u32 dead = 0; /* by load_acquire */
};

/* Takes SIGBUS over for the whole process: for usdma-sim, not for a library inside somebody's program. */
int guard_bus_errors();

/* From its mapping to its unmapping, both included.  Any thread. */
int guard_add(guarded *g);
void guard_remove(guarded *g);

/* How many mappings have died in this process.  Grows before the access that met it returns. */
extern constinit u32 bus_deaths; /* by load_acquire */

inline bool is_dead(const guarded *g)
{
	return g && load_acquire(&g->dead);
}

} // namespace usdma::sim
