/* SPDX-License-Identifier: BSD-3-Clause */
/* Bandwidth and latency over size, drawn by gnuplot. */
#include "tools/perf/report.h"

#include "tools/perf/options.h"

#include <cstdio>
#include <cstdlib>
#include <fmt/core.h>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

namespace usdma::perf {

namespace {

std::string quoted(const std::string &text)
{
	std::string out = "'";

	for (char c : text)
		out += c == '\'' ? "''" : std::string(1, c);
	return out + "'";
}

/* The parameters that distinguish curves, the kind of copy first. */
std::vector<std::string> words_of(const job &j)
{
	return {name_of(j.kind),
		fmt::format("{} in flight", j.depth),
		j.kind == copy_kind::batch ? fmt::format("batches of {}", j.batch) : "",
		fmt::format("{} threads", j.threads),
		fmt::format("{} streams", j.streams),
		fmt::format("wait {}", name_of(j.wait)),
		fmt::format("CPU {}", j.client_cpu)};
}

/* One curve for each set of parameters but the size; its name has the parameters that differ. */
std::map<std::string, std::map<size_t, const outcome *>> curves_of(const std::vector<outcome> &all)
{
	std::map<std::string, std::map<size_t, const outcome *>> out;
	std::vector<std::set<std::string>> seen;

	for (const outcome &o : all) {
		const std::vector<std::string> words = words_of(o.job);

		seen.resize(words.size());
		for (size_t n = 0; n < words.size(); n++)
			seen[n].insert(words[n]);
	}
	for (const outcome &o : all) {
		const std::vector<std::string> words = words_of(o.job);
		std::string name = words[0];

		for (size_t n = 1; n < words.size(); n++)
			if (seen[n].size() > 1 && !words[n].empty())
				name += ", " + words[n];
		out[name][o.job.size] = &o;
	}
	return out;
}

std::string title_of(const std::vector<outcome> &all, const machine &m)
{
	std::string same;

	if (!all.empty())
		same = fmt::format(", {} in flight, {}{}", all[0].job.depth,
				   all[0].job.api == api::acl ? "ACL" : "native", all[0].job.cold ? ", cold" : "");
	for (const outcome &o : all)
		if (o.job.depth != all[0].job.depth)
			same = all[0].job.cold ? ", cold" : "";
	return fmt::format("usdma-perf {}{}: {}, {} CPUs, Linux {}", USDMA_VERSION_TEXT, same, m.cpu, m.cpus.size(),
			   m.kernel);
}

/* Labels: "64 B", "4 KiB"; gnuplot's own prefix of 1024 is "ki". */
std::string size_marks(const std::vector<outcome> &all)
{
	std::string marks;

	for (const outcome &o : all) {
		const std::string text = size_text(o.job.size);
		const bool small = text.back() >= '0' && text.back() <= '9';

		marks += fmt::format("{}'{}' {}", marks.empty() ? "" : ", ",
				     small ? text + " B" :
					     fmt::format("{} {}iB", text.substr(0, text.size() - 1), text.back()),
				     o.job.size);
	}
	return marks;
}

std::string script(const std::vector<outcome> &all, const machine &m, const std::string &file)
{
	const char *term = file.ends_with(".png") ? "pngcairo size 900,800" :
						    "svg size 900,800 dynamic background 'white'";
	std::string text = fmt::format("set encoding utf8\nset terminal {}\nset output {}\n", term, quoted(file)), top,
		    bottom;
	unsigned n = 0;

	for (const auto &[name, points] : curves_of(all)) {
		text += fmt::format("$c{} << EOD\n", n);
		for (const auto &[size, o] : points)
			text += fmt::format("{} {} {} {} {}\n", size, o->gbps, o->latency.percentile(50) * 1e-9,
					    o->latency.percentile(99) * 1e-9, o->base_gbps);
		text += "EOD\n";
		top += fmt::format("{}$c{} using 1:2 with linespoints linecolor {} linewidth 2 title {}",
				   n ? ", " : "plot ", n, n + 1, quoted(name));
		bottom += fmt::format("{}$c{} using 1:3 with linespoints linecolor {} linewidth 2 title {}, "
				      "$c{} using 1:4 with lines linecolor {} dashtype 2 title {}",
				      n ? ", " : "plot ", n, n + 1, quoted(name + ", median"), n, n + 1,
				      quoted("99 of 100"));
		n++;
	}
	top += ", $c0 using 1:5 with lines dashtype 3 linecolor rgb 'black' title 'memcpy, one thread'";
	return text + fmt::format("set multiplot layout 2,1 title {}\n", quoted(title_of(all, m))) +
	       fmt::format("set logscale xy 2\nset key outside right\nset grid\nset xtics ({})\n", size_marks(all)) +
	       "set xlabel 'bytes a copy'\nset ylabel 'GB/s'\n" + top +
	       "\nset logscale y 10\nset format y '%.0s %cs'\nset ylabel 'from the call to its end'\n" + bottom +
	       "\nunset multiplot\n";
}

} // namespace

void plot(const std::vector<outcome> &all, const machine &m, const std::string &file)
{
	// NOLINTNEXTLINE(cert-env33-c): an interactive tool with a constant command
	if (system("command -v gnuplot >/dev/null 2>&1"))
		throw std::runtime_error("--plot needs gnuplot: install it (Debian: gnuplot-nox); "
					 "--csv and --json work without it");
	// NOLINTNEXTLINE(cert-env33-c): likewise
	FILE *to = popen("gnuplot", "w");

	if (!to)
		throw std::runtime_error("gnuplot cannot be started");
	const std::string text = script(all, m, file);
	const bool written = fwrite(text.data(), 1, text.size(), to) == text.size();
	if (pclose(to) || !written)
		throw std::runtime_error(fmt::format("gnuplot failed: {} is not written", file));
}

} // namespace usdma::perf
