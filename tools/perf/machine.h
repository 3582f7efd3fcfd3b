/* SPDX-License-Identifier: BSD-3-Clause */
/* The measured machine: the CPUs used, their distances, and other properties that affect the figures. */
#pragma once

#include "driver/base/types.h"
#include "tools/perf/numa.h"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace usdma::perf {

/* Cache line round trip between two CPUs. */
struct pair_distance {
	int client, engine;
	double ns;
};

struct machine {
	std::vector<int> cpus;             /* available to this process */
	std::vector<pair_distance> pairs;  /* nearest first */
	int client = 0;                    /* chosen ... */
	std::vector<int> engines;          /* ... for the client and for the engines, in the order of use */
	double line_ns = 0;                /* between client and engines[0] */
	std::vector<placement> placements; /* from --numa; empty: client and engines */
	bool own_device = false;           /* no device from the command line or the environment */
	std::string cpu, kernel, governor, huge_pages, iommu, load;
};

/* Round trip between two CPUs; -1: the chosen client or the first engine. Returns 0 if unknown. */
double line_of(const machine &m, int client, int engine);

std::vector<int> usable_cpus();
/* False: the CPU is not available. */
bool pin(int cpu);
/* Undoes pin(). */
void unpin(const std::vector<int> &cpus);

/* Median round trip in ns; the calling thread is moved to client. */
double line_round_trip(int client, int engine);

/* client: -1, engines: empty: the nearest pair, for which all pairs are measured. */
machine read_machine(int client, const std::vector<int> &engines);
std::string describe(const machine &m);
nlohmann::json to_json(const machine &m);

} // namespace usdma::perf
