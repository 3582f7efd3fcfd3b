/* SPDX-License-Identifier: BSD-3-Clause */
/* Validators of option values, with error texts for users: those of CLI11 are for programmers. */
#pragma once

#include "driver/base/words.h"

#include <CLI/CLI.hpp>
#include <cstring>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace usdma::tool {

inline std::string joined(const std::vector<std::string> &words, const char *between = ", ")
{
	std::string out;

	for (const std::string &w : words)
		out += (out.empty() ? "" : between) + w;
	return out;
}

/* words: not empty */
inline std::string nearest(const std::string &word, const std::vector<std::string> &words)
{
	const std::string start = word.substr(0, 63);

	return *std::min_element(words.begin(), words.end(), [&](const std::string &a, const std::string &b) {
		return unlikeness(start, a) < unlikeness(start, b);
	});
}

/* The name of a validator of words is this and the words, for choices_of(). */
inline constexpr const char *words_mark = "words: ";

inline CLI::Validator word_of(const std::vector<std::string> &choices)
{
	return CLI::Validator(
		[choices](std::string &word) -> std::string {
			if (std::find(choices.begin(), choices.end(), word) != choices.end())
				return "";
			return "there is no \"" + word + "\"; there are " + joined(choices);
		},
		"", words_mark + joined(choices, " "));
}

/* A word of a list, passed on as its number. */
template <class T> CLI::Validator word_of(std::vector<std::pair<std::string, T>> choices)
{
	std::vector<std::string> all;

	all.reserve(choices.size());
	for (const auto &choice : choices)
		all.push_back(choice.first);
	CLI::Validator check = word_of(all);
	return CLI::Validator(
		[choices = std::move(choices), check](std::string &word) -> std::string {
			std::string wrong = check(word);

			for (const auto &[name, value] : choices)
				if (word == name) {
					word = std::to_string(int(value));
					break;
				}
			return wrong;
		},
		"", check.get_name());
}

/* The words that an option accepts; none: anything else. */
inline std::vector<std::string> choices_of(CLI::Option *o)
{
	std::vector<std::string> out;
	std::string name;

	try {
		name = o->get_validator(0)->get_name();
	} catch (const CLI::OptionNotFound &) {
	}
	if (!name.starts_with(words_mark))
		return out;
	std::istringstream words(name.substr(strlen(words_mark)));
	for (std::string word; words >> word;)
		out.push_back(word);
	return out;
}

template <class T> CLI::Validator number_in(T low, T high)
{
	const CLI::Range range(low, high);
	std::ostringstream bounds;

	bounds << low << " to " << high;
	return CLI::Validator(
		[range, bounds = bounds.str()](std::string &text) -> std::string {
			/* "nan" is a number, and within no bounds. */
			return range(text).empty() && text.find_first_of("nN") == text.npos ?
				       "" :
				       "\"" + text + "\": it takes a number from " + bounds;
		},
		range.get_description(), "number");
}

/* A size in the syntax of all settings, passed on in bytes; the two bounds are in the same syntax. */
inline CLI::Validator size_in(const char *low, const char *high)
{
	return CLI::Validator(
		[low, high](std::string &text) -> std::string {
			u64 bytes, least = 0, most = ~u64(0);

			size_parse(low, &least);
			size_parse(high, &most);
			if (!size_parse(text, &bytes, least, most))
				return "\"" + text + "\": it takes a size from " + low + " to " + high + ": " +
				       size_rule;
			text = std::to_string(bytes);
			return "";
		},
		"", "size");
}

} // namespace usdma::tool
