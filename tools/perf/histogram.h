/* SPDX-License-Identifier: BSD-3-Clause */
/* Latency histogram with bins of 0.5 %, so that percentiles of any number of samples are cheap. */
#pragma once

#include "driver/base/types.h"

#include <memory>
#include <span>
#include <vector>

namespace usdma::perf {

/* v: not empty */
double median(std::vector<double> v);

class histogram {
public:
	histogram();
	~histogram();
	histogram(const histogram &) = delete;
	histogram(histogram &&) noexcept;
	histogram &operator=(histogram &&) noexcept;

	void add(double ns);
	/* Ticks of clock.h. */
	void add_ticks(std::span<const u64> samples);
	void merge(const histogram &other);

	u64 count() const;
	double max() const { return max_; }
	/* p: 0 ... 100. 0 if empty. */
	double percentile(double p) const;

private:
	struct bins;
	std::unique_ptr<bins> bins_;
	double max_ = 0;
};

} // namespace usdma::perf
