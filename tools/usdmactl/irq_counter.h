/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts a device's interrupts: eventfds between it and those of its driver, and a thread that passes signals on. */
#pragma once

#include "driver/base/barrier.h"
#include "driver/base/unique_fd.h"

#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace usdma::ctl::trial {

class irq_counter {
public:
	irq_counter() = default;
	~irq_counter();
	irq_counter(const irq_counter &) = delete;
	irq_counter &operator=(const irq_counter &) = delete;

	/* Of a type of interrupts, vectors from the first on: what the device is to signal instead of fds. -errno. */
	int replace(unsigned type, unsigned first, std::span<const int> fds, std::vector<int> *out);
	u64 count() const { return load_relaxed(&count_); }

private:
	struct line {
		unique_fd device, driver;
	};

	int start();
	int add(u64 key, int fd);
	void run();
	void pass_on(u64 key);

	unique_fd poll_, stop_;
	std::mutex lock_;
	std::map<u64, line> lines_; /* by type << 32 | vector */
	u64 count_ = 0;             /* atomic */
	std::thread thread_;
};

} // namespace usdma::ctl::trial
