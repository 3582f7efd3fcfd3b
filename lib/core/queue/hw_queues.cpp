/* SPDX-License-Identifier: BSD-3-Clause */
/* The hardware queues of a device, opened on demand. */
#include "lib/core/queue/hw_queues.h"

#include "driver/base/error.h"
#include "lib/core/queue/ring_signal.h"

#include <algorithm>
#include <new>

namespace usdma::core {

/* Index of the first shared channel: a quarter of the channels, at least one, are shared. */
static u32 shared_from(const device *dev)
{
	const u32 n = u32(dev->hw_queues.size());

	return n - std::max(1u, n / 4);
}

/* Joins the interrupt line of an open hardware queue with the same eventfd, if any. */
static void join_line(device *dev, hw_queue *l)
{
	const int fd = l->ch->irq_fd[dma::irq_waiter];

	for (const auto &other : dev->hw_queues) {
		if (fd < 0 || !other || other->ch->irq_fd[dma::irq_waiter] != fd)
			continue;
		std::lock_guard guard(other->line->lock);

		l->line = other->line;
		l->next_on_line = l->line->queues;
		l->line->queues = l;
		return;
	}
}

static int hwq_open(device *dev, u32 i)
{
	std::unique_ptr<hw_queue> l(new (std::nothrow) hw_queue);
	dma::channel_config cfg;
	int err;

	if (!l)
		return fail(ENOMEM, "channel %u: no memory", i);
	cfg.first_seq = config_get().first_seq;
	cfg.coalesce_count = config_get().coalesce_count;
	cfg.coalesce_us = config_get().coalesce_us;
	l->dev = dev;
	l->count = stats_hw_queue(dev->slot, i);
	l->exclusive = i < shared_from(dev);
	l->wait_seq = cfg.first_seq;
	/* dev->lock excludes other channel opens, and the device is neither being opened nor closed. */
	dev->eng->transport().set_deadline(open_timeout_ms());
	err = dev->eng->channel_open(i, cfg, &l->ch);
	dev->eng->transport().set_deadline(0);
	if (err)
		return err;
	join_line(dev, l.get());
	dev->add(i, std::move(l));
	return 0;
}

static u32 users_of(const device *dev, u32 i)
{
	return dev->hw_queues[i] ? dev->hw_queues[i]->streams : 0;
}

/* The first unused exclusive channel, and how many there are. */
static u32 count_unused(const device *dev, u32 *first)
{
	u32 n = 0;

	for (u32 i = shared_from(dev); i-- > 0;)
		if (!users_of(dev, i)) {
			*first = i;
			n++;
		}
	return n;
}

static u32 least_used(const device *dev)
{
	u32 best = shared_from(dev);

	for (u32 i = best; i < dev->hw_queues.size(); i++)
		if (users_of(dev, i) < users_of(dev, best))
			best = i;
	return best;
}

/*
 * Exclusive channels are for the program's streams. A synchronous copy borrows one if it would have to share, while
 * most of them are unused.
 */
static u32 hwq_choose(const device *dev, bool internal)
{
	u32 exclusive = 0;
	const u32 n = count_unused(dev, &exclusive), shared = least_used(dev);

	if (internal)
		return users_of(dev, shared) && 2 * n > shared_from(dev) ? exclusive : shared;
	return n ? exclusive : shared;
}

int hwq_get(device *dev, bool internal, hw_queue **out)
{
	std::lock_guard guard(dev->lock);
	const u32 i = hwq_choose(dev, internal);

	if (!dev->hw_queues[i]) {
		const int err = hwq_open(dev, i);

		if (err)
			return err;
	}
	dev->hw_queues[i]->streams++;
	*out = dev->hw_queues[i].get();
	return 0;
}

void hwq_close(hw_queue *l)
{
	std::lock_guard guard(l->lock);

	signal_close(l);
	l->ch->ops->close(l->ch);
	l->ch = nullptr;
}

void hwq_put(hw_queue *l)
{
	std::lock_guard guard(l->dev->lock);

	l->streams--;
}

} // namespace usdma::core
