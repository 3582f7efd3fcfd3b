/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/report.h"

#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/perf/options.h"

#include <nlohmann/json.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/core.h>
#include <map>
#include <stdexcept>

namespace usdma::perf {

std::string time_text(double ns)
{
	if (ns < 9999.5)
		return fmt::format("{:.0f}", ns);
	if (ns < 999.5e3)
		return fmt::format("{:.{}f}u", ns / 1e3, ns < 99.95e3 ? 1 : 0);
	return ns < 9.995e9 ? fmt::format("{:.{}f}m", ns / 1e6, ns < 99.95e6 ? 1 : 0) :
			      fmt::format("{:.0f}s", ns / 1e9);
}

/* ---- table ------------------------------------------------------------------------------------------ */

std::string table_head()
{
	return fmt::format("{:8} {:>5} {:>4} {:>4} {:>2} {:>3} {:>6} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5}\n",
			   "way", "size", "dep", "bat", "th", "str", "submit", "p50", "p90", "p99", "p99.9", "max",
			   "GB/s", "M/s") +
	       "         ns per call and ns from the call to its completion (u: us, m: ms)\n";
}

static std::string rate_text(double v)
{
	return fmt::format("{:.{}f}", v, v < 9.995 ? 2 : v < 99.95 ? 1 : 0);
}

/* The rate of the schedule; "": there is none. */
static std::string offered(const outcome &o)
{
	const job &j = o.job;
	std::string out;

	if (j.rate <= 0)
		return "";
	out = fmt::format("offered {:.0f}/s", j.rate);
	if (j.load > 0)
		out += fmt::format(" ({:g} %)", j.load);
	return out + (o.mcps < 0.95e-6 * j.rate ? " (too many), " : ", ");
}

/* Measured beside the row if there is such a figure. */
static double best_cold(const outcome &o, const limits &lim)
{
	return o.best_cold > 0 ? o.best_cold : lim.best_cold;
}

static std::string ratios(const outcome &o, const machine &m, const limits *lim)
{
	std::string out = fmt::format("{:8} ", name_of(o.job.wait));
	const double line = line_of(m, o.job.client_cpu, o.job.engine_cpu);

	if (o.job.nodes.client >= 0)
		out += fmt::format("nodes {}:{}, ", o.job.nodes.client, o.job.nodes.engine);
	out += offered(o);
	if (o.job.processes > 1)
		out += fmt::format("{} processes, ", o.job.processes);
	if (line > 0 && o.job.depth == 1)
		out += fmt::format("{:.2f} x cache line, ", o.latency.percentile(50) / line);
	if (o.base_gbps > 0)
		out += fmt::format("{:.2f} x memcpy, ", o.gbps / o.base_gbps);
	if (lim)
		out += fmt::format("{:.2f} x best cold, ", o.gbps / best_cold(o, *lim));
	if (o.best_cold_all > 0)
		out += fmt::format("{:.2f} x all CPUs' best cold, ", o.gbps / o.best_cold_all);
	return out + fmt::format("CPU {:.0f}+{:.0f} %, held {:.0f} %{}\n", o.client_cpu, o.engine_cpu, o.held,
				 o.verified ? ", verified" : "");
}

std::string table_row(const outcome &o, const machine &m, const limits *lim)
{
	const job &j = o.job;
	auto p = [&](double percent) { return time_text(o.latency.percentile(percent)); };

	return fmt::format("{:8} {:>5} {:>4} {:>4} {:>2} {:>3} {:>6} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5}\n",
			   name_of(j.kind), size_text(j.size), j.depth, j.kind == copy_kind::batch ? j.batch : 1,
			   j.threads, j.streams, time_text(o.submit.percentile(50)), p(50), p(90), p(99), p(99.9),
			   time_text(o.latency.max()), rate_text(o.gbps), rate_text(o.mcps)) +
	       ratios(o, m, lim);
}

/* ---- break-even sizes ------------------------------------------------------------------------------- */

static double memcpy_ns(const outcome &o)
{
	return o.base_gbps > 0 ? double(o.job.size) / o.base_gbps : 0;
}

/* The smallest size from which all sizes are better; 0: none. */
template <class Better> static size_t from_size(const std::map<size_t, const outcome *> &by_size, Better better)
{
	size_t from = 0;

	for (auto it = by_size.rbegin(); it != by_size.rend() && better(*it->second); ++it)
		from = it->first;
	return from;
}

static std::string pays_text(size_t size, const char *what)
{
	return size ? fmt::format("from {} on {}", size_text(size), what) : fmt::format("at no size measured {}", what);
}

std::string where_it_pays(const std::vector<outcome> &all)
{
	std::map<std::pair<copy_kind, unsigned>, std::map<size_t, const outcome *>> groups;
	std::string out;

	for (const outcome &o : all)
		if (o.job.rate <= 0)
			groups[{o.job.kind, o.job.depth}].try_emplace(o.job.size, &o);
	for (const auto &[key, by_size] : groups) {
		if (by_size.size() < 2)
			continue;
		const size_t cpu = from_size(by_size,
					     [](const outcome &o) { return o.submit.percentile(50) < memcpy_ns(o); });
		const size_t time = from_size(by_size, [](const outcome &o) { return o.gbps > o.base_gbps; });

		out += fmt::format("{}, depth {}: {};\n         {}\n", name_of(key.first), key.second,
				   pays_text(cpu, "the call takes less of the client's CPU than a memcpy"),
				   pays_text(time, "more bytes a second than one thread's memcpy"));
	}
	return out;
}

/* ---- JSON and CSV ----------------------------------------------------------------------------------- */

static nlohmann::json percentiles(const histogram &h)
{
	return {{"p50", h.percentile(50)},     {"p90", h.percentile(90)}, {"p99", h.percentile(99)},
		{"p99_9", h.percentile(99.9)}, {"max", h.max()},          {"samples", h.count()}};
}

nlohmann::json to_json(const outcome &o, const machine &m, const limits *lim)
{
	const job &j = o.job;
	nlohmann::json out = {{"way", name_of(j.kind)},
			      {"api", j.api == api::acl ? "acl" : "native"},
			      {"wait", name_of(j.wait)},
			      {"size", j.size},
			      {"depth", j.depth},
			      {"batch", j.kind == copy_kind::batch ? j.batch : 1},
			      {"threads", j.threads},
			      {"streams", j.streams},
			      {"cold", j.cold},
			      {"client_cpu", j.client_cpu},
			      {"engine_cpu", j.engine_cpu},
			      {"client_node", j.nodes.client},
			      {"engine_node", j.nodes.engine},
			      {"host_memory_node", o.host_node},
			      {"latency_ns", percentiles(o.latency)},
			      {"submit_ns", percentiles(o.submit)},
			      {"gbps", o.gbps},
			      {"mcopies_per_s", o.mcps},
			      {"held_percent", o.held},
			      {"spread_percent", o.spread},
			      {"client_cpu_percent", o.client_cpu},
			      {"engine_cpu_percent", o.engine_cpu},
			      {"memcpy_gbps", o.base_gbps},
			      {"copies", o.copies},
			      {"processes", j.processes},
			      {"offered_per_s", j.rate},
			      {"load_percent", j.load},
			      {"interrupted", o.interrupted},
			      {"verified", o.verified}};

	out["repeats"] = {{"gbps", o.repeats.gbps}, {"p50_ns", o.repeats.p50_ns}, {"p99_ns", o.repeats.p99_ns}};
	out["ratio"]["memcpy"] = o.base_gbps > 0 ? o.gbps / o.base_gbps : 0;
	if (const double line = line_of(m, j.client_cpu, j.engine_cpu); line > 0)
		out["ratio"]["line"] = o.latency.percentile(50) / line;
	if (lim)
		out["ratio"]["best_cold"] = o.gbps / best_cold(o, *lim);
	if (o.best_cold_all > 0)
		out["ratio"]["best_cold_all_cpus"] = o.gbps / o.best_cold_all;
	return out;
}

std::string to_csv(const std::vector<outcome> &all)
{
	std::string out =
		"way,"
		"api,"
		"wait,"
		"size,"
		"depth,"
		"batch,"
		"threads,"
		"streams,"
		"cold,client_cpu,engine_cpu,client_node,engine_node,submit_p50_ns,p50_ns,p90_ns,p99_ns,p99_9_ns,"
		"max_ns,gbps,mcopies_per_s,memcpy_gbps,client_cpu_percent,engine_cpu_percent,spread_percent,processes,"
		"offered_per_s\n";

	for (const outcome &o : all) {
		const job &j = o.job;

		out += fmt::format(
			"{},"
			"{},"
			"{},"
			"{},"
			"{},"
			"{},{},{},{},{},{},{},{},{:.1f},{:.1f},{:.1f},{:.1f},{:.1f},{:.1f},{:.4f},{:.4f},{:.3f},{:.1f},"
			"{:.1f},{:.1f},{},{:.0f}\n",
			name_of(j.kind), j.api == api::acl ? "acl" : "native", name_of(j.wait), j.size, j.depth,
			j.kind == copy_kind::batch ? j.batch : 1, j.threads, j.streams, int(j.cold), j.client_cpu,
			j.engine_cpu, j.nodes.client, j.nodes.engine, o.submit.percentile(50), o.latency.percentile(50),
			o.latency.percentile(90), o.latency.percentile(99), o.latency.percentile(99.9), o.latency.max(),
			o.gbps, o.mcps, o.base_gbps, o.client_cpu, o.engine_cpu, o.spread, j.processes, j.rate);
	}
	return out;
}

void write_file(const std::string &path, const std::string &text)
{
	FILE *out = fopen(path.c_str(), "we");
	bool ok = out && fwrite(text.data(), 1, text.size(), out) == text.size() && fflush(out) == 0;
	const int err = errno;

	if (out && fclose(out) && ok)
		throw std::runtime_error(fmt::format("{} cannot be written: {}", path, strerror(errno)));
	if (!ok)
		throw std::runtime_error(fmt::format("{} cannot be written: {}", path, strerror(err)));
}

void write_json(const std::string &path, const nlohmann::json &doc)
{
	const std::string text = doc.dump(2) + "\n";

	if (path == "-")
		say(text);
	else if (!path.empty())
		write_file(path, text);
}

void say(const std::string &text)
{
	tool::put(text);
	tool::flush_output();
}

bool stopped()
{
	return tool::interrupted() || tool::output_err;
}

} // namespace usdma::perf
