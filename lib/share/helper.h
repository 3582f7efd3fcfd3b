/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process usdma-net of this program, which reaches memory of other machines (helper_channel.h, docs/hosts.md). It
 * is started when it is first needed, and once more when it has ended: what it had opened and offered is lost then.
 */
#pragma once

#include "driver/base/clock.h"
#include "driver/base/unique_fd.h"
#include "lib/share/helper_channel.h"

#pragma GCC visibility push(default)

namespace usdma::core {

struct helper;

/* The setting net is given. */
bool net_is_on();
/*
 * With a reference. -EOPNOTSUPP: the setting net is empty. -ENOPKG: it is not installed. -EINVAL: a setting is wrong.
 * -EIO: it does not start.
 */
int helper_get(helper **out);
void helper_ref(helper *h);
void helper_put(helper *h);
const net_address &helper_address(const helper *h);
/* From 1 on; each one that was started has its own. */
u64 helper_number(const helper *h);

/* Offers memory of a file to other machines, under a key; not open: they hear only that it is not for them. */
int helper_offer(helper *h, const char *key, int fd, u64 offset, u64 size, bool open, u64 *local = nullptr);
void helper_withdraw(const char *key);

/* Opens memory by its key. -ENOENT: no such memory there, or no one can be reached; -EACCES: it is not for this one. */
int helper_open(helper *h, const u8 host[16], const net_address &at, const char *key, u64 *id, u64 *size);
void helper_close(helper *h, u64 id);

/* ---- memory that peers write, and words that say so ------------------------------------------------------ */

/* In memory that this process has offered (helper_offer() gives its number). */
struct helper_range {
	u64 local, offset;
};
/*
 * As helper_open(). lost: where -errno is stored, as 8 bytes, when the connection to the memory is lost. From the first
 * call on the bell of this process (bell.h) is rung after each word that a peer sets, and after a loss.
 */
int helper_open_noted(helper *h, const u8 host[16], const net_address &at, const char *key, const helper_range &lost,
		      u64 *id, u64 *size);
/*
 * Data of an own offer to opened memory, 1 MiB at most, then 1 to the word at signal there. The first 8 bytes of the
 * own offer count what has arrived, or cannot any more. Does not wait: -EAGAIN: not now.
 */
int helper_write(helper *h, u64 id, u64 offset, const helper_range &from, u64 length, u64 signal);

/* ---- connections between programs, whose helpers have proved that they have the key ------------------------ */

/* Those to the name come through the socket, until it is closed or the name is withdrawn. */
int helper_listen(helper *h, const char *name, unique_fd *out);
/* -EAGAIN: there is none now. -ECONNRESET: none will come. */
int helper_accept(int socket, unique_fd *out);
/* port 0: any of the range. -ENOENT: no program there waits for it. Others: of the connection. */
int helper_dial(helper *h, const net_address &at, const char *name, unique_fd *out);

/* ---- requests: put, get, fill ------------------------------------------------------------------------ */

/* A slot for one that has `held` already; -1: none is free for it now. */
int helper_take(helper *h, unsigned held);
/* Its part of the memory. */
u8 *helper_memory_of(helper *h, int slot);
/* Gives a slot back, before its request was posted or after its end. */
void helper_give(helper *h, int slot);
/* Of a request that was posted and is not waited for: its slot is free when it has ended. id: of memory that it writes.
 */
void helper_leave(helper *h, int slot, u64 id);
/* No request that was left writes the memory. */
bool helper_is_clear(helper *h, u64 id);
int helper_post(helper *h, int slot, helper_op op, u64 id, u64 offset, u64 length, u64 pattern, u32 pattern_size);
bool helper_is_done(const helper *h, int slot);
/* The result of a request that is done. */
int helper_result(const helper *h, int slot);

/* Wakes those that wait. */
void helper_ring(helper *h);
/* How often something has changed: read before the states are. */
u32 helper_rings(const helper *h);

/* A request has found that it has ended, or a check. */
bool helper_is_over(const helper *h);
/* For a wait: when the helper has last shown that it runs. */
struct helper_pulse {
	u32 beat = 0;
	u64 since = 0;
};
/* -ECONNRESET: the helper has ended. -ENOLINK: it does not run (net_lost_ms). */
int helper_check(helper *h, helper_pulse *pulse);
/*
 * Sleeps until something has changed since, for 100 ms at most. -ETIMEDOUT: the time has passed. -ECONNRESET: the
 * helper has ended. -ENOLINK: it does not run (net_lost_ms).
 */
int helper_wait(helper *h, u32 rings, helper_pulse *pulse, deadline until);

} // namespace usdma::core

#pragma GCC visibility pop
