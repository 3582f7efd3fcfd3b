/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/staging.h"

#include "driver/base/error.h"

#include <algorithm>

namespace usdma::core {

/* Buffers that no copy uses now; all of bounce_chunk bytes. */
struct staging_pool {
	static constexpr size_t keep = 32;
	std::mutex lock;
	u8 *free[keep] = {};
	size_t n = 0;
};
static constinit immortal<staging_pool> pool;

static int buffer_get(u64 size, u8 **out)
{
	void *mem;
	int err;

	{
		std::lock_guard guard(pool->lock);

		if (pool->n) {
			*out = pool->free[--pool->n];
			return 0;
		}
	}
	err = host_alloc(size, -1, &mem);
	if (!err)
		*out = static_cast<u8 *>(mem);
	return err;
}

static void buffer_put(u8 *mem)
{
	{
		std::lock_guard guard(pool->lock);

		if (pool->n < staging_pool::keep) {
			pool->free[pool->n++] = mem;
			return;
		}
	}
	host_free(mem);
}

staging::staging(u64 len)
{
	const config &cfg = config_get();
	const u64 want = (len + cfg.bounce_chunk - 1) / cfg.bounce_chunk;

	chunk = cfg.bounce_chunk;
	for (; count < std::min({want, u64(cfg.bounce_count), most}); count++) {
		err_ = buffer_get(chunk, &bufs_[count].mem);
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
	for (u64 i = 0; i < count; i++)
		buffer_put(bufs_[i].mem);
}

internal_stream::internal_stream(unsigned slot)
{
	dev_ = device_peek(slot);
	if (!dev_) {
		err_ = fail(ENODEV, "device %u is not open", slot);
		return;
	}
	{
		std::lock_guard guard(dev_->idle_lock);

		if (dev_->idle) {
			s_ = dev_->idle;
			dev_->idle = s_->next_idle;
			return;
		}
	}
	stream_options opt;
	opt.internal = true;
	err_ = stream_create(dev_, opt, &s_);
}

internal_stream::~internal_stream()
{
	if (!s_)
		return;
	std::lock_guard guard(dev_->idle_lock);
	s_->next_idle = dev_->idle;
	dev_->idle = s_;
}

} // namespace usdma::core
