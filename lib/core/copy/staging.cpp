/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/copy/staging.h"

#include "driver/base/error.h"
#include "lib/core/queue/wait.h"
#include "lib/core/memory/memory.h"
#include "lib/core/queue/recover.h"

#include <algorithm>
#include <utility>

namespace usdma::core {

/* Unused buffers, all with the same reach. */
struct staging_pool {
	static constexpr size_t max_free = 32;
	std::mutex lock;
	u8 *free[max_free] = {};
	size_t n = 0;
	u32 made = 0; /* their host_generation() */
};

/* Index 0: shared by all devices that are not isolated. */
struct staging_pools {
	staging_pool of[1 + max_devices];
};
static constinit no_destructor<staging_pools> pools;

static staging_pool *pool_of(const device *dev)
{
	return &pools->of[dev->isolated() ? 1 + dev->slot : 0];
}

static u8 *pool_take(staging_pool *pool, u32 now)
{
	std::lock_guard guard(pool->lock);

	return pool->n && pool->made == now ? pool->free[--pool->n] : nullptr;
}

/* Takes a buffer of an older generation; nullptr: none left, the pool is now of the current generation. */
static u8 *pool_take_old(staging_pool *pool, const device *dev)
{
	std::lock_guard guard(pool->lock);
	const u32 now = host_generation(dev->host_reach);

	if (pool->made == now)
		return nullptr;
	if (pool->n)
		return pool->free[--pool->n];
	store_relaxed(&pool->made, now); /* read without the lock */
	return nullptr;
}

void staging_trim(const device *dev)
{
	while (u8 *old = pool_take_old(pool_of(dev), dev))
		host_free(old);
}

/* made: generation at the start of the copy. */
static bool pool_put(staging_pool *pool, u8 *mem, u32 made, u32 now)
{
	std::lock_guard guard(pool->lock);

	if (pool->n >= staging_pool::max_free || made != pool->made || made != now)
		return false;
	pool->free[pool->n++] = mem;
	return true;
}

int staging::buffer_get(const device *dev, u8 **out)
{
	void *mem;

	if (unlikely(load_relaxed(&from_->made) != host_generation(dev->host_reach)))
		staging_trim(dev);
	*out = pool_take(from_, host_generation(dev->host_reach));
	if (*out)
		return 0;
	const int err = host_alloc(chunk, -1, &mem, dev);
	if (!err)
		*out = static_cast<u8 *>(mem);
	return err;
}

staging::staging(u64 len, const device *dev) : dev_(dev), from_(pool_of(dev))
{
	const u64 want = (len + staging_chunk - 1) / staging_chunk;

	chunk = staging_chunk;
	/* First: after a loss is detected no buffer that the lost device can access may be used. */
	devices_note_loss();
	made_ = host_generation(dev->host_reach);
	for (; count < std::min(want, most); count++) {
		err_ = buffer_get(dev, &bufs_[count].mem);
		if (err_)
			break;
	}
	/* One buffer is enough. */
	if (count)
		err_ = 0;
	else if (err_)
		err_ = as_failure(fail_in(err_, "no staging buffer for a pageable copy"));
}

staging::~staging()
{
	const saved_error why;

	for (u64 i = 0; i < count; i++)
		if (!drained_ || !pool_put(from_, bufs_[i].mem, made_, host_generation(dev_->host_reach)))
			host_free(bufs_[i].mem);
	why.again(0);
}

/* ---- streams ---------------------------------------------------------------------------------------- */

static bool is_idle(const stream *s)
{
	return !stream_is_gated(s) && hwq_done(s->ln, s->last);
}

/* A stream whose call timed out and whose work has ended since. */
static stream *take_timed_out(device *dev)
{
	std::lock_guard guard(dev->idle_lock);

	for (stream **at = &dev->timed_out; *at; at = &(*at)->next_idle) {
		stream *s = *at;

		if (!is_idle(s))
			continue;
		*at = s->next_idle;
		store_relaxed(&s->timed_out, 0u);
		return s;
	}
	return nullptr;
}

/* False: it is not for a later call, as it has an exclusive channel, or two others are idle. */
static bool retain_stream(device *dev, stream *s)
{
	const bool idle = is_idle(s);
	std::lock_guard guard(dev->idle_lock);
	stream *&list = idle ? dev->idle : dev->timed_out;

	if (idle && (s->ln->exclusive || (list && list->next_idle)))
		return false;
	store_relaxed(&s->timed_out, u32(!idle));
	s->next_idle = std::exchange(list, s);
	return true;
}

static void put_stream(device *dev, stream *s)
{
	if (!retain_stream(dev, s))
		stream_give_back(s);
}

static stream *take_idle(device *dev)
{
	while (stream *s = take_timed_out(dev))
		put_stream(dev, s);
	std::lock_guard guard(dev->idle_lock);
	return dev->idle ? std::exchange(dev->idle, dev->idle->next_idle) : nullptr;
}

internal_stream::internal_stream(unsigned slot, deadline until) : dev_(slot)
{
	stream_options opt;

	if (!dev_) {
		err_ = fail(EBADF, "device %u is closed, or is being closed", slot);
		return;
	}
	opt.internal = true;
	s_ = take_idle(dev_.get());
	if (!s_)
		err_ = as_failure(stream_create(dev_.get(), opt, &s_));
	if (!s_)
		return;
	/* Clear an error of the previous call, which did not wait for it. */
	const saved_error why;
	stream_take_error(s_, nullptr);
	why.again(0);
	s_->until = until.at();
}

internal_stream::~internal_stream()
{
	if (s_)
		put_stream(dev_.get(), s_);
}

} // namespace usdma::core
