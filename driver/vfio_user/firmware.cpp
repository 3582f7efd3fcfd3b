/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/vfio_user/firmware.h"

#include "driver/base/error.h"

#include <algorithm>
#include <endian.h>

namespace usdma::vfio {

static constexpr unsigned command_offset = 4, bar_offset = 0x10, bar_count = 6;
static constexpr u16 command_memory = 2;
static constexpr u32 bar_io = 1, bar_type_mask = 6, bar_type_64 = 4, bar_flags = 0xf;
/* As on a PC: 32-bit BARs below the I/O APIC, 64-bit BARs above all memory. */
static constexpr u64 low_base = 0xc0000000, low_end = 0xfec00000, high_base = u64(1) << 40;

namespace {

struct windows {
	u64 low = low_base, high = high_base;
};

} // namespace

static int write32(device &dev, unsigned offset, u32 value)
{
	const u32 raw = htole32(value);

	return dev.region_write(region_config, offset, &raw, sizeof(raw));
}

/* A BAR's size is a power of two, and its address a multiple of it. */
static u64 take(u64 *next, u64 size)
{
	const u64 at = align_up(*next, size);

	*next = at + size;
	return at;
}

/* *next: the index of the next BAR; a 64-bit one takes two. */
static int assign_bar(device &dev, unsigned index, windows *w, unsigned *next)
{
	const unsigned offset = bar_offset + index * 4;
	region_info r;
	u32 low;
	int err = config_read32(dev, offset, &low);

	*next = index + 1;
	if (!err)
		err = dev.region(index, &r);
	if (err || !r.size || (low & bar_io) || !is_pow2(r.size))
		return err;
	const bool wide = (low & bar_type_mask) == bar_type_64;
	u64 *const window = wide ? &w->high : &w->low;

	*next += wide;
	if (low & ~bar_flags)
		return 0;
	const u64 at = take(window, std::max(r.size, u64(4096)));
	if (!wide && at + r.size > low_end)
		return fail(ENOSPC, "%s: no free address below 4 GiB for BAR %u of %llu bytes", dev.name(), index,
			    static_cast<unsigned long long>(r.size));
	err = write32(dev, offset, u32(at));
	return err || !wide ? err : write32(dev, offset + 4, u32(at >> 32));
}

int config_assign_bars(device &dev)
{
	unsigned index = 0;
	u16 command;
	windows w;
	int err = config_read16(dev, command_offset, &command);

	if (err || (command & command_memory))
		return err;
	while (!err && index < bar_count)
		err = assign_bar(dev, index, &w, &index);
	if (err)
		return err;
	command = htole16(u16(command | command_memory));
	return dev.region_write(region_config, command_offset, &command, sizeof(command));
}

} // namespace usdma::vfio
