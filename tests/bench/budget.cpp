/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The performance budget of copies: for each figure, its reference, the ratio, and
 * whether the target is reached.  References and figures are measured in one run.
 * The exit status says whether it could measure, not how fast it was.
 */
#include "driver/base/clock.h"
#include "tools/perf/api.h"
#include "tools/perf/cpu_use.h"
#include "tools/perf/curves.h"
#include "tools/perf/limits.h"
#include "tools/perf/memory.h"
#include "tools/perf/report.h"
#include "tools/perf/wake.h"

#include <algorithm>
#include <cstring>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

using namespace usdma;
using namespace usdma::perf;

namespace {

struct row {
	std::string figure, value, limit;
	double ratio, reach;
	bool at_least; /* the ratio must be at least reach; else at most */
};

class budget {
public:
	explicit budget(size_t cold);

	void run();
	nlohmann::json json() const;

private:
	void print_row(const row &r);
	void latency();
	void calls();
	void rates();
	void cold_one();
	void cold_many();
	void pageable();
	void blocked();
	void idle();
	void growth();
	job base_job(copy_kind w, size_t size, unsigned depth) const;
	struct comparison {
		double value, reference, distance;

		double ratio() const { return value / reference; }
	};
	template <class Figure> double measure_with_distance(const Figure &figure, double *before);
	template <class Figure, class Reference> comparison median_of(const Figure &figure, const Reference &reference);
	template <class Figure> double best_of(const Figure &figure, bool larger = false);
	template <class Figure> double on_client(const Figure &figure);
	std::string distance() const { return fmt::format("CPUs {:.0f} ns apart", distance_); }

	size_t cold_;
	double distance_ = 0; /* round trip of a cache line between the CPUs in ns, with the last figure */
	machine m_;
	limits lim_;
	unsigned many_;
	std::unique_ptr<bench_device> one_, n_;
	std::vector<row> rows_;
};

/* Two devices: one with one engine, on the CPU nearest to the client's; one with as many as there are other CPUs. */
budget::budget(size_t cold) : cold_(cold), m_(read_machine(-1, {}))
{
	const size_t mem = align_up<size_t>(2 * cold + 512 * MiB, GiB);
	const auto &e = m_.engines;

	many_ = unsigned(std::min<size_t>(3, e.size()));
	setenv("USDMA_WAIT", "poll", 1);
	setenv("USDMA_DEVICES",
	       fmt::format("sim:mem={}:engines=1:cpus={},sim:mem={}:engines={}:cpus={}", mem, e[0], mem, many_,
			   fmt::join(e.begin(), e.begin() + many_, "+"))
		       .c_str(),
	       1);
	fmt::print("{}", describe(m_));
	lim_ = measure_limits(m_, cold, std::max(many_, 1u));
	fmt::print("{}\n{:46} {:>10} {:>9} {:>5}\n", describe(lim_), "figure", "", "ratio", "reach");
	one_ = std::make_unique<bench_device>(0, cold);
}

void budget::print_row(const row &r)
{
	const bool reached = r.at_least ? r.ratio >= r.reach : r.ratio <= r.reach;

	rows_.push_back(r);
	fmt::print("{:46} {:>10} {:9.2f} {}{:4.2f}  {}\n", r.figure, r.value, r.ratio, r.at_least ? ">" : "<", r.reach,
		   reached ? "reached" : "MISSED");
	fmt::print("    of {}\n", r.limit);
	fflush(stdout);
}

job budget::base_job(copy_kind w, size_t size, unsigned depth) const
{
	job j;

	j.kind = w;
	j.wait = wait::poll;
	j.size = size;
	j.depth = depth;
	j.client_cpu = m_.client;
	return j;
}

/* A figure, and the distance of client and engine before and after: a hypervisor moves virtual CPUs. */
template <class Figure> double budget::measure_with_distance(const Figure &figure, double *before)
{
	*before = line_round_trip(m_.client, m_.engines[0]);
	const double value = figure();

	distance_ = line_round_trip(m_.client, m_.engines[0]);
	return value;
}

/*
 * The median ratio of some measurements during which the distance of the CPUs did not change.  reference(distance)
 * is what the figure is compared with.
 */
template <class Figure, class Reference>
budget::comparison budget::median_of(const Figure &figure, const Reference &reference)
{
	const deadline until = deadline::in_ms(20000);
	std::vector<comparison> all;

	while (all.empty() || (all.size() < 9 && !until.passed())) {
		double before;
		const double value = measure_with_distance(figure, &before);

		if (std::max(before, distance_) < 1.3 * std::min(before, distance_) || until.passed())
			all.push_back({value, reference(distance_), distance_});
	}
	std::nth_element(all.begin(), all.begin() + all.size() / 2, all.end(),
			 [](const comparison &a, const comparison &b) { return a.ratio() < b.ratio(); });
	distance_ = all[all.size() / 2].distance;
	return all[all.size() / 2];
}

/*
 * The best figure of some seconds, for a comparison with a constant.  A figure is worse if the CPUs are far apart, or
 * are two threads of one core.
 */
template <class Figure> double budget::best_of(const Figure &figure, bool larger)
{
	const deadline until = deadline::in_ms(5000);
	double best = 0, best_distance = 0;

	for (unsigned i = 0; i < 10 || (i < 100 && !until.passed()); i++) {
		double before;
		const double value = measure_with_distance(figure, &before);

		if (!i || (larger ? value > best : value < best)) {
			best_distance = std::max(before, distance_);
			best = value;
		}
	}
	distance_ = best_distance;
	return best;
}

/* ---- small copies ----------------------------------------------------------------------------------- */

void budget::latency()
{
	for (api interface : {api::acl, api::native}) {
		job j = base_job(copy_kind::h2d, 64, 1);

		j.api = interface;
		if (interface == api::acl && !have_acl())
			continue;
		const comparison h = median_of([&] { return double(measure(*one_, j).latency.percentile(50)); },
					       [](double ns) { return ns; });
		print_row({fmt::format("64 B pinned, polled, {}", interface == api::acl ? "ACL" : "native"),
			   fmt::format("{:.0f} ns", h.value),
			   fmt::format("round trip of a cache line, {:.0f} ns", h.reference), h.ratio(), 2.5, false});
	}
}

template <class Figure> double budget::on_client(const Figure &figure)
{
	pin(m_.client);
	const double ns = figure();
	unpin(m_.cpus);
	return ns;
}

void budget::calls()
{
	const part p = one_->mem->parts(job(), cold_)[0];
	const many_streams s(one_->dev, 1, wait::poll);

	if (have_acl()) {
		const double ns = best_of([&] { return on_client([&] { return acl_submit_cost(0, p.dst, p.src); }); });

		print_row({"aclrtMemcpyAsync, pinned, the call", fmt::format("{:.1f} ns", ns), "45 ns; " + distance(),
			   ns / 45, 1, false});
	}
	const double alone = best_of(
		[&] { return on_client([&] { return submit_cost_alone(one_->dev, s.all[0], p.dst, p.src); }); });
	print_row({"usdma_copy, while the engine waits: alone", fmt::format("{:.1f} ns", alone), "20 ns; " + distance(),
		   alone / 20, 1, false});
	const double ns = best_of(
		[&] { return on_client([&] { return submit_cost(s.all.data(), 1, p.dst, p.src); }); });
	print_row({"usdma_copy, pinned, the call", fmt::format("{:.1f} ns", ns), "20 ns; " + distance(), ns / 20, 1,
		   false});
}

void budget::rates()
{
	job j = base_job(copy_kind::batch, 64, 256);

	j.batch = 64;
	const double rate = best_of([&] { return measure(*one_, j).mcps; }, true);
	print_row({"64 B, 256 in flight, batches of 64", fmt::format("{:.1f} M/s", rate), "50 M/s; " + distance(),
		   rate / 50, 1, true});
	if (!have_acl())
		return;
	j.api = api::acl;
	j.batch = 4096;
	j.depth = 1;
	const double ns = best_of([&] { return double(measure(*one_, j).submit.percentile(50)); });
	print_row({"aclrtMemcpyBatchAsync, 4096 of 64 B, an item", fmt::format("{:.1f} ns", ns), "20 ns; " + distance(),
		   ns / 20, 1, false});
}

/* ---- large copies ----------------------------------------------------------------------------------- */

void budget::cold_one()
{
	const cold_reference beside(m_, lim_, cold_);

	for (copy_kind w : {copy_kind::h2d, copy_kind::d2h}) {
		job j = base_job(w, MiB, 8);

		j.cold = true;
		const outcome o = beside.measure_beside(*one_, j);
		const double page = std::max(lim_.best_cold_small_pages, 0.01);
		print_row({fmt::format("1 MiB cold, one engine, {}", name_of(w)), fmt::format("{:.1f} GB/s", o.gbps),
			   fmt::format("{}, one thread, {:.1f} GB/s (in shared 4 KiB pages: {:.2f} of {:.1f})",
				       lim_.best_name, o.best_cold, o.gbps / page, page),
			   o.gbps / o.best_cold, 0.95, true});
	}
}

void budget::cold_many()
{
	if (many_ < 2)
		return;
	if (!n_)
		n_ = std::make_unique<bench_device>(1, cold_);
	job j = base_job(copy_kind::h2d, MiB, 8 * many_);
	j.streams = many_;
	j.cold = true;
	j.wait = wait::interrupt; /* the client's CPU is one of those that could copy */
	const outcome o = measure(*n_, j);
	const double limit = lim_.threads[many_];
	print_row({fmt::format("1 MiB cold, {} engines, h2d", many_), fmt::format("{:.1f} GB/s", o.gbps),
		   fmt::format("{}, {} threads, {:.1f} GB/s", lim_.best_name, many_, limit), o.gbps / limit, 0.9,
		   true});
	n_.reset();
}

void budget::pageable()
{
	for (copy_kind w : {copy_kind::page_h2d, copy_kind::page_d2h}) {
		job j = base_job(w == copy_kind::page_h2d ? copy_kind::h2d : copy_kind::d2h, 64 * MiB, 1);

		j.cold = true;
		/* The median of single copies: windows hold too few of them. */
		const auto rate = [&](copy_kind kind) {
			j.kind = kind;
			return double(j.size) / double(measure(*one_, j).latency.percentile(50));
		};
		const copy_kind to_pinned = j.kind;
		const comparison h = median_of([&] { return rate(w); }, [&](double) { return rate(to_pinned); });
		print_row({fmt::format("64 MiB {}", name_of(w)), fmt::format("{:.1f} GB/s", h.value),
			   fmt::format("pinned, {:.1f} GB/s; {}", h.reference, distance()), h.ratio(), 0.85, true});
	}
}

/* ---- waiting ---------------------------------------------------------------------------------------- */

void budget::blocked()
{
	const double limit = wake_latency(m_, wake_by::io_uring);
	const double ns = blocked_wait_ns(*one_, m_.client, wait::interrupt);

	if (limit > 0)
		print_row({"blocked wait, end of the copy to awake", fmt::format("{:.1f} us", ns / 1e3),
			   fmt::format("io_uring's read of an eventfd, {:.1f} us", limit / 1e3), ns / limit, 1.15,
			   false});
	else
		fmt::print("blocked wait: {:.1f} us; no io_uring here to compare it with\n", ns / 1e3);
}

void budget::idle()
{
	constexpr unsigned window_ms = 300;

	std::this_thread::sleep_for(std::chrono::milliseconds(100));
	const u64 before = process_cpu_ns();
	std::this_thread::sleep_for(std::chrono::milliseconds(window_ms));
	const double percent = double(process_cpu_ns() - before) / (window_ms * 1e6) * 100;
	print_row({"idle device, after 100 ms", fmt::format("{:.2f} %", percent), "0.1 % of a CPU, all threads",
		   percent / 0.1, 1, false});
}

/* ---- growth ----------------------------------------------------------------------------------------- */

void budget::growth()
{
	const part p = one_->mem->parts(job(), cold_)[0];
	const many_streams own(one_->dev, 1, wait::poll);
	const auto one_copy = [&] { return on_client([&] { return submit_cost(own.all.data(), 1, p.dst, p.src); }); };
	double few, many;

	{
		const many_regions r(100000);

		many = best_of(one_copy);
		if (r.count < 100000)
			fmt::print("only {} regions: {}\n", r.count, r.why);
	}
	few = best_of(one_copy);
	print_row({"submit with 100,000 regions", fmt::format("{:.1f} ns", many),
		   fmt::format("with one, {:.1f} ns", few), many / few, 1.2, false});
	{
		const many_streams s(one_->dev, 10000, wait::poll);

		many = best_of(one_copy);
	}
	few = best_of(one_copy);
	print_row({"submit with 10,000 streams", fmt::format("{:.1f} ns", many),
		   fmt::format("with one, {:.1f} ns", few), many / few, 1.2, false});
}

void budget::run()
{
	latency();
	calls();
	rates();
	cold_one();
	cold_many();
	pageable();
	blocked();
	idle();
	growth();
}

nlohmann::json budget::json() const
{
	nlohmann::json rows = nlohmann::json::array();

	for (const row &r : rows_)
		rows.push_back({{"figure", r.figure},
				{"value", r.value},
				{"limit", r.limit},
				{"ratio", r.ratio},
				{"reach", r.reach},
				{"reached", r.at_least ? r.ratio >= r.reach : r.ratio <= r.reach}});
	return {{"machine", to_json(m_)}, {"limits", to_json(lim_)}, {"rows", rows}};
}

} // namespace

/* bench-budget [FILE.json] */
int main(int argc, char **argv)
{
	try {
		budget b(512 * MiB);

		b.run();
		if (argc > 1)
			write_file(argv[1], b.json().dump(2) + "\n");
	} catch (const std::exception &e) {
		fmt::print(stderr, "bench-budget: {}\n", e.what());
		return 1;
	}
	return 0;
}
