/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files: reads into and writes from device, host or unregistered memory, in the order of a stream.
 *
 *	fd = open("weights.bin", O_RDONLY);
 *	usdma_file_import(dev, fd, USDMA_FILE_AUTO, &file);
 *	usdma_file_read(stream, mem, file, 0, size, &moved);
 *	usdma_copy(stream, …);                (sees the data)
 *	err = usdma_stream_sync(stream, -1);  (an error of the file too)
 *
 * The rules of <usdma/usdma.h> hold here too, and these:
 *
 * - An operation on a stream returns when it is queued, for memory of any class. Its memory and *moved belong to it
 *   until it has ended: it is complete, has failed, or its stream was aborted or destroyed. Memory that is freed
 *   before gives -EFAULT.
 * - A read accesses the disk from the call on, unless a write to the file that was queued before has not ended, and
 *   the memory when the stream's earlier work has ended. A write reads its memory then. Later work of the stream
 *   starts when the operation has ended.
 * - *moved (if not NULL) is written before later work starts: the bytes of the operation that were moved, from its
 *   first one on. A read that meets the end of the file is a success with fewer bytes than len. The other bytes of
 *   its memory stay as they were; of a read that fails or is cancelled, up to 16 MiB behind *moved may have bytes of
 *   the file.
 * - A failure of the disk, or of the copy, is an error of the stream: usdma_stream_sync returns it, with the file's
 *   offset in the text. -ETIME: the disk did nothing for USDMA_HANG_MS, or reported a time-out (-ETIMEDOUT is left to
 *   calls that wait: not yet). After a failed write, bytes beyond *moved may have reached the file.
 * - usdma_stream_abort, the loss of the device and usdma_close cancel operations: no memory of the program is
 *   accessed after the call or the wait has returned. What was passed to the disk before may still reach the file.
 * - A file is not locked: if others write to it or truncate it meanwhile, a read sees old or new bytes, or its end,
 *   behind which its memory may have bytes that the file had.
 */
#ifndef USDMA_FILE_H
#define USDMA_FILE_H

#include <usdma/usdma.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct usdma_file usdma_file;

enum usdma_file_flags {
	USDMA_FILE_AUTO = 0,     /* chooses for each operation; direct if fd has O_DIRECT */
	USDMA_FILE_BUFFERED = 1, /* through the page cache */
	USDMA_FILE_DIRECT = 2    /* past the page cache, except for unaligned first and last bytes */
};

/*
 * Makes a regular file or a block device available to the streams of dev. The descriptor is duplicated: the caller may
 * close its own. flags: enum usdma_file_flags. -EBADF also: fd is not open; -EISDIR: a directory; -ESPIPE: a pipe, a
 * socket or another file without offsets; -EOPNOTSUPP: USDMA_FILE_DIRECT, and the file has no direct access; -EINVAL:
 * flags; -EMFILE, -ENFILE; or the error of opening the file once more, with or without O_DIRECT.
 */
USDMA_API int usdma_file_import(usdma_device *dev, int fd, unsigned flags, usdma_file **out);
/*
 * Invalidates the handle at once. Operations in progress complete normally. Then descriptors are closed, by which the
 * process loses its record locks of the file (F_SETLK of fcntl(2)), as by each close(2); not those of F_OFD_SETLK.
 */
USDMA_API int usdma_file_close(usdma_file *file);

/*
 * Reads len bytes at offset of the file into dst. Returns at once. len 0 does nothing. -EACCES: the file was not opened
 * for reading; -EOVERFLOW: offset + len exceeds INT64_MAX; -EXDEV: the file was imported for another device than the
 * stream's; -EFAULT: as usdma_copy; -ECANCELED: the stream was aborted; -ENOMEM, -EAGAIN: no memory, or no thread.
 */
USDMA_API int usdma_file_read(usdma_stream *stream, void *dst, usdma_file *file, uint64_t offset, size_t len,
			      size_t *moved);
/*
 * Writes len bytes at src to the file at offset; they are in the page cache, or on the disk with direct access, when
 * the operation has ended. Returns at once. Errors as usdma_file_read. -EACCES also: the file was opened with O_APPEND.
 */
USDMA_API int usdma_file_write(usdma_stream *stream, usdma_file *file, uint64_t offset, const void *src, size_t len,
			       size_t *moved);
/*
 * Has the disk store what was written to the file before, as fdatasync(2) does, when the stream's earlier work has
 * ended, however long it takes. Returns at once. -EXDEV, -ECANCELED, -ENOMEM, -EAGAIN as usdma_file_read.
 */
USDMA_API int usdma_file_sync(usdma_stream *stream, usdma_file *file);

enum usdma_file_kind { USDMA_FILE_READ = 0, USDMA_FILE_WRITE = 1 };
struct usdma_file_item {
	usdma_file *file;
	void *mem; /* what is read into; or what is written, which is not changed */
	uint64_t offset, len;
	size_t *moved;     /* or NULL */
	int *error;        /* or NULL: 0 or -errno of this item */
	uint32_t kind;     /* enum usdma_file_kind */
	uint32_t reserved; /* 0 */
};
/*
 * n reads and writes at one position of the stream, in no order among each other: their memory must not overlap, nor
 * what they write in files. The array itself may be changed after the call. All items are checked first: with an error
 * nothing was started, no *moved and *error is written, and the text names the item. Later work starts when all
 * have ended. A failure of one does not stop the others: each has its *moved and *error, *done (if not NULL) is the
 * number of items that have succeeded, and the stream's error is that of the first failed one in the array. Short
 * writes behind each other in the array and in a file share a request: if the disk does not answer, they fail with
 * -ETIME together. Returns at once. Errors as usdma_file_read and usdma_file_write; -EINVAL also: kind, reserved.
 */
USDMA_API int usdma_file_batch(usdma_stream *stream, const struct usdma_file_item *items, size_t n, size_t *done);

/*
 * Without a stream: return when the bytes were moved, or with the error; do not wait for streams. On an error *moved
 * is the number of bytes that were moved before. -ETIMEDOUT: not done within timeout_ms, and cancelled; the memory is
 * not accessed any more. -EBADF also: the device for which the file was imported was closed. Other errors as
 * usdma_file_read and usdma_file_write, and those of the disk.
 */
USDMA_API int usdma_file_read_sync(void *dst, usdma_file *file, uint64_t offset, size_t len, size_t *moved,
				   int timeout_ms);
USDMA_API int usdma_file_write_sync(usdma_file *file, uint64_t offset, const void *src, size_t len, size_t *moved,
				    int timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
