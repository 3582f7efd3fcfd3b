/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/histogram.h"

#include "tools/perf/clock.h"

#include <algorithm>
#include <boost/histogram.hpp>

namespace usdma::perf {

namespace bh = boost::histogram;

double median(std::vector<double> v)
{
	std::sort(v.begin(), v.end());
	return v[v.size() / 2];
}

using axis = bh::axis::regular<double, bh::axis::transform::log>;

/* From 1 ns to 100 s, each bin 0.5 % wider than the one before. */
static constexpr unsigned bin_count = 5080;
static constexpr double first_ns = 1, last_ns = 1e11;

struct histogram::bins {
	decltype(bh::make_histogram(axis())) h = bh::make_histogram(axis(bin_count, first_ns, last_ns));
};

histogram::histogram() : bins_(std::make_unique<bins>()) {}
histogram::~histogram() = default;
histogram::histogram(histogram &&) noexcept = default;
histogram &histogram::operator=(histogram &&) noexcept = default;

void histogram::add(double ns)
{
	bins_->h(ns);
	max_ = std::max(max_, ns);
}

void histogram::add_ticks(std::span<const u64> samples)
{
	const double tick = ns_per_tick();

	for (u64 t : samples)
		add(double(t) * tick);
}

void histogram::merge(const histogram &other)
{
	bins_->h += other.bins_->h;
	max_ = std::max(max_, other.max_);
}

u64 histogram::count() const
{
	return u64(bh::algorithm::sum(bins_->h));
}

double histogram::percentile(double p) const
{
	const double all = double(count()), wanted = all * p / 100;
	double seen = 0;

	for (auto &&bin : bh::indexed(bins_->h, bh::coverage::all)) {
		seen += double(*bin);
		if (all > 0 && seen >= wanted && *bin > 0)
			return std::min(bin.bin(0).upper(), max_);
	}
	return max_;
}

} // namespace usdma::perf
