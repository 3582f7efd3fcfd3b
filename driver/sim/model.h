/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A software device as the vfio-user server sees it. The server has checked what the protocol defines: indexes,
 * ranges against region sizes, counts against irq_count. The server's thread makes all calls; they return 0 or
 * -errno, which becomes the reply.
 */
#pragma once

#include "driver/base/mapping.h"
#include "driver/base/unique_fd.h"
#include "driver/sim/faults.h"
#include "driver/sim/remote.h"
#include "driver/vfio/device.h"

#include <memory>
#include <span>
#include <vector>

namespace usdma::sim {

struct region_desc {
	u64 size = 0;
	u32 flags = 0; /* vfio::region_* */
	int fd = -1;   /* backs the mappable ranges; region offset 0 is at offset 0 */
	std::vector<vfio::range> mappable;
};

/* Writing the eventfd is a write to the register. */
struct doorbell_desc {
	u64 offset = 0;
	u32 size = 0;
	int fd = -1;
};

/* A mapping that is unmapped with its last user: each holds a mapping of a part, with this as its guard. */
class shared_mapping final : public mapping_guard {
public:
	void unmap(void *, size_t) override {}

	mapping whole;
};

class device_model {
public:
	virtual ~device_model() = default;

	/* Before start: the client is this process. */
	virtual void set_in_client() {}
	/* Allocates its memory and starts its engines; before it is served. 0 or -errno. */
	virtual int start() = 0;
	/* Same process: see dma_space::share. */
	virtual int share(u64 iova, void *vaddr, u64 size) = 0;
	/* Same process: the mapping of BAR2 that its engines use; nullptr: none. */
	virtual std::shared_ptr<shared_mapping> memory() const { return nullptr; }

	virtual u32 region_count() const = 0;
	virtual const region_desc &region(u32 index) const = 0;
	virtual int region_read(u32 index, u64 offset, u8 *buf, u32 len) = 0;
	virtual int region_write(u32 index, u64 offset, const u8 *buf, u32 len) = 0;
	virtual std::span<const doorbell_desc> doorbells(u32 region) const = 0;

	virtual u32 irq_types() const = 0;
	virtual u32 irq_count(u32 index) const = 0;
	/* Takes ownership of the eventfds. */
	virtual int irq_set(u32 index, u32 first, std::span<unique_fd> fds) = 0;
	virtual int irq_clear(u32 index, u32 first, u32 count) = 0;
	virtual int irq_trigger(u32 index, u32 vector) = 0;

	virtual u32 max_areas() const = 0;
	virtual int dma_map(u64 iova, u64 size, u32 prot, unique_fd fd, u64 offset) = 0;
	/* Also files whose accesses may block for ever. */
	virtual bool takes_any_file() const { return false; }
	virtual int dma_unmap(u64 iova, u64 size) = 0;
	virtual int dma_unmap_all() = 0;

	virtual int reset() = 0;
	/* Accesses from before reset() are still in flight. */
	virtual bool is_resetting() const { return false; }
	/*
	 * Final: on return the device neither reads nor writes the client's memory, and holds no memory and no
	 * descriptor of the client.
	 */
	virtual void quiesce() = 0;
	/*
	 * After quiesce(): a device behind the model does not obey, and may access the memory after all. Until another
	 * quiesce() changes that, the model is not destroyed, and the connection not closed.
	 */
	virtual bool is_accessed() const { return false; }
	/* The fault to inject into the next reply. */
	virtual reply_fault next_reply() { return reply_fault::none; }
	/*
	 * Sets the port to memory without a file; before the first command. The model is quiesced before the port is
	 * destroyed.
	 */
	virtual void connect(remote_port *port) = 0;
};

/* The model that the settings name, or a replay on it (replay.cpp); nullptr: no memory. It keeps wrong, not cfg. */
std::unique_ptr<device_model> make_model(const struct config &cfg, faults *wrong);

} // namespace usdma::sim
