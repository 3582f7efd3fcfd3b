/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "tools/perf/job.h"

#include <vector>

struct usdma_stream;

namespace usdma::perf {

/* Median ns to submit one 64-byte copy, on n streams in turn, in bursts that fit into the ring. */
double submit_cost(usdma_stream *const *streams, size_t n, u8 *dst, u8 *src);
double submit_cost_alone(usdma_device *dev, usdma_stream *s, u8 *dst, u8 *src);
/* The same through aclrtMemcpyAsync, on a separate stream. 0 if built without ACL. */
double acl_submit_cost(unsigned device, u8 *dst, u8 *src);

struct many_streams {
	many_streams(usdma_device *dev, size_t n, wait mode);
	~many_streams();
	many_streams(const many_streams &) = delete;

	std::vector<usdma_stream *> all;
};

/* n registered regions of host memory with gaps between them. */
struct many_regions {
	explicit many_regions(size_t n);
	~many_regions();
	many_regions(const many_regions &) = delete;
	many_regions &operator=(const many_regions &) = delete;

	size_t count = 0; /* fewer than requested if a limit of the machine was reached ... */
	std::string why;  /* ... and why */

private:
	void *mem_ = nullptr;
	size_t bytes_ = 0;
};

} // namespace usdma::perf
