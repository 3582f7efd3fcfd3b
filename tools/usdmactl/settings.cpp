/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings in force and their sources. */
#include "lib/core/config/setting.h"

#include "tools/usdmactl/ctl.h"

#include <nlohmann/json.hpp>
#include <fmt/format.h>
#include <sstream>

namespace usdma::ctl {

static const char *from_name(core::setting_from from)
{
	static const char *const names[] = {"default", "file", "environment", "program"};

	return names[size_t(from)];
}

static json value_json(const core::setting &s, const std::string &text, const core::config &c)
{
	const bool is_number = s.type == core::setting_type::number || s.type == core::setting_type::size;

	return is_number ? json(s.value(c)) : json(text);
}

static json setting_json(const core::setting &s, const core::config &c)
{
	const core::setting_origin &o = core::setting_origin_of(s, c);

	return {{"value", value_json(s, core::setting_show(s, c), c)},
		{"source", from_name(o.from)},
		{"where", o.where.empty() ? json() : json(o.where)},
		{"default", value_json(s, core::setting_standard(s), core::config())},
		{"variable", core::setting_variable(s)},
		{"type", core::setting_type_name(s)},
		{"takes", core::setting_expects(s)},
		{"unit", *s.unit ? json(s.unit) : json()},
		{"meaning", s.meaning}};
}

static json settings_json(const core::config &c)
{
	json list = json::object();

	for (const core::setting &s : core::settings())
		list[s.name] = setting_json(s, c);
	json j = {{"version", USDMA_VERSION_TEXT}, {"devices", c.devices}, {"settings", list}};
	if (!c.error.empty())
		j["error"] = c.error;
	return j;
}

static void print_setting(const core::setting &s, const core::config &c)
{
	const core::setting_origin &o = core::setting_origin_of(s, c);
	const std::string value = core::setting_show(s, c);
	/* Bytes are written with K, M and G. */
	const std::string unit = s.type == core::setting_type::number && *s.unit ? std::string(" ") + s.unit : "";

	print_line(fmt::format("{:<15} {:<20} {}", s.name, value.empty() ? "-" : value + unit,
			       o.where.empty() ? from_name(o.from) : o.where));
	print_folded(fmt::format("{} ({}; default {})", s.meaning, core::setting_expects(s),
				 core::setting_standard(s).empty() ? "none" : core::setting_standard(s)),
		     4, 4);
}

static void print_settings(const core::config &c)
{
	print_line("usdma " USDMA_VERSION_TEXT ": setting, value, and source of the value.");
	print_folded(
		fmt::format(
			"Set them as NAME = VALUE in {}, or as USDMA_NAME in the environment, which takes precedence.",
			core::config_system_file),
		0, 0);
	print_line("");
	for (const core::setting &s : core::settings())
		print_setting(s, c);
	print_line("");
	print_line("devices:");
	for (const std::string &d : c.devices)
		print_line("  " + d);
}

int run_settings(const context &ctx)
{
	const core::config &c = core::config_get();

	if (ctx.json)
		print_json(settings_json(c));
	else
		print_settings(c);
	if (c.error.empty())
		return exit_ok;
	if (!ctx.json)
		print_error(c.error);
	return exit_failed;
}

} // namespace usdma::ctl
