/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/vfio/device.h"

#include "driver/base/error.h"

#include <endian.h>

namespace usdma::vfio {

u32 losses;

bool set_lost(bool *lost)
{
	fetch_add_seq_cst(&losses, 1);
	const bool first = !exchange_seq_cst(lost, true);
	fetch_add_seq_cst(&losses, 1);
	return first;
}

/* PCI 3.0 §6.2.2: command register, bit 2: bus master enable. */
static constexpr unsigned pci_command = 4;
static constexpr u16 pci_command_master = 4;

/*
 * An absent function reads as all ones, also in the reserved bits of the command register. Its IDs would be
 * ones too, but the kernel's VFIO virtualizes those, and bit 10, and returns the old values
 * (vfio_pci_config.c).
 */
bool command_is_unknown(u16 command)
{
	static constexpr u16 reserved = 0xf800; /* PCI 3.0 §6.2.2 */

	return (command & reserved) == reserved;
}

int config_answers(device &dev)
{
	u16 command = 0;

	const int err = config_read16(dev, pci_command, &command);

	if (err)
		return err;
	return command_is_unknown(command) ? fail(ENODEV, "%s does not answer: all reads return ones", dev.name()) : 0;
}

int config_read16(device &dev, unsigned offset, u16 *out)
{
	u16 raw;
	const int err = dev.region_read(region_config, offset, &raw, sizeof(raw));

	if (!err)
		*out = le16toh(raw);
	return err;
}

int config_read32(device &dev, unsigned offset, u32 *out)
{
	u32 raw;
	const int err = dev.region_read(region_config, offset, &raw, sizeof(raw));

	if (!err)
		*out = le32toh(raw);
	return err;
}

int config_bus_master(device &dev, bool on)
{
	u16 now, next;
	int err = config_read16(dev, pci_command, &now);

	if (err)
		return err;
	next = on ? u16(now | pci_command_master) : u16(now & ~pci_command_master);
	if (next == now)
		return 0;
	next = htole16(next);
	err = dev.region_write(region_config, pci_command, &next, sizeof(next));
	/* The thread that turns it off says so before: this write, with what was read before, may have come after its.
	 */
	if (!err && on && dev.is_leaving()) {
		next = htole16(u16(now & ~pci_command_master));
		dev.region_write(region_config, pci_command, &next, sizeof(next));
		return fail(ENODEV, "%s is being removed", dev.name());
	}
	return err;
}

} // namespace usdma::vfio
