/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/stream/listen.h"

#include "driver/base/grow.h"
#include "lib/core/queue/recover.h"
#include "lib/core/queue/submit.h"
#include "lib/core/stream/task.h"

#include <algorithm>

namespace usdma::core {

/* ---- rings that wait for other devices -------------------------------------------------------------- */

struct waiting {
	u32 devices = 0;
	bool any = false;
};

static void check_queues(device *dev, void *arg)
{
	auto *const all = static_cast<waiting *>(arg);
	const hw_queue *l = load_acquire(&dev->opened);

	all->devices += l != nullptr;
	for (; l && !all->any; l = l->next_open)
		all->any = hwq_in_wait(l);
}

bool rings_wait()
{
	waiting all;

	device_each(check_queues, &all);
	return all.any && all.devices > 1;
}

static void wake_waiting(device *dev, void *arg)
{
	for (hw_queue *l = load_acquire(&dev->opened); l; l = l->next_open)
		if (hwq_in_wait(l)) {
			*static_cast<bool *>(arg) = true;
			hwq_wake(l);
		}
}

bool rings_wake()
{
	bool any = false;

	device_each(wake_waiting, &any);
	return any;
}

/* Without the thread, engines read their words every 50 ms. */
void rings_note_wait()
{
	/* Either rings_note_open() sees the WAIT, or the device that is opened now is seen here. */
	barrier_full();
	if (device_open_count() < 2 || progress_listens())
		return;
	if (!progress_start())
		progress_kick();
}

/* The thread listens to those that were open when it went to sleep. */
void rings_note_open()
{
	if (rings_wait() && progress_start())
		return;
	progress_kick();
}

/* ---- listening -------------------------------------------------------------------------------------- */

bool listen_to(const hw_queue *l, std::vector<pollfd> *fds)
{
	const int fd = l->ch->irq_fd[dma::irq_service];

	return fd < 0 || try_push(*fds, pollfd{fd, POLLIN, 0});
}

struct listening {
	std::vector<pollfd> *fds;
	bool all = true;
};

static void listen_to_device(device *dev, void *arg)
{
	auto *to = static_cast<listening *>(arg);

	for (const hw_queue *l = load_acquire(&dev->opened); l; l = l->next_open)
		to->all &= listen_to(l, to->fds);
}

bool listen_to_all(std::vector<pollfd> *fds)
{
	listening to = {fds};

	device_each(listen_to_device, &to);
	return to.all;
}

void drop_doubles(std::vector<pollfd> *fds)
{
	const auto by_fd = [](const pollfd &a, const pollfd &b) { return a.fd < b.fd; };
	const auto same = [](const pollfd &a, const pollfd &b) { return a.fd == b.fd; };

	std::sort(fds->begin(), fds->end(), by_fd);
	fds->erase(std::unique(fds->begin(), fds->end(), same), fds->end());
}

} // namespace usdma::core
