/* SPDX-License-Identifier: BSD-3-Clause */
/* Within lib/core: how files and words become a config. */
#pragma once

#include "lib/core/setting.h"

namespace usdma::core {

/* Behind what is wrong already. */
void config_add_error(config *c, const std::string &text);
/* Stores a value and who said so; false: it is not what the setting takes, and nothing is changed. */
bool config_put(config *c, const setting &s, const std::string &value, setting_from from, const std::string &where);
/* All lines of a file's text. */
void config_read_text(config *c, const std::string &path, const std::string &text);
/* A file that is not there is an error only where it must be. */
void config_read_file(config *c, const std::string &path, bool must_exist);

} // namespace usdma::core
