/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsing and formatting of setting values. */
#include "lib/core/config/setting.h"

#include "driver/base/words.h"

#include <cstring>

namespace usdma::core {

/* ---- reading ----------------------------------------------------------------------------------------- */

static bool read_size(const std::string &text, s64 min, s64 max, s64 *out)
{
	u64 v;

	if (!size_parse(text, &v, u64(min), u64(max)))
		return false;
	*out = s64(v);
	return true;
}

/* Index of a word in "one two three"; -1: not found. */
static int word_index(const char *words, const std::string &word)
{
	int i = 0;

	for (const char *at = words; *at; i++) {
		const size_t n = strcspn(at, " ");

		if (word.size() == n && !strncmp(word.c_str(), at, n))
			return i;
		at += n + (at[n] == ' ');
	}
	return -1;
}

static bool read_word(const char *words, const std::string &text, s64 *out)
{
	*out = word_index(words, text);
	return *out >= 0;
}

static bool take_character(std::string_view *text, char c)
{
	const bool found = text->starts_with(c);

	text->remove_prefix(found);
	return found;
}

bool cpus_expand(std::string_view text, std::string *list)
{
	static constexpr u64 last_cpu = 4095;
	u64 first, last;

	list->clear();
	do {
		if (!number_take(&text, &first))
			return false;
		last = first;
		if (take_character(&text, '-') && !number_take(&text, &last))
			return false;
		if (last > last_cpu || last < first)
			return false;
		for (u64 cpu = first; cpu <= last; cpu++)
			*list += (list->empty() ? "" : "+") + std::to_string(cpu);
	} while (take_character(&text, ','));
	return text.empty();
}

static bool read_cpus(const std::string &text)
{
	std::string list;

	return text.empty() || cpus_expand(text, &list);
}

bool setting_read(const setting &s, const std::string &text, config *c)
{
	bool good = text.find('\0') == std::string::npos;
	s64 v = 0;

	switch (s.type) {
	case setting_type::number:
		good = good && number_parse_signed(text, &v, s.min, s.max);
		break;
	case setting_type::size:
		good = good && read_size(text, s.min, s.max, &v);
		break;
	case setting_type::choice:
		good = good && read_word(s.words, text, &v);
		break;
	case setting_type::cpus:
		good = good && read_cpus(text);
		break;
	case setting_type::text:
		break;
	}
	if (good)
		s.put(*c, v, text);
	return good;
}

/* ---- formatting -------------------------------------------------------------------------------------- */

const char *setting_type_name(const setting &s)
{
	static constexpr const char *names[] = {"number", "size", "choice", "cpus", "text"};

	return names[size_t(s.type)];
}

static std::string size_text(u64 bytes)
{
	static constexpr struct {
		u64 unit;
		const char *name;
	} units[] = {{GiB, "G"}, {MiB, "M"}, {KiB, "K"}};

	for (const auto &u : units)
		if (bytes && bytes % u.unit == 0)
			return std::to_string(bytes / u.unit) + u.name;
	return std::to_string(bytes);
}

/* "poll interrupt hybrid" → "poll, interrupt or hybrid" */
static std::string words_text(const char *words)
{
	std::string out;

	for (const char *at = words; *at;) {
		const size_t n = strcspn(at, " ");
		const bool last = !at[n];

		out += (out.empty() ? "" : last ? " or " : ", ") + std::string(at, n);
		at += n + !last;
	}
	return out;
}

std::string setting_expects(const setting &s)
{
	const std::string unit = s.unit;

	switch (s.type) {
	case setting_type::number:
		return (unit == "us" ? "microseconds, " :
			unit == "ms" ? "milliseconds, " :
				       "a number, ") +
		       std::to_string(s.min) + " to " + std::to_string(s.max);
	case setting_type::size:
		return "a size from " + size_text(u64(s.min)) + " to " + size_text(u64(s.max)) + ": " + size_rule;
	case setting_type::choice:
		return words_text(s.words);
	case setting_type::cpus:
		return "a list of CPUs such as 2,3 or 2-5";
	case setting_type::text:
		break;
	}
	return "a text";
}

std::string setting_show(const setting &s, const config &c)
{
	if (s.text)
		return s.text(c);
	const s64 v = s.value(c);
	if (s.type == setting_type::size)
		return size_text(u64(v));
	if (s.type == setting_type::number)
		return std::to_string(v);
	const char *at = s.words;
	for (s64 i = 0; i < v; i++)
		at += strcspn(at, " ") + 1;
	return std::string(at, strcspn(at, " "));
}

std::string setting_standard(const setting &s)
{
	return setting_show(s, config());
}

} // namespace usdma::core
