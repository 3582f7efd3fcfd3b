/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of settings: every name, what it takes, what it means.  The
 * environment, the files, the API and the tools all go by it.
 */
#pragma once

#include "lib/core/config/config.h"

#include <span>

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
/* By its name, in any case; nullptr: there is none. */
const setting *setting_find(std::string_view name);
/* The name that is most like this one. */
const char *setting_nearest(const std::string &name);

std::string setting_variable(const setting &s);
const char *setting_type_name(const setting &s);
/* What a good value is: "microseconds, 0 to 1000000", "poll, interrupt or hybrid". */
std::string setting_wants(const setting &s);
/* Checks and stores; false: it is not what the setting takes. */
bool setting_read(const setting &s, const std::string &text, config *c);
/* As it would be written: "50", "512K", "hybrid", "". */
std::string setting_show(const setting &s, const config &c);
std::string setting_standard(const setting &s);

inline const setting_origin &setting_origin_of(const setting &s, const config &c)
{
	return c.origins[size_t(&s - settings().data())];
}

/*
 * The program's own choice, above all others.  -ENOENT: no such setting; -EINVAL: a value that it does
 * not take; -EBUSY: config_get was called, the settings are in use.
 */
int setting_set(const char *name, const char *value);
/* The log level: at once, whether settings are in use or not. */
int setting_keep_log(log_level level);
/* What config_get says or, while nobody has called it, would say; does not fix anything. */
config setting_preview();

} // namespace usdma::core
#pragma GCC visibility pop
