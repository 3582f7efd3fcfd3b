/* SPDX-License-Identifier: BSD-3-Clause */
/* usdmactl npu-smi: the devices and their processes, in the layout of "npu-smi info", which programs parse. */
#include "driver/base/printable.h"
#include "driver/dma/registry.h"
#include "lib/acl/soc.h"
#include "lib/core/config/config.h"
#include "tools/usdmactl/pages.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <fmt/format.h>

namespace usdma::ctl {

static constexpr const char
	*dashes = "+---------------------------+---------------+----------------------------------------------------+";
static constexpr const char
	*doubles = "+===========================+===============+====================================================+";

namespace {

struct npu {
	unsigned number = 0;
	std::string device, bus = "NA"; /* no PCI address */
	bool healthy = false;
	u64 used = 0, size = 0; /* bytes of memory; size 0: unknown */
	std::vector<open_device> users;
};

} // namespace

/* Without a process that has it open: what the device itself reports. */
static void query_device(npu *n)
{
	std::unique_ptr<vfio::device> dev;
	std::unique_ptr<dma::engine> eng;
	u16 vendor = 0, device = 0;

	if (dma::open_device(n->device, &dev) || vfio::config_read16(*dev, 0, &vendor) ||
	    vfio::config_read16(*dev, 2, &device) || dev->answers())
		return;
	const dma::driver *d = dma::find_driver(vendor, device);
	if (!d || d->probe(dev, &eng))
		return;
	n->healthy = true;
	n->size = eng->limits().memory_size;
}

/* Devices of the same name differ by their slot; one that is not in the list of settings may have any. */
static bool is_this(unsigned number, const std::vector<std::string> &devices, const process_slot &at,
		    const open_device &user)
{
	/* The page has the first bytes of a long name. */
	const std::string name = devices[number].substr(0, sizeof(core::stats_slot::spec) - 1);

	return user.device == name &&
	       (at.slot == number || std::count(devices.begin(), devices.end(), devices[number]) == 1);
}

static npu describe(unsigned number, const std::vector<std::string> &devices, const page_sample &pages)
{
	std::string scheme;
	npu n;

	n.number = number;
	n.device = devices[number];
	if (!dma::parse_scheme(n.device, &scheme) && scheme == "pci")
		n.bus = n.device.substr(0, n.device.find(":isolated"));
	for (const auto &[at, user] : pages.rows) {
		if (!is_this(number, devices, at, user))
			continue;
		n.healthy = true;
		n.used += user.memory_used;
		n.size = std::max(n.size, user.memory_size);
		n.users.push_back(user);
	}
	if (n.users.empty())
		query_device(&n);
	return n;
}

static std::vector<npu> all_npus(const context &ctx)
{
	const std::vector<std::string> &devices = core::config_get().devices;
	const page_sample pages = read_pages(ctx, 0);
	std::vector<npu> found;

	for (unsigned i = 0; i < devices.size(); i++)
		found.push_back(describe(i, devices, pages));
	return found;
}

static void print_npu(const npu &n)
{
	const std::string size = n.healthy ? std::to_string(n.size / MiB) : "NA";

	print_line(fmt::format("| {:<5} {:<19} | {:<13} | {:<11} {:<17} {:<4} / {:<13} |", n.number, acl::chip_name,
			       n.healthy ? "OK" : "UNKNOWN", "NA", "NA", 0, 0));
	print_line(fmt::format("| {:<5} {:<19} | {:<13.13} | {:<11} {:<4} / {:<10} {:<4} / {:<13} |", 0, n.number,
			       printable(n.bus), 0, 0, 0, n.used / MiB, size));
	print_line(doubles);
}

static void print_users(const npu &n)
{
	for (const open_device &u : n.users)
		print_line(fmt::format("| {:<7} {:<17} | {:<13} | {:<24.24} | {:<23} |", n.number, 0, u.pid,
				       printable(u.command), u.memory_used / MiB));
	if (n.users.empty())
		print_line(fmt::format("| No running processes found in NPU {:<60} |", n.number));
	print_line(doubles);
}

static void print_table(const std::vector<npu> &all)
{
	print_line("+" + std::string(96, '-') + "+");
	print_line(
		fmt::format("| npu-smi {:<24} Version: {:<52} |", acl::driver_version.text, acl::driver_version.text));
	print_line(dashes);
	print_line(
		"| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|");
	print_line(
		"| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |");
	print_line(doubles);
	for (const npu &n : all)
		print_npu(n);
	print_line(dashes);
	print_line(
		"| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |");
	print_line(doubles);
	for (const npu &n : all)
		print_users(n);
}

static json to_json(const npu &n)
{
	json j = {{"npu", n.number},      {"device", n.device},    {"bus", n.bus == "NA" ? json() : json(n.bus)},
		  {"healthy", n.healthy}, {"memory_used", n.used}, {"memory_size", n.size}};

	j["processes"] = json::array();
	for (const open_device &u : n.users)
		j["processes"].push_back({{"pid", u.pid}, {"command", u.command}, {"memory_used", u.memory_used}});
	return j;
}

int run_npu_smi(const context &ctx)
{
	const core::config &c = core::config_get();
	json list = json::array();

	if (!c.error.empty())
		return report(ctx, c.error);
	const std::vector<npu> all = all_npus(ctx);
	for (const npu &n : all)
		list.push_back(to_json(n));
	if (ctx.json)
		print_json(list);
	else
		print_table(all);
	return exit_ok;
}

} // namespace usdma::ctl
