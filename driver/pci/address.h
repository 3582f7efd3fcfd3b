/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/base/types.h"

#include <string>
#include <string_view>

namespace usdma::pci {

/* DDDD:BB:DD.F; domains of more than 16 bits exist (VMD) and have more digits. */
struct address {
	u32 domain = 0;
	u8 bus = 0, dev = 0, fn = 0;

	friend bool operator==(const address &, const address &) = default;
	// NOLINTNEXTLINE(modernize-use-nullptr): it takes the compiler's literal 0 for a null pointer
	friend auto operator<=>(const address &, const address &) = default;
};

/* -EINVAL with a text that describes the syntax. */
int address_parse(std::string_view text, address *out);
std::string address_format(const address &a);

} // namespace usdma::pci
