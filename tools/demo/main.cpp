/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The demonstration behind ./tools/quickstart: a real file goes host → device →
 * device → host by each path of the library; its SHA-256 must be the same
 * afterwards.  Then it prints the speed of each leg and the latency of a small copy.
 */
#include "tools/demo/job.h"

#include "driver/base/fd.h"
#include "tools/help.h"
#include "tools/output.h"

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>

using namespace usdma::demo;
using seconds = std::chrono::duration<double>;

static constexpr int rounds = 5, small_copies = 2000;

struct outcome {
	const path *p = nullptr;
	double in = 0, across = 0, out = 0; /* seconds, the median round's */
	double p50 = 0, p99 = 0;            /* microseconds */
	std::string sha;
};

static double timed(void (*leg)(job &j), job &j)
{
	const auto start = std::chrono::steady_clock::now();

	leg(j);
	return seconds(std::chrono::steady_clock::now() - start).count();
}

static double at(std::vector<double> &v, double share)
{
	std::sort(v.begin(), v.end());
	return v[std::min(v.size() - 1, size_t(double(v.size()) * share))];
}

static void latency(job &j, outcome *o)
{
	std::vector<double> us;

	us.reserve(small_copies);
	for (int i = 0; i < small_copies; i++)
		us.push_back(timed(o->p->one, j) * 1e6);
	o->p50 = at(us, 0.5);
	o->p99 = at(us, 0.99);
}

static outcome run(job &j, const path &p)
{
	std::vector<double> in, across, out;
	outcome o;

	o.p = &p;
	for (int i = 0; i < rounds; i++) {
		j.wipe();
		in.push_back(timed(p.in, j));
		across.push_back(timed(p.across, j));
		out.push_back(timed(p.out, j));
		o.sha = sha256_of(p.pageable ? j.plain_out.data() : j.pinned_out, j.len);
		if (o.sha != j.sha)
			break;
	}
	o.in = at(in, 0.5);
	o.across = at(across, 0.5);
	o.out = at(out, 0.5);
	latency(j, &o);
	return o;
}

static void print_table(const job &j, const std::vector<outcome> &all)
{
	const auto rate = [&](double s) { return double(j.len) / s / 1e9; };

	fmt::print("\n{:<31} {:>25}  {:>19}\n", "", "GB/s of the whole file", "4 KiB copy, us");
	fmt::print("{:<31} {:>8} {:>8} {:>8} {:>9} {:>9}\n", "path", "in", "across", "out", "p50", "p99");
	for (const outcome &o : all)
		fmt::print("{:<31} {:>8.2f} {:>8.2f} {:>8.2f} {:>9.1f} {:>9.1f}\n", o.p->name, rate(o.in),
			   rate(o.across), rate(o.out), o.p50, o.p99);
	fmt::print("\nin: host to device, across: device to device, out: device to host; the\n"
		   "median of {} rounds.  Latency: call to end, {} times one after the other.\n",
		   rounds, small_copies);
}

static int demonstrate(const std::string &file)
{
	job j(file);
	std::vector<outcome> all;
	int wrong = 0;

	fmt::print("{}: {:.1f} MB\nSHA-256 {}\n\n", file, double(j.len) / 1e6, j.sha);
	for (const path &p : paths) {
		fmt::print("{:<31} ", p.name);
		fflush(stdout);
		if (p.needs_peer && !j.peer) {
			fmt::print("skipped: device 0 cannot reach a second device\n");
			continue;
		}
		all.push_back(run(j, p));
		const bool same = all.back().sha == j.sha;
		fmt::print("{} {}…\n", same ? "same checksum" : "CHECKSUM DIFFERS", all.back().sha.substr(0, 16));
		wrong += !same;
	}
	print_table(j, all);
	return wrong ? 1 : 0;
}

int main(int argc, char **argv)
{
	usdma::open_closed_streams();
	CLI::App app("Copies a file to a device and back by each path of usdma, and compares checksums.",
		     "usdma-quickstart");
	std::string file;

	app.add_option("--file", file, "the file to copy")->required();
	try {
		app.parse(argc, argv);
	} catch (const CLI::ParseError &e) {
		return usdma::tool::end_output("usdma-quickstart", usdma::leave(app, e));
	}
	try {
		return usdma::tool::end_output("usdma-quickstart", demonstrate(file));
	} catch (const std::exception &e) {
		fmt::print(stderr, "quickstart: {}\n", e.what());
		return 1;
	}
}
