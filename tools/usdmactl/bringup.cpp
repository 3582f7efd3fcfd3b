/* SPDX-License-Identifier: BSD-3-Clause */
/* Tries a device step by step, stops at the first surprise, and writes a report that usdma-sim --replay answers by. */
#include "tools/usdmactl/bringup.h"

#include "driver/base/clock.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <sys/utsname.h>

namespace usdma::ctl::trial {

static constexpr size_t shown_accesses = 12;

/* ---- the report: nothing of the machine's or the user's names ---------------------------------------------- */

/* Not within a word: a socket may be named "a". */
static void replace_name(std::string *text, const std::string &name)
{
	const auto is_no_word = [text](size_t at) { return at >= text->size() || !isalnum(u8((*text)[at])); };

	for (size_t at = 0; (at = text->find(name, at)) != text->npos;) {
		const bool is_whole = (!at || is_no_word(at - 1)) && is_no_word(at + name.size());

		if (is_whole)
			text->replace(at, name.size(), "DEVICE");
		at += is_whole ? strlen("DEVICE") : 1;
	}
}

/* Texts of errors name the device, as it was given or by its address or path, and files. */
static std::string impersonal(const bench &b, std::string text)
{
	for (const std::string &name : b.names)
		replace_name(&text, name);
	for (size_t at = 0; (at = text.find('/', at)) != text.npos;) {
		const bool begins = !at || !isalnum(u8(text[at - 1]));
		const size_t end = std::min(text.find_first_of(" \t\n\"',;)", at), text.size());

		if (begins && end - at > 1)
			text.replace(at, end - at, "PATH");
		at += begins ? 4 : 1;
	}
	return text;
}

/* "r REGION OFFSET WIDTH VALUE [COUNT]" */
static std::string access_text(const register_access &a)
{
	std::string text = fmt::format("{} {} 0x{:x} {} 0x{:x}", a.is_write ? 'w' : 'r', a.region, a.offset, a.width,
				       a.value);

	return a.count > 1 ? fmt::format("{} {}", text, a.count) : text;
}

static json head_of(const bench &b, const bringup_options &opt)
{
	utsname kernel = {};

	uname(&kernel);
	return {{"format", "usdma-bringup"},
		{"version", 1},
		{"usdma", USDMA_VERSION_TEXT},
		{"kernel", kernel.release},
		{"machine", kernel.machine},
		{"driver", b.driver->name},
		{"copies", opt.copies},
		{"seed", opt.seed},
		{"ok", false},
		{"steps", json::array()}};
}

static json checklist_of(const bench &b, const bringup_step &s)
{
	json list = json::array();

	for (const dma::checklist_item &c : b.driver->checklist)
		if (!strcmp(c.step, s.name))
			list.push_back({{"rule", c.rule}, {"check", c.check}});
	return list;
}

/* ---- the steps ------------------------------------------------------------------------------------------ */

static json run_step(bench &b, trace &t, const bringup_step &s)
{
	const u64 from = now_ns();
	u64 total = 0;

	b.notes = json::object();
	surprise wrong = b.mark();
	if (wrong.empty())
		wrong = s.run(b);
	json j = {{"step", s.name}, {"title", s.title}, {"ok", wrong.empty()}, {"in_flight", s.in_flight}};
	if (!wrong.empty()) {
		j["surprise"] = impersonal(b, wrong);
		j["check"] = s.check;
	}
	j["checklist"] = checklist_of(b, s);
	j["seconds"] = double((now_ns() - from) / ns_per_ms) / 1000;
	j["notes"] = b.notes;
	const std::vector<register_access> list = t.take(&total);
	j["accesses"] = total;
	j["trace"] = json::array();
	for (const register_access &a : list)
		j["trace"].push_back(access_text(a));
	return j;
}

static bool skips(const bringup_options &opt, const char *name)
{
	return std::find(opt.skip.begin(), opt.skip.end(), name) != opt.skip.end();
}

static void run_steps(bench &b, trace &t, const bringup_options &opt, json *out)
{
	const std::span<const bringup_step> all = bringup_steps();
	size_t number = 0;

	for (const bringup_step &s : all) {
		number++;
		if (skips(opt, s.name)) {
			(*out)["steps"].push_back({{"step", s.name}, {"title", s.title}, {"skipped", true}});
			continue;
		}
		print_error(fmt::format("bringup: {}/{} {}: {}", number, all.size(), s.name, s.title));
		(*out)["steps"].push_back(run_step(b, t, s));
		if (!(*out)["steps"].back()["ok"])
			return;
	}
	(*out)["ok"] = true;
}

/* ---- the text ------------------------------------------------------------------------------------------- */

static std::string plain(const json &v)
{
	return v.is_string() ? v.get<std::string>() : v.dump();
}

static std::string step_text(const json &s)
{
	if (s.contains("skipped"))
		return fmt::format("  {:<11} skipped   {}\n", plain(s["step"]), plain(s["title"]));
	std::string text = fmt::format("  {:<11} {} {:7.2f} s {:>7} accesses  {}\n", plain(s["step"]),
				       s["ok"] ? "ok      " : "SURPRISE", s["seconds"].get<double>(),
				       s["accesses"].get<u64>(), plain(s["title"]));
	if (s["ok"])
		return text;
	text += fmt::format("\n{}\n\nCheck first: {}\n", plain(s["surprise"]), plain(s["check"]));
	for (const json &c : s["checklist"])
		text += fmt::format("Checklist: {}: {}\n", plain(c["rule"]), plain(c["check"]));
	text += "Last accesses (region, offset, width, value, how often):\n";
	const json &all = s["trace"];
	for (size_t i = all.size() - std::min(all.size(), shown_accesses); i < all.size(); i++)
		text += "  " + plain(all[i]) + "\n";
	return text;
}

static std::string report_text(const json &j)
{
	std::string text = fmt::format("usdmactl {} bringup, driver {}, Linux {} on {}\n", plain(j["usdma"]),
				       plain(j["driver"]), plain(j["kernel"]), plain(j["machine"]));

	for (const json &s : j["steps"])
		text += step_text(s);
	return text + (j["ok"] ? "All is as expected.\n" : "");
}

static std::string accesses_text(const json &j)
{
	std::string text = "\nAccesses to registers: r or w, region, offset, width, value, how often\n";

	for (const json &s : j["steps"]) {
		if (s.contains("skipped"))
			continue;
		text += fmt::format("\n{}: {}\n", plain(s["step"]), s["notes"].dump());
		for (const json &a : s["trace"])
			text += "  " + plain(a) + "\n";
		if (const u64 total = s["accesses"].get<u64>(); total > s["trace"].size())
			text += fmt::format("  (of {} in all)\n", total);
	}
	return text;
}

static bool write_file(const std::string &path, const std::string &text)
{
	std::ofstream out(path, std::ios::binary | std::ios::trunc);

	out << text;
	out.close();
	return bool(out);
}

static int finish(const context &ctx, const bringup_options &opt, const json &j)
{
	const std::string text = report_text(j),
			  json_text = j.dump(1, ' ', true, json::error_handler_t::replace) + "\n";

	if (!write_file(opt.file, json_text) || !write_file(opt.file + ".txt", text + accesses_text(j)))
		return report(ctx, fmt::format("{} or {}.txt cannot be written: {}; see --report", opt.file, opt.file,
					       strerror(errno)));
	if (ctx.json)
		print_json(j);
	else
		print_lines(text + "The report is in " + opt.file + " and " + opt.file + ".txt.\n");
	return j["ok"] ? exit_ok : exit_failed;
}

} // namespace usdma::ctl::trial

namespace usdma::ctl {

std::vector<std::string> bringup_step_names(bool needed)
{
	std::vector<std::string> names;

	for (const trial::bringup_step &s : trial::bringup_steps())
		if (s.is_needed == needed)
			names.emplace_back(s.name);
	return names;
}

int run_bringup(const context &ctx, const bringup_options &opt)
{
	trial::trace t(opt.accesses);
	trial::bench b(opt, &t);

	if (const trial::surprise s = b.open(); !s.empty())
		return report(ctx, s);
	json j = trial::head_of(b, opt);
	j["transport"] = b.device().backend();
	trial::run_steps(b, t, opt, &j);
	b.close();
	return trial::finish(ctx, opt, j);
}

} // namespace usdma::ctl
