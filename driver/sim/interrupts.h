/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/base/unique_fd.h"
#include "driver/sim/dma_space.h"

#include <span>
#include <vector>

namespace usdma::sim {

/* MSI-X vectors: each an eventfd of the client's, or none. */
class interrupts {
public:
	interrupts(u32 count, dma_space &space) : fds_(count, -1), space_(space) {}
	~interrupts();
	interrupts(const interrupts &) = delete;
	interrupts &operator=(const interrupts &) = delete;

	/* Before the first raise(): the client is this process. */
	void set_in_client() { in_client_ = true; }
	u32 count() const { return u32(fds_.size()); }
	/* Engines, in a pass; no-op for a vector without an eventfd. */
	void raise(u32 vector);
	/* Server thread only. On return no engine writes to the previous eventfds, which fds then holds. */
	void set(u32 first, std::span<unique_fd> fds);
	void clear(u32 first, u32 count);

private:
	void retire(std::span<unique_fd> fds);

	std::vector<int> fds_; /* by load_acquire, store_release */
	bool in_client_ = false;
	dma_space &space_;             /* for quiesce() */
	std::vector<unique_fd> stuck_; /* still written by an engine: closed by the destructor */
};

} // namespace usdma::sim
