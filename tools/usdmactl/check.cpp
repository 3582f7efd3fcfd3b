/* SPDX-License-Identifier: BSD-3-Clause */
/* usdmactl check: runs a program under USDMA_CHECK=race, and sums up what was reported of it. */
#include "driver/base/unique_fd.h"
#include "tools/interrupt.h"
#include "tools/usdmactl/ctl.h"

#include <nlohmann/json.hpp>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <sys/wait.h>
#include <unistd.h>

namespace usdma::ctl {

static constexpr int status_found = 66;

/* Written by the program and its children, one line each; removed at the end. */
class report_file {
public:
	report_file()
	{
		const int fd = mkstemp(path_);

		if (fd >= 0)
			close(fd);
		else
			path_[0] = 0;
	}
	~report_file()
	{
		if (path_[0])
			unlink(path_);
	}
	report_file(const report_file &) = delete;
	report_file &operator=(const report_file &) = delete;
	std::string path() const { return path_; }

private:
	char path_[32] = "/tmp/usdma-check-XXXXXX";
};

struct found {
	json reports = json::array();
	u64 count = 0, suppressed = 0, dropped = 0;
	unsigned processes = 0; /* that came to their end */
};

static void add_summary(const json &line, found *f)
{
	f->processes++;
	f->suppressed += line.value("suppressed", u64(0));
	for (const json &n : line.value("counts", json::array()))
		f->count += n.get<u64>();
	for (const json &n : line.value("dropped", json::object()))
		f->dropped += n.get<u64>();
}

/* A process that was killed leaves half a line at most. */
static found read_reports(const std::string &path)
{
	std::ifstream in(path);
	std::string text;
	found f;

	while (std::getline(in, text)) {
		const json line = json::parse(text, nullptr, false);

		if (!line.is_object())
			continue;
		if (line.contains("report"))
			f.reports.push_back(line);
		else if (line.contains("summary"))
			add_summary(line, &f);
	}
	return f;
}

static std::string kinds_text(const json &reports)
{
	std::map<std::string, unsigned> kinds;
	std::string out;

	for (const json &r : reports)
		kinds[r.value("kind", "")]++;
	for (const auto &[kind, n] : kinds)
		out += fmt::format("{}{} {}", out.empty() ? "" : ", ", n, kind);
	return out;
}

static void print_found(const found &f)
{
	if (!f.processes && f.reports.empty())
		return print_line("The program made no use of usdma, or was killed: nothing was checked.");
	if (f.reports.empty())
		print_line("No race was found.");
	else
		print_line(fmt::format("{} races were found, {} times: {}.", f.reports.size(), f.count,
				       kinds_text(f.reports)));
	for (const json &r : f.reports)
		print_folded(fmt::format("{}. {}: {}. Fix: {}.", r.value("report", 0), r.value("kind", ""),
					 r.value("missing", ""), r.value("fix", "")),
			     2, 5);
	if (f.suppressed)
		print_line(fmt::format("{} were suppressed.", f.suppressed));
	if (f.dropped)
		print_line(fmt::format("{} facts went beyond the limits and were forgotten: races may be missing.",
				       f.dropped));
}

static std::string words_of(const check_options &opt, const std::string &report)
{
	return std::string("race") + (opt.unwritten ? ",unwritten" : "") + (opt.guard ? ",guard" : "") +
	       (opt.timing.empty() ? "" : "," + opt.timing) + ",report=" + report +
	       (opt.suppressions.empty() ? "" : ",suppressions=" + opt.suppressions) +
	       ",exit=" + std::to_string(status_found);
}

[[noreturn]] static void become(const check_options &opt, const std::string &report)
{
	std::vector<char *> words;

	setenv("USDMA_CHECK", words_of(opt, report).c_str(), 1);
	for (const std::string &word : opt.program)
		words.push_back(const_cast<char *>(word.c_str()));
	words.push_back(nullptr);
	if (usdma::tool::default_interrupts())
		execvp(words[0], words.data());
	print_error(fmt::format("{}: {}", opt.program[0], strerror(errno)));
	_exit(127);
}

/* The program's exit status, as a shell has it. */
static int run_program(const check_options &opt, const std::string &report)
{
	int status;

	usdma::tool::catch_interrupts();
	const pid_t child = fork();
	if (!child)
		become(opt, report);
	if (child < 0)
		return -errno;
	store_seq_cst(&usdma::tool::interrupt_too, child);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	store_seq_cst(&usdma::tool::interrupt_too, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run_check(const context &ctx, const check_options &opt)
{
	const report_file temporary;
	const std::string path = opt.report.empty() ? temporary.path() : opt.report;

	if (path.empty())
		return report(ctx, fmt::format("a file for reports: {}", strerror(errno)));
	if (!opt.report.empty() && !std::ofstream(path, std::ios::trunc))
		return report(ctx, fmt::format("{}: {}", path, strerror(errno)));
	const int status = run_program(opt, path);
	if (status < 0)
		return report(ctx, fmt::format("{}: {}", opt.program[0], strerror(-status)));
	const found f = read_reports(path);
	if (ctx.json)
		print_json({{"status", status},
			    {"reports", f.reports},
			    {"count", f.count},
			    {"suppressed", f.suppressed},
			    {"dropped", f.dropped}});
	else
		print_found(f);
	return f.reports.empty() ? status : status_found;
}

} // namespace usdma::ctl
