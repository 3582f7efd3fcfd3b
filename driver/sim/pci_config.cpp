/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/pci_config.h"

#include <bit>
#include <cstring>
#include <initializer_list>

namespace usdma::sim {

static constexpr u32 command = 0x04, bus_master = 4;
/* The capability list. */
static constexpr u32 power = 0x40, power_control = power + 4, power_mask = 3, d3hot = 3;
static constexpr u32 express = 0x50, device_caps = express + 4, device_control = express + 8,
		     device_status = express + 10;
static constexpr u8 pending = 0x20;                                   /* in device_status */
static constexpr u32 function_reset = 0x8000;                         /* in device_control: reads as 0 */
static constexpr u32 messages = 0x90, message_control = messages + 2; /* MSI-X, or MSI */
/* The list of extended capabilities. */
static constexpr u32 ats = 0x100, ats_control = ats + 6;
static constexpr u32 pri = 0x110, pri_control = pri + 4;
static constexpr u32 pasid = 0x120, pasid_control = pasid + 6;

void pci_config::put(u32 offset, u64 value, unsigned bytes, u64 writable)
{
	memcpy(space_ + offset, &value, bytes);
	memcpy(writable_ + offset, &writable, bytes);
}

void pci_config::put_bars(const pci_layout &l)
{
	for (u32 i = 0; i < 6; i++) {
		const auto &b = l.bar[i];

		if (b.size)
			put(0x10 + 4 * i, b.flags, b.flags & bar_64 ? 8 : 4, -b.size);
	}
}

void pci_config::put_interrupts(const pci_layout &l)
{
	if (!l.has_msi) {
		put(messages, 0x11, 2);
		put(message_control, l.vectors - 1, 2, 0xc000); /* enable, function mask */
		put(messages + 4, l.msix_table | l.msix_bar, 4);
		put(messages + 8, l.msix_pba | l.msix_bar, 4);
		return;
	}
	put(messages, 0x05, 2);
	/* 64-bit addresses, vectors that it may have; enable, and those that it is allowed. */
	put(message_control, 0x80 | u32(std::countr_zero(l.vectors)) << 1, 2, 0x71);
	put(messages + 4, 0, 4, 0xfffffffc);
	put(messages + 8, 0, 4, 0xffffffff);
	put(messages + 12, 0, 2, 0xffff);
}

void pci_config::put_translation()
{
	put(ats, 0x1000f | pri << 20, 4);
	put(ats + 4, 0x20, 2);          /* aligned requests */
	put(ats_control, 0, 2, 0x801f); /* enable, smallest page */
	put(pri, 0x10013 | pasid << 20, 4);
	put(pri_control, 0, 2, 1);       /* enable */
	put(pri + 6, 0x100, 2);          /* stopped */
	put(pri + 8, 512, 4);            /* requests that it may have … */
	put(pri + 12, 0, 4, 0xffffffff); /* … and those that it is allowed */
	put(pasid, 0x1001b, 4);
	put(pasid + 4, 20 << 8 | 4, 2); /* 20 bits; privileged mode */
	put(pasid_control, 0, 2, 5);    /* enable, privileged mode */
}

void pci_config::init(const pci_layout &l)
{
	put(0x00, l.vendor, 2);
	put(0x02, l.device, 2);
	put(command, 0, 2, 0x0406); /* memory space, bus master, INTx disable */
	put(0x06, 0x0010, 2);       /* status: capability list */
	put(0x08, l.revision | u64(l.class_code) << 8, 4);
	put(0x0c, 0, 1, 0xff); /* cache line size: writable, without effect */
	put_bars(l);
	put(0x2c, l.vendor, 2);
	put(0x2e, l.device, 2);
	put(0x34, power, 1);
	put(0x3c, 0, 1, 0xff); /* interrupt line: writable, without effect */

	put(power, 0x01 | express << 8, 2);
	put(power + 2, 3, 2);                 /* version 1.2; no PME, neither D1 nor D2 */
	put(power_control, 0, 2, power_mask); /* leaving D3hot resets: bit 3 is 0 */

	put(express, 0x10 | messages << 8, 2);
	put(express + 2, 2, 2);                   /* an endpoint, version 2 of the capability */
	put(device_caps, 1u << 28 | 1u << 15, 4); /* function-level reset; role-based error reporting */
	put(device_control, 0x2810, 2, 0x78ff);   /* payload 128, reads of 512: writable, without effect */
	put(express + 0x0c, 0x0011, 4);           /* a link of 2.5 GT/s, width 1 … */
	put(express + 0x12, 0x0011, 2);           /* … that is up */

	put_interrupts(l);
	if (l.translates)
		put_translation();
}

void pci_config::read(u32 offset, u8 *buf, u32 len, bool busy) const
{
	memcpy(buf, space_ + offset, len);
	if (busy && device_status - offset < len)
		buf[device_status - offset] |= pending;
}

unsigned pci_config::power_state() const
{
	return space_[power_control] & power_mask;
}

bool pci_config::may_reach_memory() const
{
	return space_[command] & bus_master && power_state() == 0;
}

bool pci_config::has_page_requests() const
{
	return space_[pri_control] & 1;
}

bool pci_config::has_pasid() const
{
	return space_[pasid_control] & 1;
}

/* D1 and D2 are not supported: writing them leaves the power state unchanged (PCI PM 1.2 §3.2.4). */
pci_config::effect pci_config::write(u32 offset, const u8 *buf, u32 len)
{
	const unsigned before = power_state();
	bool reset = false;

	for (u32 i = 0; i < len; i++) {
		const u8 w = writable_[offset + i];

		space_[offset + i] = u8((space_[offset + i] & ~w) | (buf[i] & w));
		reset |= offset + i == device_control + 1 && buf[i] & function_reset >> 8;
	}
	if (power_state() == 1 || power_state() == 2)
		space_[power_control] = u8((space_[power_control] & ~power_mask) | before);
	reset |= before == d3hot && power_state() == 0;
	if (!reset)
		return effect::none;
	/* Restores power-on values, except addresses and sizes, which the platform restores anyway. */
	for (u32 at : {command, command + 1, power_control, message_control, message_control + 1, ats_control + 1,
		       pri_control, pasid_control})
		space_[at] = u8(space_[at] & ~writable_[at]);
	return effect::reset;
}

} // namespace usdma::sim
