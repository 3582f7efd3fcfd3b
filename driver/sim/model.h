/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A software device as the vfio-user server sees it.  The server has checked
 * what the protocol can tell: indexes, ranges against region sizes, counts
 * against irq_count.  All calls come from the server's thread; they return 0 or
 * -errno, which becomes the reply.
 */
#pragma once

#include "driver/base/unique_fd.h"
#include "driver/sim/faults.h"
#include "driver/sim/remote.h"
#include "driver/vfio/device.h"

#include <span>
#include <vector>

namespace usdma::sim {

struct region_desc {
	u64 size = 0;
	u32 flags = 0; /* vfio::region_* */
	int fd = -1;   /* what mappable ones are mapped from; region offset 0 at offset 0 */
	std::vector<vfio::range> mappable;
};

/* Writing the eventfd is a write to the register. */
struct doorbell_desc {
	u64 offset = 0;
	u32 size = 0;
	int fd = -1;
};

class device_model {
public:
	virtual ~device_model() = default;

	virtual u32 region_count() const = 0;
	virtual const region_desc &region(u32 index) const = 0;
	virtual int region_read(u32 index, u64 offset, u8 *buf, u32 len) = 0;
	virtual int region_write(u32 index, u64 offset, const u8 *buf, u32 len) = 0;
	virtual std::span<const doorbell_desc> doorbells(u32 region) const = 0;

	virtual u32 irq_types() const = 0;
	virtual u32 irq_count(u32 index) const = 0;
	/* Takes the eventfds over. */
	virtual int irq_set(u32 index, u32 first, std::span<unique_fd> fds) = 0;
	virtual int irq_clear(u32 index, u32 first, u32 count) = 0;
	virtual int irq_trigger(u32 index, u32 vector) = 0;

	virtual u32 max_areas() const = 0;
	virtual int dma_map(u64 iova, u64 size, u32 prot, unique_fd fd, u64 offset) = 0;
	/* Also such as may never answer. */
	virtual bool takes_any_file() const { return false; }
	virtual int dma_unmap(u64 iova, u64 size) = 0;
	virtual int dma_unmap_all() = 0;

	virtual int reset() = 0;
	/* What was in flight when reset() was called still is. */
	virtual bool is_resetting() const { return false; }
	/*
	 * For good: whatever the device was doing, on return it reads and writes nothing of
	 * the client's, and holds no memory and no descriptor of the client's any more.
	 */
	virtual void quiet() = 0;
	/* What shall go wrong with the next answer to the client. */
	virtual reply_fault next_reply() { return reply_fault::none; }
	/* How memory without a file is reached; before the first command.  The model is quiet before the port ends. */
	virtual void connect(remote_port *port) = 0;
};

} // namespace usdma::sim
