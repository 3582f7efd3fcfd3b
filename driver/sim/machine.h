/* SPDX-License-Identifier: BSD-3-Clause */
/* What the units of one model share. */
#pragma once

#include "driver/base/copy.h"
#include "driver/base/futex_lock.h"
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
	explicit interrupts(u32 count) : fds_(count) {}

	u32 count() const { return u32(fds_.size()); }
	/* Any thread; a vector without an eventfd is silence. */
	void raise(u32 vector);
	void set(u32 first, std::span<unique_fd> fds);
	void clear(u32 first, u32 count);

private:
	/* Held over the write, so that a replaced eventfd is not written after set returned. */
	futex_lock lock_;
	std::vector<unique_fd> fds_;
};

struct machine {
	explicit machine(const config &c, const dma_bounds &most, u32 vectors)
		: cfg(c), space(most), irqs(vectors), tuning(copy_for_cpu())
	{
	}

	const config &cfg;
	dma_space space;
	interrupts irqs;
	const copy_tuning &tuning;
	u8 *mem = nullptr; /* device memory */
	u64 mem_size = 0;
	u64 mem_base = 0; /* by load_relaxed, store_relaxed */
	u8 *doors = nullptr; /* doorbell pages, channel 0's first */
	u32 channels = 0;
	bool in_client = false; /* in the client's own process, where barriers for all reach its CPUs */
	remote_port *remote = nullptr;
	faults *wrong = nullptr;
};

} // namespace usdma::sim
