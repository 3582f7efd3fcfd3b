/* SPDX-License-Identifier: BSD-3-Clause */
/* The counter pages of the processes that use usdma (lib/core/base/stats.h). */
#pragma once

#include "lib/core/base/stats.h"
#include "tools/usdmactl/ctl.h"

#include <map>

namespace usdma::ctl {

/* A device that a process has open. */
struct open_device {
	unsigned pid = 0;
	std::string command, device, driver;
	u32 hw_queues = 0;
	u64 opened_ns = 0;
	u64 memory_used = 0, memory_size = 0;
	core::hwq_counters sum;
};

struct process_slot {
	unsigned pid, slot;
	u64 opened_ns;

	// NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 of a generated comparison for a pointer
	auto operator<=>(const process_slot &) const = default;
};

/* Host memory that a process retains for devices that it lost and closed. */
struct retained {
	unsigned pid = 0;
	std::string command;
	u64 devices = 0, bytes = 0;
};

struct page_sample {
	std::map<process_slot, open_device> rows;
	std::vector<retained> lost;
};

/* Of one process, or of all that can be read (0). */
page_sample read_pages(const context &ctx, unsigned only);

} // namespace usdma::ctl
