/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bandwidth from each memory to each other one: host and devices. First each pair alone, then both directions of each
 * pair at once, then all at once.
 */
#include "tools/interrupt.h"
#include "tools/perf/against.h"
#include "tools/perf/api.h"
#include "tools/perf/options.h"
#include "tools/perf/report.h"
#include "tools/perf/worker.h"

#include <nlohmann/json.hpp>
#include <fmt/core.h>
#include <map>
#include <optional>

namespace usdma::perf {

namespace {

constexpr int host = -1;

/* From one memory to another; the number of a device, or host. */
struct direction {
	int from, to;
	// NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 of a generated comparison for a pointer
	auto operator<=>(const direction &) const = default;
};

/* Groups of copies at the same time. */
struct copy_set {
	const char *name, *title;
	std::vector<std::vector<direction>> groups;
	bool summed; /* one group: its sum is a figure */
};

/* One cell. */
struct cell {
	const char *set;
	direction at;
	outcome out;
};

std::string name_of(int memory)
{
	return memory == host ? "host" : std::to_string(memory);
}

std::vector<direction> all_pairs(int n, bool hosts, bool within)
{
	std::vector<direction> out;

	for (int from = hosts ? host : 0; from < n; from++)
		for (int to = hosts ? host : 0; to < n; to++)
			if (from != to || (within && from != host))
				out.push_back({from, to});
	return out;
}

std::vector<std::vector<direction>> each_alone(int n)
{
	std::vector<std::vector<direction>> out;

	for (const direction &d : all_pairs(n, true, true))
		out.push_back({d});
	return out;
}

std::vector<std::vector<direction>> both_directions(int n)
{
	std::vector<std::vector<direction>> out;

	for (const direction &d : all_pairs(n, true, false))
		if (d.from < d.to)
			out.push_back({d, {d.to, d.from}});
	return out;
}

std::vector<copy_set> sets_of(int n)
{
	std::vector<copy_set> out = {
		{"single", "each alone", each_alone(n), false},
		{"bidirectional", "both directions of each pair at once", both_directions(n), false}};
	std::vector<direction> in, back, both;

	for (int i = 0; i < n; i++) {
		in.push_back({host, i});
		back.push_back({i, host});
	}
	both = in;
	both.insert(both.end(), back.begin(), back.end());
	if (n > 1) {
		out.push_back({"host-to-all", "host to all devices at once", {in}, true});
		out.push_back({"all-to-host", "all devices to host at once", {back}, true});
		out.push_back({"host-both", "host to and from all devices at once", {both}, true});
	}
	if (n > 2)
		out.push_back({"among-all", "among all devices at once", {all_pairs(n, false, false)}, true});
	return out;
}

/* ---- measuring -------------------------------------------------------------------------------------- */

class matrix {
public:
	matrix(const options &o, const machine &m)
		: o_(o), m_(m), devices_(usdma_device_count()), sets_(sets_of(devices_)), table_(o.json != "-")
	{
		if (!o.against.empty())
			before_.emplace(o.against);
	}
	void run();
	void finish() const;

private:
	job job_of(const direction &d, size_t size, unsigned depth, bool alone) const;
	void measure_group(const copy_set &set, const std::vector<direction> &group, size_t size, unsigned depth);
	void measure_set(const copy_set &set, size_t size, unsigned depth);
	std::string text_of(const copy_set &set, const std::map<direction, double> &gbps) const;
	std::string devices_text() const;
	nlohmann::json document() const;
	void print(const std::string &text) const
	{
		if (table_)
			say(text);
	}

	const options &o_;
	const machine &m_;
	int devices_;
	std::vector<copy_set> sets_;
	bool table_;
	std::optional<baseline> before_;
	std::vector<cell> cells_;
	bool incomplete_ = false;
};

job matrix::job_of(const direction &d, size_t size, unsigned depth, bool alone) const
{
	job j;

	j.kind = d.from == host ? copy_kind::h2d : d.to == host ? copy_kind::d2h : copy_kind::d2d;
	j.wait = o_.waits[0];
	j.size = size, j.depth = depth;
	j.cold = o_.cold, j.verify = o_.verify;
	j.seconds = o_.seconds, j.repeats = o_.repeats;
	j.client_cpu = alone ? m_.client : -1;
	return j;
}

/* Each copy has memory of its own. The destination's engine copies between devices, as usdma_copy_sync() does it. */
void matrix::measure_group(const copy_set &set, const std::vector<direction> &group, size_t size, unsigned depth)
{
	std::vector<std::unique_ptr<bench_device>> open;
	std::vector<flow> flows;
	const auto device = [&](int i) {
		open.push_back(std::make_unique<bench_device>(unsigned(i), o_.cold_bytes));
		return open.back().get();
	};

	for (const direction &d : group) {
		bench_device *const dev = device(d.to == host ? d.from : d.to);
		const bool across = d.from != host && d.to != host && d.from != d.to;

		flows.push_back({job_of(d, size, depth, group.size() == 1), dev, across ? device(d.from) : nullptr});
	}
	std::vector<taken> all = take(flows);
	for (size_t i = 0; i < all.size(); i++) {
		outcome out = sum_up(flows[i].job, std::move(all[i]));

		incomplete_ |= out.interrupted;
		if (out.copies)
			cells_.push_back({set.name, group[i], std::move(out)});
	}
}

std::string matrix::text_of(const copy_set &set, const std::map<direction, double> &gbps) const
{
	std::string out = fmt::format("\n{}\n{:>6}", set.title, "");
	double sum = 0;

	for (int to = host; to < devices_; to++)
		out += fmt::format(" {:>8}", name_of(to));
	for (int from = host; from < devices_; from++) {
		out += fmt::format("\n{:>6}", name_of(from));
		for (int to = host; to < devices_; to++) {
			const auto at = gbps.find({from, to});

			out += at == gbps.end() ? fmt::format(" {:>8}", "-") : fmt::format(" {:8.2f}", at->second);
			sum += at == gbps.end() ? 0 : at->second;
		}
	}
	return out + (set.summed ? fmt::format("\n{:>6} {:8.2f}\n", "sum", sum) : "\n");
}

void matrix::measure_set(const copy_set &set, size_t size, unsigned depth)
{
	std::map<direction, double> gbps;
	const size_t before = cells_.size();

	for (const auto &group : set.groups) {
		if (stopped()) {
			incomplete_ = true;
			break;
		}
		progress(o_, fmt::format("{}: {} to {}", set.title, name_of(group[0].from), name_of(group[0].to)));
		measure_group(set, group, size, depth);
	}
	progress(o_, "");
	for (size_t i = before; i < cells_.size(); i++)
		gbps[cells_[i].at] = cells_[i].out.gbps;
	if (!gbps.empty())
		print(text_of(set, gbps));
}

std::string matrix::devices_text() const
{
	std::string out;

	for (int i = 0; i < devices_; i++) {
		const bench_device open(unsigned(i), 0);
		usdma_device_info info = {};

		info.struct_size = sizeof(info);
		must(usdma_device_get_info(open.dev, &info), "device");
		out += fmt::format("{:8} {}: {}, engines {}\n", i ? "" : "devices", i, info.name, info.engines);
	}
	return out;
}

void matrix::run()
{
	print(describe(m_) + devices_text());
	for (unsigned depth : o_.depths)
		for (size_t size : o_.sizes) {
			print(fmt::format("\nGB/s from (row) to (column): copies of {}, {} in flight\n",
					  size_text(size), depth));
			for (const copy_set &set : sets_)
				measure_set(set, size, depth);
		}
	if (tool::interrupted())
		fmt::print(stderr, "usdma-perf: interrupted: {} cells are measured\n", cells_.size());
}

/* ---- results ---------------------------------------------------------------------------------------- */

nlohmann::json matrix::document() const
{
	nlohmann::json doc = {{"version", USDMA_VERSION_TEXT},
			      {"machine", to_json(m_)},
			      {"devices", devices_},
			      {"interrupted", incomplete_},
			      {"rows", nlohmann::json::array()}};

	for (const cell &c : cells_) {
		nlohmann::json row = {{"set", c.set}, {"from", name_of(c.at.from)}, {"to", name_of(c.at.to)}};
		const outcome &o = c.out;

		row.update({{"size", o.job.size},
			    {"depth", o.job.depth},
			    {"wait", name_of(o.job.wait)},
			    {"cold", o.job.cold},
			    {"gbps", o.gbps},
			    {"spread_percent", o.spread},
			    {"memcpy_gbps", o.base_gbps},
			    {"repeats", {{"gbps", o.repeats.gbps}}},
			    {"interrupted", o.interrupted},
			    {"verified", o.verified}});
		doc["rows"].push_back(row);
	}
	return doc;
}

void matrix::finish() const
{
	nlohmann::json doc = document();

	if (before_)
		print("\n" + before_->compare(doc));
	write_json(o_.json, doc);
}

} // namespace

int run_matrix(const options &o, const machine &m)
{
	matrix all(o, m);

	all.run();
	all.finish();
	return 0;
}

} // namespace usdma::perf
