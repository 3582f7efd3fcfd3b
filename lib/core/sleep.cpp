/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread's own io_uring, in which it sleeps on an eventfd. */
#include "lib/core/wait.h"

#include "driver/base/error.h"
#include "driver/base/log.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <liburing.h>
#include <poll.h>
#include <unistd.h>

namespace usdma::core {

namespace {

struct thread_ring {
	io_uring ring;
	bool ready = false;
	bool tried = false;

	~thread_ring()
	{
		if (ready)
			io_uring_queue_exit(&ring);
	}
	bool open();
};

bool thread_ring::open()
{
	static std::atomic<bool> warned;
	/* One submitter, and work run by it when it waits: the wake-up costs no interrupt of a running thread. */
	const unsigned tries[] = {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, 0};
	int err = 0;

	if (tried)
		return ready;
	tried = true;
	for (unsigned flags : tries) {
		err = config_get().io_uring ? io_uring_queue_init(4, &ring, flags) : -EPERM;
		if (err == 0) {
			/* The kernel need not look the ring's descriptor up at each wait; where it cannot be, it does. */
			io_uring_register_ring_fd(&ring);
			return ready = true;
		}
	}
	if (config_get().io_uring && !warned.exchange(true))
		log_warn("io_uring is not to be had (%s): waiting with ppoll; see kernel.io_uring_disabled or the seccomp profile",
			 strerror(-err));
	return false;
}

/* The kernel may still write to *count: nothing may return before it has let go. */
void cancel_read(io_uring *ring)
{
	io_uring_sqe *sqe = io_uring_get_sqe(ring);
	unsigned left = 2; /* the read's and the cancel's own */
	io_uring_cqe *cqe;

	io_uring_prep_cancel64(sqe, 1, 0);
	sqe->user_data = 2;
	io_uring_submit(ring);
	while (left) {
		const int err = io_uring_wait_cqe(ring, &cqe);

		if (err == -EINTR)
			continue;
		if (err)
			return;
		io_uring_cqe_seen(ring, cqe);
		left--;
	}
}

int ring_sleep(io_uring *ring, int fd, u64 abs_ns)
{
	u64 count = 0;
	const u64 now = now_ns();
	const u64 left = abs_ns > now ? abs_ns - now : 0;
	__kernel_timespec ts = {s64(left / ns_per_s), s64(left % ns_per_s)};
	io_uring_sqe *sqe = io_uring_get_sqe(ring);
	io_uring_cqe *cqe;
	int err;

	io_uring_prep_read(sqe, fd, &count, sizeof(count), 0);
	sqe->user_data = 1;
	err = io_uring_submit_and_wait_timeout(ring, &cqe, 1, &ts, nullptr);
	if (io_uring_peek_cqe(ring, &cqe) == 0) {
		err = cqe->res < 0 ? cqe->res : 0;
		io_uring_cqe_seen(ring, cqe);
		return err;
	}
	cancel_read(ring);
	if (count)
		return 0;
	return err == -EINTR ? -EINTR : -ETIMEDOUT;
}

int poll_sleep(int fd, u64 abs_ns)
{
	const u64 now = now_ns();
	const u64 left = abs_ns > now ? abs_ns - now : 0;
	timespec ts = {time_t(left / ns_per_s), long(left % ns_per_s)};
	pollfd p = {fd, POLLIN, 0};
	const int n = ppoll(&p, 1, &ts, nullptr);
	u64 count;

	if (n < 0)
		return -errno;
	if (n == 0)
		return -ETIMEDOUT;
	return read(fd, &count, sizeof(count)) == ssize_t(sizeof(count)) ? 0 : -errno;
}

} // namespace

int eventfd_sleep(int fd, u64 abs_ns)
{
	static thread_local thread_ring mine;

	return mine.open() ? ring_sleep(&mine.ring, fd, abs_ns) : poll_sleep(fd, abs_ns);
}

} // namespace usdma::core
