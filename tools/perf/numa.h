/* SPDX-License-Identifier: BSD-3-Clause */
/* NUMA nodes: where a pair of client and engine runs, and where its memory lies. */
#pragma once

#include "driver/base/types.h"

#include <string>
#include <vector>

namespace usdma::perf {

struct machine;

/* Nodes; -1: no matter. */
struct node_pair {
	int client = -1; /* of the threads that submit, and of host memory */
	int engine = -1; /* of the engines, and of device memory: who first touches it places it */
};

/* Where one pair is measured. */
struct place {
	node_pair nodes;
	int client_cpu = -1;
	std::vector<int> engine_cpus; /* the nearest to the client first */
	unsigned device = 0;
};

/* Nodes of which this process may use a CPU. */
std::vector<int> nodes_of(const std::vector<int> &cpus);
/* "0:1,1:1", or "all"; throws std::runtime_error for what is none, or has no CPU here. */
std::vector<node_pair> parse_node_pairs(const std::string &text, const std::vector<int> &cpus);
/* A place for each pair; devices are numbered by the engines' CPUs.  Throws where a node has too few CPUs. */
std::vector<place> choose_places(const machine &m, const std::vector<node_pair> &pairs);

/* Leaves the calling thread the CPUs of that node only. */
void run_on_node(int node);
/* Memory of that node, which numa_free gives back; throws. */
u8 *take_on_node(int node, size_t bytes);
void give_back(u8 *at, size_t bytes);
/* Where a touched page lies; -1: not to be known. */
int node_of(const void *page);

} // namespace usdma::perf
