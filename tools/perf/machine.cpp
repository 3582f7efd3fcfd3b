/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/machine.h"

#include "driver/base/barrier.h"
#include "tools/perf/clock.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <fstream>
#include <sched.h>
#include <sys/utsname.h>
#include <thread>

namespace usdma::perf {

double ns_per_tick()
{
	static const double found = [] {
		const u64 n0 = now_ns(), t0 = ticks();

		while (now_ns() - n0 < 100 * ns_per_ms)
			;
		const u64 n1 = now_ns(), t1 = ticks();

		return double(n1 - n0) / double(t1 - t0);
	}();

	return found;
}

std::vector<int> usable_cpus()
{
	std::vector<int> out;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return {0};
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			out.push_back(cpu);
	return out;
}

bool pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0;
}

void unpin(const std::vector<int> &cpus)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int cpu : cpus)
		CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* ---- distance --------------------------------------------------------------------------------------- */

namespace {

/* Two cache lines each, because the CPU prefetches adjacent lines in pairs. */
struct alignas(128) ball {
	u64 ping alignas(128) = 0;
	u64 pong alignas(128) = 0;
};

constexpr u64 over = ~u64(0);

void answer(ball &b)
{
	for (u64 i = 1;; i++) {
		u64 seen;

		while ((seen = load_acquire(&b.ping)) < i)
			;
		if (seen == over)
			return;
		store_release(&b.pong, i);
	}
}

double round_trips(ball &b, u64 *at, unsigned n)
{
	const u64 start = ticks();

	for (const u64 end = *at + n; *at < end;) {
		store_release(&b.ping, ++*at);
		while (load_acquire(&b.pong) != *at)
			;
	}
	return double(ticks() - start) * ns_per_tick() / n;
}

} // namespace

double line_round_trip(int client, int engine)
{
	constexpr unsigned batches = 15, trips = 2000;
	std::vector<double> mean;
	u64 at = 0;
	ball b;

	pin(client);
	std::thread other([&] {
		pin(engine);
		answer(b);
	});
	round_trips(b, &at, trips);
	for (unsigned i = 0; i < batches; i++)
		mean.push_back(round_trips(b, &at, trips));
	store_release(&b.ping, over);
	other.join();
	std::nth_element(mean.begin(), mean.begin() + batches / 2, mean.end());
	return mean[batches / 2];
}

/* ---- system ----------------------------------------------------------------------------------------- */

static std::string first_line(const std::string &path)
{
	std::string line;

	std::ifstream in(path);
	std::getline(in, line);
	return line;
}

static std::string field_of(const char *path, const std::string &name)
{
	std::ifstream in(path);

	for (std::string line; std::getline(in, line);)
		if (line.starts_with(name) && line.find(':') != std::string::npos) {
			const size_t at = line.find_first_not_of(" \t", line.find(':') + 1);

			return at == std::string::npos ? "" : line.substr(at);
		}
	return "unknown";
}

/* "always [madvise] never" → "madvise". */
static std::string chosen(const std::string &text)
{
	const size_t from = text.find('['), to = text.find(']');

	return from == std::string::npos || to == std::string::npos ? "unknown" : text.substr(from + 1, to - from - 1);
}

static std::string huge_page_state()
{
	const std::string thp = "/sys/kernel/mm/transparent_hugepage/";

	return fmt::format("{} reserved, transparent {}, shared memory {}",
			   field_of("/proc/meminfo", "HugePages_Total"), chosen(first_line(thp + "enabled")),
			   chosen(first_line(thp + "shmem_enabled")));
}

static std::string iommu_state()
{
	std::error_code err;
	size_t n = 0;

	for (const auto &e : std::filesystem::directory_iterator("/sys/kernel/iommu_groups", err))
		n += !e.path().empty();
	return n ? fmt::format("{} groups", n) : "none";
}

static std::vector<pair_distance> all_pairs(const std::vector<int> &cpus)
{
	std::vector<pair_distance> out;

	for (size_t i = 0; i < cpus.size(); i++)
		for (size_t k = i + 1; k < cpus.size(); k++)
			out.push_back({cpus[i], cpus[k], line_round_trip(cpus[i], cpus[k])});
	std::sort(out.begin(), out.end(), [](auto &a, auto &b) { return a.ns < b.ns; });
	return out;
}

/* Chooses the client's CPU, the nearest one for the first engine, then the remaining ones. */
static void choose(machine &m, int client, const std::vector<int> &engines)
{
	m.client = client >= 0 ? client : m.pairs.empty() ? m.cpus[0] : m.pairs[0].client;
	m.engines = engines;
	for (const pair_distance &p : m.pairs)
		if (m.engines.empty() && (p.client == m.client || p.engine == m.client))
			m.engines.push_back(p.client == m.client ? p.engine : p.client);
	if (!engines.empty())
		return;
	for (int cpu : m.cpus)
		if (cpu != m.client && std::find(m.engines.begin(), m.engines.end(), cpu) == m.engines.end())
			m.engines.push_back(cpu);
	if (m.engines.empty())
		m.engines.push_back(m.client);
}

machine read_machine(int client, const std::vector<int> &engines)
{
	machine m;
	utsname names = {};

	uname(&names);
	m.cpus = usable_cpus();
	if (client < 0 || engines.empty())
		m.pairs = all_pairs(m.cpus);
	choose(m, client, engines);
	m.line_ns = m.client == m.engines[0] ? 0 : line_round_trip(m.client, m.engines[0]);
	m.cpu = field_of("/proc/cpuinfo", "model name");
	m.kernel = names.release;
	m.governor = first_line(fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor", m.client));
	if (m.governor.empty())
		m.governor = "unknown";
	m.huge_pages = huge_page_state();
	m.iommu = iommu_state();
	m.load = first_line("/proc/loadavg").substr(0, 4);
	unpin(m.cpus);
	return m;
}

double line_of(const machine &m, int client, int engine)
{
	if (client < 0)
		client = m.client;
	if (engine < 0)
		engine = m.engines[0];
	if (client == m.client && engine == m.engines[0])
		return m.line_ns;
	for (const pair_distance &p : m.pairs)
		if ((p.client == client && p.engine == engine) || (p.engine == client && p.client == engine))
			return p.ns;
	return 0;
}

std::string describe(const machine &m)
{
	std::string out = fmt::format("machine  {}, {} CPUs, kernel {}\n", m.cpu, m.cpus.size(), m.kernel);

	out += fmt::format("         governor {}, IOMMU {}, load {}\n", m.governor, m.iommu, m.load);
	out += fmt::format("         huge pages: {}\n", m.huge_pages);
	out += fmt::format("CPUs     client {}, engines {}: cache line round trip {:.0f} ns\n", m.client,
			   fmt::join(m.engines, ","), m.line_ns);
	if (m.pairs.size() > 1) {
		out += "         all pairs:";
		for (size_t i = 0; i < m.pairs.size() && i < 6; i++)
			out += fmt::format(" {}-{} {:.0f}", m.pairs[i].client, m.pairs[i].engine, m.pairs[i].ns);
		out += m.pairs.size() > 6 ? fmt::format(" ... {:.0f} ns\n", m.pairs.back().ns) : " ns\n";
	}
	return out;
}

nlohmann::json to_json(const machine &m)
{
	nlohmann::json pairs = nlohmann::json::array();

	for (const pair_distance &p : m.pairs)
		pairs.push_back({{"a", p.client}, {"b", p.engine}, {"line_ns", p.ns}});
	return {{"cpu", m.cpu},
		{"cpus", m.cpus},
		{"client_cpu", m.client},
		{"engine_cpus", m.engines},
		{"line_ns", m.line_ns},
		{"pairs", pairs},
		{"kernel", m.kernel},
		{"governor", m.governor},
		{"huge_pages", m.huge_pages},
		{"iommu", m.iommu},
		{"load", m.load}};
}

} // namespace usdma::perf
