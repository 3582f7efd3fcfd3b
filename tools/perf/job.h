/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters and results of a measurement. */
#pragma once

#include "tools/perf/histogram.h"
#include "tools/perf/numa.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

struct usdma_device;

namespace usdma::perf {

enum class copy_kind { h2d, d2h, d2d, page_h2d, page_d2h, rect, batch, desc, sync };
enum class api { native, acl };
enum class wait { any, poll, interrupt, hybrid }; /* as enum usdma_wait_mode */

const char *name_of(copy_kind kind);
const char *name_of(wait mode);
bool is_pageable(copy_kind kind);

struct job {
	perf::api api = perf::api::native;
	perf::copy_kind kind = copy_kind::h2d;
	perf::wait wait = wait::any;
	size_t size = 64;
	unsigned depth = 1; /* copies in flight, of each thread */
	unsigned batch = 1; /* copies in one call of a batch */
	unsigned threads = 1;
	unsigned streams = 1; /* of each thread */
	bool cold = false;    /* over an area larger than the caches */
	bool verify = false;
	double seconds = 0.2; /* of each repeat */
	unsigned repeats = 3;
	int client_cpu = -1;    /* of the first thread; the others run on any CPU, or on the client's node */
	int engine_cpu = -1;    /* -1: chosen by read_machine() */
	node_pair nodes = {};   /* if --numa was given */
	double rate = 0;        /* copies a second of all threads, by a schedule; 0: as fast as depth allows */
	double load = 0;        /* rate in percent of that without a schedule; 0: rate was given */
	bool mark_each = false; /* an event after each copy, not after depth / 4 of them */
	unsigned processes = 1; /* each with so many threads */
	unsigned process = 0;   /* the number of this one */
};

/* An open device with its memory for measurements. */
struct bench_memory;
struct bench_device {
	/* node: of host memory; -1: chosen by the library */
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
	histogram latency;         /* ns, from before the first call of a group to its observed completion */
	histogram submit;          /* ns per copy, of the calls alone */
	double gbps = 0, mcps = 0; /* GB/s, million copies a second: median over short windows; with several threads
				      over repeats */
	double held = 0;           /* mean rate over the whole time, in percent of it */
	double spread = 0;         /* (max - min) / median of the repeats, percent */
	double client_cpu = 0, engine_cpu = 0; /* percent of one CPU */
	double base_gbps = 0;                  /* memcpy of the same size, hot or cold alike, by one thread */
	double best_cold = 0;                  /* of cold_reference, by one thread; 0: not measured */
	double best_cold_all = 0;              /* the same by a thread on each CPU */
	int host_node = -1;                    /* actual node of host memory; -1: unknown */
	bool verified = false;
	bool interrupted = false; /* by a signal: shorter than requested */
	u64 copies = 0;
	struct {
		std::vector<double> gbps, p50_ns, p99_ns;
	} repeats; /* of each */
};

/*
 * before_repeat: called before the warm-up and each repeat. Throws std::runtime_error, also for wrong data. copies is 0
 * after a signal in the warm-up.
 */
outcome measure(bench_device &dev, const job &j, const std::function<void()> &before_repeat = nullptr);
/* The same by job.processes processes, which open the device themselves: the caller must not have used the library. */
outcome measure_in_processes(unsigned device, size_t cold_bytes, const job &j);
/* Whether a process of its own can open the device; throws its error. */
void check_in_process(unsigned device);
/* True: built with ACL. */
bool have_acl();

/* Median ns from the device's time stamp of the end until the waiter runs again. */
double blocked_wait_ns(bench_device &dev, int client_cpu, perf::wait mode);

} // namespace usdma::perf
