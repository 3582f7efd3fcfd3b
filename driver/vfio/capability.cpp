/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/vfio/capability.h"

namespace usdma::vfio {

static constexpr unsigned pci_capabilities = 0x34;

int config_capability(device &dev, u8 id, unsigned *out)
{
	u16 entry = 0;
	int err = config_read16(dev, pci_capabilities, &entry);

	*out = 0;
	/* As many as fit: a list may be broken. */
	for (unsigned i = 0, at; !err && i < 48 && (at = entry & 0xfc) >= 0x40; i++) {
		err = config_read16(dev, at, &entry);
		if (!err && (entry & 0xff) == id) {
			*out = at;
			return 0;
		}
		entry = u16(entry >> 8);
	}
	return err;
}

} // namespace usdma::vfio
