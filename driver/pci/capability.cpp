/* SPDX-License-Identifier: BSD-3-Clause */
/* Capability lists: PCI 3.0 §6.7 (from byte 0x34), PCI Express 3.0 §7.9 (from byte 0x100). */
#include "driver/base/error.h"
#include "driver/pci/sysfs.h"

#include <bitset>

namespace usdma::pci {

static constexpr size_t config_head = 0x40, config_plain = 0x100, config_size = 0x1000;
static constexpr size_t status = 0x06, cap_pointer = 0x34;
static constexpr u16 status_has_caps = 0x10;

static u16 get16(std::span<const u8> c, size_t at)
{
	return u16(c[at] | c[at + 1] << 8);
}

static u32 get32(std::span<const u8> c, size_t at)
{
	return get16(c, at) | u32(get16(c, at + 2)) << 16;
}

static int plain_list(std::span<const u8> c, std::vector<capability> *out)
{
	std::bitset<config_plain> seen;
	size_t at;

	if (!(get16(c, status) & status_has_caps))
		return 0;
	/* The two low bits of each pointer are reserved (§6.7). */
	for (at = c[cap_pointer] & ~3u; at; at = c[at + 1] & ~3u) {
		if (at < config_head)
			return fail(EPROTO, "capability at %#zx, inside the header", at);
		if (seen[at])
			return fail(EPROTO, "the capability list loops to %#zx", at);
		/* Unprivileged users can read 64 bytes only: a capability beyond is no error. */
		if (at + 2 > c.size())
			return c.size() < config_plain ? 0 : fail(EPROTO, "capability at %#zx, beyond the end", at);
		seen[at] = true;
		out->push_back({c[at], u16(at), 0, false});
	}
	return 0;
}

static int extended_list(std::span<const u8> c, std::vector<capability> *out)
{
	std::bitset<config_size> seen;
	size_t at = config_plain;

	while (at && at + 4 <= c.size()) {
		const u32 head = get32(c, at);

		/* An empty list is one header of zeroes (§7.9.1); a removed device reads as ones. */
		if (head == 0 || head == ~0u)
			return 0;
		if (seen[at])
			return fail(EPROTO, "the extended capability list loops to %#zx", at);
		seen[at] = true;
		out->push_back({u16(head), u16(at), u8(head >> 16 & 0xf), true});
		at = head >> 20 & ~3u;
		if (at && at < config_plain)
			return fail(EPROTO, "extended capability at %#zx, inside the standard ones", at);
		if (at && at + 4 > config_size)
			return fail(EPROTO, "extended capability at %#zx, beyond the end", at);
	}
	return 0;
}

int capabilities(std::span<const u8> config, std::vector<capability> *out)
{
	int err;

	out->clear();
	if (config.size() < config_head)
		return fail(EINVAL, "config space of %zu bytes", config.size());
	config = config.first(config.size() < config_size ? config.size() : config_size);
	err = plain_list(config, out);
	return err ? err : extended_list(config, out);
}

} // namespace usdma::pci
