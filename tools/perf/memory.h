/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory that measurements copy from and to; made on first use, touched before anything is timed. */
#pragma once

#include "tools/perf/job.h"
#include "tools/perf/limits.h"

#include <vector>

namespace usdma::perf {

/* Descriptors that one thread has at most. */
inline constexpr size_t desc_most = 1024;

/* One thread's part. */
struct part {
	u8 *dst, *src;
	size_t bytes;
	u8 *desc;
};

/* What one copy takes of an area: a rectangle's rows lie apart. */
inline size_t room_of(const job &j)
{
	return j.way == way::rect ? 2 * j.size : j.size;
}

struct bench_memory {
	/* node: of host memory, which is registered then; -1: the library's own, where it likes. */
	bench_memory(usdma_device *d, int n) : dev(d), node(n) {}
	~bench_memory();
	bench_memory(const bench_memory &) = delete;

	/* Random bytes in the sources; the destinations are cleared when the job wants to be verified. */
	std::vector<part> parts(const job &j, size_t cold_bytes);
	/* Throws where one of the first n slots, in their order of use, has not arrived. */
	void check(const job &j, const part &p, size_t slots, u64 n);
	/* Where the first page of the job's host side lies; -1: it has none, or it is not to be known. */
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
