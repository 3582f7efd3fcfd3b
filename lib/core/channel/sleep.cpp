/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread's own io_uring, in which it sleeps on an eventfd. */
#include "lib/core/channel/sleep.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/eventfd.h"
#include "driver/base/log.h"
#include "driver/base/thread_end.h"
#include "driver/base/valgrind.h"
#include "lib/core/config/config.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <liburing.h>
#include <new>
#include <poll.h>
#include <type_traits>
#include <unistd.h>

namespace usdma::core {

namespace {

/* The kernel takes back a read that it was asked to within microseconds. */
constexpr u64 cancel_ms = 1000;

/* The kernel reads the eventfd into this. */
struct landing {
	u64 count = 0;
	landing *next = nullptr;
};

/* Those that the kernel did not give back: it may still write there. */
constinit std::atomic<landing *> kept_for_good;

struct thread_ring {
	thread_end end;
	io_uring ring;
	landing *land = nullptr;
	bool ready = false;
	bool tried = false;

	~thread_ring()
	{
		close();
		delete land;
	}
	void close()
	{
		if (ready)
			io_uring_queue_exit(&ring);
		ready = false;
	}
	/* A read is in flight that the kernel does not give back. */
	void abandon()
	{
		log_warn("io_uring does not take a read back: waiting with ppoll from now on");
		close();
		land->next = kept_for_good.load(std::memory_order_relaxed);
		while (!kept_for_good.compare_exchange_weak(land->next, land, std::memory_order_release,
							    std::memory_order_relaxed))
			;
		land = nullptr;
	}
	bool open();
};

/* Above 2, as keep_fd does it.  False: there is no number; the ring is gone. */
bool keep_ring(io_uring *ring)
{
	if (ring->ring_fd > STDERR_FILENO)
		return true;
	const int up = fcntl(ring->ring_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
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
	static std::atomic<bool> warned;
	/* One submitter, and work run by it when it waits: the wake-up costs no interrupt of a running thread. */
	const unsigned tries[] = {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, 0};
	int err = 0;

	if (tried)
		return ready;
	tried = true;
	/* It lets no other thread run while one is in io_uring_enter (3.19): nobody would end the wait. */
	if (on_valgrind())
		return false;
	land = new (std::nothrow) landing;
	if (!land)
		return false;
	for (unsigned flags : tries) {
		err = config_get().io_uring ? io_uring_queue_init(4, &ring, flags) : -EPERM;
		if (err == 0) {
			if (!keep_ring(&ring)) {
				err = -EMFILE;
				break;
			}
			/*
			 * The kernel need not look the ring's descriptor up at each wait; where it cannot be,
			 * it does.
			 */
			io_uring_register_ring_fd(&ring);
			return ready = true;
		}
	}
	if (config_get().io_uring && !warned.exchange(true))
		log_warn("io_uring is not available (%s): waiting with ppoll; see kernel.io_uring_disabled or the "
			 "seccomp profile",
			 strerror(-err));
	return false;
}

__kernel_timespec timespec_of(u64 ns)
{
	return {s64(ns / ns_per_s), s64(ns % ns_per_s)};
}

/* Until the kernel has released the read.  False: it has not. */
bool cancel_read(io_uring *ring)
{
	const deadline until = deadline::in_ms(cancel_ms);
	io_uring_sqe *sqe = io_uring_get_sqe(ring);
	unsigned left = 2; /* the read's and the cancel's own */
	io_uring_cqe *cqe;

	if (!sqe)
		return false;
	io_uring_prep_cancel64(sqe, 1, 0);
	sqe->user_data = 2;
	io_uring_submit(ring); /* what goes wrong here shows below */
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

	mine->land->count = 0;
	io_uring_prep_read(sqe, fd, &mine->land->count, sizeof(mine->land->count), 0);
	sqe->user_data = 1;
	err = io_uring_submit_and_wait_timeout(ring, &cqe, 1, &ts, nullptr);
	if (io_uring_peek_cqe(ring, &cqe) == 0) {
		err = cqe->res < 0 ? cqe->res : 0;
		io_uring_cqe_seen(ring, cqe);
		return err;
	}
	if (!cancel_read(ring)) {
		mine->abandon();
		return 0; /* it may have taken the signal: look */
	}
	if (mine->land->count)
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

	if (n < 0)
		return -errno;
	if (n == 0)
		return -ETIMEDOUT;
	/* Whoever signals it may have taken it back: then it is looked at again. */
	eventfd_clear(fd);
	return 0;
}

} // namespace

static thread_local thread_ring *own_ring;

static void ring_ends(thread_end *e)
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
		own_ring->end.run = ring_ends;
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
