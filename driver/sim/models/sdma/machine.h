/* SPDX-License-Identifier: BSD-3-Clause */
/* What the engines of one model share. */
#pragma once

#include "driver/copy/copy.h"
#include "driver/sim/config.h"
#include "driver/sim/dma_space.h"
#include "driver/sim/faults.h"
#include "driver/sim/remote.h"

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

	u32 count() const { return u32(fds_.size()); }
	/* Engines, in a pass; no-op for a vector without an eventfd. */
	void raise(u32 vector);
	/* Server thread only. On return no engine writes to the previous eventfds, which fds then holds. */
	void set(u32 first, std::span<unique_fd> fds);
	void clear(u32 first, u32 count);

private:
	void retire(std::span<unique_fd> fds);

	std::vector<int> fds_;         /* by load_acquire, store_release */
	dma_space &space_;             /* for quiesce() */
	std::vector<unique_fd> stuck_; /* still written by an engine: closed by the destructor */
};

struct machine {
	explicit machine(const config &c, const dma_bounds &most, u32 vectors)
		: cfg(c), space(most), irqs(vectors, space), tuning(copy_for_cpu(c.copy_rows))
	{
	}

	const config &cfg;
	dma_space space;
	interrupts irqs;
	const copy_tuning &tuning;
	u8 *mem = nullptr; /* device memory */
	u64 mem_size = 0;
	u64 mem_base = 0;             /* page-aligned; by load_relaxed, store_relaxed: read once per descriptor */
	u8 *doorbell_pages = nullptr; /* doorbell pages, channel 0's first */
	u32 channels = 0;
	bool in_client = false; /* in the client's process, where membarrier(2) reaches its CPUs */
	remote_port *remote = nullptr;
	faults *wrong = nullptr;
};

} // namespace usdma::sim
