/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream-ordered device memory.  A block that a stream frees may be used again
 * at once by the same stream, and by others once that stream has come so far.
 */
#pragma once

#include "lib/core/stream/stream.h"

#pragma GCC visibility push(default) /* the front ends are libraries of their own */

namespace usdma::core {

struct pool;

struct pool_stats {
	u64 reserved, reserved_high; /* bytes that the pool holds */
	u64 used, used_high;         /* of them in use */
};

/* max: bytes, 0 no limit. */
int pool_create(device *dev, u64 max, pool **out);
/* With a reference, until pool_leave; nullptr: no handle of a pool that is there. */
pool *pool_enter(const void *handle);
void pool_leave(pool *p);
void *pool_handle(const pool *p);
/* Blocks in use live on until they are freed.  False: no handle of a pool that is there. */
bool pool_destroy(const void *handle);
int pool_alloc(pool *p, u64 size, stream *s, void **out); /* -ENOMEM */
/* -ENOENT: not a live block of a pool. */
int pool_free(void *ptr, stream *s);
/* Gives unused blocks back until at most keep bytes are held. */
void pool_trim(pool *p, u64 keep);
/* How much of what is unused it keeps at a free. */
void pool_set_threshold(pool *p, u64 bytes);
u64 pool_threshold(pool *p);
pool_stats pool_get_stats(pool *p);
void pool_reset_high(pool *p, bool reserved, bool used);
/* The front end's words. */
u64 *pool_user(pool *p);

} // namespace usdma::core

#pragma GCC visibility pop
