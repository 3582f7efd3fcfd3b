/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of settings: names, valid values, meanings. Used by the environment, the files, the API and the tools. */
#pragma once

#include "lib/core/config/config.h"

#include <span>
#include <string_view>
#include <utility>

#pragma GCC visibility push(default)
namespace usdma::core {

enum class setting_type : u8 { number, size, choice, cpus, text };

struct setting {
	const char *name; /* in files and the API; the variable is USDMA_NAME in capitals */
	setting_type type;
	s64 min, max;        /* number and size */
	const char *words;   /* choice: "poll interrupt hybrid", in the order of the values */
	const char *unit;    /* "us", "bytes", … or "" */
	const char *meaning; /* one line */
	void (*put)(config &c, s64 value, const std::string &text);
	s64 (*value)(const config &c);               /* number, size, choice */
	const std::string &(*text)(const config &c); /* cpus, text */
};

std::span<const setting> settings();
/* Of USDMA_TEST_ variables. */
std::span<const setting> settings_of_tests();
/* Settings of earlier versions, and what decides instead; the environment's variable of a name. */
std::span<const std::pair<const char *, const char *>> settings_removed();
std::string environment_name(const char *setting);
/* What decides instead of one; nullptr: there was none. */
const char *setting_removed(std::string_view name);
/* By name, case-insensitive; nullptr: none. */
const setting *setting_find(std::string_view name);
/* The most similar name. */
const char *setting_nearest(const std::string &name);

std::string setting_variable(const setting &s);
const char *setting_type_name(const setting &s);
/* Describes valid values: "microseconds, 0 to 1000000", "poll, interrupt or hybrid". */
std::string setting_expects(const setting &s);
/* Checks and stores a value; false: invalid. */
bool setting_read(const setting &s, const std::string &text, config *c);
/* "2,3" or "2-5,8" → "2+3", "2+3+4+5+8", the format of a sim's cpus= option. false: malformed. */
bool cpus_expand(std::string_view text, std::string *list);
/* Formats the value: "50", "512K", "hybrid", "". */
std::string setting_show(const setting &s, const config &c);
std::string setting_standard(const setting &s);

inline const setting_origin &setting_origin_of(const setting &s, const config &c)
{
	return c.origins[size_t(&s - settings().data())];
}

/*
 * Sets a value by the program, with the highest precedence. -ENOENT: no such setting; -EINVAL: invalid value;
 * -EBUSY: config_get() was called, the settings are fixed.
 */
int setting_set(const char *name, const char *value);
/* Sets the log level at once, also after the settings are fixed. */
int setting_save_log(log_level level);
/* What config_get() returns or would return; does not fix the settings. */
config setting_preview();

} // namespace usdma::core
#pragma GCC visibility pop
