/* SPDX-License-Identifier: BSD-3-Clause */
/* What the engines of one model share. */
#pragma once

#include "driver/copy/copy.h"
#include "driver/sim/config.h"
#include "driver/sim/dma_space.h"
#include "driver/sim/faults.h"
#include "driver/sim/interrupts.h"
#include "driver/sim/remote.h"

#include <memory>
#include <span>

namespace usdma::sim {

class backend_client;
class engine;
class timing;

struct machine {
	explicit machine(const config &c, const dma_bounds &most, u32 vectors)
		: cfg(c), space(most), irqs(vectors, space), tuning(copy_for_cpu(c.copy_rows)), device(c.device)
	{
	}
	/* Copies have no faults on demand, no speed limit and no timing: the client's CPU may make them, too. */
	bool is_plain() const { return !wrong && !cfg.latency_us && !cfg.rate && cfg.timing == timing_kind::plain; }

	const config &cfg;
	dma_space space;
	interrupts irqs;
	const copy_tuning &tuning;
	u8 *mem = nullptr; /* device memory */
	u64 mem_size = 0;
	std::unique_ptr<u64[]> collapsed; /* a bit for each 2 MiB of mem, see collapse_once(); nullptr: never */
	u64 mem_device = 0;               /* its address for the device behind the model; 0: none */
	u64 mem_base = 0;                 /* page-aligned; by load_relaxed, store_relaxed: read once per descriptor */
	u8 *doorbell_pages = nullptr;     /* doorbell pages, channel 0's first */
	u32 channels = 0;
	bool in_client = false; /* in the client's process, where membarrier(2) reaches its CPUs */
	remote_port *remote = nullptr;
	faults *wrong = nullptr;
	backend_client *const device; /* nullptr: the engines do all of the work */
	timing *order = nullptr;      /* nullptr: descriptors run as they come */
	std::span<const std::unique_ptr<engine>> engines;
};

} // namespace usdma::sim
