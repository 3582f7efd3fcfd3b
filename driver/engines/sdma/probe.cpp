/* SPDX-License-Identifier: BSD-3-Clause */
/* Is it one, and does what it says of itself make sense?  A device's word is checked before anything is built on it. */
#include "driver/base/error.h"
#include "driver/engines/sdma/driver.h"
#include "driver/engines/sdma/sdma.h"

#include <algorithm>
#include <new>

namespace usdma::sdma {

static constexpr u32 max_ring_order = 16;
static constexpr u32 default_ring = 1024;

template <class T> static int read_reg(vfio::device &dev, u64 offset, T *out)
{
	const int rc = dev.region_read(vfio::region_bar0, offset, out, sizeof(T));

	return rc < 0 ? fail_in(rc, "cannot read register 0x%llx", static_cast<unsigned long long>(offset)) : 0;
}

template <class T> static int write_reg(vfio::device &dev, u64 offset, T value)
{
	const int rc = dev.region_write(vfio::region_bar0, offset, &value, sizeof(T));

	return rc < 0 ? fail_in(rc, "cannot write register 0x%llx", static_cast<unsigned long long>(offset)) : 0;
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

	if (int rc = reg_read(dev, reg_id, &id); rc < 0)
		return rc;
	if (id != id_value)
		return fail(ENODEV, "identity register says 0x%08x, not 0x%08x", id, id_value);
	if (int rc = reg_read(dev, reg_version, &version); rc < 0)
		return rc;
	if (version >> 16 != version_major)
		return fail(EPROTONOSUPPORT, "the device has register version %u.%u, this driver knows %u.x",
			    version >> 16, version & 0xffff, version_major);
	return 0;
}

static int check_units(u32 channels, u32 engines)
{
	if (!channels || channels > max_channels)
		return fail(EPROTO, "the device says it has %u channels; 1 to %u make sense", channels, max_channels);
	if (!engines || engines > channels)
		return fail(EPROTO, "the device says it has %u units for %u channels", engines, channels);
	return 0;
}

static int check_ring_orders(u32 smallest, u32 largest)
{
	if (!smallest || smallest > largest || largest > max_ring_order)
		return fail(EPROTO, "the device says its rings have 2^%u to 2^%u descriptors", smallest, largest);
	return 0;
}

int sdma_engine::check_identity()
{
	u32 order, channels, engines;

	if (int rc = check_version(*dev_); rc < 0)
		return rc;
	if (int rc = reg_read(*dev_, reg_caps, &hw_caps_); rc < 0)
		return rc;
	if (int rc = reg_read(*dev_, reg_channels, &channels); rc < 0)
		return rc;
	if (int rc = reg_read(*dev_, reg_engines, &engines); rc < 0)
		return rc;
	if (int rc = check_units(channels, engines); rc < 0)
		return rc;
	if (int rc = reg_read(*dev_, reg_ring_order, &order); rc < 0)
		return rc;
	if (int rc = check_ring_orders(order & 0xff, order >> 8); rc < 0)
		return rc;
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

	if (int rc = dev_->region(vfio::region_bar0, &regs); rc < 0)
		return rc;
	if (regs.size < chan_doorbell(limits_.channels))
		return fail(EPROTO, "BAR0 has %llu bytes, too few for %u channels",
			    static_cast<unsigned long long>(regs.size), limits_.channels);
	if (int rc = reg_read(*dev_, reg_max_len, &limits_.max_len); rc < 0)
		return rc;
	if (!limits_.max_len)
		return fail(EPROTO, "the device says one descriptor moves no byte");
	if (!(hw_caps_ & hw_cap_memory))
		return 0;
	if (int rc = reg_read(*dev_, reg_mem_size, &mem_size); rc < 0)
		return rc;
	if (int rc = dev_->region(vfio::region_bar2, &mem); rc < 0)
		return rc;
	if (!mem_size || mem_size % 4096 || mem_size > mem.size)
		return fail(EPROTO, "the device says it has %llu bytes of memory behind a BAR of %llu",
			    static_cast<unsigned long long>(mem_size), static_cast<unsigned long long>(mem.size));
	limits_.memory_size = mem_size;
	return 0;
}

int sdma_engine::identify()
{
	vfio::region_info regs;

	/* The identity page must be there before it is read. */
	if (int rc = dev_->region(vfio::region_bar0, &regs); rc < 0)
		return rc;
	if (regs.size < chan_ctrl_base)
		return fail(EPROTO, "BAR0 has only %llu bytes", static_cast<unsigned long long>(regs.size));
	if (int rc = check_identity(); rc < 0)
		return rc;
	if (int rc = check_bars(); rc < 0)
		return rc;
	/* All that docs/hardware.md has; a device of an earlier version says bad_op where it does not know one. */
	limits_.ops = dma::all_ops;
	limits_.caps = 0;
	if (hw_caps_ & hw_cap_memory)
		limits_.caps |= dma::cap_memory;
	/* Behind the kernel's VFIO a hypervisor may be the client: its guests' processes come and go without it. */
	if (hw_caps_ & hw_cap_memory_zeroed && dev_->own_connection())
		limits_.caps |= dma::cap_memory_zeroed;
	limits_.numa_node = dev_->numa_node();
	return 0;
}

static int probe(std::unique_ptr<vfio::device> &dev, std::unique_ptr<dma::engine> *out)
{
	std::unique_ptr<sdma_engine> eng(new (std::nothrow) sdma_engine(std::move(dev)));
	int rc;

	if (!eng)
		return fail(ENOMEM, "no memory for the engine");
	rc = eng->identify();
	if (!rc)
		rc = eng->start();
	if (rc < 0) {
		dev = eng->release();
		return rc;
	}
	*out = std::move(eng);
	return 0;
}

static constexpr dma::pci_id ids[] = {{pci_vendor, pci_device}};

const dma::driver driver = {"sdma", ids, probe};

} // namespace usdma::sdma
