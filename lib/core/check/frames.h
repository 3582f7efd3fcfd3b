/* SPDX-License-Identifier: BSD-3-Clause */
/* What is at a return address. For reports: it allocates, and reads the debug information of the program's files. */
#pragma once

#include "driver/base/types.h"

#include <string>

namespace usdma::core {

struct frame {
	std::string function, module; /* function: "": unknown */
	u64 offset = 0;               /* in the module, of the call */
	std::string file;             /* "": there is no debug information, or no libdw */
	int line = 0;
	bool own = false; /* in a library of this project */
};

frame frame_of(const void *address);

} // namespace usdma::core
