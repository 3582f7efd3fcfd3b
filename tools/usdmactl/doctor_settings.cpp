/* SPDX-License-Identifier: BSD-3-Clause */
/* The check of the settings: files and variables that the library cannot parse. */
#include "driver/base/error.h"
#include "lib/core/config/setting.h"
#include "tools/usdmactl/doctor.h"

#include <fmt/format.h>
#include <unistd.h>

namespace usdma::ctl {

/* With a fake root only its own file is read, not the environment. */
static const char *no_variable(const char *, void *)
{
	return nullptr;
}

/* A USDMA_ variable that is no setting, likely a typo; the library ignores it silently. */
static std::string stray_variable()
{
	static constexpr const char *others[] = {"USDMA_CONFIG", "USDMA_TEST_", "USDMA_PEERS"};

	for (char **e = environ; *e; e++) {
		std::string name = std::string(*e).substr(0, std::string(*e).find('='));
		bool valid = !name.starts_with("USDMA_") || core::setting_find(name.substr(6)) ||
			     core::setting_removed(name.substr(6)); /* the settings' warning */

		for (const char *o : others)
			valid |= name.starts_with(o);
		if (!valid)
			return name;
	}
	return "";
}

/* "FILE:LINE: …" → opens an editor at that line. */
static std::string fix_of(const std::string &error)
{
	const size_t line = error.find(':'), end = line == error.npos ? error.npos : error.find(':', line + 1);

	if (error.starts_with('/') && end != error.npos && error.find_first_not_of("0123456789", line + 1) == end)
		return fmt::format("\"${{EDITOR:-vi}}\" +{} {}", error.substr(line + 1, end - line - 1),
				   shell_word(error.substr(0, line)));
	if (error.starts_with("USDMA_"))
		return "unset " + error.substr(0, error.find_first_of("=: "));
	return "correct it; usdmactl info lists the valid values of each setting";
}

static unsigned count_set(const core::config &c)
{
	unsigned n = 0;

	for (const core::setting_origin &o : c.origins)
		n += o.from != core::setting_from::standard;
	return n;
}

finding check_settings(checkup &c)
{
	const std::string file = c.ctx.at.root + core::config_system_file;
	const bool real = c.ctx.at.real();
	core::config_source from;

	from.system_file = file.c_str();
	if (!real)
		from.lookup = no_variable;
	const core::config cfg = core::config_parse(from);
	const std::string stray = real ? stray_variable() : "";

	if (!cfg.error.empty())
		return {verdict::failed, cfg.error, fix_of(cfg.error)};
	if (!cfg.warning.empty())
		return {verdict::advice, cfg.warning,
			"export HOME=$(getent passwd \"$(id -u)\" | cut -d: -f6) # or XDG_CONFIG_HOME"};
	if (!stray.empty())
		return {verdict::advice,
			fmt::format(
				"{} is not a setting; the most similar one is {}", stray,
				core::setting_variable(*core::setting_find(core::setting_nearest(stray.substr(6))))),
			"unset " + stray};
	const unsigned n = count_set(cfg);
	return {verdict::ok, n ? fmt::format("{} set, all well formed", n) : "all at their defaults", ""};
}

} // namespace usdma::ctl
