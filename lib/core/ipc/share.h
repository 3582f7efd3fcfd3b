/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Things that processes of one user share under a printable key: a page of
 * words, and a file behind it.  The key names a file of the exporter, which an
 * importer opens through /proc/PID/fd: the kernel checks that it may.  So both
 * must be in one pid namespace, which the key names as well.  The page
 * says which processes the exporter wants; it is made of numbers that another
 * process wrote, and is believed only after a check.
 */
#pragma once

#include "driver/base/types.h"
#include "driver/base/unique_fd.h"

#pragma GCC visibility push(default) /* the front ends are libraries of their own */

namespace usdma::core {

enum class share_kind : u32 { memory = 1, notify = 2, event = 3, physical = 4 };

inline constexpr size_t share_key_len = 64; /* and a NUL */
inline constexpr size_t share_pids = 256;

struct share_page {
	u64 magic;
	u64 secret;
	u32 kind;
	u32 open;   /* any process of the user may import it */
	u32 closed; /* the exporter has ended it */
	u32 npids;
	s32 pids[share_pids];
	s32 data_fd;          /* the exporter's number of the file behind it; -1: none */
	u32 flags;            /* the exporter's, for the importer */
	u64 offset, size;     /* in that file */
	u64 words[16];        /* what it is all about: notifies and events */
	u64 owed[share_pids]; /* by each that takes part (share_join): the number that it has promised to reach */
};

struct share {
	u32 refs = 1;
	bool mine = false;   /* exported by this process */
	bool pinned = false; /* engines reach the page */
	share_page *page = nullptr;
	unique_fd fd, data; /* data: the exporter's duplicate, or the importer's */
	char key[share_key_len + 1] = {};
	/* As they were when they were checked: the page's own may change at any time. */
	u32 flags = 0;
	u64 offset = 0, size = 0;
	int place = -1; /* in owed; -1: takes no part */
};

struct share_spec {
	share_kind kind;
	bool open;
	int data_fd = -1; /* duplicated */
	u64 offset = 0, size = 0;
	u32 flags = 0;
};

/* pin: engines shall reach the page's words. */
int share_export(const share_spec &spec, bool pin, share **out);
/* -EINVAL: no key, or of another kind. -ENOENT: nobody exports it (any more). -EACCES: this process is not wanted.
 * -EOPNOTSUPP: another pid namespace, or no /proc of this one. */
int share_import(const char *key, share_kind kind, bool pin, share **out);
/* The same by a number, without the key's secret; not from the process itself (-EINVAL). */
u64 share_number(const share *s);
int share_import_number(u64 number, share_kind kind, share **out);
/* -EINVAL: not exported by this process. -ENOSPC: too many. */
int share_allow(share *s, const s32 *pids, size_t n);
void share_ref(share *s);
void share_unref(share *s);
/*
 * Takes part, with a place of its own in owed.  It is held by a lock that the kernel lets go when the process
 * ends, whatever ends it (and its children that were forked without exec).  -ENOSPC: too many.
 */
int share_join(share *s);
/* False: whoever promised this number, or one above it, has ended. */
bool share_owes(const share *s, u64 number);
/* By the exporter: nobody can import it from now on. */
void share_close(share *s);

} // namespace usdma::core

#pragma GCC visibility pop
