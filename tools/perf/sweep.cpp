/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures every combination of the lists on the command line. */
#include "tools/interrupt.h"
#include "tools/perf/against.h"
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

/* Each job with each of the values, unless set() refuses one. */
template <class T, class F> static void vary(std::vector<job> &jobs, const std::vector<T> &values, F set)
{
	std::vector<job> out;

	for (const job &j : jobs)
		for (const T &v : values) {
			job with = j;

			if (set(with, v))
				out.push_back(with);
		}
	jobs = std::move(out);
}

template <class T, class M> static void vary(std::vector<job> &jobs, const std::vector<T> &values, M job::*member)
{
	vary(jobs, values, [member](job &j, const T &v) {
		j.*member = v;
		return true;
	});
}

/* Before percents of it: the rate without a schedule, "". */
static std::vector<std::string> rates_of(const options &o)
{
	std::vector<std::string> out = o.rates;

	if (std::any_of(out.begin(), out.end(), is_percent))
		out.insert(out.begin(), "");
	return out;
}

static bool set_rate(job &j, const std::string &text)
{
	const double value = text.empty() ? 0 : std::stod(text);

	j.mark_each = true;
	(is_percent(text) ? j.load : j.rate) = value;
	return true;
}

/* Every combination in one placement. */
static std::vector<job> jobs_at(const options &o, const placement &at)
{
	std::vector<job> jobs(1);
	job &j = jobs[0];

	j.api = o.through;
	j.cold = o.cold, j.verify = o.verify;
	j.seconds = o.seconds, j.repeats = o.repeats;
	j.client_cpu = o.processes.empty() ? at.client_cpu : -1;
	j.engine_cpu = at.engine_cpus[0];
	j.nodes = at.nodes;
	vary(jobs, o.kinds, &job::kind);
	vary(jobs, o.waits, &job::wait);
	if (!o.processes.empty())
		vary(jobs, o.processes, &job::processes);
	vary(jobs, o.threads, &job::threads);
	vary(jobs, o.streams, &job::streams);
	vary(jobs, o.depths, &job::depth);
	vary(jobs, o.batches, [&o](job &with, unsigned n) {
		with.batch = with.kind == copy_kind::batch ? n : 1;
		return with.kind == copy_kind::batch || n == o.batches[0];
	});
	vary(jobs, o.sizes, &job::size);
	if (!o.rates.empty())
		vary(jobs, rates_of(o), set_rate);
	return jobs;
}

namespace {

class sweep {
public:
	sweep(const options &o, const machine &m)
		: o_(o), m_(m), placements_(placements_of(o, m)), table_(o.json != "-")
	{
		if (!o.against.empty())
			before_.emplace(o.against);
	}
	void run();
	/* Compares the rows and writes the files. */
	void finish() const;

private:
	void measure_machine();
	/* dev: nullptr: processes open it. */
	outcome measured(bench_device *dev, const job &j);
	void one(bench_device *dev, job j);
	void measure_at(const placement &at);
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
	std::optional<cold_reference> reference_;
	std::optional<baseline> before_;
	std::vector<outcome> all_;
	double unscheduled_ = 0; /* copies a second of the latest row without a schedule */
	size_t count_ = 0;
};

void sweep::measure_machine()
{
	progress(o_, "limits of this machine");
	lim_ = measure_limits(m_, o_.cold_bytes, unsigned(std::min<size_t>(4, m_.cpus.size())));
	progress(o_, "");
	print(describe(*lim_));
}

outcome sweep::measured(bench_device *dev, const job &j)
{
	if (!dev)
		return measure_in_processes(0, o_.cold_bytes, j);
	if (!lim_ || !j.cold)
		return measure(*dev, j);
	if (!reference_)
		reference_.emplace(m_, *lim_, o_.cold_bytes);
	return reference_->measure_beside(*dev, j);
}

void sweep::one(bench_device *dev, job j)
{
	if (stopped())
		return;
	if (j.load > 0)
		j.rate = unscheduled_ * j.load / 100;
	progress(o_, fmt::format("{} of {}: {} {}", all_.size() + 1, count_, name_of(j.kind), size_text(j.size)));
	outcome out = measured(dev, j);
	progress(o_, "");
	if (!out.copies)
		return;
	if (j.rate <= 0)
		unscheduled_ = out.mcps * out.held * 1e4;
	print(table_row(out, m_, lim()));
	all_.push_back(std::move(out));
}

void sweep::measure_at(const placement &at)
{
	std::optional<bench_device> dev;

	if (o_.processes.empty())
		dev.emplace(at.device, o_.cold_bytes, at.nodes.client);
	for (const job &j : jobs_at(o_, at))
		one(dev ? &*dev : nullptr, j);
}

void sweep::run()
{
	print(describe(m_));
	if (o_.limits)
		measure_machine();
	for (const placement &at : placements_)
		count_ += jobs_at(o_, at).size();
	print("\n" + table_head());
	for (const placement &at : placements_)
		measure_at(at);
	print("\n" + where_it_pays(all_));
	if (tool::interrupted())
		fmt::print(stderr, "usdma-perf: interrupted: {} of {} rows are measured{}\n", all_.size(), count_,
			   !all_.empty() && all_.back().interrupted ? ", the last one for less time than requested" :
								      "");
}

nlohmann::json sweep::document() const
{
	nlohmann::json doc = {{"version", USDMA_VERSION_TEXT},
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
void sweep::finish() const
{
	nlohmann::json doc = document();
	std::string wrong;
	auto attempt = [&wrong](auto fn) {
		try {
			fn();
		} catch (const std::exception &e) {
			wrong += (wrong.empty() ? "" : "; ") + std::string(e.what());
		}
	};

	if (before_)
		print("\n" + before_->compare(doc));
	attempt([&] { write_json(o_.json, doc); });
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
	s.finish();
	return 0;
}

} // namespace usdma::perf
