/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/dma/registry.h"
#include "driver/engines/ioat/ioat.h"

#include <algorithm>
#include <new>

namespace usdma::ioat {

static constexpr u64 bar_page = 4096;
/* A chip whose XFERCAP says 4 GiB, which does not fit the field. */
static constexpr u32 most_xfercap = 30;
static constexpr u16 skylake = 0x2021, atom_s1200 = 0x0c50, broadwell_de = 0x6f50;

/* ---- probe ------------------------------------------------------------------------------------------- */

/* [L] ioat_pci_probe, is_bwd_ioat. */
int ioat_engine::check_chip()
{
	u16 id = 0;
	const int err = vfio::config_read16(*dev_, 2, &id);

	if (id == skylake)
		chip_.version = version_3_2;
	chip_.loses_vectors = (id & 0xfffc) == atom_s1200 || (id & 0xfffc) == broadwell_de;
	return err;
}

int ioat_engine::check_identity()
{
	vfio::region_info bar;
	u8 channels = 0, xfercap = 0, version = 0;
	u32 dmacap = 0;
	int err = dev_->region(vfio::region_bar0, &bar);

	if (!err && bar.size < chan_base(max_channels))
		return fail(ENODEV, "BAR0 has %llu bytes, an I/OAT has %llu", static_cast<unsigned long long>(bar.size),
			    static_cast<unsigned long long>(bar0_size));
	if (!err)
		err = read(reg_version, &version, 1);
	if (!err)
		err = read(reg_chancnt, &channels, 1);
	if (!err)
		err = read(reg_xfercap, &xfercap, 1);
	if (!err)
		err = read(reg_dmacap, &dmacap, 4);
	if (err)
		return err;
	channels &= 0x1f;
	xfercap &= 0x1f;
	if (version == 0xff)
		return fail(ENODEV, "its registers read as ones: it is off, or its memory space is disabled");
	if (version < version_3_2)
		return fail(EPROTONOSUPPORT, "I/OAT version %u.%u: this driver supports 3.2 and newer", version >> 4,
			    version & 0xf);
	if (!channels || channels > max_channels || (xfercap && xfercap < min_xfercap))
		return fail(EPROTO,
			    "the device reports %u channels of 2^%u bytes: 1 to %u, and at least 2^%u, are valid",
			    channels, xfercap, max_channels, min_xfercap);
	/*
	 * Channels of a function share its one engine. DMACOUNT has 16 bits, and the ring twice the descriptors of its
	 * requests, of which ring_engine allows up to 16384.
	 */
	set_limits(u64(1) << (xfercap ? std::min<u32>(xfercap, most_xfercap) : most_xfercap), channels,
		   dma::op_bit(dma::opcode::nop) | dma::op_bit(dma::opcode::copy) |
			   (dmacap & cap_fill ? dma::op_bit(dma::opcode::fill) : 0));
	chip_.version = version;
	return check_chip();
}

/* VFIO writes the entry of the table anew, even for the same eventfd. */
void ioat_engine::restore_vector(u32 index)
{
	const int fd = vector(index);

	if (chip_.loses_vectors && fd >= 0 && dev_->irq_set(vfio::irq_msix, index, std::span(&fd, 1)) < 0)
		log_warn("%s: channel %u: its interrupt is lost: %s", dev_->name(), index, error_text());
}

/* No channel of an earlier user may run once the function may access memory. */
int ioat_engine::setup()
{
	const u8 control = intr_vectors | intr_master;

	for (u32 i = 0; i < limits_.channels; i++)
		if (int err = channel_regs(*dev_, nullptr, chip_, i).reset(); err < 0)
			return fail_in(err, "channel %u", i);
	if (int err = keep_order(); err < 0)
		return err;
	if (int err = dev_->region_write(vfio::region_bar0, reg_intrctrl, &control, 1); err < 0)
		return err;
	return vfio::config_bus_master(*dev_, true);
}

int ioat_engine::start()
{
	if (int err = check_identity(); err < 0)
		return err;
	map_registers(vfio::region_bar0, bar_page);
	if (int err = setup(); err < 0)
		return err;
	if (int err = setup_interrupts(0); err < 0)
		return err;
	log_info("%s: I/OAT %u.%u over %s, %u channels", dev_->name(), chip_.version >> 4, chip_.version & 0xf,
		 dev_->backend(), limits_.channels);
	return 0;
}

ioat_engine::~ioat_engine()
{
	close_all();
}

dma::ring_channel *ioat_engine::make_channel(u32 index)
{
	return new (std::nothrow) ioat_channel(*this, index);
}

static constexpr dma::pci_id ids[] = {
#include "driver/engines/ioat/ids.inc"
};

static constexpr dma::named_register registers[] = {
	{"CHANCNT", vfio::region_bar0, 1, reg_chancnt},
	{"XFERCAP", vfio::region_bar0, 1, reg_xfercap},
	{"GENCTRL", vfio::region_bar0, 1, reg_genctrl},
	{"INTRCTRL", vfio::region_bar0, 1, reg_intrctrl},
	{"VERSION", vfio::region_bar0, 1, reg_version},
	{"INTRDELAY", vfio::region_bar0, 2, reg_intrdelay},
	{"DMACAP", vfio::region_bar0, 4, reg_dmacap},
	{"CHANCTRL of channel 0", vfio::region_bar0, 2, chan_base(0) + chan_ctrl},
	{"CHANSTS of channel 0", vfio::region_bar0, 8, chan_base(0) + chan_sts},
	{"CHANERR of channel 0", vfio::region_bar0, 4, chan_base(0) + chan_err},
};

static constexpr dma::checklist_item checklist[] = {
	{"copy", "versions 3.4: DRSCTL and LTR are left alone", "copies without data"},
	{"stop", "a stop suspends the channel; if that takes longer than 2 s it is resumed",
	 "CHANSTS after usdma_stream_abort"},
};

static constexpr dma::erratum errata[] = {
	{skylake, 0xffff, "reports a version above 3.2, and is used as 3.2"},
	{atom_s1200, 0xfffc, "a reset of a channel clears the MSI-X table: each vector is set anew"},
	{broadwell_de, 0xfffc, "a reset of a channel clears the MSI-X table: each vector is set anew"},
};

extern const dma::driver driver = {"ioat",
				   ids,
				   dma::probe_as<ioat_engine>,
				   registers,
				   checklist,
				   errata,
				   "ioatdma",
				   "copies and parity of md and others are the CPU's again"};

} // namespace usdma::ioat
