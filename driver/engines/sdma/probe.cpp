/* SPDX-License-Identifier: BSD-3-Clause */
/* Probes the device: checks its identity, and all register values before they are used. */
#include "driver/base/error.h"
#include "driver/dma/registry.h"
#include "driver/engines/sdma/sdma.h"

#include <algorithm>
#include <new>

namespace usdma::sdma {

static constexpr u32 max_ring_order = 16;
static constexpr u32 default_ring = 1024;

template <class T> static int read_reg(vfio::device &dev, u64 offset, T *out)
{
	const int err = dev.region_read(vfio::region_bar0, offset, out, sizeof(T));

	return err < 0 ? fail_in(err, "cannot read register 0x%llx", static_cast<unsigned long long>(offset)) : 0;
}

template <class T> static int write_reg(vfio::device &dev, u64 offset, T value)
{
	const int err = dev.region_write(vfio::region_bar0, offset, &value, sizeof(T));

	return err < 0 ? fail_in(err, "cannot write register 0x%llx", static_cast<unsigned long long>(offset)) : 0;
}

int reg_read(vfio::device &dev, u64 offset, u32 *out)
{
	return read_reg(dev, offset, out);
}

int reg_read(vfio::device &dev, u64 offset, u64 *out)
{
	return read_reg(dev, offset, out);
}

int reg_write(vfio::device &dev, u64 offset, u32 value)
{
	return write_reg(dev, offset, value);
}

int reg_write(vfio::device &dev, u64 offset, u64 value)
{
	return write_reg(dev, offset, value);
}

static int check_version(vfio::device &dev)
{
	u32 id, version;

	if (int err = reg_read(dev, reg_id, &id); err < 0)
		return err;
	if (id != id_value)
		return fail(ENODEV, "identity register reads 0x%08x, not 0x%08x", id, id_value);
	if (int err = reg_read(dev, reg_version, &version); err < 0)
		return err;
	if (version >> 16 != version_major)
		return fail(EPROTONOSUPPORT, "the device has register version %u.%u, this driver supports %u.x",
			    version >> 16, version & 0xffff, version_major);
	return 0;
}

static int check_engines(u32 channels, u32 engines)
{
	if (!channels || channels > max_channels)
		return fail(EPROTO, "the device reports %u channels; 1 to %u are valid", channels, max_channels);
	if (!engines || engines > channels)
		return fail(EPROTO, "the device reports %u engines for %u channels", engines, channels);
	return 0;
}

static int check_ring_orders(u32 smallest, u32 largest)
{
	if (!smallest || smallest > largest || largest > max_ring_order)
		return fail(EPROTO, "the device reports ring sizes of 2^%u to 2^%u descriptors", smallest, largest);
	return 0;
}

int sdma_engine::check_identity()
{
	u32 order, channels, engines;

	if (int err = check_version(*dev_); err < 0)
		return err;
	if (int err = reg_read(*dev_, reg_caps, &hw_caps_); err < 0)
		return err;
	if (int err = reg_read(*dev_, reg_channels, &channels); err < 0)
		return err;
	if (int err = reg_read(*dev_, reg_engines, &engines); err < 0)
		return err;
	if (int err = check_engines(channels, engines); err < 0)
		return err;
	if (int err = reg_read(*dev_, reg_ring_order, &order); err < 0)
		return err;
	if (int err = check_ring_orders(order & 0xff, order >> 8); err < 0)
		return err;
	limits_.channels = channels;
	limits_.engines = engines;
	min_ring_ = 1u << (order & 0xff);
	max_ring_ = 1u << (order >> 8);
	limits_.ring_size = std::clamp(default_ring, min_ring_, max_ring_);
	return reg_read(*dev_, reg_vectors, &hw_vectors_);
}

int sdma_engine::check_bars()
{
	vfio::region_info regs, mem;
	u64 mem_size = 0;

	if (int err = dev_->region(vfio::region_bar0, &regs); err < 0)
		return err;
	if (regs.size < chan_doorbell(limits_.channels))
		return fail(EPROTO, "BAR0 has %llu bytes, too few for %u channels",
			    static_cast<unsigned long long>(regs.size), limits_.channels);
	if (int err = reg_read(*dev_, reg_max_len, &limits_.max_len); err < 0)
		return err;
	/* Fills and reductions are split at multiples of a word. */
	if (limits_.max_len < sizeof(u64))
		return fail(EPROTO, "the device reports a longest transfer of %llu bytes: less than a word of 8",
			    static_cast<unsigned long long>(limits_.max_len));
	if (!(hw_caps_ & hw_cap_memory))
		return 0;
	if (int err = reg_read(*dev_, reg_mem_size, &mem_size); err < 0)
		return err;
	if (int err = dev_->region(vfio::region_bar2, &mem); err < 0)
		return err;
	if (!mem_size || mem_size % 4096 || mem_size > mem.size)
		return fail(EPROTO, "the device reports %llu bytes of memory behind a BAR of %llu",
			    static_cast<unsigned long long>(mem_size), static_cast<unsigned long long>(mem.size));
	limits_.memory_size = mem_size;
	return 0;
}

int sdma_engine::identify()
{
	vfio::region_info regs;

	/* Check that BAR0 covers the identity page before it is read. */
	if (int err = dev_->region(vfio::region_bar0, &regs); err < 0)
		return err;
	if (regs.size < chan_ctrl_base)
		return fail(EPROTO, "BAR0 has only %llu bytes", static_cast<unsigned long long>(regs.size));
	if (int err = check_identity(); err < 0)
		return err;
	if (int err = check_bars(); err < 0)
		return err;
	/* All operations of docs/hardware.md; a device of an earlier version reports bad_op for unknown ones. */
	limits_.ops = dma::all_ops;
	limits_.caps = 0;
	if (hw_caps_ & hw_cap_memory)
		limits_.caps |= dma::cap_memory;
	/*
	 * Behind the kernel's VFIO the client may be a hypervisor: its guest's processes change without a new
	 * connection.
	 */
	if (hw_caps_ & hw_cap_memory_zeroed && dev_->own_connection())
		limits_.caps |= dma::cap_memory_zeroed;
	/* In a guest, the hypervisor's mapping decides. */
	if (hw_caps_ & hw_cap_memory_cached && dev_->own_connection())
		limits_.caps |= dma::cap_memory_cached;
	if (hw_caps_ & hw_cap_wait_takes)
		limits_.caps |= dma::cap_wait_takes;
	limits_.numa_node = dev_->numa_node();
	return 0;
}

int probe(std::unique_ptr<vfio::device> &dev, std::unique_ptr<dma::engine> *out)
{
	std::unique_ptr<sdma_engine> eng(new (std::nothrow) sdma_engine(std::move(dev)));
	int err;

	if (!eng)
		return fail(ENOMEM, "no memory for the engine");
	err = eng->identify();
	if (!err)
		err = eng->start();
	if (err < 0) {
		dev = eng->release();
		return err;
	}
	*out = std::move(eng);
	return 0;
}

} // namespace usdma::sdma
