/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/stripe.h"

#include "lib/core/staging.h"

#include <optional>

namespace usdma::core {

/* Parts begin at lines that no other part writes. */
static constexpr u64 part_grain = 64 * KiB;
static constexpr u32 most_parts = 16;

bool stripes(const device *dev, u64 len)
{
	const u64 from = config_get().stripe;

	return from && len >= from && len > part_grain && dev && dev->eng->limits().engines > 1;
}

/* A stream for each part; fewer where there are no more. */
static u32 open_streams(std::optional<internal_stream> *to, const device *dev)
{
	const u32 want = std::min(dev->eng->limits().engines, most_parts);
	u32 n = 0;

	while (n < want) {
		to[n].emplace(dev->slot);
		if (to[n]->error())
			break;
		n++;
	}
	return n;
}

int copy_striped(device *dev, void *dst, const void *src, u64 len)
{
	std::optional<internal_stream> s[most_parts];
	const u32 n = open_streams(s, dev);
	auto *d = static_cast<u8 *>(dst);
	auto *f = static_cast<const u8 *>(src);
	int err = 0;

	if (!n)
		return s[0]->error();
	const u64 part = align_up((len + n - 1) / n, part_grain);
	for (u64 off = 0, k = 0; off < len && !err; off += part, k++)
		err = copy_direct(s[k]->get(), locate_ends(d + off, f + off), d + off, f + off, std::min(part, len - off));
	/* All of them, also after an error: nothing of it runs on when this returns. */
	for (u32 k = 0; k < n; k++) {
		const int end = stream_sync(s[k]->get(), deadline::never());

		err = err ? err : end;
	}
	return err;
}

} // namespace usdma::core
