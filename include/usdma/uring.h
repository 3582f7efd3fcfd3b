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
/* -EBUSY: prepared and not finished; its CQE may be outstanding, and the kernel would write into another one. */
USDMA_API int usdma_completion_destroy(usdma_completion *completion);

/*
 * Fills the SQE (a read) so that its CQE, with this user_data, arrives when all work submitted to the stream
 * before has ended, and not before. The caller submits it, alone or with others (also linked ones that need the
 * work's data); the CQE also arrives when the work ended earlier. Where the device can signal the ring, no thread of
 * the library is involved: one completion at a time of each of the first channels (the stream's), which is not behind a
 * gate. The first completion of a channel may wait a second for the device's server. res of the CQE: 8, or a negative
 * errno of the ring (-ECANCELED: cancelled). On an error the SQE is not modified. -EBUSY: the completion is outstanding
 * already. Only one thread at a time may use a completion.
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
 * Call it after the CQE has arrived, or *fd is readable. Before the CQE, the read that the ring still has would take
 * the signal of a later completion, which then comes late. It makes the completion available for the next use and
 * returns the result of its work: 0, or the first failure since the completion before it (usdma_stream_sync has the
 * rules), in any order of completions, also when the stream was destroyed. What another thread's call has yet to put
 * into the full ring is behind the completion. -ENODEV: the device was lost before the work had ended; -ECANCELED: it
 * was dropped, as the stream was aborted or its device closed. -EAGAIN: the work has not ended. -EINVAL: was not
 * prepared. It is needed after a CQE with an error (-ECANCELED), too; it then returns -EAGAIN until the work has ended.
 */
USDMA_API int usdma_completion_finish(usdma_completion *completion);
/*
 * Before usdma_completion_finish: takes the oldest failure of the completion's work, one with each call; finish returns
 * the first of those that were left. Returns 0 also when there is none: info->error is 0 then. Errors as
 * usdma_completion_finish, of which -EAGAIN and -EINVAL.
 */
USDMA_API int usdma_completion_take_error(usdma_completion *completion, struct usdma_error_info *info);

/*
 * A set of completions of one stream: one SQE for all of them, for programs that keep many in flight.
 *
 *	usdma_completion_set_create(stream, &set);
 *	usdma_prep_completion_set(set, io_uring_get_sqe(&ring), ON_COPIES);      (once)
 *	usdma_copy(stream, dst, src, len);
 *	usdma_completion_mark(set, number);                                      (behind each copy)
 *	…                                                 (a CQE with user_data ON_COPIES comes)
 *	while ((n = usdma_completion_finish_many(set, ended, 64)) > 0)
 *		…                                         (ended[i].user_data is a number, ended[i].error its result)
 *
 * A CQE may come early, and one may stand for several marks. Any thread may use a set.
 */
typedef struct usdma_completion_set usdma_completion_set;

/* A mark that has ended. */
struct usdma_completed {
	uint64_t user_data;
	int32_t error; /* as the return value of usdma_completion_finish */
	uint32_t reserved;
};

/* Holds one descriptor. -EBADF, -ENODEV, -EMFILE, -ENFILE, -ENOMEM. */
USDMA_API int usdma_completion_set_create(usdma_stream *stream, usdma_completion_set **out);
/*
 * Cancel its SQE first (io_uring_prep_cancel64), which otherwise stays in the ring. -EBUSY: a mark was not yet
 * returned. -EBADF.
 */
USDMA_API int usdma_completion_set_destroy(usdma_completion_set *set);
/*
 * Fills the SQE, a multishot poll (IORING_POLL_ADD_MULTI): CQEs with this user_data come until one without
 * IORING_CQE_F_MORE (it was cancelled, or the ring's CQEs overflowed), after which it is to be prepared again. Once for
 * all rings. -EBADF.
 */
USDMA_API int usdma_prep_completion_set(usdma_completion_set *set, struct io_uring_sqe *sqe, uint64_t user_data);
/*
 * Marks the work submitted to the set's stream so far. When it has ended, also if it had before, a CQE comes, and
 * usdma_completion_finish_many returns user_data. -EBADF: also that the stream was destroyed; -ENODEV, -ECANCELED: the
 * stream accepts no work; -EAGAIN: no thread could be started; -ENOMEM.
 */
USDMA_API int usdma_completion_mark(usdma_completion_set *set, uint64_t user_data);
/*
 * Returns the number of marks that have ended, n at most, and them in order. -EAGAIN: none. Call it until it returns
 * less than n: the next CQE may come only then. It may be called without a CQE, to poll. -EBADF, -EINVAL: n is 0, or
 * more than INT_MAX.
 */
USDMA_API int usdma_completion_finish_many(usdma_completion_set *set, struct usdma_completed *out, unsigned n);

#ifdef __cplusplus
}
#endif

#endif
