/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/numa.h"

#include "driver/base/words.h"
#include "tools/perf/machine.h"

#include <algorithm>
#include <climits>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <numa.h>
#include <set>
#include <stdexcept>

namespace usdma::perf {

/* A kernel without NUMA has one node. */
static int node_of_cpu(int cpu)
{
	return numa_available() < 0 ? 0 : std::max(0, numa_node_of_cpu(cpu));
}

std::vector<int> nodes_of(const std::vector<int> &cpus)
{
	std::set<int> nodes;

	for (int cpu : cpus)
		nodes.insert(node_of_cpu(cpu));
	return {nodes.begin(), nodes.end()};
}

static int valid_node(const std::string &text, const std::vector<int> &nodes)
{
	u64 n;

	if (!number_parse(text, &n, 0, INT_MAX))
		throw std::invalid_argument(
			fmt::format("--numa: '{}' is not a node: give CLIENT:ENGINE, such as 0:1, or all", text));
	const int node = int(n);
	if (std::find(nodes.begin(), nodes.end(), node) == nodes.end())
		throw std::invalid_argument(
			fmt::format("--numa: node {} has no CPU that this process may use; there are {}", node,
				    fmt::join(nodes, ", ")));
	return node;
}

static std::vector<node_pair> every_pair(const std::vector<int> &nodes)
{
	std::vector<node_pair> out;

	for (int client : nodes)
		for (int engine : nodes)
			out.push_back({client, engine});
	return out;
}

std::vector<node_pair> parse_node_pairs(const std::string &text, const std::vector<int> &cpus)
{
	const std::vector<int> nodes = nodes_of(cpus);
	std::vector<node_pair> out;

	if (text == "all")
		return every_pair(nodes);
	for (size_t from = 0; from <= text.size();) {
		const size_t end = std::min(text.find(',', from), text.size());
		const std::string one = text.substr(from, end - from);
		const size_t colon = std::min(one.find(':'), one.size());

		out.push_back({valid_node(one.substr(0, colon), nodes),
			       valid_node(colon < one.size() ? one.substr(colon + 1) : "", nodes)});
		from = end + 1;
	}
	return out;
}

/* ---- placements ------------------------------------------------------------------------------------- */

/* The nearest two CPUs of those nodes, in this order. */
static placement nearest(const machine &m, node_pair want)
{
	for (const pair_distance &p : m.pairs) {
		const node_pair is = {node_of_cpu(p.client), node_of_cpu(p.engine)};

		if (is.client == want.client && is.engine == want.engine)
			return {want, p.client, {p.engine}, 0};
		if (is.client == want.engine && is.engine == want.client)
			return {want, p.engine, {p.client}, 0};
	}
	throw std::runtime_error(
		fmt::format("--numa {}:{}: client and engine need a CPU each, but the node has only one", want.client,
			    want.engine));
}

std::vector<placement> choose_placements(const machine &m, const std::vector<node_pair> &pairs)
{
	std::vector<std::vector<int>> devices;
	std::vector<placement> out;

	for (const node_pair &want : pairs) {
		placement p = nearest(m, want);

		for (int cpu : m.cpus)
			if (node_of_cpu(cpu) == want.engine && cpu != p.client_cpu && cpu != p.engine_cpus[0])
				p.engine_cpus.push_back(cpu);
		auto is = std::find(devices.begin(), devices.end(), p.engine_cpus);
		if (is == devices.end())
			is = devices.insert(is, p.engine_cpus);
		p.device = unsigned(is - devices.begin());
		out.push_back(p);
	}
	return out;
}

/* ---- threads and memory ----------------------------------------------------------------------------- */

void run_on_node(int node)
{
	if (numa_available() >= 0 && numa_run_on_node(node))
		throw std::runtime_error(fmt::format("no CPU of node {} to run on", node));
}

u8 *alloc_on_node(int node, size_t bytes)
{
	void *at = numa_available() < 0 ? numa_alloc(bytes) : numa_alloc_onnode(bytes, node);

	if (!at)
		throw std::runtime_error(fmt::format("no memory on node {}", node));
	return static_cast<u8 *>(at);
}

void free_on_node(u8 *at, size_t bytes)
{
	if (at)
		numa_free(at, bytes);
}

int node_of(const void *page)
{
	void *pages[] = {const_cast<void *>(page)};
	int status = -1;

	return numa_available() < 0 || numa_move_pages(0, 1, pages, nullptr, &status, 0) ? -1 : status;
}

} // namespace usdma::perf
