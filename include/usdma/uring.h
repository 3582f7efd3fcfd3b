/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions of usdma streams in an io_uring of the caller's own.
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

/* One completion at a time on its way to a ring; reused any number of times. Holds one descriptor. */
typedef struct usdma_completion usdma_completion;

/* -EMFILE, -ENFILE, -ENOMEM. */
USDMA_API int usdma_completion_create(usdma_completion **out);
/* -EBUSY: prepared and not finished; its CQE may still be to come, and the kernel would write to freed memory. */
USDMA_API int usdma_completion_destroy(usdma_completion *completion);

/*
 * Fills the SQE (a read) so that its CQE, with this user_data, arrives when all
 * work submitted to the stream before has ended.  The caller submits it, alone
 * or with others; the CQE also arrives when the work ended before that.  res of
 * the CQE: 8, or a negative errno of the ring's own (-ECANCELED: cancelled).
 * On an error the SQE is untouched.  -EBUSY: the completion is on its way already.
 * One thread at a time for one completion.
 */
USDMA_API int usdma_prep_completion(usdma_completion *completion, usdma_stream *stream, struct io_uring_sqe *sqe,
				    uint64_t user_data);
/*
 * After the CQE came: makes the completion free for the next use and returns how
 * the work ended: 0, or the stream's pending error, which it takes as usdma_stream_sync does.
 * -EAGAIN: the work has not ended.  -EINVAL: was not prepared.
 * A CQE with an error (-ECANCELED) also ends in this call; it returns -EAGAIN until the work has ended.
 */
USDMA_API int usdma_completion_finish(usdma_completion *completion);

#ifdef __cplusplus
}
#endif

#endif
