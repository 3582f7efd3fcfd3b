/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How operations run. A group of them, of one call, has two owners: its front (the gate in its stream, or the caller
 * of file_run()), and the file thread, which does all of its work and frees it:
 *
 *	front                                       file thread
 *	the gate is reached: sets reached     →     may access the memory of the program
 *	                                      ←     writes the results, sets ended
 *	opens the gate, or drops it: front_left →   frees it, once no piece is at the disk
 *
 * A front that leaves before the end cancels the operations. Abort and wait for a lost device wait until the thread
 * does not access the program's memory any more (stream_outside_wait()).
 *
 * The data pass through pieces: staging memory that engines and io_uring have mapped, one request to the disk each.
 */
#pragma once

#include "driver/base/unique_fd.h"
#include "lib/core/file/file.h"

#include <sys/types.h>

namespace usdma::core {

struct file_group;
struct operation;
struct piece_block;

struct alignas(64) file {
	u64 alive = 0; /* the handle */
	u32 refs = 1;
	unsigned slot = 0;
	unique_fd fd, direct; /* direct: with O_DIRECT; may be none */
	u32 group = 0;        /* of files, for their unfinished writes */
	u64 align = 0;        /* of offsets and lengths of direct requests */
	bool prefers_direct = false;
	bool in_memory = false;  /* its file system has no disk */
	u32 no_cached = 0;       /* atomic: it refuses reads that do not wait */
	bool may_choose = false; /* direct or not, by operation */
	bool reads = false, writes = false;
};

/* closes: by a caller's thread, which may wait for the file system. */
void file_unref(file *f, bool closes);

/*
 * Writes that have not ended: while there are any, a read of the same file does not overtake them. By groups of files:
 * one file may be imported twice.
 */
void file_writes_add(const file *f, u32 n);
bool file_has_writes(const file *f);

struct piece {
	operation *op = nullptr;
	piece *next = nullptr; /* of its operation, or of the free ones */
	piece *next_queued = nullptr;
	piece_block *block = nullptr; /* none: a sync */
	unsigned carried = 0;         /* next items of the group, whose bytes it holds too */
	u8 *mem = nullptr;
	u64 at = 0; /* offset in the operation */
	u64 want = 0, done = 0;
	int res = 0; /* of the last request */
	int err = 0;
	bool direct = false;
	bool at_disk = false;
};

enum reached_state : u32 { not_reached, is_reached, is_entered };
enum front_state : u32 { front_here, front_cancels, front_left };

/* unknown: not determined. */
enum class read_source : u8 { unknown, cache, disk };

struct operation {
	file_group *g = nullptr;
	file_request r{};
	int err = 0; /* a positive errno */
	u64 landed = 0;
	read_source from = read_source::unknown;
	bool direct = false, reads_ahead = false;
	bool finished = false;
	bool alone = false;           /* is not carried again */
	operation *carrier = nullptr; /* an item before it, whose piece has its bytes */
	u64 started = 0;              /* bytes that have a piece, or had none and landed */
	u64 progress_ns = 0;
	unsigned at_disk = 0; /* pieces */
	piece *first = nullptr, *last = nullptr;
	piece sync_piece;
};

struct file_group {
	file_group *next = nullptr;
	stream *s = nullptr;       /* a reference; null: synchronous */
	size_t *done = nullptr;    /* or null */
	u32 reached = not_reached; /* set by the front, and entered by the thread; atomic */
	u32 front = front_here;
	u32 ended = 0;                     /* set by the thread, after the next two; futex */
	const operation *failed = nullptr; /* the first one in the list */
	char text[200] = "";               /* of an error of a copy */
	/* The thread's: */
	bool entered = false;
	bool starved = false; /* in this step: no piece is free */
	u64 copied = 0;       /* in this step, from the page cache */
	size_t begin = 0;     /* those before have finished */
	size_t reach = 0;     /* those from here on never had a piece */
	size_t left = 0, succeeded = 0;
	unsigned at_disk = 0, held = 0; /* pieces */
	size_t n = 0;
	operation *items = nullptr;
};

/* ---- submit.cpp ------------------------------------------------------------------------------------------ */

/* closes: as file_unref(). */
void file_group_free(file_group *g, bool closes);

/* ---- thread.cpp ---------------------------------------------------------------------------------------- */

/* Starts the thread at first use. */
int file_thread_start();
void file_thread_add(file_group *g);
void file_thread_wake();

/* ---- steps.cpp: the work; by the thread -------------------------------------------------------------------- */

/* One pass over all groups: what holds for many of them is found out once. Bits by slot. */
struct file_pass {
	u64 polled_ns; /* disk_take() was called */
	u64 checked = 0, lost = 0, closed = 0;
	u64 full = 0; /* there is no memory to read ahead */
	bool hung = false;
};
static_assert(max_devices <= 64);

/* True: something was done. */
bool file_step(file_group *g, file_pass *pass);
/* The thread may free it. */
bool file_is_over(const file_group *g);
/* Handles the result of a piece's request. */
void file_piece_done(piece *p);
/* The device is not open any more. */
int file_fail_closed(const operation *op);

/* ---- cached.cpp: reads from the page cache ------------------------------------------------------------------ */

/* What is left comes from the disk: directly or not. */
void file_from_disk(operation *op);
/* Before the stream has reached it: what is in memory is not read ahead. */
void file_choose_ahead(operation *op);
bool file_reads_cached(const file *f);
/* The first part of what is left is not in the page cache, and the disk is read without it. */
bool file_begins_on_disk(const file_request &r, u64 landed);
/*
 * Bytes that were read, of a first part; 0: the end of the file; -errno: by the disk, or by a copy. Stops soon after
 * the deadline.
 */
ssize_t file_read_cached(file *f, void *mem, u64 offset, u64 len, deadline until);

/* ---- pieces.cpp: staging memory; by the thread --------------------------------------------------------------- */

/* The disk of a virtual machine needs some MiB in flight. */
inline constexpr u64 piece_size = MiB;
inline constexpr unsigned pieces_per_block = 16;

/* nullptr with *err == 0: none is free. */
piece *piece_take(operation *op, int *err);
void piece_put(piece *p);
/* The operation's pieces do not count as read ahead any more. */
void pieces_reached(const operation *op);
/* Frees unused blocks. False: there are none. */
bool pieces_trim();
/* Where the piece's memory is registered with the ring; -1: it is not. */
int piece_index(const piece *p);

/* ---- disk.cpp: requests; by the thread ------------------------------------------------------------------------- */

/* wake_fd: an eventfd that a completion raises. Never fails: without io_uring, threads make the calls. */
int disk_open(int wake_fd);
/* False: too many requests are in flight. */
bool disk_start(piece *p);
/* Passes what was started to the disk. */
void disk_flush();
/* Requests that have ended; each has its res. */
piece *disk_take();
void disk_cancel(const piece *p);
/* The ring's table of staging memory; -1: none is left, or it is refused. */
int disk_register(void *mem, u64 size);
void disk_unregister(int index);

} // namespace usdma::core
