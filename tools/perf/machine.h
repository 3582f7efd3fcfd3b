/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine that the figures belong to: which CPUs are used and how far apart they are, and what else decides. */
#pragma once

#include "driver/base/types.h"
#include "tools/perf/numa.h"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace usdma::perf {

/* A cache line there and back between two CPUs. */
struct pair_distance {
	int client, engine;
	double ns;
};

struct machine {
	std::vector<int> cpus;            /* that this process may use */
	std::vector<pair_distance> pairs; /* nearest first */
	int client = 0;                   /* chosen ... */
	std::vector<int> engines;         /* ... for the client and for the engines, in the order of use */
	double line_ns = 0;               /* between client and engines[0] */
	std::vector<place> places;        /* of --numa; none: client and engines */
	bool own_device = false;          /* neither the command line nor the environment named one */
	std::string cpu, kernel, governor, huge_pages, iommu, load;
};

/* Between two CPUs, -1: the client that was chosen, the first engine; 0: not known. */
double line_of(const machine &m, int client, int engine);

std::vector<int> usable_cpus();
/* False: the CPU is none of ours. */
bool pin(int cpu);
/* Undoes pin: every CPU that this process may use. */
void unpin(const std::vector<int> &cpus);

/* Median round trip in ns; the calling thread is moved to client. */
double line_round_trip(int client, int engine);

/* client, engine: -1 for the nearest pair. Measures all pairs where it has to choose. */
machine look_at_machine(int client, const std::vector<int> &engines);
std::string describe(const machine &m);
nlohmann::json to_json(const machine &m);

} // namespace usdma::perf
