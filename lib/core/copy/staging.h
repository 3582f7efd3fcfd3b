/* SPDX-License-Identifier: BSD-3-Clause */
/* Resources of a synchronous copy: staging buffers in pinned memory, and an internal stream. */
#pragma once

#include "lib/core/stream/guard.h"

namespace usdma::core {

/* Frees pooled buffers of an older generation (host_generation_renew()). Called as host_free(). */
void staging_trim(const device *dev);

/* Bytes of a buffer: fits the caches, and hides the cost of a doorbell. */
inline constexpr u64 staging_chunk = 512 * KiB;

struct staging_pool;

/* Staging buffers for one copy of len bytes by this device; len 0: none. */
class staging {
public:
	struct buffer {
		u8 *mem = nullptr;
		u64 seq = 0;
		bool busy = false;
	};

	staging(u64 len, const device *dev);
	~staging();
	staging(const staging &) = delete;
	staging &operator=(const staging &) = delete;

	int error() const { return err_; }
	buffer &at(u64 i) { return bufs_[i % count]; }
	/*
	 * No engine uses the buffers any more: return them to the pool. Otherwise they are freed as pinned
	 * memory, which is deferred.
	 */
	void drained() { drained_ = true; }

	u64 chunk = 0; /* bytes of a buffer */
	u64 count = 0;

private:
	static constexpr u64 most = 8;

	int buffer_get(const device *dev, u8 **out);

	buffer bufs_[most];
	const device *dev_;
	staging_pool *from_;
	int err_ = 0;
	u32 made_ = 0;
	bool drained_ = false;
};

/* A stream of a device for exclusive use. The device cannot close before this is destroyed. */
class internal_stream {
public:
	explicit internal_stream(unsigned slot, deadline until = deadline::never());
	~internal_stream();
	internal_stream(const internal_stream &) = delete;
	internal_stream &operator=(const internal_stream &) = delete;

	int error() const { return err_; }
	stream *get() const { return s_; }

private:
	stream *s_ = nullptr;
	int err_ = 0;
	const slot_guard dev_;
};

} // namespace usdma::core
