/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the settings that suit this machine.  The library reads its settings
 * once a process, so each candidate is measured by a child process.  The best
 * value is then compared with the value in force; a gain that is too small
 * changes nothing.
 */
#include "tools/perf/calibrate.h"

#include "driver/base/words.h"
#include "tools/perf/report.h"
#include "tools/perf/wake.h"
#include "usdma/usdma.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <stdexcept>
#include <unistd.h>

namespace usdma::perf {

namespace {

/* The least gain for which a setting is changed. */
constexpr double min_gain = 1.03;

/* Thrown when a signal interrupts the measurement: its result is invalid. */
struct interruption {};

class calibration {
public:
	calibration(const options &o, const machine &m) : o_(o), m_(m) {}

	void cpus();
	void spin();
	void direct_store();
	void huge_pages();
	bool copies_by_cpu() const;
	void all();
	const std::vector<proposal> &found() const { return found_; }
	const std::vector<skipped> &others() const { return others_; }

private:
	nlohmann::json run(const std::string &settings, const std::string &args);
	double rate(const std::string &settings, const std::string &args);
	double latency_us(const std::string &settings, const std::string &args);
	std::string best_of(const char *name, const std::string &now, std::initializer_list<const char *> others,
			    const std::string &args);
	void one(const char *name, std::initializer_list<const char *> others, const std::string &args,
		 const char *what);
	void record(proposal p);
	void skip(const char *name, const std::string &why);
	const options &o_;
	const machine &m_;
	std::vector<proposal> found_;
	std::vector<skipped> others_;
};

std::string in_force(const char *name)
{
	char text[256] = "";

	return usdma_setting_get(name, text, sizeof(text)) ? "" : text;
}

std::string variable(std::string name, const std::string &value)
{
	for (char &ch : name)
		ch = char(toupper(static_cast<unsigned char>(ch)));
	return fmt::format("USDMA_{}={} ", name, value.empty() ? "''" : value);
}

/* The rows of a run with these settings ("NAME=value ", generated here: no shell metacharacters). */
nlohmann::json calibration::run(const std::string &settings, const std::string &args)
{
	/* In the shell /proc/self would be the shell. */
	const std::string self = fmt::format("/proc/{}/exe", getpid());
	const std::string where = fmt::format("--client-cpu {} --engine-cpu {}", m_.client, fmt::join(m_.engines, ","));
	const std::string device = o_.device.empty() ? "" : "--device '" + o_.device + "'";
	std::string text;
	char buf[4096];

	progress(o_, settings);
	unpin(m_.cpus); /* they inherit the CPUs of this thread */
	// NOLINTNEXTLINE(cert-env33-c): an interactive tool, and the command line is its own
	FILE *from = popen(fmt::format("env {}{} {} --quiet --json - {} {} {}",
				       m_.own_device ? "-u USDMA_DEVICES " : "", settings, self, where, device, args)
				   .c_str(),
			   "re");
	if (!from)
		throw std::runtime_error("cannot start a measurement");
	for (size_t n; (n = fread(buf, 1, sizeof(buf), from)) > 0;)
		text.append(buf, n);
	const int status = pclose(from);
	if (stopped())
		throw interruption();
	if (status)
		throw std::runtime_error(fmt::format("a measurement with {}failed", settings));
	progress(o_, "");
	return nlohmann::json::parse(text).at("rows");
}

/* GB/s; the geometric mean of several rows. */
double calibration::rate(const std::string &settings, const std::string &args)
{
	const nlohmann::json rows = run(settings, args);
	double log_sum = 0;

	for (const auto &row : rows)
		log_sum += std::log(row.at("gbps").get<double>());
	return std::exp(log_sum / double(rows.size()));
}

double calibration::latency_us(const std::string &settings, const std::string &args)
{
	return run(settings, args).at(0).at("latency_ns").at("p50").get<double>() / 1e3;
}

void calibration::record(proposal p)
{
	if (o_.json != "-") {
		say(fmt::format("{:13} {:>8}{} {}: ", p.name, p.now.empty() ? "-" : p.now,
				p.changed() ? fmt::format(" -> {:8}", p.proposed) : " stays      ", p.what));
		if (p.changed())
			say(fmt::format("{:.2f} -> {:.2f} {}\n", p.before, p.after, p.unit));
		else
			say(fmt::format("{:.2f} {}\n", p.before, p.unit));
	}
	found_.push_back(std::move(p));
}

void calibration::skip(const char *name, const std::string &why)
{
	if (o_.json != "-")
		say(fmt::format("{:13} not measured: {}\n", name, why));
	others_.push_back({name, why});
}

/* ---- measurements ------------------------------------------------------------------------------------ */

/* Pins the engines to CPUs close to the client's; otherwise the kernel may run both on one CPU. */
void calibration::cpus()
{
	const size_t n = std::min<size_t>(2, m_.engines.size());
	const std::string list = fmt::format("{}",
					     fmt::join(m_.engines.begin(), m_.engines.begin() + ptrdiff_t(n), ","));
	const std::string small = "-w h2d -s 64 -d 1 --wait hybrid --seconds 0.1 --cold-bytes 16M",
			  device = "USDMA_DEVICES=sim:mem=1G:engines=1";

	if (!m_.own_device)
		return skip("sim_cpus", "it applies only to software devices without a device string");
	if (m_.cpus.size() < 2)
		return skip("sim_cpus", "there is one CPU");
	const std::string now = in_force("sim_cpus");
	const double before = latency_us(variable("sim_cpus", now) + device + " ", small);
	const double after = latency_us(fmt::format("{}:cpus={} ", device, m_.engines[0]), small);
	const bool better = before > after * min_gain;
	record({"sim_cpus", now, better ? list : now, "64 B to device", "us", before, better ? after : before, false});
}

/* Spinning for twice the cost of a wake-up takes at most three times the optimum. */
void calibration::spin()
{
	const double wake = wake_latency(m_, wake_by::io_uring) / 1e3;
	const std::string now = in_force("spin_us"),
			  args = "-w h2d -s 256K -d 1 --wait hybrid --seconds 0.1 --cold-bytes 16M";

	if (wake <= 0)
		return skip("spin_us", "io_uring is unavailable");
	const s64 to = std::clamp(s64(std::ceil(2 * wake)), s64(10), s64(1000));
	const std::string want = std::to_string(to);
	const double before = latency_us(variable("spin_us", now), args),
		     after = latency_us(variable("spin_us", want), args);
	/* Wake-up times vary between runs: small differences are ignored, and only longer spinning must gain. */
	s64 from = 0;
	number_parse_signed(now, &from);
	const bool better = std::abs(to - from) * 4 > to &&
			    (to < from ? after < before * min_gain : before > after * min_gain);
	record({"spin_us", now, better ? want : now, fmt::format("256K to device (a wake-up takes {:.0f} us)", wake),
		"us", before, better ? after : before, false});
}

/* The device's memory is the CPU's, and pageable copies of any length take neither the engine nor a staging buffer. */
bool calibration::copies_by_cpu() const
{
	return !getenv("USDMA_TEST_PAGEABLE") &&
	       (m_.own_device || o_.device.starts_with("sim") || o_.device.starts_with("vfio-user"));
}

static constexpr const char *by_cpu = "the CPU makes the pageable copies of this device";

/* The largest size that the CPU copies faster than the engine. */
void calibration::direct_store()
{
	if (copies_by_cpu())
		return skip("direct_store", by_cpu);
	const std::string now = in_force("direct_store"),
			  args = "-w page-h2d,page-d2h --seconds 0.05 --cold --cold-bytes 64M -s ";
	size_t best = 0, last = 0;

	for (size_t size = KiB; size <= 256 * KiB; size *= 4) {
		last = size;
		if (rate("USDMA_DIRECT_STORE=1G ", args + std::to_string(size)) <
		    rate("USDMA_DIRECT_STORE=0 ", args + std::to_string(size)))
			break;
		best = size;
	}
	/* Compared at the threshold: no gain if the value in force is the same threshold. */
	const std::string proposed = size_text(best), at = args + size_text(best ? best : last);
	const double before = rate(variable("direct_store", now), at),
		     after = rate(variable("direct_store", proposed), at);
	const bool better = after > before * min_gain;
	record({"direct_store", now, better ? proposed : now, fmt::format("pageable {}", size_text(best ? best : last)),
		"GB/s", before, better ? after : before, true});
}

/* The value of a setting with the best rate; a later value must gain enough. */
std::string calibration::best_of(const char *name, const std::string &now, std::initializer_list<const char *> others,
				 const std::string &args)
{
	std::string best = now;
	double most = rate(variable(name, now), args);

	for (const char *value : others)
		if (const double r = value == now ? 0 : rate(variable(name, value), args); r > most * min_gain) {
			most = r;
			best = value;
		}
	return best;
}

/* Calibrates one independent setting by the rate. */
void calibration::one(const char *name, std::initializer_list<const char *> others, const std::string &args,
		      const char *what)
{
	const std::string now = in_force(name), best = best_of(name, now, others, args);
	const double before = rate(variable(name, now), args), after = rate(variable(name, best), args);
	const bool better = after > before * min_gain;

	record({name, now, better ? best : now, what, "GB/s", before, better ? after : before, true});
}

void calibration::huge_pages()
{
	one("huge_pages", {"off", "advise"}, "-w h2d,d2h -s 1M -d 8 --seconds 0.1 --cold-bytes 128M --cold",
	    "1M, 8 in flight, cold");
}

void calibration::all()
{
	try {
		cpus();
		spin();
		direct_store();
		huge_pages();
	} catch (const interruption &) {
		progress(o_, "");
	}
}

nlohmann::json to_json(const std::vector<proposal> &all, const std::vector<skipped> &others, const machine &m)
{
	nlohmann::json list = nlohmann::json::array(), left = nlohmann::json::array();

	for (const proposal &p : all)
		list.push_back({{"name", p.name},
				{"now", p.now},
				{"proposed", p.proposed},
				{"changed", p.changed()},
				{"what", p.what},
				{"unit", p.unit},
				{"before", p.before},
				{"after", p.after},
				{"better", p.more_is_better ? "more" : "less"}});
	for (const skipped &s : others)
		left.push_back({{"name", s.name}, {"why", s.why}});
	return {{"machine", to_json(m)}, {"interrupted", stopped()}, {"settings", list}, {"skipped", left}};
}

std::string as_file(const std::vector<proposal> &all)
{
	std::string out = "# Proposed by usdma-perf --calibrate; see docs/tuning.md.\n";

	for (const proposal &p : all)
		if (p.changed())
			out += fmt::format("{} = {} # {}: {:.2f} {}, was {:.2f}\n", p.name, p.proposed, p.what, p.after,
					   p.unit, p.before);
	return out;
}

} // namespace

int run_calibration(const options &o, const machine &m)
{
	calibration c(o, m);
	const bool to_stdout = o.json == "-";

	if (!to_stdout)
		say(fmt::format("{}\n", describe(m)));
	c.all();
	write_json(o.json, to_json(c.found(), c.others(), m));
	if (stopped() && !o.write_to.empty())
		fmt::print(stderr, "usdma-perf: interrupted: {} is not written\n", o.write_to);
	if (stopped())
		return 0;
	if (!o.write_to.empty())
		write_file(o.write_to, as_file(c.found()));
	if (!to_stdout)
		say(fmt::format("{}\n", o.write_to.empty() ?
						"\nusdmactl tune --write writes this to the configuration file" :
						"\nwritten to " + o.write_to));
	return 0;
}

} // namespace usdma::perf
