/* SPDX-License-Identifier: BSD-3-Clause */
/* Source and destination memory of measurements; allocated on first use, touched before the clock starts. */
#pragma once

#include "tools/perf/job.h"
#include "tools/perf/limits.h"

#include <vector>

namespace usdma::perf {

/* Limit of descriptors of a thread. */
inline constexpr size_t desc_most = 1024;

/* One thread's part of the memory. */
struct part {
	u8 *dst, *src;
	size_t bytes;
	u8 *desc;
};

/* Bytes of an area that one copy occupies: the rows of a rectangle have gaps. */
inline size_t slot_bytes(const job &j)
{
	return j.kind == copy_kind::rect ? 2 * j.size : j.size;
}

struct bench_memory {
	/* node: of host memory, which is registered then; -1: allocated by the library on any node. */
	bench_memory(usdma_device *d, int n) : dev(d), node(n) {}
	~bench_memory();
	bench_memory(const bench_memory &) = delete;

	/*
	 * Random bytes in the sources; the destinations are cleared if the job is verified. source: of the device
	 * that a copy between devices reads; nullptr: this one.
	 */
	std::vector<part> parts(const job &j, size_t cold_bytes, bench_memory *source = nullptr);
	/* Throws if one of the first n slots, in their order of use, has wrong data. */
	void check(const job &j, const part &p, size_t slots, u64 n);
	/* The node of the first page of the job's host memory; -1: none, or unknown. */
	int host_node(const job &j) const;

private:
	struct block {
		u8 *at = nullptr;
		size_t bytes = 0;
	};

	void renew(u8 *dst, u8 *src, size_t bytes);
	u8 *host(size_t bytes);
	u8 *pageable(size_t bytes);
	u8 *device(unsigned which, size_t bytes);
	u8 *descs(unsigned threads);
	std::vector<u8> bytes_of(const u8 *at, size_t bytes);

	void drop_host();

	usdma_device *dev;
	int node;
	block host_, pageable_, device_[2], desc_;
};

} // namespace usdma::perf
