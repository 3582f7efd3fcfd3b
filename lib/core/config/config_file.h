/* SPDX-License-Identifier: BSD-3-Clause */
/* Within lib/core: how files and words become a config. */
#pragma once

#include "lib/core/config/setting.h"

namespace usdma::core {

/* Behind what is wrong already. */
void config_add_error(config *c, const std::string &text);
/* Stores a value and who said so; false: it is not what the setting takes, and nothing is changed. */
bool config_put(config *c, const setting &s, const std::string &value, setting_from from, const std::string &where);
/* All lines of a file's text. */
void config_read_text(config *c, const std::string &path, const std::string &text);
enum class file_wish : u8 {
	must,   /* the user named it */
	system, /* need not be there */
	home,   /* need not be within reach either: daemons and su(1) keep a HOME that is another user's */
};
void config_read_file(config *c, const std::string &path, file_wish wish);

} // namespace usdma::core
