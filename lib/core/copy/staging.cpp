/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/copy/staging.h"

#include "driver/base/error.h"
#include "lib/core/channel/wait.h"
#include "lib/core/memory/memory.h"
#include "lib/core/stream/recover.h"

#include <algorithm>
#include <utility>

namespace usdma::core {

/* Buffers that no copy uses now; all of bounce_chunk bytes, and of one reach. */
struct staging_pool {
	static constexpr size_t keep = 32;
	std::mutex lock;
	u8 *free[keep] = {};
	size_t n = 0;
	u32 made = 0; /* their lent_generation() */
};

/* First that of all devices that are not isolated. */
struct staging_pools {
	staging_pool of[1 + max_devices];
};
static constinit immortal<staging_pools> pools;

static staging_pool *pool_of(const device *dev)
{
	return &pools->of[dev->isolated() ? 1 + dev->slot : 0];
}

static u8 *pool_take(staging_pool *pool, u32 now)
{
	std::lock_guard guard(pool->lock);

	return pool->n && pool->made == now ? pool->free[--pool->n] : nullptr;
}

/* One that is too old; nullptr: there is none, and from now on the pool's are of the present. */
static u8 *pool_take_old(staging_pool *pool, const device *dev)
{
	std::lock_guard guard(pool->lock);
	const u32 now = lent_generation(dev->lends);

	if (pool->made == now)
		return nullptr;
	if (pool->n)
		return pool->free[--pool->n];
	store_relaxed(&pool->made, now); /* looked at without the lock */
	return nullptr;
}

void staging_trim(const device *gone)
{
	while (u8 *old = pool_take_old(pool_of(gone), gone))
		host_free(old);
}

/* made: the generation when its copy began. */
static bool pool_put(staging_pool *pool, u8 *mem, u32 made, u32 now)
{
	std::lock_guard guard(pool->lock);

	if (pool->n >= staging_pool::keep || made != pool->made || made != now)
		return false;
	pool->free[pool->n++] = mem;
	return true;
}

int staging::buffer_get(const device *dev, u8 **out)
{
	void *mem;

	if (unlikely(load_relaxed(&from_->made) != lent_generation(dev->lends)))
		staging_trim(dev);
	*out = pool_take(from_, lent_generation(dev->lends));
	if (*out)
		return 0;
	const int err = host_alloc(chunk, -1, &mem, dev);
	if (!err)
		*out = static_cast<u8 *>(mem);
	return err;
}

staging::staging(u64 len, const device *dev) : dev_(dev), from_(pool_of(dev))
{
	const config &cfg = config_get();
	const u64 want = (len + cfg.bounce_chunk - 1) / cfg.bounce_chunk;

	chunk = cfg.bounce_chunk;
	/* Whoever knows of the loss of a device finds nothing of its reach used from then on. */
	devices_note_loss();
	made_ = lent_generation(dev->lends);
	for (; count < std::min({want, u64(cfg.bounce_count), most}); count++) {
		err_ = buffer_get(dev, &bufs_[count].mem);
		if (err_)
			break;
	}
	/* Fewer than wished are enough, as long as there is one. */
	if (count)
		err_ = 0;
	else if (err_)
		fail_in(err_, "no staging buffer for a pageable copy");
}

staging::~staging()
{
	const kept_error why;

	for (u64 i = 0; i < count; i++)
		if (!drained_ || !pool_put(from_, bufs_[i].mem, made_, lent_generation(dev_->lends)))
			host_free(bufs_[i].mem);
	why.again(0);
}

/* ---- streams ---------------------------------------------------------------------------------------- */

/* One whose call gave up waiting, and whose work has ended since; with idle_lock held. */
static stream *take_abandoned(device *dev)
{
	for (stream **at = &dev->abandoned; *at; at = &(*at)->next_idle) {
		stream *s = *at;

		if (load_acquire(&s->gated) || !hwq_done(s->ln, s->last))
			continue;
		*at = s->next_idle;
		store_relaxed(&s->abandoned, 0u);
		return s;
	}
	return nullptr;
}

static stream *take_idle(device *dev)
{
	std::lock_guard guard(dev->idle_lock);
	stream *s = dev->idle ? std::exchange(dev->idle, dev->idle->next_idle) : take_abandoned(dev);

	return s;
}

internal_stream::internal_stream(unsigned slot, deadline until)
{
	stream_options opt;

	dev_ = device_enter(slot);
	if (!dev_) {
		err_ = fail(ENODEV, "device %u is not open", slot);
		return;
	}
	opt.internal = true;
	s_ = take_idle(dev_);
	if (!s_)
		err_ = stream_create(dev_, opt, &s_);
	if (!s_)
		return;
	/* What is left of the one before was its caller's, who has not waited for it. */
	const kept_error why;
	stream_take_error(s_, nullptr);
	why.again(0);
	s_->until = until.at();
}

internal_stream::~internal_stream()
{
	if (s_) {
		const bool over = !load_acquire(&s_->gated) && hwq_done(s_->ln, s_->last);
		std::lock_guard guard(dev_->idle_lock);
		stream *&list = over ? dev_->idle : dev_->abandoned;

		store_relaxed(&s_->abandoned, u32(!over));
		s_->next_idle = std::exchange(list, s_);
	}
	if (dev_)
		device_leave(dev_);
}

} // namespace usdma::core
