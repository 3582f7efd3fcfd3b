/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects shared between processes of one user by a printable key: a page of words, and optionally a data file.
 * The key names a descriptor of the exporter, which an importer opens through /proc/PID/fd, where the kernel
 * checks permissions. So both must be in one pid namespace, which the key includes. The page lists the
 * processes that may import; its contents are untrusted and validated.
 */
#pragma once

#include "driver/base/types.h"
#include "driver/base/unique_fd.h"
#include "lib/share/bell.h"
#include "lib/core/stream/listen.h"

#pragma GCC visibility push(default) /* each front end is a library of its own */

namespace usdma::core {

enum class share_kind : u32 { memory = 1, notify = 2, event = 3, physical = 4, fabric = 5 };

inline constexpr size_t share_key_len = 64; /* without the NUL */
inline constexpr size_t share_pids = 256;
inline constexpr size_t share_bells = 48;

struct share_page {
	u64 magic;
	u64 secret;
	u32 kind;
	u32 open;   /* any process of the user may import it */
	u32 closed; /* closed by the exporter */
	u32 npids;
	s32 pids[share_pids];
	s32 data_fd;          /* the exporter's descriptor of the data file; -1: none */
	u32 flags;            /* from the exporter to the importer */
	u64 offset, size;     /* in the data file */
	u64 words[16];        /* payload: notifies and events */
	u64 owed[share_pids]; /* by participant (share_join()): the number that it has promised to reach */
	/* By participant: who waits for a change of the words. */
	bell_name bells[share_bells];
	u32 n_bells;    /* those behind have never waited */
	u32 unreported; /* a process that waited could not get a report */
};

struct stream;

/* Of a participant that waits, as this process knows it. */
struct opened_bell {
	u64 token = 0;
	bell *b = nullptr; /* null: it cannot be rung */
};

struct share {
	u32 refs = 1;
	bool mine = false;     /* exported by this process */
	bool pinned = false;   /* engines can access the page */
	bool retained = false; /* a lost one may still do so */
	share_page *page = nullptr;
	unique_fd fd, data; /* data: duplicate of the data file's descriptor */
	char key[share_key_len + 1] = {};
	/* Copies that were validated: the page's own may change at any time. */
	u32 flags = 0;
	u64 offset = 0, size = 0;
	int index = -1;  /* in owed and bells; -1: not a participant */
	u64 listens = 0; /* waits of this process for its words */
	opened_bell opened[share_bells];
	pass_hook later; /* share_report_later() … */
	u32 due = 0;     /* … was called, atomic, as … */
	u32 hooked = 0;  /* … that the hook is in the list */
};

struct share_spec {
	share_kind kind;
	bool open;
	int data_fd = -1; /* duplicated */
	u64 offset = 0, size = 0;
	u32 flags = 0;
};

/* pin: engines need access to the page's words. */
int share_export(const share_spec &spec, bool pin, share **out);
/*
 * -EINVAL: no key, or of another kind. -ENOENT: not exported (any more). -EACCES: this process is not allowed.
 * -EOPNOTSUPP: another pid namespace, or no /proc of this one.
 */
int share_import(const char *key, share_kind kind, bool pin, share **out);
/* Import by a number, without the key's secret. */
u64 share_number(const share *s);
/* The number of a key's share; 0: not a key. */
u64 share_number_of(const char *key);
int share_import_number(u64 number, share_kind kind, share **out);
/* 0 in pids is skipped. -EINVAL: not exported by this process. -ENOSPC: too many. */
int share_allow(share *s, const s32 *pids, size_t n);
/* All processes of the user. -EINVAL: not exported by this process. */
int share_allow_all(share *s);
void share_ref(share *s);
/* Of a page that is still pinned the last one waits for work that uses it. */
void share_unref(share *s);
void share_unpin(share *s);
/*
 * Becomes a participant with an index in owed, held by a file lock that the kernel releases when the process,
 * and its children forked without exec, end for any reason. -ENOSPC: too many.
 */
int share_join(share *s);
/* False: no live participant has promised this number or a higher one. */
bool share_owed_by(const share *s, u64 number);
/*
 * A participant's waits for a change of the words begin and end. Called before the word is checked: from then on
 * share_report() of any process makes a pass of this one, and wakes its engines and bell_wait(). False: some process
 * cannot do that, so the word must be polled.
 */
bool share_listen(share *s);
void share_unlisten(share *s);
/* As share_listen() of a process that does already. */
bool share_is_reported(const share *s);
/* A word was changed: reports that to who waits. Makes system calls, not under a stream's lock; there … */
void share_report(share *s);
/* … it is reported by the next pass, or by the next call of share_report_now(). */
void share_report_later(share *s);
void share_report_now(share *s);
/* As share_report(), behind the present work of the stream. */
void share_report_behind(share *s, stream *by);
/* By the exporter: prevents further imports. Ordered before a query for locks of importers (memory/exports.h). */
void share_close(share *s);

} // namespace usdma::core

#pragma GCC visibility pop
