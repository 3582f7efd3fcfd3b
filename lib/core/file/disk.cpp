/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to the disk: by one io_uring, or, where that is not available, by a few threads; also once the kernel
 * refuses io_uring_enter(2) (a sandbox may be installed at any time). Both raise the file thread's eventfd at a
 * completion; no thread waits in io_uring. Its workers start the requests: where a file is on the disk may have to be
 * read first, and ext4 waits for that, also in io_uring_enter(2).
 */
#include "driver/base/fd.h"
#include "lib/core/file/internal.h"

#include "driver/base/error.h"
#include "driver/base/eventfd.h"
#include "driver/base/futex_lock.h"
#include "driver/base/log.h"
#include "driver/base/thread.h"
#include "driver/base/valgrind.h"
#include "lib/core/config/config.h"

#include <cstring>
#include <liburing.h>
#include <unistd.h>
#include <utility>

namespace usdma::core {

namespace {

constexpr unsigned ring_entries = 256, most_in_flight = 192;
constexpr unsigned most_registered = 64;
constexpr unsigned most_callers = 32;

struct disk_state {
	io_uring ring{};
	bool has_ring = false, registers = false;
	bool had_ring = false;           /* requests may come back from it */
	bool used[most_registered] = {}; /* of the ring's table */
	unsigned in_flight = 0;
	/* Without a ring, or after its loss. */
	int wake_fd = -1;
	futex_lock lock; /* the lists */
	piece *todo = nullptr, **todo_end = &todo;
	piece *done = nullptr, **done_end = &done;
	u32 posted = 0;       /* futex: incremented by each request */
	unsigned threads = 0; /* started */
};

constinit no_destructor<disk_state> disk;

/* ---- io_uring --------------------------------------------------------------------------------------------- */

int ring_above_stdio()
{
	if (disk->ring.ring_fd > STDERR_FILENO)
		return 0;
	const int up = fd_copy(disk->ring.ring_fd);

	if (up < 0)
		return -errno;
	close(disk->ring.ring_fd);
	disk->ring.ring_fd = disk->ring.enter_ring_fd = up;
	return 0;
}

int ring_make(int wake_fd)
{
	unsigned workers[] = {most_callers, 0};
	int err = io_uring_queue_init(ring_entries, &disk->ring, 0);

	if (err)
		return err;
	err = ring_above_stdio();
	if (!err)
		err = io_uring_register_eventfd(&disk->ring, wake_fd);
	/* One that never completes holds a worker. Before Linux 5.15: as many as the kernel likes. */
	if (!err)
		io_uring_register_iowq_max_workers(&disk->ring, workers);
	if (err)
		io_uring_queue_exit(&disk->ring);
	return err;
}

bool ring_open(int wake_fd)
{
	/* valgrind (3.19) knows not all of its calls. */
	if (on_valgrind() || !config_get().io_uring)
		return false;
	const int err = ring_make(wake_fd);
	if (err)
		log_warn("io_uring is not available for files (%s): threads read and write them",
			 strerrordesc_np(-err));
	return !err;
}

int fd_for(const piece *p)
{
	const file *f = p->op->r.f;

	return p->direct ? f->direct.get() : f->fd.get();
}

u64 offset_for(const piece *p)
{
	return p->op->r.offset + p->at + p->done;
}

void prepare(io_uring_sqe *sqe, piece *p)
{
	const int index = piece_index(p), fd = fd_for(p);
	const unsigned len = unsigned(p->want - p->done);
	u8 *const mem = p->mem + p->done;

	switch (p->op->r.op) {
	case file_op::read:
		if (index >= 0)
			io_uring_prep_read_fixed(sqe, fd, mem, len, offset_for(p), index);
		else
			io_uring_prep_read(sqe, fd, mem, len, offset_for(p));
		break;
	case file_op::write:
		if (index >= 0)
			io_uring_prep_write_fixed(sqe, fd, mem, len, offset_for(p), index);
		else
			io_uring_prep_write(sqe, fd, mem, len, offset_for(p));
		break;
	case file_op::sync:
		io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
		break;
	}
	io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
	io_uring_sqe_set_data(sqe, p);
}

bool ring_start(piece *p)
{
	io_uring_sqe *sqe = io_uring_get_sqe(&disk->ring);

	if (!sqe)
		return false;
	prepare(sqe, p);
	return true;
}

piece *ring_take()
{
	io_uring_cqe *cqe;

	while (io_uring_peek_cqe(&disk->ring, &cqe) == 0) {
		auto *p = static_cast<piece *>(io_uring_cqe_get_data(cqe));

		if (p)
			p->res = cqe->res;
		io_uring_cqe_seen(&disk->ring, cqe);
		/* null: of a cancellation */
		if (p)
			return p;
	}
	return nullptr;
}

/* ---- threads ---------------------------------------------------------------------------------------------- */

int call_disk(const piece *p)
{
	const int fd = fd_for(p);
	const u64 len = p->want - p->done, offset = offset_for(p);
	ssize_t n;

	if (p->op->r.op == file_op::read)
		n = pread(fd, p->mem + p->done, len, off_t(offset));
	else if (p->op->r.op == file_op::write)
		n = pwrite(fd, p->mem + p->done, len, off_t(offset));
	else
		n = fdatasync(fd);
	return n < 0 ? -errno : int(n);
}

piece *take_todo()
{
	std::lock_guard guard(disk->lock);
	piece *p = disk->todo;

	if (p && !(disk->todo = p->next_queued))
		disk->todo_end = &disk->todo;
	return p;
}

void put_done(piece *p)
{
	p->next_queued = nullptr;
	disk->lock.lock();
	*disk->done_end = p;
	disk->done_end = &p->next_queued;
	disk->lock.unlock();
	eventfd_signal(disk->wake_fd);
}

void *caller_main(void *)
{
	thread_name("usdma-disk");
	for (;;) {
		const u32 seen = load_acquire(&disk->posted);
		piece *p = take_todo();

		if (!p) {
			/* One is woken for each request, and those about to sleep see another number. */
			futex_wait_until(&disk->posted, seen, ~u64(0));
			continue;
		}
		p->res = call_disk(p);
		put_done(p);
	}
}

/* A thread for each request in flight: one that never completes delays no other. */
int threads_grow()
{
	if (disk->threads >= most_callers || disk->threads > disk->in_flight)
		return 0;
	if (const int err = thread_start_detached("usdma-disk", caller_main, nullptr))
		return err;
	disk->threads++;
	return 0;
}

void threads_post(piece *p)
{
	/* Without a new one the others do it; without any, which a sandbox may forbid, the caller. */
	if (threads_grow() && !disk->threads) {
		p->res = call_disk(p);
		return put_done(p);
	}
	p->next_queued = nullptr;
	disk->lock.lock();
	*disk->todo_end = p;
	disk->todo_end = &p->next_queued;
	disk->lock.unlock();
	fetch_add_seq_cst(&disk->posted, 1);
	futex_wake(&disk->posted, 1);
}

piece *threads_take()
{
	std::lock_guard guard(disk->lock);
	piece *p = disk->done;

	if (p && !(disk->done = p->next_queued))
		disk->done_end = &disk->done;
	return p;
}

} // namespace

/* ---- both ------------------------------------------------------------------------------------------------- */

int disk_open(int wake_fd)
{
	disk->wake_fd = wake_fd;
	disk->has_ring = disk->had_ring = ring_open(wake_fd);
	if (!disk->has_ring)
		return threads_grow();
	disk->registers = io_uring_register_buffers_sparse(&disk->ring, most_registered) == 0;
	return 0;
}

bool disk_start(piece *p)
{
	bool queued = disk->has_ring && ring_start(p);

	if (disk->has_ring && !queued) {
		disk_flush();
		queued = disk->has_ring && ring_start(p);
	}
	if (!queued && disk->has_ring)
		return false;
	p->at_disk = true;
	disk->in_flight++;
	if (!queued)
		threads_post(p);
	return true;
}

/*
 * What the kernel has not taken goes to threads. What it has is at the disk, and comes back through the ring's memory,
 * without a system call; its staging memory is not used again before.
 */
static void ring_lose(int err)
{
	const io_uring_sq &sq = disk->ring.sq;

	log_warn("io_uring refuses requests for files (%s): threads read and write them from now on",
		 strerrordesc_np(-err));
	disk->has_ring = false;
	for (unsigned at = load_acquire(sq.khead); at != sq.sqe_tail; at++)
		if (const u64 p = sq.sqes[at & sq.ring_mask].user_data)
			threads_post(reinterpret_cast<piece *>(p));
}

void disk_flush()
{
	if (!disk->has_ring || !io_uring_sq_ready(&disk->ring))
		return;
	const int n = io_uring_submit(&disk->ring);
	/* The first four leave them queued for the next time. */
	if (n < 0 && n != -EAGAIN && n != -EBUSY && n != -EINTR && n != -ENOMEM)
		ring_lose(n);
}

piece *disk_take()
{
	piece *p = disk->had_ring ? ring_take() : nullptr;

	if (!p)
		p = threads_take();
	if (p) {
		p->at_disk = false;
		disk->in_flight--;
	}
	return p;
}

void disk_cancel(const piece *p)
{
	io_uring_sqe *sqe = disk->has_ring ? io_uring_get_sqe(&disk->ring) : nullptr;

	/* Without it the request completes by itself. */
	if (!sqe)
		return;
	io_uring_prep_cancel64(sqe, reinterpret_cast<u64>(p), 0);
	io_uring_sqe_set_data(sqe, nullptr);
}

static int set_registered(unsigned index, void *mem, u64 size)
{
	const iovec v = {mem, size};

	return io_uring_register_buffers_update_tag(&disk->ring, index, &v, nullptr, 1) == 1 ? 0 : -1;
}

int disk_register(void *mem, u64 size)
{
	for (unsigned i = 0; disk->registers && i < most_registered; i++) {
		if (disk->used[i])
			continue;
		/* RLIMIT_MEMLOCK may be too low. */
		if (set_registered(i, mem, size))
			return -1;
		disk->used[i] = true;
		return int(i);
	}
	return -1;
}

void disk_unregister(int index)
{
	if (index < 0)
		return;
	set_registered(unsigned(index), nullptr, 0);
	disk->used[index] = false;
}

} // namespace usdma::core
