/* SPDX-License-Identifier: BSD-3-Clause */
/* Every combination of what the command line lists. */
#include "tools/perf/options.h"
#include "tools/perf/report.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <fmt/core.h>
#include <optional>

namespace usdma::perf {

static std::vector<place> places_of(const options &o, const machine &m)
{
	std::vector<place> out = m.places;

	for (int cpu : o.client_cpus)
		out.push_back({{}, cpu, m.engines, 0});
	if (out.empty())
		out.push_back({{}, m.client, m.engines, 0});
	return out;
}

/* All that is measured in one place. */
template <class F> static void each_job(const options &o, const place &at, F fn)
{
	for (way w : o.ways)
		for (wait mode : o.waits)
			for (unsigned threads : o.threads)
				for (unsigned streams : o.streams)
					for (unsigned depth : o.depths)
						for (unsigned batch :
						     w == way::batch ? o.batches : std::vector<unsigned>{1})
							for (size_t size : o.sizes)
								fn(job{o.through, w, mode, size, depth, batch, threads,
								       streams, o.cold, o.verify, o.seconds, o.repeats,
								       at.client_cpu, at.engine_cpus[0], at.nodes});
}

static void write_results(const options &o, const machine &m, const limits *lim, const std::vector<outcome> &all)
{
	nlohmann::json doc = {{"version", USDMA_VERSION}, {"machine", to_json(m)}, {"rows", nlohmann::json::array()}};

	if (lim)
		doc["limits"] = to_json(*lim);
	for (const outcome &out : all)
		doc["rows"].push_back(to_json(out, m, lim));
	if (o.json == "-")
		fmt::print("{}\n", doc.dump(2));
	else if (!o.json.empty())
		write_file(o.json, doc.dump(2) + "\n");
	if (!o.csv.empty())
		write_file(o.csv, to_csv(all));
	if (!o.plot.empty())
		plot(all, m, o.plot);
}

int run_sweep(const options &o, const machine &m)
{
	const bool table = o.json != "-";
	std::optional<limits> lim;
	std::vector<outcome> all;
	size_t count = 0;

	if (table)
		fmt::print("{}", describe(m));
	if (o.limits) {
		progress(o, "limits of this machine");
		lim = measure_limits(m, o.cold_bytes, unsigned(std::min<size_t>(4, m.cpus.size())));
		progress(o, "");
		if (table)
			fmt::print("{}", describe(*lim));
	}
	const std::vector<place> places = places_of(o, m);
	for (const place &at : places)
		each_job(o, at, [&](const job &) { count++; });
	if (table)
		fmt::print("\n{}", table_head());
	for (const place &at : places) {
		bench_device dev(at.device, o.cold_bytes, at.nodes.client);

		each_job(o, at, [&](const job &j) {
			progress(o, fmt::format("{} of {}: {} {}", all.size() + 1, count, name_of(j.way),
						size_text(j.size)));
			all.push_back(measure(dev, j));
			progress(o, "");
			if (table)
				fmt::print("{}", table_row(all.back(), m, lim ? &*lim : nullptr));
			fflush(stdout);
		});
	}
	if (table)
		fmt::print("\n{}", where_it_pays(all));
	write_results(o, m, lim ? &*lim : nullptr, all);
	return 0;
}

} // namespace usdma::perf
