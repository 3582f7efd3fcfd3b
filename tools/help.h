/* SPDX-License-Identifier: BSD-3-Clause */
/* --help in 80 columns, and what is wrong with a command line: the unknown option first, whatever else is missing. */
#pragma once

#include "tools/choice.h"
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

/* The options of the program, its groups, and the commands that were given. */
inline void option_names(const CLI::App &app, std::vector<std::string> *out)
{
	for (const CLI::Option *o : app.get_options())
		for (const std::string &name : o->get_lnames())
			out->push_back("--" + name);
	for (const CLI::App *sub : app.get_subcommands(nullptr))
		if (sub->get_name().empty() || app.got_subcommand(sub->get_name()))
			option_names(*sub, out);
}

/* Names the first word with a leading dash that is no option; "": there is no such word. */
inline std::string unknown_option(const CLI::App &app)
{
	static constexpr unsigned alike = 3;
	std::vector<std::string> names;

	for (const std::string &word : app.remaining(true)) {
		if (word == "--")
			break;
		if (word.size() < 2 || word[0] != '-')
			continue;
		option_names(app, &names);
		const std::string meant = tool::nearest(word, names);
		return "there is no option \"" + word + "\"" +
		       (unlikeness(word.substr(0, 63), meant) > alike ? "" : "; did you mean " + meant + "?");
	}
	return "";
}

/* Of a value that is no number, or is not taken at all: CLI11's text for both is "Could not convert". "": another
 * error. */
inline std::string wrong_value(const CLI::App &app, const CLI::ParseError &e)
{
	static constexpr std::string_view before = "Could not convert: ", between = " = ";
	const std::string text = e.what();
	const size_t at = text.find(between);

	if (!text.starts_with(before) || at == std::string::npos)
		return "";
	const std::string name = text.substr(before.size(), at - before.size());
	std::vector<const CLI::App *> all = {&app};

	for (size_t i = 0; i < all.size(); i++) {
		const CLI::Option *const o = all[i]->get_option_no_throw(name);

		if (o && !o->get_items_expected_max())
			return name + " takes no value";
		for (const CLI::App *sub : all[i]->get_subcommands(nullptr))
			all.push_back(sub);
	}
	return name + ": \"" + text.substr(at + between.size()) + "\": it takes a number";
}

/* Prints help, the version (both 0) or what is wrong with the command line (2). */
inline int leave(const CLI::App &app, const CLI::ParseError &e)
{
	std::ostringstream out, none;

	if (!app.exit(e, out, none)) {
		tool::put(out.str());
		return 0;
	}
	std::string wrong = unknown_option(app);
	if (wrong.empty())
		wrong = wrong_value(app, e);
	fprintf(stderr, "%s: %s (%s --help)\n", app.get_name().c_str(), wrong.empty() ? e.what() : wrong.c_str(),
		app.get_name().c_str());
	return 2;
}

} // namespace usdma
