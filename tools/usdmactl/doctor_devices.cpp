/* SPDX-License-Identifier: BSD-3-Clause */
/* Points that concern the devices. */
#include "driver/base/types.h"
#include "tools/usdmactl/doctor.h"

#include <fmt/format.h>
#include <unistd.h>

namespace usdma::ctl {

static bool bound(const candidate &d)
{
	return d.fn.driver.find("vfio") != std::string::npos;
}

/* What stands in the way of one device; ok: nothing. */
static finding check_device(const checkup &c, const candidate &d)
{
	const std::string name = address_format(d.fn.addr);
	const std::string other = d.sharers.empty() ? "" : d.sharers[0];
	const std::string dir = "/sys/bus/pci/devices/" + other.substr(0, other.find(' '));

	if (d.fn.iommu_group < 0)
		return {verdict::failed, name + " has no IOMMU group", c.iommu ? "move it to another slot" : "see IOMMU above"};
	if (bound(d) && d.foreign)
		return {verdict::failed, fmt::format("{} is bound, but shares IOMMU group {} with {}", name, d.fn.iommu_group, other),
			fmt::format("echo {} | sudo tee {}/driver/unbind", other.substr(0, other.find(' ')), dir)};
	if (bound(d))
		return {};
	if (!other.empty())
		return {verdict::failed, fmt::format("{} shares IOMMU group {} with {}: VFIO hands over whole groups", name,
						     d.fn.iommu_group, other), "move it to a slot with a group of its own"};
	return {verdict::failed, fmt::format("{} is at driver {}", name, d.fn.driver.empty() ? "none" : d.fn.driver),
		"sudo usdmactl bind " + name};
}

finding check_devices(checkup &c)
{
	if (c.devices.empty())
		return {verdict::skipped, "there is no device that an engine here drives", ""};
	for (const candidate &d : c.devices)
		if (finding f = check_device(c, d); f.state != verdict::ok)
			return f;
	return {verdict::ok, fmt::format("all {} ready", c.devices.size()), ""};
}

static bool usable(const std::string &path)
{
	return access(path.c_str(), R_OK | W_OK) == 0;
}

static finding deny(const std::string &path)
{
	return {verdict::failed, "no permission on " + path, "sudo chown \"$USER\" " + path};
}

finding check_permissions(checkup &c)
{
	const std::string dev = c.ctx.at.dev();
	unsigned checked = 0;

	if (!exists(dev + "/vfio/vfio"))
		return {verdict::skipped, "there is no /dev/vfio/vfio" + std::string(c.module ? " in this container" : " yet"),
			c.module ? "docker run --device /dev/vfio …" : ""};
	if (!usable(dev + "/vfio/vfio"))
		return deny("/dev/vfio/vfio");
	for (const candidate &d : c.devices) {
		const std::string group = "/vfio/" + std::to_string(d.fn.iommu_group);

		if (!bound(d) || d.fn.iommu_group < 0)
			continue;
		if (!usable(dev + group))
			return deny("/dev" + group);
		checked++;
	}
	return {verdict::ok, fmt::format("/dev/vfio/vfio and the files of {} bound device{} can be opened", checked, checked == 1 ? "" : "s"), ""};
}

static unsigned count_nodes(const system_paths &at)
{
	unsigned n = 0;

	for (const std::string &e : dir_entries(at.sys() + "/devices/system/node"))
		n += e.rfind("node", 0) == 0 && e.find_first_of("0123456789") == 4;
	return n;
}

finding check_numa(checkup &c)
{
	const unsigned nodes = count_nodes(c.ctx.at);

	if (nodes <= 1)
		return {verdict::ok, "one node", ""};
	for (const candidate &d : c.devices)
		if (d.fn.numa_node < 0)
			return {verdict::advice, fmt::format("{} nodes, but the firmware does not say at which {} is: pinned memory may "
							     "lie far from it", nodes, address_format(d.fn.addr)),
				"export USDMA_NUMA_NODE=0 # the node next to the device; usdma-perf tells which is faster"};
	return {verdict::ok, fmt::format("{} nodes; pinned memory goes to the device's", nodes), ""};
}

/* The deepest idle state of the first CPU that is not switched off: how long an interrupt may have to wait. */
static u64 deepest_idle_us(const system_paths &at)
{
	const std::string dir = at.sys() + "/devices/system/cpu/cpu0/cpuidle";
	u64 worst = 0;

	for (const std::string &s : dir_entries(dir)) {
		if (read_line(dir + "/" + s + "/disable") == "1")
			continue;
		const u64 us = strtoull(read_line(dir + "/" + s + "/latency").c_str(), nullptr, 10);
		worst = us > worst ? us : worst;
	}
	return worst;
}

finding check_power(checkup &c)
{
	static constexpr u64 tolerable_us = 50;
	const u64 idle = deepest_idle_us(c.ctx.at);

	for (const candidate &d : c.devices) {
		const std::string &state = d.fn.power_state, name = address_format(d.fn.addr);

		/* vfio-pci lets idle devices sleep and wakes them on opening: only others matter. */
		if (!bound(d) && (state == "D3hot" || state == "D3cold"))
			return {verdict::advice, fmt::format("{} is asleep ({})", name, state),
				fmt::format("echo on | sudo tee /sys/bus/pci/devices/{}/power/control", name)};
	}
	if (idle > tolerable_us)
		return {verdict::advice, fmt::format("idle CPUs may take {} us to wake up, which every wait that sleeps pays", idle),
			fmt::format("sudo cpupower idle-set -D {}", tolerable_us)};
	return {verdict::ok, idle ? fmt::format("idle CPUs wake up in {} us", idle) : "nothing that slows waits down", ""};
}

} // namespace usdma::ctl
