/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C API: completions in the caller's io_uring. Its ring reads an eventfd that is signalled once, for this
 * completion only, as reads of a shared one complete in unspecified order: that of the hardware queue's interrupt,
 * while no other completion uses it; else its own, which a thread of the library writes.
 */
#include "usdma/uring.h"

#include "driver/base/eventfd.h"
#include "driver/base/unique_fd.h"
#include "lib/core/base/slab.h"
#include "lib/core/stream/ring.h"
#include "lib/native/handles.h"

#include <liburing.h>
#include <sched.h>

using namespace usdma;

namespace {

struct alignas(64) completion {
	u64 alive = 0; /* the handle */
	u32 busy = 0;
	bool ended = false;     /* its eventfd was signalled */
	bool in_ring = false;   /* a read of it was prepared */
	u64 count = 0;          /* the kernel reads the eventfd into this, of a misused one at any time */
	core::stream_mark mark; /* its work */
	core::signalling how = core::signalling::none;
	core::ring_signal *signal = nullptr; /* armed, and not consumed */
	unique_fd fd;
};

/* Reads of it return at once, and never change it in effect: of work that had ended before. -1: none. */
int always_ready()
{
	static const int fd = [] {
		const u64 most = ~u64(0) - 1;
		const int made = fd_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));

		return made < 0 || write(made, &most, sizeof(most)) == ssize_t(sizeof(most)) ? made : -1;
	}();

	return fd;
}

} // namespace

static constinit core::slab<completion, 65536, core::handle_kind::completion> all;

static completion *to_completion(usdma_completion *c)
{
	return all.at(c);
}

#define need_completion(c)                                                                                             \
	do {                                                                                                           \
		if (unlikely(core::forked()))                                                                          \
			return core::fail_forked();                                                                    \
		if (unlikely(!all.holds(c)))                                                                           \
			return native::fail_guard(__func__, "completion", -EBADF);                                     \
	} while (0)

int usdma_completion_create(usdma_completion **out)
{
	const no_cancel no_exit;

	need_pointer(out);
	*out = nullptr;
	if (core::is_other_process())
		return core::fail_forked();
	unique_fd fd(eventfd_make_for_ring());

	if (!fd.valid())
		return fail_errno("%s: eventfd", __func__);
	completion *c = all.get();
	if (!c)
		return all.fail_full(ENOMEM, "completions");
	c->fd = std::move(fd);
	all.publish(c);
	*out = reinterpret_cast<usdma_completion *>(c->alive);
	return 0;
}

int usdma_completion_destroy(usdma_completion *completion)
{
	const no_cancel no_exit;

	need_completion(completion);
	struct completion *c = to_completion(completion);

	if (load_acquire(&c->busy))
		return fail(EBUSY, "%s: prepared and not finished", __func__);
	if (!core::handle_end(c, completion))
		return native::fail_guard(__func__, "completion", -EBADF);
	all.put(c);
	return 0;
}

/* -EBUSY; else the next start is prepared. */
static int begin(const char *call, completion *c)
{
	if (load_acquire(&c->busy))
		return fail(EBUSY, "%s: outstanding already; call usdma_completion_finish after its CQE", call);
	store_relaxed(&c->count, u64(0));
	c->ended = c->in_ring = false;
	c->how = core::signalling::none;
	return 0;
}

int usdma_completion_start(usdma_completion *completion, usdma_stream *stream, int *fd)
{
	need_completion(completion);
	guard_stream(s, stream);
	need_pointer(fd);
	struct completion *c = to_completion(completion);

	if (const int err = begin(__func__, c))
		return err;
	if (const int err = core::stream_signal_own(s, c->fd.get(), &c->mark))
		return err;
	store_release(&c->busy, 1u);
	*fd = c->fd.get();
	return 0;
}

static void prep_read(completion *c, io_uring_sqe *sqe)
{
	int fd = c->signal ? c->signal->fd.get() : c->fd.get();

	if (c->how == core::signalling::done) {
		if (always_ready() >= 0)
			fd = always_ready();
		else
			eventfd_signal(fd);
	}
	io_uring_prep_read(sqe, fd, &c->count, sizeof(c->count), 0);
}

int usdma_prep_completion(usdma_completion *completion, usdma_stream *stream, struct io_uring_sqe *sqe,
			  uint64_t user_data)
{
	need_completion(completion);
	guard_stream(s, stream);
	need_pointer(sqe);
	struct completion *c = to_completion(completion);

	if (const int err = begin(__func__, c))
		return err;
	if (const int err = core::stream_signal_ring(s, {c->fd.get(), &c->count}, &c->mark, &c->signal, &c->how))
		return err;
	store_release(&c->busy, 1u);
	/* liburing 2.5 and newer sets only a part: the rest is io_uring_get_sqe()'s, which the caller need not use. */
	*sqe = {};
	prep_read(c, sqe);
	c->in_ring = true;
	sqe->user_data = user_data;
	return 0;
}

/* Whether the eventfd was signalled: the ring's read took the signal, or (cancelled) it is taken here. */
static bool signalled(completion *c)
{
	if (c->signal) {
		if (!core::signal_end(c->signal))
			return false;
		c->signal = nullptr;
		return true;
	}
	if (c->how == core::signalling::done || load_acquire(&c->count))
		return true;
	return eventfd_clear(c->fd.get());
}

/* The work may have ended before its signal: by this thread instead of the library's, or late by the device. */
static bool signalled_behind(completion *c)
{
	const deadline until = deadline::in_ms(1);

	if (!core::stream_mark_poll(&c->mark))
		return false;
	if (c->signal)
		core::signal_await(c->signal);
	else
		core::stream_signals_deliver();
	/* The ring's read is about to take it, and has a CQE then; unless it was cancelled, or never submitted. */
	while (c->in_ring && !load_acquire(&c->count) && !until.passed())
		sched_yield();
	return signalled(c);
}

/* Of one that was prepared. -EAGAIN: its CQE may not have come. */
static int check_ended(const char *call, completion *c)
{
	if (!load_acquire(&c->busy))
		return fail(EINVAL, "%s: it was not prepared", call);
	if (c->ended || signalled(c) || signalled_behind(c)) {
		c->ended = true;
		return 0;
	}
	return fail(EAGAIN, "%s: the work has not ended", call);
}

int usdma_completion_take_error(usdma_completion *completion, struct usdma_error_info *info)
{
	const no_cancel no_exit;
	core::stream_error e;

	need_completion(completion);
	need_pointer(info);
	if (const int err = native::check_struct_size<usdma_error_info>(__func__, info->struct_size))
		return err;
	struct completion *c = to_completion(completion);
	if (const int err = check_ended(__func__, c))
		return err;
	/* A device that signals what has not completed. */
	if (unlikely(core::stream_mark_take_error(&c->mark, &e) == -EAGAIN))
		return fail(EAGAIN, "%s: the work has not ended", __func__);
	struct usdma_error_info v = native::info_of(e, -e.err);
	return native::give(__func__, info, v);
}

int usdma_completion_finish(usdma_completion *completion)
{
	const no_cancel no_exit;

	need_completion(completion);
	struct completion *c = to_completion(completion);
	if (const int err = check_ended(__func__, c))
		return err;
	const int err = core::stream_mark_result(&c->mark);
	/* A device that signals what has not completed. */
	if (unlikely(err == -EAGAIN))
		return fail(EAGAIN, "%s: the work has not ended", __func__);
	store_release(&c->busy, 0u);
	return err;
}
