/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal to lib/core: parsing of files and values. */
#pragma once

#include "lib/core/config/setting.h"

namespace usdma::core {

/* Appends to c->error. */
void config_add_error(config *c, const std::string &text);
void config_add_warning(config *c, const std::string &text);
/* A call has failed with err: if for lack of descriptors or memory, the settings are not what they are. */
void config_note_lack(config *c, int err);
/* Stores a value and its origin; false: invalid value, nothing is changed. */
bool config_put(config *c, const setting &s, const std::string &value, setting_from from, const std::string &where);
/* Parses all lines of a file's text. */
void config_read_text(config *c, const std::string &path, const std::string &text);
enum class file_policy : u8 {
	must,   /* named by the user */
	system, /* optional */
	home,   /* optional, may be inaccessible: daemons and su(1) may retain another user's HOME */
};
void config_read_file(config *c, const std::string &path, file_policy policy);

} // namespace usdma::core
