/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tunes the settings for this machine: usdma-perf measures them; this command
 * prints the result and merges it into the configuration file.
 */
#include "driver/base/barrier.h"
#include "driver/base/unique_fd.h"
#include "lib/core/config/setting.h"
#include "tools/interrupt.h"
#include "tools/usdmactl/ctl.h"

#include <nlohmann/json.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iostream>
#include <sstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace usdma::ctl {

namespace {

struct proposal {
	std::string name, now, proposed, what, unit;
	double before = 0, after = 0;
	bool changed = false;

	std::string gain() const { return fmt::format("{}: {:.2f} -> {:.2f} {}", what, before, after, unit); }
};

/* usdma-perf beside this program or in the build tree; else found by PATH. */
std::string perf_program()
{
	std::error_code ec;
	const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe", ec).parent_path();

	for (const auto &path : {here / "usdma-perf", here / "../perf/usdma-perf"})
		if (!ec && access(path.c_str(), X_OK) == 0)
			return path;
	return "usdma-perf";
}

/* Collects the output of usdma-perf --calibrate, also if interrupted; it prints its progress to stderr itself. */
bool calibrate(const std::string &device, std::string *out)
{
	const std::string program = perf_program();
	int fds[2];
	char buf[4096];
	int status = 0;

	if (pipe2(fds, O_CLOEXEC))
		return false;
	tool::catch_interrupts();
	const pid_t child = fork();
	if (child == 0) {
		dup2(fds[1], STDOUT_FILENO);
		if (!tool::default_interrupts())
			_exit(tool::interrupt_status());
		if (device.empty())
			execlp(program.c_str(), program.c_str(), "--calibrate", "--json", "-", nullptr);
		else
			execlp(program.c_str(), program.c_str(), "--calibrate", "--json", "-", "--device",
			       device.c_str(), nullptr);
		_exit(127);
	}
	close(fds[1]);
	store_seq_cst(&tool::interrupt_too, child);
	if (const int sig = load_seq_cst(&tool::caught_signal); sig && child > 0)
		kill(child, sig);
	for (ssize_t n; (n = read(fds[0], buf, sizeof(buf))) > 0 || (n < 0 && errno == EINTR);)
		out->append(buf, n > 0 ? size_t(n) : 0);
	close(fds[0]);
	store_seq_cst(&tool::interrupt_too, 0);
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       (WEXITSTATUS(status) == 0 || (tool::interrupted() && !out->empty()));
}

/* A setting that could not be measured, and why. */
struct skipped {
	std::string name, why;
};

/* Both throw if j is malformed: it may come from a file of the user. */
std::vector<skipped> read_skipped(const json &j)
{
	std::vector<skipped> all;

	/* Missing in the output of an older usdma-perf. */
	for (const json &one : j.value("skipped", json::array()))
		all.push_back({one.at("name"), one.at("why")});
	return all;
}

std::vector<proposal> read_proposals(const json &j)
{
	std::vector<proposal> all;

	for (const json &one : j.at("settings")) {
		proposal p;
		core::config scratch;

		p.name = one.at("name");
		p.now = one.at("now");
		p.proposed = one.at("proposed");
		p.what = one.at("what");
		p.unit = one.at("unit");
		p.before = one.at("before");
		p.after = one.at("after");
		p.changed = p.now != p.proposed;
		const core::setting *s = core::setting_find(p.name);
		if (!s || !core::setting_read(*s, p.proposed, &scratch))
			throw std::runtime_error(
				fmt::format("{} = {} is not a setting of this version", p.name, p.proposed));
		all.push_back(p);
	}
	return all;
}

/* ---- the file ---------------------------------------------------------------------------------------- */

/* The file that the library reads: USDMA_CONFIG, else for root the system's file, else the user's. */
std::string default_file(const context &ctx)
{
	const char *named = core::config_env("USDMA_CONFIG");

	if (!ctx.at.real())
		return ctx.at.root + core::config_system_file;
	if (named && *named)
		return named;
	const std::string mine = core::config_user_file({});
	return geteuid() == 0 || mine.empty() ? core::config_system_file : mine;
}

/* The name that a line sets; "": none. */
std::string key_of(const std::string &line)
{
	const std::string text = line.substr(0, line.find('#'));
	const size_t eq = text.find('='), from = text.find_first_not_of(" \t"),
		     to = text.find_last_not_of(" \t", eq - 1);

	return eq == text.npos || eq == 0 || from >= eq ? "" : text.substr(from, to - from + 1);
}

/* A newline in a comment must not start a new line of the file. */
std::string one_line(std::string text)
{
	for (char &ch : text)
		ch = ch >= ' ' && ch != '\x7f' ? ch : ' ';
	return text;
}

/* Replaces the lines of changed settings, appends new ones, and leaves all other lines as they are. */
std::string merge(const std::string &text, const std::vector<proposal> &all)
{
	std::vector<bool> done(all.size());
	std::istringstream in(text);
	std::string out;

	auto line_of = [](const proposal &p) {
		return one_line(fmt::format("{} = {} # {}", p.name, p.proposed, p.gain())) + "\n";
	};
	for (std::string line; std::getline(in, line);) {
		size_t i = 0;

		while (i < all.size() && !(all[i].changed && !strcasecmp(key_of(line).c_str(), all[i].name.c_str())))
			i++;
		if (i == all.size()) {
			out += line + "\n";
		} else if (!done[i]) {
			out += line_of(all[i]);
			done[i] = true;
		}
	}
	for (size_t i = 0; i < all.size(); i++)
		if (all[i].changed && !done[i])
			out += line_of(all[i]);
	return out;
}

bool write_all(int fd, const std::string &text)
{
	size_t at = 0;

	while (at < text.size()) {
		const ssize_t n = write(fd, text.data() + at, text.size() - at);

		if (n < 0 && errno != EINTR)
			return false;
		at += n > 0 ? size_t(n) : 0;
	}
	return fsync(fd) == 0;
}

/* Writes a temporary file and renames it, so that the change is atomic. Returns "" or the error. */
std::string replace_file(const std::string &path, const std::string &text)
{
	std::error_code ec;
	const std::filesystem::path target = std::filesystem::weakly_canonical(path, ec);
	struct stat st;
	const mode_t mode = stat(target.c_str(), &st) == 0 ? st.st_mode & 07777 : 0644;

	if (ec || (stat(target.c_str(), &st) == 0 && !S_ISREG(st.st_mode)))
		return "not a regular file";
	std::filesystem::create_directories(target.parent_path(), ec);
	std::string temp = target.string() + ".XXXXXX";
	const unique_fd fd(mkostemp(temp.data(), O_CLOEXEC));
	if (!fd.valid())
		return strerror(errno);
	if (write_all(fd.get(), text) && fchmod(fd.get(), mode) == 0 && rename(temp.c_str(), target.c_str()) == 0)
		return "";
	std::string why = strerror(errno);
	unlink(temp.c_str());
	return why;
}

/* ---- the command ------------------------------------------------------------------------------------- */

void print_proposals(const std::vector<proposal> &all, const std::vector<skipped> &others)
{
	print_line(fmt::format("{:<14} {:>8}    {:<9} {}", "setting", "now", "proposed", "what it gains"));
	for (const proposal &p : all) {
		const std::string now = p.now.empty() ? "-" : p.now;

		if (p.changed)
			print_line(fmt::format("{:<14} {:>8} -> {:<9} {}", p.name, now, p.proposed, p.gain()));
		else
			print_line(fmt::format("{:<14} {:>8}    {:<9} {}: {:.2f} {}", p.name, now, "stays", p.what,
					       p.before, p.unit));
	}
	for (const skipped &s : others)
		print_folded(fmt::format("{:<14} not measured: {}", s.name, s.why), 0, 15);
}

bool any_change(const std::vector<proposal> &all)
{
	for (const proposal &p : all)
		if (p.changed)
			return true;
	return false;
}

/* Does not write a file that the library could not parse. */
int write_proposals(const context &ctx, const std::string &path, const std::vector<proposal> &all, json *j)
{
	const std::string text = merge(read_all(path), all);
	const core::config check = core::config_parse_text(path, text);

	if (!check.error.empty())
		return report(ctx, "not written: " + check.error);
	if (any_change(all))
		if (const std::string why = replace_file(path, text); !why.empty())
			return report(
				ctx, fmt::format("{} cannot be written: {}; --write FILE writes to another file, which "
						 "USDMA_CONFIG selects",
						 path, why));
	(*j)["written"] = any_change(all) ? json(path) : json();
	return exit_ok;
}

bool get_result(const context &ctx, const tune_options &opt, std::string *text)
{
	if (!opt.from.empty()) {
		*text = read_all(opt.from);
		return !text->empty() || report(ctx, opt.from + ": cannot be read, or is empty") == exit_ok;
	}
	if (!ctx.json)
		std::cerr << "Measuring for about a minute; other load on this machine distorts the result.\n";
	if (calibrate(opt.device, text))
		return true;
	report(ctx, tool::interrupted() ?
			    "interrupted before anything was measured" :
			    "the calibration failed: is usdma-perf installed? usdma-perf --calibrate shows the error");
	return false;
}

} // namespace

int run_tune(const context &ctx, const tune_options &opt)
{
	std::vector<proposal> all;
	std::vector<skipped> others;
	std::string text;
	json j;

	if (!get_result(ctx, opt, &text))
		return exit_failed;
	try {
		j = json::parse(text);
		all = read_proposals(j);
		others = read_skipped(j);
	} catch (const std::exception &e) {
		return report(ctx,
			      fmt::format("{}: not the output of usdmactl tune --json: {}",
					  opt.from.empty() ? "the result of the calibration" : opt.from, e.what()));
	}
	const std::string path = opt.file.empty() ? default_file(ctx) : opt.file;
	const bool write = opt.write && !tool::interrupted();
	if (write)
		if (const int status = write_proposals(ctx, path, all, &j); status != exit_ok)
			return status;
	if (ctx.json) {
		j["thresholds"] = thresholds_json();
		print_json(j);
		return exit_ok;
	}
	print_thresholds(thresholds_json());
	print_proposals(all, others);
	if (tool::interrupted())
		print_error("interrupted: the other settings were not measured, and nothing is written");
	else if (!any_change(all))
		print_lines("\nNo change: the settings in force suit this machine.");
	else
		print_lines((write ? "\nWritten to " : "\nusdmactl tune --write writes this to ") + path);
	return exit_ok;
}

} // namespace usdma::ctl
