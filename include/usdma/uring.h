/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions of usdma streams in the caller's io_uring.
 *
 *	usdma_completion *c;
 *	usdma_completion_create(&c);
 *	…
 *	usdma_copy(stream, dst, src, len);
 *	sqe = io_uring_get_sqe(&ring);
 *	usdma_prep_completion(c, stream, sqe, user_data);
 *	io_uring_submit(&ring);
 *	…                                     (a CQE with user_data comes when the copy is done)
 *	err = usdma_completion_finish(c);
 *
 * The rules of <usdma/usdma.h> hold here too.  Neither liburing nor the kernel's
 * header is needed to include this file.
 */
#ifndef USDMA_URING_H
#define USDMA_URING_H

#include <usdma/usdma.h>

#ifdef __cplusplus
extern "C" {
#endif

struct io_uring_sqe;

/* Tracks one completion at a time; reusable any number of times. Holds one descriptor. Of one stream any number can be
 * outstanding. */
typedef struct usdma_completion usdma_completion;

/* -EMFILE, -ENFILE, -ENOMEM. */
USDMA_API int usdma_completion_create(usdma_completion **out);
/* -EBUSY: prepared and not finished; its CQE may be outstanding, and the kernel would write to freed memory. */
USDMA_API int usdma_completion_destroy(usdma_completion *completion);

/*
 * Fills the SQE (a read) so that its CQE, with this user_data, arrives when all work submitted to the stream
 * before has ended. The caller submits it, alone or with others; the CQE also arrives when the work ended earlier.
 * res of the CQE: 8, or a negative errno of the ring (-ECANCELED: cancelled). On an error the SQE is not modified.
 * -EBUSY: the completion is outstanding already. Only one thread at a time may use a completion.
 */
USDMA_API int usdma_prep_completion(usdma_completion *completion, usdma_stream *stream, struct io_uring_sqe *sqe,
				    uint64_t user_data);
/*
 * The same for programs that wait by poll, epoll or an event loop: *fd becomes readable when all work submitted to the
 * stream before has ended. It belongs to the completion, and is not to be read: usdma_completion_finish does that.
 * Errors as usdma_prep_completion.
 */
USDMA_API int usdma_completion_start(usdma_completion *completion, usdma_stream *stream, int *fd);
/*
 * Call it after the CQE has arrived, or *fd is readable: makes the completion available for the next use and returns
 * the result of its work: 0, or the first failure since the completion before it (usdma_stream_sync has the rules), in
 * any order of completions, also when the stream was destroyed. -ENODEV: the device was lost before the work had ended;
 * -ECANCELED: it was dropped, as the stream was aborted or its device closed. -EAGAIN: the work has not ended. -EINVAL:
 * was not prepared. It is needed after a CQE with an error (-ECANCELED), too; it then returns -EAGAIN until the work
 * has ended.
 */
USDMA_API int usdma_completion_finish(usdma_completion *completion);
/*
 * Before usdma_completion_finish: takes the oldest failure of the completion's work, one with each call; finish returns
 * the first of those that were left. Returns 0 also when there is none: info->error is 0 then. Errors as
 * usdma_completion_finish, of which -EAGAIN and -EINVAL.
 */
USDMA_API int usdma_completion_take_error(usdma_completion *completion, struct usdma_error_info *info);

#ifdef __cplusplus
}
#endif

#endif
