/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine's limits for a device that is a thread: the reference for all other figures. */
#pragma once

#include "tools/perf/job.h"
#include "tools/perf/machine.h"

#include <map>
#include <memory>

namespace usdma::perf {

class areas;

/* Copies len bytes; the ranges are 64-byte aligned, len a multiple of 64 in the non-temporal ones. */
struct copy_method {
	const char *name;
	void (*copy)(void *dst, const void *src, size_t len);
	bool streaming;
};
/* memcpy first. */
const std::vector<copy_method> &copy_methods();

struct limits {
	double line_ns = 0;
	double eventfd_ns = 0, uring_ns = 0; /* from the write until the sleeper runs */
	double memcpy_hot = 0;               /* GB/s: 1 MiB, plain, in the caches */
	double memcpy_cold = 0;              /* 1 MiB, plain, from memory */
	double best_cold = 0;                /* the best of all methods ... */
	std::string best_name;               /* ... and its name */
	double best_cold_small_pages = 0;    /* the same in shared 4 KiB pages, as of software devices */
	std::map<unsigned, double> threads;  /* best_name, by number of threads */
};

/* Measures medians; takes some seconds. */
limits measure_limits(const machine &m, size_t cold_bytes, unsigned most_threads);

/*
 * The best cold memcpy once more, between the repeats of a measurement: on a shared machine the rate of memory
 * changes from one second to the next.
 */
class cold_reference {
public:
	cold_reference(const machine &m, const limits &l, size_t cold_bytes);
	~cold_reference();
	cold_reference(const cold_reference &) = delete;
	cold_reference &operator=(const cold_reference &) = delete;

	/* Measures the job, and fills best_cold and best_cold_all of the result. */
	outcome measure_beside(bench_device &dev, const job &j) const;

private:
	const copy_method &how_;
	const std::vector<int> engine_, all_; /* CPUs: one thread copies on each */
	const std::unique_ptr<areas> mem_;
};

/* GB/s of a copy method with copies of size bytes, on the calling thread. */
double memcpy_rate(const copy_method &how, u8 *dst, const u8 *src, size_t area, size_t size, double seconds);

std::string describe(const limits &l);
nlohmann::json to_json(const limits &l);

/* A scattered permutation of the slots of an area. slots: a power of two. */
inline size_t slot_of(u64 i, size_t slots)
{
	return size_t(i * 0x9E3779B97F4A7C15u) & (slots - 1);
}

/* The number of slots, rounded down to a power of two. */
inline size_t slots_in(size_t area, size_t size)
{
	size_t n = 1;

	while (n * 2 * size <= area)
		n *= 2;
	return n;
}

} // namespace usdma::perf
