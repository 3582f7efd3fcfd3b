/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures every combination of the lists on the command line. */
#include "tools/interrupt.h"
#include "tools/perf/options.h"
#include "tools/perf/report.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <fmt/core.h>
#include <optional>

namespace usdma::perf {

static std::vector<placement> placements_of(const options &o, const machine &m)
{
	std::vector<placement> out = m.placements;

	for (int cpu : o.client_cpus)
		out.push_back({{}, cpu, m.engines, 0});
	if (out.empty())
		out.push_back({{}, m.client, m.engines, 0});
	return out;
}

/* Calls fn for each combination in one placement. */
template <class F> static void each_job(const options &o, const placement &at, F fn)
{
	for (copy_kind kind : o.kinds)
		for (wait mode : o.waits)
			for (unsigned threads : o.threads)
				for (unsigned streams : o.streams)
					for (unsigned depth : o.depths)
						for (unsigned batch :
						     kind == copy_kind::batch ? o.batches : std::vector<unsigned>{1})
							for (size_t size : o.sizes)
								fn(job{o.through, kind, mode, size, depth, batch,
								       threads, streams, o.cold, o.verify, o.seconds,
								       o.repeats, at.client_cpu, at.engine_cpus[0],
								       at.nodes});
}

namespace {

class sweep {
public:
	sweep(const options &o, const machine &m)
		: o_(o), m_(m), placements_(placements_of(o, m)), table_(o.json != "-")
	{
	}
	void run();
	void write() const;

private:
	void measure_machine();
	void one(bench_device &dev, const job &j);
	nlohmann::json document() const;
	/* Prints to standard output unless it is used for JSON. */
	void print(const std::string &text) const
	{
		if (table_)
			say(text);
	}
	const limits *lim() const { return lim_ ? &*lim_ : nullptr; }
	bool incomplete() const { return all_.size() < count_ || (!all_.empty() && all_.back().interrupted); }

	const options &o_;
	const machine &m_;
	std::vector<placement> placements_;
	bool table_;
	std::optional<limits> lim_;
	std::vector<outcome> all_;
	size_t count_ = 0;
};

void sweep::measure_machine()
{
	progress(o_, "limits of this machine");
	lim_ = measure_limits(m_, o_.cold_bytes, unsigned(std::min<size_t>(4, m_.cpus.size())));
	progress(o_, "");
	print(describe(*lim_));
}

void sweep::one(bench_device &dev, const job &j)
{
	if (stopped())
		return;
	progress(o_, fmt::format("{} of {}: {} {}", all_.size() + 1, count_, name_of(j.kind), size_text(j.size)));
	outcome out = measure(dev, j);
	progress(o_, "");
	if (!out.copies)
		return;
	print(table_row(out, m_, lim()));
	all_.push_back(std::move(out));
}

void sweep::run()
{
	print(describe(m_));
	if (o_.limits)
		measure_machine();
	for (const placement &at : placements_)
		each_job(o_, at, [&](const job &) { count_++; });
	print("\n" + table_head());
	for (const placement &at : placements_) {
		bench_device dev(at.device, o_.cold_bytes, at.nodes.client);

		each_job(o_, at, [&](const job &j) { one(dev, j); });
	}
	print("\n" + where_it_pays(all_));
	if (tool::interrupted())
		fmt::print(stderr, "usdma-perf: interrupted: {} of {} rows are measured{}\n", all_.size(), count_,
			   !all_.empty() && all_.back().interrupted ? ", the last one for less time than requested" :
								      "");
}

nlohmann::json sweep::document() const
{
	nlohmann::json doc = {{"version", USDMA_VERSION},
			      {"machine", to_json(m_)},
			      {"interrupted", incomplete()},
			      {"rows", nlohmann::json::array()}};

	if (lim_)
		doc["limits"] = to_json(*lim_);
	for (const outcome &out : all_)
		doc["rows"].push_back(to_json(out, m_, lim()));
	return doc;
}

/* Writes each file, even if others fail. */
void sweep::write() const
{
	std::string wrong;
	auto attempt = [&wrong](auto fn) {
		try {
			fn();
		} catch (const std::exception &e) {
			wrong += (wrong.empty() ? "" : "; ") + std::string(e.what());
		}
	};

	attempt([this] { write_json(o_.json, document()); });
	if (!o_.csv.empty())
		attempt([this] { write_file(o_.csv, to_csv(all_)); });
	if (!o_.plot.empty() && !all_.empty())
		attempt([this] { plot(all_, m_, o_.plot); });
	if (!wrong.empty())
		throw std::runtime_error(wrong);
}

} // namespace

int run_sweep(const options &o, const machine &m)
{
	sweep s(o, m);

	s.run();
	s.write();
	return 0;
}

} // namespace usdma::perf
