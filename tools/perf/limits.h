/* SPDX-License-Identifier: BSD-3-Clause */
/* What this machine allows a device that is a thread: the figures that all others are held against. */
#pragma once

#include "tools/perf/machine.h"

#include <map>

namespace usdma::perf {

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
	double eventfd_ns = 0, uring_ns = 0; /* from the write to the sleeper awake */
	double memcpy_hot = 0;               /* GB/s: 1 MiB, plain, in the caches */
	double memcpy_cold = 0;              /* 1 MiB, plain, from memory */
	double best_cold = 0;                /* of all methods ... */
	std::string best_name;               /* ... which */
	double best_cold_small_pages = 0;    /* the same in shared memory of 4 KiB pages, what software devices offer */
	std::map<unsigned, double> threads;  /* best_name by so many threads */
};

/* Medians; takes some seconds. */
limits measure_limits(const machine &m, size_t cold_bytes, unsigned most_threads);
/* One way of copying so many bytes, GB/s by one thread of the client's CPU. */
double memcpy_rate(const copy_method &how, u8 *dst, const u8 *src, size_t area, size_t size, double seconds);

std::string describe(const limits &l);
nlohmann::json to_json(const limits &l);

/* Slots of an area in a scattered order that visits each before any twice. slots: a power of two. */
inline size_t slot_of(u64 i, size_t slots)
{
	return size_t(i * 0x9E3779B97F4A7C15u) & (slots - 1);
}

/* How many there are: rounded down to a power of two. */
inline size_t slots_in(size_t area, size_t size)
{
	size_t n = 1;

	while (n * 2 * size <= area)
		n *= 2;
	return n;
}

} // namespace usdma::perf
