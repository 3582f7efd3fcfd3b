/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists that a device, a kernel or a peer hands over: capabilities of config space, of regions, of a container,
 * of VERSION.
 */
#include "tests/fuzz/fuzz.h"

#include "driver/pci/sysfs.h"
#include "driver/vfio/region.h"
#include "driver/vfio/type1.h"
#include "driver/vfio_user/socket.h"

#include <string>

using namespace usdma;
using namespace usdma::fuzz;

static void config_space(std::span<const u8> raw)
{
	std::vector<pci::capability> caps;

	if (pci::capabilities(raw, &caps))
		return;
	for (const pci::capability &c : caps)
		must_hold(c.offset >= 0x40 && size_t(c.offset) + 2 <= raw.size() && (c.offset >= 0x100) == c.extended);
}

static void region(std::span<const u8> raw, u32 first, u64 size)
{
	std::vector<vfio::range> areas;

	if (vfio::region_parse_caps(raw, first, size, &areas))
		return;
	for (const vfio::range &r : areas)
		must_hold(r.start <= r.last && r.last < size);
}

static void container(std::span<const u8> raw)
{
	vfio::address_limits limits;
	u64 available = 0;

	if (vfio::type1_parse_info(raw, &limits, &available))
		return;
	for (const vfio::range &r : limits.usable)
		must_hold(r.start <= r.last);
}

static void version(std::span<const u8> raw)
{
	vfio::user_caps caps, again;

	if (vfio::user_caps_parse({reinterpret_cast<const char *>(raw.data()), raw.size()}, &caps))
		return;
	const std::string text = vfio::user_caps_json(caps).text;
	must_hold(!vfio::user_caps_parse({text.c_str(), text.size() + 1}, &again));
	must_hold(again.max_data_xfer == caps.max_data_xfer && again.max_msg_fds == caps.max_msg_fds);
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	input in(data, size);
	const u8 what = in.get<u8>();
	const u32 first = what & 2 ? in.get<u16>() : 0;
	const u64 region_size = what & 2 ? in.get<u32>() : 0;
	const std::span<const u8> raw(in.data(), in.left());

	switch (what & 3) {
	case 0:
		config_space(raw);
		break;
	case 1:
		version(raw);
		break;
	case 2:
		region(raw, first, region_size);
		break;
	case 3:
		container(raw);
		break;
	}
	return 0;
}
