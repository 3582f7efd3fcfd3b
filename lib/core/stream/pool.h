/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream-ordered device memory. A block freed by a stream is reusable at once by that stream, and by others
 * once that stream has reached the free.
 */
#pragma once

#include "lib/core/stream/stream.h"

#pragma GCC visibility push(default) /* front ends are separate libraries */

namespace usdma::core {

struct pool;

struct pool_stats {
	u64 reserved, reserved_high; /* bytes that the pool holds */
	u64 used, used_high;         /* bytes of it in use */
};

/* max: bytes; 0: no limit. */
int pool_create(device *dev, u64 max, pool **out);
/* Takes a reference, dropped by pool_leave(); nullptr: invalid handle. */
pool *pool_enter(const void *handle);
void pool_leave(pool *p);
void *pool_handle(const pool *p);
/* Blocks in use stay valid until they are freed. False: invalid handle. */
bool pool_destroy(const void *handle);
int pool_alloc(pool *p, u64 size, stream *s, void **out); /* -ENOMEM */
/* -ENOENT: not a live block of a pool. */
int pool_free(void *ptr, stream *s);
/* Returns idle blocks to the device until at most keep bytes are reserved. */
void pool_trim(pool *p, u64 keep);
/* Most idle bytes retained at a free. */
void pool_set_threshold(pool *p, u64 bytes);
u64 pool_threshold(pool *p);
pool_stats pool_get_stats(pool *p);
void pool_reset_high(pool *p, bool reserved, bool used);
/* Words for the front end. */
u64 *pool_user(pool *p);

} // namespace usdma::core

#pragma GCC visibility pop
