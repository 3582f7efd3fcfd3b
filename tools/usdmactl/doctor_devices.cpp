/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of the devices. */
#include "driver/base/types.h"
#include "driver/base/words.h"
#include "driver/dma/registry.h"
#include "driver/vfio/kernel.h"
#include "tools/usdmactl/doctor.h"

#include <fmt/format.h>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace usdma::ctl {

static bool bound(const candidate &d)
{
	return d.fn.driver.find("vfio") != std::string::npos;
}

/* The vendor of a removed device reads as ffff (PCI 3.0 §6.1). True if the config space cannot be read. */
static bool answers(const checkup &c, const candidate &d)
{
	std::vector<u8> config;

	return pci::read_config(c.ctx.at.sys(), d.fn.addr, &config) || config.size() < 2 || config[0] != 0xff ||
	       config[1] != 0xff;
}

/* The first problem of one device; ok: none. */
static finding check_device(const checkup &c, const candidate &d)
{
	const std::string name = address_format(d.fn.addr);
	const std::string other = d.sharers.empty() ? "" : d.sharers[0];
	const std::string dir = "/sys/bus/pci/devices/" + other.substr(0, other.find(' '));

	if (d.fn.iommu_group < 0 && !pci::iommu_group_pending(c.ctx.at.sys(), d.fn))
		return {verdict::failed,
			name + (d.fn.noiommu ? " is bound in noiommu mode, which usdma does not support" :
					       " has no IOMMU group"),
			c.iommu ? "move it to another slot" : "see IOMMU above"};
	if (!answers(c, d))
		return {verdict::failed,
			name + " does not answer (its configuration reads as all ones): unplugged, or its link is down",
			fmt::format("echo 1 | sudo tee /sys/bus/pci/devices/{}/remove /sys/bus/pci/rescan", name)};
	if (bound(d) && d.foreign)
		return {verdict::failed,
			fmt::format("{} is bound, but shares IOMMU group {} with {}", name, d.fn.iommu_group, other),
			fmt::format("echo {} | sudo tee {}/driver/unbind", other.substr(0, other.find(' ')), dir),
			other + " stops working: a network card's connection, a disk's file systems"};
	if (bound(d))
		return {};
	if (!other.empty())
		return {verdict::failed,
			fmt::format("{} shares IOMMU group {} with {}: VFIO assigns whole groups", name,
				    d.fn.iommu_group, other),
			"move it to a slot with a separate group"};
	/* A driver of the kernel's that serves it is no mistake. */
	const dma::driver *const ours = dma::find_driver(d.fn.vendor, d.fn.device);
	if (ours && ours->kernel_driver && d.fn.driver == ours->kernel_driver)
		return {verdict::advice,
			fmt::format("{} is at {}, by which the kernel itself uses it", name, d.fn.driver),
			"sudo usdmactl bind " + name,
			fmt::format("{}, until: sudo usdmactl unbind {}", ours->kernel_loss, name)};
	return {verdict::failed, fmt::format("{} is at driver {}", name, d.fn.driver.empty() ? "none" : d.fn.driver),
		"sudo usdmactl bind " + name};
}

finding check_devices(checkup &c)
{
	if (c.devices.empty())
		return {verdict::skipped, "there is no device that usdma supports", ""};
	finding advice;
	for (const candidate &d : c.devices) {
		finding f = check_device(c, d);

		if (f.state == verdict::failed)
			return f;
		if (f.state != verdict::ok && advice.state == verdict::ok)
			advice = std::move(f);
	}
	return advice.state != verdict::ok ? advice :
					     finding{verdict::ok, fmt::format("all {} ready", c.devices.size()), ""};
}

/* The path without the fake root of a test. */
static std::string real_name(const checkup &c, const std::string &path)
{
	return path.substr(c.ctx.at.root.size());
}

/* The name of the file's group, from /etc/group below the root; "": unknown. */
static std::string group_of(const system_paths &at, const std::string &path)
{
	std::istringstream list(read_all(at.etc() + "/group"));
	struct stat st;

	if (stat((at.root + path).c_str(), &st))
		return "";
	for (std::string line; std::getline(list, line);) {
		std::istringstream fields(line);
		std::string name, password, number;

		std::getline(fields, name, ':');
		std::getline(fields, password, ':');
		std::getline(fields, number, ':');
		if (number == std::to_string(st.st_gid))
			return name;
	}
	return "";
}

/* For a file of the group usdma: joining the group persists and grants only what the package intended. */
static finding deny(const system_paths &at, const std::string &path)
{
	const std::string group = group_of(at, path);

	if (group == "usdma")
		return {verdict::failed, fmt::format("no permission on {}, which belongs to the group usdma", path),
			join_group(at, false),
			"members of the group usdma may use its devices and lock all memory of the machine"};
	return {verdict::failed, "no permission on " + path, "sudo chown \"$USER\" " + path,
		"until the next boot all programs of this user may use the device"};
}

/* The reason why this process cannot open a file; ok: it can. */
static finding check_file(const checkup &c, const std::string &path)
{
	const std::string name = real_name(c, path);

	if (access(path.c_str(), R_OK | W_OK) == 0)
		return {};
	if (!exists(path))
		return {verdict::failed, "there is no " + name + " (in this container?)",
			"docker run --device " + name + " …", "all programs of the container may use this device"};
	return deny(c.ctx.at, name);
}

/* Passes these devices' files only. */
static std::string container_options(const checkup &c)
{
	std::string text = "docker run --device /dev/vfio/vfio";

	for (const candidate &d : c.devices)
		if (bound(d) && d.fn.iommu_group >= 0)
			text += fmt::format(" --device /dev/vfio/{}", d.fn.iommu_group);
	return text + " …";
}

static finding check_files_of(const checkup &c, const candidate &d, std::string *common)
{
	std::vector<std::string> files;
	vfio::kernel_options opt;

	opt.sys = c.ctx.at.sys();
	opt.dev = c.ctx.at.dev();
	vfio::kernel_choose(d.fn, opt, &files);
	*common = files[0];
	for (const std::string &path : files)
		if (finding f = check_file(c, path); f.state != verdict::ok)
			return f;
	return {};
}

finding check_permissions(checkup &c)
{
	const std::string dev = c.ctx.at.dev();
	std::string common = exists(dev + "/vfio/vfio") ? dev + "/vfio/vfio" : dev + "/iommu";
	unsigned checked = 0;

	if (!exists(common))
		return {verdict::skipped,
			"there is no /dev/vfio/vfio" + std::string(c.module ? " in this container" : " yet"),
			c.module ? container_options(c) : "",
			c.module ? "all programs of the container may use these devices" : ""};
	for (const candidate &d : c.devices) {
		if (!bound(d) || d.fn.iommu_group < 0)
			continue;
		if (finding f = check_files_of(c, d, &common); f.state != verdict::ok)
			return f;
		checked++;
	}
	if (finding f = check_file(c, common); f.state != verdict::ok)
		return f;
	return {verdict::ok,
		fmt::format("{} and the files of {} bound device{} can be opened", real_name(c, common), checked,
			    checked == 1 ? "" : "s"),
		""};
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
			return {verdict::advice,
				fmt::format(
					"{} nodes, but the firmware does not report the node of {}: pinned memory may "
					"be remote",
					nodes, address_format(d.fn.addr)),
				"export USDMA_NUMA_NODE=0 # the device's node; usdma-perf shows which is faster"};
	return {verdict::ok, fmt::format("{} nodes; pinned memory is allocated on the device's", nodes), ""};
}

/* Exit latency of the deepest enabled idle state of CPU 0: it delays the handling of an interrupt. */
static u64 deepest_idle_us(const system_paths &at)
{
	const std::string dir = at.sys() + "/devices/system/cpu/cpu0/cpuidle";
	u64 worst = 0;

	for (const std::string &s : dir_entries(dir)) {
		if (read_line(dir + "/" + s + "/disable") == "1")
			continue;
		u64 us = 0;
		number_parse(read_line(dir + "/" + s + "/latency"), &us);
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

		/* vfio-pci suspends idle devices and resumes them when opened: skip bound ones. */
		if (!bound(d) && (state == "D3hot" || state == "D3cold"))
			return {verdict::advice, fmt::format("{} is asleep ({})", name, state),
				fmt::format("echo on | sudo tee /sys/bus/pci/devices/{}/power/control", name),
				"it draws more power"};
	}
	if (idle > tolerable_us)
		return {verdict::advice,
			fmt::format("idle CPUs may take {} us to wake up, which delays every sleeping wait", idle),
			fmt::format("sudo cpupower idle-set -D {}", tolerable_us),
			"all CPUs draw more power, until the next boot"};
	return {verdict::ok, idle ? fmt::format("idle CPUs wake up in {} us", idle) : "nothing slows waits down", ""};
}

} // namespace usdma::ctl
