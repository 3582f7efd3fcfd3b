/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shell completion out of a tool's own definitions, for the functions in system/ only: "TOOL --complete WORD..." prints
 * what the last WORD may become, one candidate a line, or ":files" where a path belongs. The functions of the shells
 * are in system/.
 */
#pragma once

#include "tools/choice.h"
#include "tools/output.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace usdma::tool {

using words = std::vector<std::string>;

class completion {
	CLI::App *app_; /* the tool, or the command that was named */
	std::function<words()> devices_;
	CLI::Option *open_ = nullptr;      /* the next word may be a value of it */
	int values_ = 0, positionals_ = 0; /* values of open_ and positional arguments so far */
	bool options_ = true;              /* no "--" yet */

	static void collect(CLI::App *app, std::vector<CLI::Option *> *out)
	{
		for (CLI::Option *o : app->get_options())
			out->push_back(o);
		/* groups of options */
		for (CLI::App *sub : app->get_subcommands([](CLI::App *s) { return s->get_name().empty(); }))
			collect(sub, out);
	}

	/* Those of the command, then those of the tool. */
	std::vector<CLI::Option *> options() const
	{
		std::vector<CLI::Option *> out;

		for (CLI::App *app = app_; app; app = app->get_parent())
			collect(app, &out);
		return out;
	}

	/* nullptr: no such option, or one without a value */
	CLI::Option *with_value(const std::string &name) const
	{
		for (CLI::Option *o : options())
			if (o->check_name(name))
				return o->get_items_expected_max() ? o : nullptr;
		return nullptr;
	}

	/* nullptr: none is expected */
	CLI::Option *next_positional() const
	{
		int before = positionals_;

		for (CLI::Option *o : app_->get_options())
			if (o->get_positional() && (before -= o->get_items_expected_max()) < 0)
				return o;
		return nullptr;
	}

	/* The name of a value in --help: FILE, DEVICE. */
	static std::string kind(const CLI::Option *o)
	{
		std::string type = o->get_type_name();

		type.resize(std::min(type.find(':'), type.size()));
		std::erase_if(type, [](char c) { return c == '[' || c == ']'; });
		return type.empty() ? o->get_name(true) : type;
	}

	words values_of(CLI::Option *o, const std::string &start) const
	{
		const std::string k = kind(o);

		if (k == "FILE" || k == "PATH" || k == "DIR" || (k == "DEVICE" && start.starts_with("vfio-user:")))
			return {":files"};
		if (k != "DEVICE" && k != "PCI")
			return choices_of(o);
		words out = devices_();
		if (k == "DEVICE")
			out.insert(out.end(), {"sim", "vfio-user:"});
		return out;
	}

	/* Candidates for "before" + start. */
	static void offer(const words &all, const std::string &before, const std::string &start,
			  std::set<std::string> *out)
	{
		for (const std::string &word : all)
			if (word == ":files")
				out->insert(word);
			else if (word.starts_with(start))
				out->insert(before + word);
	}

	/* A value may be a list, of which the last word is to be completed. */
	void offer_values(CLI::Option *o, std::string before, std::string start, std::set<std::string> *out) const
	{
		const size_t end = o->get_delimiter() ? start.rfind(o->get_delimiter()) + 1 : 0;

		before += start.substr(0, end);
		start.erase(0, end);
		offer(values_of(o, start), before, start, out);
	}

	void offer_option(const std::string &start, std::set<std::string> *out) const
	{
		const size_t equal = start.find('=');
		words names;

		if (equal != start.npos) {
			if (CLI::Option *o = with_value(start.substr(0, equal)))
				offer_values(o, start.substr(0, equal + 1), start.substr(equal + 1), out);
			return;
		}
		for (const CLI::Option *o : options())
			if (!o->get_group().empty() && !o->get_lnames().empty())
				names.push_back("--" + o->get_lnames()[0]);
		offer(names, "", start, out);
	}

	CLI::App *command(const std::string &name) const
	{
		for (CLI::App *sub : app_->get_subcommands([&](CLI::App *s) { return s->get_name() == name; }))
			return sub;
		return nullptr;
	}

	void offer_commands(const std::string &start, std::set<std::string> *out) const
	{
		words names;

		for (const CLI::App *sub : app_->get_subcommands([](CLI::App *s) { return !s->get_name().empty(); }))
			names.push_back(sub->get_name());
		offer(names, "", start, out);
	}

public:
	completion(CLI::App *app, std::function<words()> devices) : app_(app), devices_(std::move(devices)) {}

	/* A word before the one to complete. */
	void pass(const std::string &word)
	{
		if (options_ && word.size() > 1 && word[0] == '-') {
			options_ = word != "--";
			open_ = with_value(word);
			values_ = 0;
		} else if (open_) {
			if (++values_ == open_->get_items_expected_max())
				open_ = nullptr;
		} else if (CLI::App *named = command(word)) {
			app_ = named;
			positionals_ = 0;
		} else {
			positionals_++;
		}
	}

	std::set<std::string> candidates(const std::string &start) const
	{
		std::set<std::string> out;

		if (options_ && start.starts_with("-")) {
			offer_option(start, &out);
			return out;
		}
		if (open_)
			offer_values(open_, "", start, &out);
		if (open_ && values_ < open_->get_items_expected_min())
			return out;
		offer_commands(start, &out);
		if (CLI::Option *o = next_positional())
			offer_values(o, "", start, &out);
		return out;
	}
};

/* False: the command line does not request completion. devices: lists addresses of PCI devices. */
inline bool complete(CLI::App *app, int argc, char **argv, std::function<words()> devices)
{
	if (argc < 2 || strcmp(argv[1], "--complete") != 0)
		return false;
	completion c(app, std::move(devices));
	for (int i = 2; i + 1 < argc; i++)
		c.pass(argv[i]);
	for (const std::string &word : c.candidates(argc > 2 ? argv[argc - 1] : ""))
		put(word + "\n");
	return true;
}

} // namespace usdma::tool
