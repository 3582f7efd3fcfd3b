/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How one process reports to another that a word in a page which they share has changed. Each process that waits for
 * that has a bell: a page in a memfd, with a futex on which a thread of it sleeps. It writes the bell's name into the
 * shared page; who changes a word there opens the bell through /proc/PID/fd, as an importer opens the shared page
 * itself, and keeps the mapping only, one for each process.
 */
#pragma once

#include "driver/base/types.h"
#include "driver/base/unique_fd.h"

#pragma GCC visibility push(default) /* for lib/acl */
namespace usdma::core {

/* In a shared page. */
struct bell_name {
	u32 pid, fd;
	u64 token; /* random; 0: none, the participant does not wait; atomic */
};

/* Another process's, or this one's. */
struct bell;

/*
 * The name of this process's bell, made at the first call. From then on each ring wakes the engines that are in a WAIT,
 * and makes a pass (stream/listen.h). -errno: there is none.
 */
int bell_own(bell_name *out);
/*
 * Two calls for one bell return the same one. -ENOENT: the process has ended, or the name is none. Others: it cannot be
 * opened by this process.
 */
int bell_open(const bell_name &name, bell **out);
void bell_close(bell *b);
void bell_ring(const bell *b);

/* For threads of this process that wait for a ring: how often it was rung; 0 if there is no bell. */
u32 bell_rings();
/* Sleeps until it is not `seen`, or until abs_ns. */
void bell_wait(u32 seen, u64 abs_ns);

/*
 * A memfd of another process of the same user, below its /proc/PID/fd. Both numbers are untrusted: the file is checked
 * before it is opened.
 */
int peer_memory_open(unsigned pid, unsigned fd, unique_fd *out, u64 *size);

} // namespace usdma::core
#pragma GCC visibility pop
