/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory that a vfio-user server may access, and its DMA_READ and DMA_WRITE commands. */
#pragma once

#include "driver/vfio/device.h"
#include "driver/vfio_user/socket.h"

#include <map>
#include <mutex>

namespace usdma::vfio {

class user_dma {
public:
	/*
	 * shared: the server accesses it directly, not only by messages. -EEXIST: overlaps; -ENOSPC: max areas are
	 * mapped; -EINVAL: empty, wraps, or not a multiple of the page.
	 */
	int add(const dma_area &area, bool shared, u64 page_size, u64 max);
	/* -ENOENT: not mapped exactly so. */
	int check(u64 iova, u64 size) const;
	/* On return nothing here accesses the memory. True: the server had direct access. */
	bool remove(u64 iova);
	/* Any area; false: none. */
	bool first(dma_area *out) const;

	/* As user_link_ops::serve. */
	int serve(const user_message &cmd, message_body *reply);

private:
	struct mapped : dma_area {
		bool shared;
	};

	int covered(u64 iova, u64 len, u32 right) const;
	int copy(u64 iova, u8 *buf, u64 len, bool to_host);
	const dma_area *find(u64 iova) const;

	mutable std::mutex lock_;
	std::map<u64, mapped> areas_; /* by iova; disjoint */
};

} // namespace usdma::vfio
