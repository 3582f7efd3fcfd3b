/* SPDX-License-Identifier: BSD-3-Clause */
/* What is to be measured, and what came out. */
#pragma once

#include "tools/perf/histogram.h"
#include "tools/perf/numa.h"

#include <string>

struct usdma_device;

namespace usdma::perf {

enum class way { h2d, d2h, d2d, page_h2d, page_d2h, rect, batch, desc, sync };
enum class api { native, acl };
enum class wait { any, poll, interrupt, hybrid }; /* as enum usdma_wait_mode */

const char *name_of(way w);
const char *name_of(wait w);
bool is_pageable(way w);

struct job {
	perf::api api = perf::api::native;
	perf::way way = way::h2d;
	perf::wait wait = wait::any;
	size_t size = 64;
	unsigned depth = 1; /* copies in flight, of each thread */
	unsigned batch = 1; /* copies by one call, where the way has such a call */
	unsigned threads = 1;
	unsigned streams = 1; /* of each thread */
	bool cold = false;    /* over an area that no cache holds */
	bool verify = false;
	double seconds = 0.2; /* of each repeat */
	unsigned repeats = 3;
	int client_cpu = -1;  /* of the first thread; the others are left to the kernel, or to the client's node */
	int engine_cpu = -1;  /* -1: the machine's first choice */
	node_pair nodes = {}; /* where one was asked for */
};

/* What a device lends to measurements: memory, and who it is. */
struct bench_memory;
struct bench_device {
	/* node: of host memory; -1: where the library puts it */
	bench_device(unsigned index, size_t cold_bytes, int node = -1);
	~bench_device();
	bench_device(const bench_device &) = delete;

	unsigned index;
	usdma_device *dev = nullptr;
	size_t cold_bytes;
	std::unique_ptr<bench_memory> mem;
};

struct outcome {
	perf::job job;
	histogram latency; /* ns, from before the first call of a group to its end seen */
	histogram submit;  /* ns a copy, of the calls alone */
	double gbps = 0,
	       mcps = 0; /* GB/s, million copies a second: median over short windows; of several threads over repeats */
	double held = 0; /* percent of that, over the whole time */
	double spread = 0;                     /* (max - min) / median of the repeats, percent */
	double client_cpu = 0, engine_cpu = 0; /* percent of one CPU */
	double base_gbps = 0;                  /* memcpy of the same size and warmth by one thread */
	int host_node = -1;                    /* where its host memory really lay; -1: not known */
	bool verified = false;
	bool cut = false; /* by a signal: shorter than asked for */
	u64 copies = 0;
};

/* Throws std::runtime_error with what went wrong; a wrong byte is such an error. copies is 0 after a signal in the
 * warm-up. */
outcome measure(bench_device &dev, const job &j);
/* ACL was built in. */
bool have_acl();

/* From the device's time of the end until the waiter runs again, in interrupt mode: median ns. */
double blocked_wait_ns(bench_device &dev, int client_cpu, perf::wait mode);

} // namespace usdma::perf
