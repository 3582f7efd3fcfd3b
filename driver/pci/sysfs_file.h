/* SPDX-License-Identifier: BSD-3-Clause */
/* Small reads from sysfs, for the files of this folder. */
#pragma once

#include "driver/pci/address.h"

#include <string>
#include <vector>

namespace usdma::pci {

std::string function_dir(const std::string &root, const address &a);
int file_read(const std::string &path, size_t most, std::string *out);
/* The first line; "" where there is none. */
std::string file_line(const std::string &path);
std::string link_name(const std::string &path);
/* What a directory holds, sorted; empty where there is none. */
std::vector<std::string> dir_names(const std::string &path);

} // namespace usdma::pci
