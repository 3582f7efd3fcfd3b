/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which settings suit this machine.  The library reads its settings once a
 * process, so each candidate is measured by a run of this program of its own.
 */
#include "tools/perf/options.h"
#include "tools/perf/report.h"
#include "tools/perf/wake.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fmt/core.h>
#include <fmt/ranges.h>

namespace usdma::perf {

namespace {

class calibration {
public:
	calibration(const options &o, const machine &m) : o_(o), m_(m) {}

	void cpus();
	void spin();
	void staging();
	void direct_store();
	std::string file() const;

private:
	double rate(const std::string &settings, const std::string &args);
	void settle(const std::string &key, const std::string &value, const std::string &why);

	const options &o_;
	const machine &m_;
	struct setting {
		std::string key, value, why;
	};
	std::vector<setting> found_;
};

/* The rows' GB/s (several sizes: their geometric mean) of a run with these settings. */
double calibration::rate(const std::string &settings, const std::string &args)
{
	const std::string command = fmt::format("{} /proc/self/exe --quiet --client-cpu {} --engine-cpu {} --json - {}", settings,
						m_.client, fmt::join(m_.engines, ","), args);
	std::string text;
	char buf[4096];

	progress(o_, settings);
	/* Inside the shell /proc/self is the shell: name ourselves. */
	const std::string self = fmt::format("/proc/{}/exe", getpid());
	std::string words = command;
	words.replace(words.find("/proc/self/exe"), 14, self);
	FILE *from = popen(("env " + words).c_str(), "re");
	if (!from)
		throw std::runtime_error("cannot run a measurement of its own");
	for (size_t n; (n = fread(buf, 1, sizeof(buf), from)) > 0;)
		text.append(buf, n);
	if (pclose(from))
		throw std::runtime_error(fmt::format("a measurement with {} failed", settings));
	progress(o_, "");
	double log_sum = 0;
	const nlohmann::json rows = nlohmann::json::parse(text).at("rows");
	for (const auto &row : rows)
		log_sum += std::log(row.at("gbps").get<double>());
	return std::exp(log_sum / double(rows.size()));
}

void calibration::settle(const std::string &key, const std::string &value, const std::string &why)
{
	fmt::print("{:13} = {:8} {}\n", key, value, why);
	fflush(stdout);
	found_.push_back({key, value, why});
}

/* Engines near the client; a CPU is left for the program itself. */
void calibration::cpus()
{
	const size_t n = std::min<size_t>(2, m_.engines.size());

	if (m_.cpus.size() < 2)
		return;
	settle("sim_cpus", fmt::format("{}", fmt::join(m_.engines.begin(), m_.engines.begin() + ptrdiff_t(n), ",")),
	       fmt::format("{:.0f} ns from CPU {}, the nearest", m_.line_ns, m_.client));
}

/* Spinning for twice what a wake-up costs is never more than three times the best that could be done. */
void calibration::spin()
{
	const double wake = wake_latency(m_, wake_by::io_uring) / 1e3;

	if (wake > 0)
		settle("spin_us", fmt::format("{}", std::clamp(int(std::ceil(2 * wake)), 10, 1000)),
		       fmt::format("a wake-up takes {:.1f} us", wake));
}

void calibration::staging()
{
	std::string best;
	double most = 0, chunk_default = 0;

	for (const char *count : {"2", "4", "8"})
		for (const char *chunk : {"64K", "128K", "256K", "512K", "1M", "2M"}) {
			const double r = rate(fmt::format("USDMA_BOUNCE_CHUNK={} USDMA_BOUNCE_COUNT={}", chunk, count),
					      "-w page-h2d,page-d2h -s 32M --seconds 0.15 --repeats 3 --cold-bytes 64M --cold");

			if (std::string(chunk) == "512K" && std::string(count) == "4")
				chunk_default = r;
			/* More memory must be worth it. */
			if (r > most * 1.02) {
				most = r;
				best = fmt::format("{} {}", chunk, count);
			}
		}
	const size_t gap = best.find(' ');
	settle("bounce_chunk", best.substr(0, gap), fmt::format("{:.1f} GB/s; 512K by 4: {:.1f}", most, chunk_default));
	settle("bounce_count", best.substr(gap + 1), "with it");
}

/* The largest size that is still faster by the CPU's own stores than through the engine. */
void calibration::direct_store()
{
	std::string best = "0", why = "the engine is faster from the smallest size on";

	for (size_t size = 512; size <= 256 * KiB; size *= 2) {
		const std::string args = fmt::format("-w page-h2d,page-d2h -s {} --seconds 0.1 --repeats 3", size);
		const double direct = rate("USDMA_DIRECT_STORE=1G", args), engine = rate("USDMA_DIRECT_STORE=0", args);

		if (direct < engine)
			break;
		best = size_text(size);
		why = fmt::format("at {}: {:.2f} GB/s by stores, {:.2f} by the engine", best, direct, engine);
	}
	settle("direct_store", best, why);
}

std::string calibration::file() const
{
	std::string out = "# Proposed by usdma-perf --calibrate; see docs/tuning.md.\n";

	for (const setting &s : found_)
		out += fmt::format("{} = {} # {}\n", s.key, s.value, s.why);
	return out;
}

} // namespace

int run_calibration(const options &o, const machine &m)
{
	calibration c(o, m);

	fmt::print("{}\n", describe(m));
	c.cpus();
	c.spin();
	c.direct_store();
	c.staging();
	if (o.write_to.empty()) {
		fmt::print("\n--write FILE makes this a configuration file (/etc/usdma/usdma.conf, or what USDMA_CONFIG names)\n");
		return 0;
	}
	write_file(o.write_to, c.file());
	fmt::print("\nwritten to {}\n", o.write_to);
	return 0;
}

} // namespace usdma::perf
