/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/pci_config.h"

#include "driver/engines/sdma/sdma_hw.h"

#include <cstring>

namespace usdma::sim {

void pci_config::put(u32 offset, u64 value, unsigned bytes, u64 writable)
{
	memcpy(space_ + offset, &value, bytes);
	memcpy(writable_ + offset, &writable, bytes);
}

void pci_config::init(u64 bar0_size, u64 bar2_size, u64 bar4_size, u32 vectors, u32 pba_offset)
{
	static constexpr u32 msix = 0x40, memory_64_prefetch = 0xc;

	put(0x00, sdma::pci_vendor, 2);
	put(0x02, sdma::pci_device, 2);
	put(0x04, 0, 2, 0x0406); /* command: memory space, bus master, INTx disable */
	put(0x06, 0x0010, 2);    /* status: capability list */
	put(0x08, sdma::pci_revision | u64(sdma::pci_class) << 8, 4);
	put(0x0c, 0, 1, 0xff); /* cache line size: writable, without effect */
	put(0x10, 0, 4, u32(-bar0_size));
	if (bar2_size)
		put(0x18, memory_64_prefetch, 8, -bar2_size);
	put(0x20, 0, 4, u32(-bar4_size));
	put(0x2c, sdma::pci_vendor, 2);
	put(0x2e, sdma::pci_device, 2);
	put(0x34, msix, 1);
	put(0x3c, 0, 1, 0xff); /* interrupt line: writable, without effect */
	put(msix, 0x11, 1);
	put(msix + 2, vectors - 1, 2, 0xc000); /* message control: enable, function mask */
	put(msix + 4, 4, 4);                   /* table: BAR4, offset 0 */
	put(msix + 8, pba_offset | 4, 4);
}

void pci_config::read(u32 offset, u8 *buf, u32 len) const
{
	memcpy(buf, space_ + offset, len);
}

void pci_config::write(u32 offset, const u8 *buf, u32 len)
{
	for (u32 i = 0; i < len; i++) {
		const u8 w = writable_[offset + i];

		space_[offset + i] = u8((space_[offset + i] & ~w) | (buf[i] & w));
	}
}

} // namespace usdma::sim
