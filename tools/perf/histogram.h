/* SPDX-License-Identifier: BSD-3-Clause */
/* Latencies: counted in bins that are half a percent wide, so that percentiles of any number of samples are cheap. */
#pragma once

#include "driver/base/types.h"

#include <memory>
#include <span>

namespace usdma::perf {

class histogram {
public:
	histogram();
	~histogram();
	histogram(const histogram &) = delete;
	histogram(histogram &&) noexcept;
	histogram &operator=(histogram &&) noexcept;

	void add(double ns);
	/* Counter ticks, as clock.h gives them. */
	void add_ticks(std::span<const u64> samples);
	void merge(const histogram &other);

	u64 count() const;
	double max() const { return max_; }
	/* 0 ... 100; nothing was added: 0. */
	double percentile(double p) const;

private:
	struct bins;
	std::unique_ptr<bins> bins_;
	double max_ = 0;
};

} // namespace usdma::perf
