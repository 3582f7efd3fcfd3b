/* SPDX-License-Identifier: BSD-3-Clause */
/* Files whose content is moved in the order of a stream. Errors: -errno with error_text(). */
#pragma once

#include "lib/core/stream/stream.h"

#pragma GCC visibility push(default)
namespace usdma::core {

struct file;

enum class file_access : u8 { automatic, buffered, direct };
enum class file_op : u8 { read, write, sync };

/* An operation, by its arguments. */
struct file_request {
	file_op op;
	file *f;
	void *mem;
	u64 offset, len;
	size_t *moved;        /* or null */
	int *error = nullptr; /* 0 or -errno */
};

/* fd is duplicated. */
int file_import(device *dev, int fd, file_access access, void **out);
/* -EBADF; -EPERM. Operations in progress hold the file. */
int file_close(const void *handle);
/* Takes a reference, dropped by file_leave(); nullptr: invalid handle. */
file *file_enter(const void *handle);
void file_leave(file *f);

/* Queues the operation; a failure of its work is the stream's error. */
int file_submit(stream *s, const file_request &r);
/* The i-th one, with a reference of its file; 0, or -errno: it is invalid. */
using file_requests = int (*)(const void *arg, size_t i, file_request *out);
/* n operations, not ordered among each other, or none. *done, or null: how many have succeeded, when all have ended. */
int file_submit_all(stream *s, size_t n, file_requests request, const void *arg, size_t *done);
/* Without a stream; -ETIMEDOUT: cancelled, the memory is not accessed any more. */
int file_run(const file_request &r, deadline until);

} // namespace usdma::core
#pragma GCC visibility pop
