/* SPDX-License-Identifier: BSD-3-Clause */
/* Wraps --help at 80 columns, which CLI11 does not do. */
#pragma once

#include "tools/output.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <sstream>
#include <string>

namespace usdma {

class narrow_help : public CLI::Formatter {
	static constexpr size_t width = 80, column = 30; /* where CLI11 begins the descriptions */

	/* Where to break a line that is too long: after its last blank that fits; 0: nowhere. */
	static size_t break_of(const std::string &line, size_t indent)
	{
		const size_t at = line.rfind(' ', width);

		return at == std::string::npos || at <= indent ? 0 : at;
	}

public:
	std::string make_help(const CLI::App *app, std::string name, CLI::AppFormatMode mode) const override
	{
		std::istringstream in(CLI::Formatter::make_help(app, name, mode));
		std::string line, out;

		while (std::getline(in, line)) {
			const size_t indent = line.starts_with("  ") ? column : 0;

			for (size_t at; line.size() > width && (at = break_of(line, indent)) != 0;) {
				out += line.substr(0, at) + "\n";
				line = std::string(indent, ' ') + line.substr(at + 1);
			}
			out += line + "\n";
		}
		return out;
	}
};

inline void help_in_80_columns(CLI::App &app)
{
	app.formatter(std::make_shared<narrow_help>());
}

/* Prints help, the version (both 0) or what is wrong with the command line (2). */
inline int leave(const CLI::App &app, const CLI::ParseError &e)
{
	std::ostringstream out, none;

	if (!app.exit(e, out, none)) {
		tool::put(out.str());
		return 0;
	}
	fprintf(stderr, "%s: %s (%s --help)\n", app.get_name().c_str(), e.what(), app.get_name().c_str());
	return 2;
}

} // namespace usdma
