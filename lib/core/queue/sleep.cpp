/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping on an eventfd with a per-thread io_uring. */
#include "lib/core/queue/sleep.h"

#include "driver/base/await_fds.h"
#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/eventfd.h"
#include "driver/base/fd.h"
#include "driver/base/log.h"
#include "driver/base/thread_end.h"
#include "driver/base/valgrind.h"
#include "lib/core/config/config.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <liburing.h>
#include <new>
#include <poll.h>
#include <type_traits>
#include <unistd.h>

namespace usdma::core {

namespace {

/* Time limit for cancelling a read, which normally takes microseconds. */
constexpr u64 cancel_ms = 1000;

/* Buffer for the kernel's read of the eventfd. */
struct read_buffer {
	u64 count = 0;
	read_buffer *next = nullptr;
};

/* Buffers of reads that could not be cancelled: never freed, as the kernel may still write there. Atomic. */
read_buffer *leaked_buffers;

struct thread_ring {
	thread_end end;
	io_uring ring;
	read_buffer *buffer = nullptr;
	bool ready = false;
	bool tried = false;

	~thread_ring()
	{
		close();
		delete buffer;
	}
	void close()
	{
		if (ready)
			io_uring_queue_exit(&ring);
		ready = false;
	}
	/* A read in flight cannot be cancelled: leak its buffer and use ppoll from now on. */
	void disable()
	{
		log_warn("io_uring cannot cancel a read: waiting with ppoll from now on");
		close();
		buffer->next = load_relaxed(&leaked_buffers);
		while (!cmpxchg_release(&leaked_buffers, &buffer->next, buffer))
			;
		buffer = nullptr;
	}
	bool open();
};

/* Moves the ring's descriptor above 2, as fd_above_stdio(). False: no descriptor left; the ring was closed. */
bool ring_above_stdio(io_uring *ring)
{
	if (ring->ring_fd > STDERR_FILENO)
		return true;
	const int up = fd_copy(ring->ring_fd);
	if (up < 0) {
		io_uring_queue_exit(ring);
		return false;
	}
	close(ring->ring_fd);
	ring->ring_fd = ring->enter_ring_fd = up;
	return true;
}

bool thread_ring::open()
{
	static bool warned;
	/* Single issuer with deferred task work: a completion does not interrupt a running thread. */
	const unsigned tries[] = {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, 0};
	int err = 0;

	if (tried)
		return ready;
	tried = true;
	/* valgrind (3.19) runs no other thread during io_uring_enter: the wait would never end. */
	if (on_valgrind())
		return false;
	buffer = new (std::nothrow) read_buffer;
	if (!buffer)
		return false;
	for (unsigned flags : tries) {
		err = config_get().io_uring ? io_uring_queue_init(4, &ring, flags) : -EPERM;
		if (err == 0) {
			if (!ring_above_stdio(&ring)) {
				err = -EMFILE;
				break;
			}
			/* Avoids a descriptor lookup at each wait; optional. */
			io_uring_register_ring_fd(&ring);
			return ready = true;
		}
	}
	if (config_get().io_uring && !exchange_seq_cst(&warned, true))
		log_warn("io_uring is not available (%s): waiting with ppoll; see kernel.io_uring_disabled or the "
			 "seccomp profile",
			 strerror(-err));
	return false;
}

__kernel_timespec timespec_of(u64 ns)
{
	return {s64(ns / ns_per_s), s64(ns % ns_per_s)};
}

/* Waits until the kernel has ended the read. False: it has not. */
bool cancel_read(io_uring *ring)
{
	const deadline until = deadline::in_ms(cancel_ms);
	io_uring_sqe *sqe = io_uring_get_sqe(ring);
	unsigned left = 2; /* completions of the read and of the cancel */
	io_uring_cqe *cqe;

	if (!sqe)
		return false;
	io_uring_prep_cancel64(sqe, 1, 0);
	sqe->user_data = 2;
	io_uring_submit(ring); /* errors show below */
	while (left) {
		__kernel_timespec ts = timespec_of(until.left_ns());
		const int err = io_uring_wait_cqe_timeout(ring, &cqe, &ts);

		if (err == -EINTR && !until.passed())
			continue;
		if (err)
			return false;
		io_uring_cqe_seen(ring, cqe);
		left--;
	}
	return true;
}

int ring_sleep(thread_ring *mine, int fd, u64 abs_ns)
{
	io_uring *const ring = &mine->ring;
	const u64 now = now_ns();
	const u64 left = abs_ns > now ? abs_ns - now : 0;
	__kernel_timespec ts = timespec_of(left);
	io_uring_sqe *sqe = io_uring_get_sqe(ring);
	io_uring_cqe *cqe;
	int err;

	mine->buffer->count = 0;
	io_uring_prep_read(sqe, fd, &mine->buffer->count, sizeof(mine->buffer->count), 0);
	sqe->user_data = 1;
	err = io_uring_submit_and_wait_timeout(ring, &cqe, 1, &ts, nullptr);
	if (io_uring_peek_cqe(ring, &cqe) == 0) {
		err = cqe->res < 0 ? cqe->res : 0;
		io_uring_cqe_seen(ring, cqe);
		return err;
	}
	if (!cancel_read(ring)) {
		mine->disable();
		return 0; /* it may have consumed the signal: recheck */
	}
	if (mine->buffer->count)
		return 0;
	return err == -EINTR ? -EINTR : -ETIMEDOUT;
}

int poll_sleep(int fd, u64 abs_ns)
{
	const u64 now = now_ns();
	const u64 left = abs_ns > now ? abs_ns - now : 0;
	pollfd p = {fd, POLLIN, 0};
	const int n = await_fds_ns(&p, 1, left);

	if (n < 0)
		return -errno;
	if (n == 0)
		return -ETIMEDOUT;
	/* Another thread may have cleared the eventfd; the caller rechecks. */
	eventfd_clear(fd);
	return 0;
}

} // namespace

static thread_local thread_ring *own_ring;

static void ring_cleanup(thread_end *e)
{
	own_ring = nullptr;
	delete reinterpret_cast<thread_ring *>(e);
}

/* nullptr: no memory for one. */
static thread_ring *ring_of_thread()
{
	static_assert(std::is_standard_layout_v<thread_ring> && offsetof(thread_ring, end) == 0);

	if (!own_ring) {
		own_ring = new (std::nothrow) thread_ring;
		if (!own_ring)
			return nullptr;
		own_ring->end.run = ring_cleanup;
		at_thread_end(&own_ring->end);
	}
	return own_ring;
}

int eventfd_sleep(int fd, u64 abs_ns)
{
	thread_ring *const r = ring_of_thread();

	return r && r->open() ? ring_sleep(r, fd, abs_ns) : poll_sleep(fd, abs_ns);
}

} // namespace usdma::core
