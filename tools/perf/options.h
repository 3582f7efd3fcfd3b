/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line. */
#pragma once

#include "tools/perf/job.h"
#include "tools/perf/machine.h"

#include <vector>

namespace usdma::perf {

/* A paged cache of attention keys and values, as in inference engines. */
struct kv_shape {
	std::string model = "8b";
	unsigned layers = 0, heads = 0, head_size = 0; /* 0: the model's */
	unsigned element = 2;                          /* bytes */
	unsigned block_tokens = 16;
	unsigned tokens = 1024; /* of one request */
	unsigned requests = 4;
};

inline bool is_percent(const std::string &rate)
{
	return !rate.empty() && rate.back() == '%';
}

struct options {
	std::vector<copy_kind> kinds = {copy_kind::h2d};
	std::vector<wait> waits = {wait::poll};
	std::vector<size_t> sizes = {64, 4 * KiB, 64 * KiB, MiB};
	std::vector<unsigned> depths = {1}, batches = {32}, threads = {1}, streams = {1}, processes;
	std::vector<std::string> rates; /* copies a second, or percent */
	std::vector<int> client_cpus;   /* empty: the nearest pair */
	std::vector<int> engine_cpus;
	unsigned engines = 1;
	std::string numa; /* node pairs */
	api through = api::native;
	bool cold = false, verify = false, quiet = false;
	double seconds = 0.2;
	unsigned repeats = 3;
	size_t cold_bytes = 512 * MiB;
	std::string device, json, csv, plot, against;
	std::string net, net_listen; /* addresses: of the other machine, of this one */
	bool limits = false;
	std::string workload;
	kv_shape kv;
	std::string folder = "/tmp"; /* of the files that are measured */
	std::string file;            /* or this one */
	size_t file_size = 256 * MiB;
	bool curves = false, calibrate = false, matrix = false;
	std::string write_to;
};

/* 0: continue; else exit with this status (-1: with 0, after --help). */
int parse(int argc, char **argv, options *out);

/* Chooses CPUs and sets the library's environment; call it before the first usdma call. */
machine set_up(const options &o);

int run_sweep(const options &o, const machine &m);
int run_matrix(const options &o, const machine &m);
int run_weights(const options &o, const machine &m);
int run_kv_file(const options &o, const machine &m);
int run_kv_cache(const options &o, const machine &m);
int run_curves(const options &o, const machine &m);
int run_calibration(const options &o, const machine &m);
int run_net(const options &o, const machine &m);
/* Until it is interrupted. */
int run_net_listen(const options &o, const machine &m);

/* Overwrites the progress line if standard error is a terminal. */
void progress(const options &o, const std::string &text);
std::string size_text(u64 bytes);

} // namespace usdma::perf
