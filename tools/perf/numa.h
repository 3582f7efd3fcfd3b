/* SPDX-License-Identifier: BSD-3-Clause */
/* NUMA placement of clients, engines and their memory. */
#pragma once

#include "driver/base/types.h"

#include <string>
#include <vector>

namespace usdma::perf {

struct machine;

/* Nodes; -1: any. */
struct node_pair {
	int client = -1; /* of the threads that submit, and of host memory */
	int engine = -1; /* of the engines, and of device memory, by first touch */
};

/* CPUs and device of one measured pair. */
struct placement {
	node_pair nodes;
	int client_cpu = -1;
	std::vector<int> engine_cpus; /* nearest to the client first */
	unsigned device = 0;
};

/* The nodes of these CPUs. */
std::vector<int> nodes_of(const std::vector<int> &cpus);
/* "0:1,1:1", or "all"; throws std::runtime_error for an invalid node or one without a usable CPU. */
std::vector<node_pair> parse_node_pairs(const std::string &text, const std::vector<int> &cpus);
/* One for each pair; each set of engine CPUs gets a device number.  Throws if a node has too few CPUs. */
std::vector<placement> choose_placements(const machine &m, const std::vector<node_pair> &pairs);

/* Restricts the calling thread to the CPUs of a node. */
void run_on_node(int node);
/* Memory of a node, freed by free_on_node(); throws. */
u8 *alloc_on_node(int node, size_t bytes);
void free_on_node(u8 *at, size_t bytes);
/* The node of a touched page; -1: unknown. */
int node_of(const void *page);

} // namespace usdma::perf
