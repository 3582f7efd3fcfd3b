/* SPDX-License-Identifier: BSD-3-Clause */
/* The file thread: one for all files of the process. It sleeps on one eventfd, which fronts and the disk raise. */
#include "driver/base/await_fds.h"
#include "lib/core/file/internal.h"

#include "driver/base/error.h"
#include "driver/base/eventfd.h"
#include "driver/base/thread.h"
#include "driver/base/wakes.h"

#include <poll.h>
#include <utility>

namespace usdma::core {

namespace {

struct file_thread {
	std::mutex lock;
	bool has_disk = false, started = false;
	int wake_fd = -1;
	u32 asleep = 0;                                    /* it sleeps, or is about to */
	file_group *fresh = nullptr, **fresh_end = &fresh; /* under the lock */
};

constinit no_destructor<file_thread> worker;

/* The longest sleep while there are operations: a lost device and a disk that hangs raise no eventfd. */
constexpr int recheck_ms = 50;
/* Staging memory that was unused for that long is freed. */
constexpr int keep_ms = 2000;

/* The ones that were added last go to the end: who comes first is served first. */
void take_new(file_group **end)
{
	std::lock_guard guard(worker->lock);

	*end = std::exchange(worker->fresh, nullptr);
	worker->fresh_end = &worker->fresh;
}

/* Steps each, and frees those that are over. */
bool step_all(file_group **all, file_pass *pass)
{
	bool moved = false;

	for (file_group **at = all; file_group *g = *at;) {
		moved |= file_step(g, pass);
		if (file_is_over(g)) {
			*at = g->next;
			file_group_free(g, false);
			continue;
		}
		at = &g->next;
	}
	return moved;
}

bool take_done()
{
	bool any = false;

	for (; piece *p = disk_take(); any = true)
		file_piece_done(p);
	return any;
}

/* False: it was not woken. */
bool rest(bool busy, bool *staging)
{
	pollfd p = {worker->wake_fd, POLLIN, 0};
	const int n = await_fds(&p, 1, busy ? recheck_ms : *staging ? keep_ms : -1);

	if (n == 0 && !busy)
		*staging = pieces_trim();
	return n > 0;
}

void *file_main(void *)
{
	file_group *all = nullptr;
	bool staging = false, asleep = false, checks = false;

	thread_name("usdma-file");
	for (;;) {
		file_group **end = &all;

		/* First: what is raised from here on stops the next sleep. */
		const bool woken = eventfd_clear(worker->wake_fd);
		while (*end)
			end = &(*end)->next;
		take_new(end);
		file_pass pass = {now_ns()};
		bool moved = take_done();
		moved |= step_all(&all, &pass);
		disk_flush();
		if (checks && !woken && moved && !pass.lost && !pass.closed && !pass.hung)
			wake_missed(worker->wake_fd);
		staging |= moved;
		/* Once more: fronts that came before did not raise the eventfd. */
		if (!moved && !asleep) {
			store_fence(&worker->asleep, 1u);
			asleep = true;
			continue;
		}
		/* It counts as asleep while it checks by itself. */
		checks = !moved && !rest(all != nullptr, &staging);
		asleep = checks;
		store_relaxed(&worker->asleep, u32(asleep));
	}
}

/* With the lock held. */
int start_file_thread()
{
	if (worker->wake_fd < 0)
		worker->wake_fd = eventfd_make();
	if (worker->wake_fd < 0)
		return fail_errno("eventfd for the thread that moves files");
	if (const int err = worker->has_disk ? 0 : disk_open(worker->wake_fd))
		return err;
	worker->has_disk = true;
	return thread_start_detached("usdma-file", file_main, nullptr);
}

} // namespace

int file_thread_start()
{
	std::lock_guard guard(worker->lock);
	const int err = worker->started ? 0 : start_file_thread();

	worker->started |= !err;
	return err;
}

void file_thread_add(file_group *g)
{
	{
		std::lock_guard guard(worker->lock);

		*worker->fresh_end = g;
		worker->fresh_end = &g->next;
	}
	file_thread_wake();
}

/* Adds 0: either this sees the thread asleep, or the thread sees what the front has stored. */
void file_thread_wake()
{
	if (fetch_add_seq_cst(&worker->asleep, 0))
		eventfd_signal(worker->wake_fd);
}

} // namespace usdma::core
