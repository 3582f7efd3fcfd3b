/* SPDX-License-Identifier: BSD-3-Clause */
/* What the command line says. */
#pragma once

#include "tools/perf/job.h"
#include "tools/perf/machine.h"

#include <vector>

namespace usdma::perf {

/* A paged cache of attention keys and values, as inference engines keep it. */
struct kv_shape {
	std::string model = "8b";
	unsigned layers = 0, heads = 0, head_size = 0; /* 0: the model's */
	unsigned element = 2;                          /* bytes */
	unsigned block_tokens = 16;
	unsigned tokens = 1024; /* of one request */
	unsigned requests = 4;
};

struct options {
	std::vector<way> ways = {way::h2d};
	std::vector<wait> waits = {wait::poll};
	std::vector<size_t> sizes = {64, 4 * KiB, 64 * KiB, MiB};
	std::vector<unsigned> depths = {1}, batches = {32}, threads = {1}, streams = {1};
	std::vector<int> client_cpus; /* none: of the nearest pair */
	std::vector<int> engine_cpus;
	unsigned engines = 1;
	std::string numa; /* node pairs */
	api through = api::native;
	bool cold = false, verify = false, quiet = false;
	double seconds = 0.2;
	unsigned repeats = 3;
	size_t cold_bytes = 512 * MiB;
	std::string device, json, csv, plot;
	bool limits = false;
	std::string workload;
	kv_shape kv;
	bool curves = false, calibrate = false;
	std::string write_to;
};

/* 0: go on; else the status to leave with (of --help too: 0 is -1 then). */
int parse(int argc, char **argv, options *out);

/* Chooses CPUs and tells the library: before the first usdma call.  most: software engines at least. */
machine set_up(const options &o);

int run_sweep(const options &o, const machine &m);
int run_kv_cache(const options &o, const machine &m);
int run_curves(const options &o, const machine &m);
int run_calibration(const options &o, const machine &m);

/* A line that overwrites itself on a terminal's standard error; nothing elsewhere. */
void progress(const options &o, const std::string &text);
std::string size_text(u64 bytes);

} // namespace usdma::perf
