/* SPDX-License-Identifier: BSD-3-Clause */
/* Device strings, addresses, sizes, fault rules, configuration files and the environment: any text of a user. */
#include "tests/fuzz/fuzz.h"

#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/base/words.h"
#include "driver/dma/registry.h"
#include "driver/pci/address.h"
#include "driver/sim/config.h"
#include "driver/sim/console.h"
#include "driver/sim/fault_plan.h"
#include "lib/core/config/setting.h"

#include <string>
#include <vector>

using namespace usdma;
using namespace usdma::fuzz;

/* A refused string has an error text. */
static bool accepted(int err)
{
	must_hold(err <= 0);
	must_hold(!err || *error_text());
	return !err;
}

static void device_string(const std::string &s)
{
	std::vector<std::string> list;
	std::string scheme;
	sim::config cfg;

	error_clear();
	if (accepted(dma::parse_list(s, &list)))
		for (const std::string &one : list)
			must_hold(!dma::parse_scheme(one, &scheme));
	if (accepted(sim::parse_config(s, &cfg)))
		must_hold(cfg.engines && cfg.engines <= cfg.channels && cfg.mem >= sim::min_mem &&
			  cfg.mem <= sim::max_mem);
	if (accepted(sim::parse_config("sim:" + s, &cfg)))
		must_hold(cfg.engines && cfg.engines <= cfg.channels);
}

static void address(const std::string &s)
{
	pci::address a, b;

	error_clear();
	if (accepted(pci::address_parse(s, &a)))
		must_hold(!pci::address_parse(pci::address_format(a), &b) && a == b);
}

static void rules(const std::string &s)
{
	sim::fault_plan plan(false);

	error_clear();
	if (accepted(plan.set(s)))
		for (unsigned i = 0; i < 4; i++) {
			plan.refuse_map(i, i);
			plan.drop_interrupt(i);
			plan.reply();
		}
}

/* A line on usdma-sim's control socket: the answer is always one line. */
static void console_line(const std::string &s)
{
	sim::console_command c;

	error_clear();
	if (accepted(sim::parse_console(s, &c)))
		must_hold(c.what < sim::console_word::count && c.rules.size() <= s.size());
	const std::string text = sim::json_text(s);
	must_hold(text.size() >= s.size() + 2 && text.size() <= 2 * s.size() + 2 && text.find('\n') == text.npos);
	sim::console console;
	const std::string answer = console.answer(s);
	must_hold(answer.starts_with("{\"ok\": ") && answer.find('\n') == answer.size() - 1);
}

/* The input is "NAME=value" lines. */
static const char *variable_of(const char *name, void *arg)
{
	for (const std::string &line : *static_cast<std::vector<std::string> *>(arg)) {
		const size_t eq = line.find('=');

		if (eq != line.npos && std::string_view(name).ends_with(std::string_view(line).substr(0, eq)))
			return line.c_str() + eq + 1;
	}
	return nullptr;
}

static void environment(const std::string &s)
{
	std::vector<std::string> lines;

	for (size_t at = 0; at < s.size();) {
		const size_t end = s.find('\n', at);

		/* c_str(): a variable has no zero byte. */
		lines.emplace_back(s.substr(at, end - at).c_str());
		at = end == s.npos ? s.size() : end + 1;
	}
	const core::config c = core::config_parse({variable_of, &lines, "/dev/null"});
	must_hold(c.first_seq < u64(1) << 63);
}

/* A configuration file: the effective values are valid, and their origin is a line of the file. */
static void file(const std::string &s)
{
	const core::config c = core::config_parse_text("a.conf", s);
	core::config again;

	for (const core::setting &one : core::settings()) {
		const std::string text = core::setting_show(one, c);

		must_hold(core::setting_read(one, text, &again));
		must_hold(core::setting_show(one, again) == text);
		must_hold(core::setting_origin_of(one, c).from != core::setting_from::file ||
			  core::setting_origin_of(one, c).where.starts_with("a.conf:"));
	}
	must_hold(c.error.size() < 1 << 20);
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	input in(data, size);
	const u8 what = in.get<u8>();
	const std::string s(reinterpret_cast<const char *>(in.data()), in.left());
	u64 bytes;

	log_set_level(log_level::none);
	/* Not a value of the switch, so that older inputs keep their meaning. */
	if (what == 4) {
		console_line(s);
		return 0;
	}
	switch (what & 3) {
	case 0:
		device_string(s);
		break;
	case 1:
		address(s);
		if (size_parse(s, &bytes)) /* the error text is the caller's */
			must_hold(!s.empty());
		break;
	case 2:
		rules(s);
		break;
	case 3:
		if (what & 4)
			file(s);
		else
			environment(s);
		break;
	}
	return 0;
}
