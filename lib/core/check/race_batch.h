/* SPDX-License-Identifier: BSD-3-Clause */
/* Items of one batch, which have no order among themselves: two that access one byte, which one of them writes. */
#pragma once

#include "lib/core/check/history.h"

#include <optional>

namespace usdma::core {

struct item_access {
	stream_access what;
	u64 item;
};

struct item_overlap {
	byte_range where;
	item_access first, second; /* by item */
};

/* One of them, if there are any; sorts all. */
std::optional<item_overlap> find_overlap(std::span<item_access> all);

} // namespace usdma::core
