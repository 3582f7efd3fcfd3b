/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers to read sysfs, internal to this folder. */
#pragma once

#include "driver/pci/address.h"

#include <string>
#include <vector>

namespace usdma::pci {

std::string function_dir(const std::string &root, const address &a);
int file_read(const std::string &path, size_t most, std::string *out);
/* The first line; "" if the file cannot be read. */
std::string file_line(const std::string &path);
std::string link_name(const std::string &path);
/* The names in a directory, sorted; empty if it cannot be read. */
std::vector<std::string> dir_names(const std::string &path);

} // namespace usdma::pci
