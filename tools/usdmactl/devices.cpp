/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds DMA devices and reads their properties from sysfs. */
#include "driver/base/error.h"
#include "driver/dma/registry.h"
#include "tools/usdmactl/ctl.h"

#include <nlohmann/json.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>

extern "C" {
#include <pci/pci.h>
}

namespace usdma::ctl {

static constexpr u32 class_bridge = 0x06;

bool is_bridge(const pci::function &f)
{
	return f.class_code >> 16 == class_bridge;
}

/* pci_init would set libpci's handlers; it is not called, and null handlers would crash. */
static void ignore_message(char *, ...) {}

/* For clang the attribute is part of the function's type; [[noreturn]] is not. */
__attribute__((noreturn)) static void give_up(char *text, ...)
{
	fprintf(stderr, "usdmactl: libpci: %s\n", text);
	exit(exit_failed);
}

struct name_list {
	pci_access *access = pci_alloc();

	name_list()
	{
		access->error = give_up;
		access->warning = access->debug = ignore_message;
	}

	~name_list() { pci_free_name_list(access); }
};

/* Used for its list of names only, which it loads at the first lookup: the bus is not scanned. */
static pci_access *names()
{
	static const name_list list;

	return list.access;
}

std::string device_name(u16 vendor, u16 device)
{
	char buf[256];
	const char *text = pci_lookup_name(names(), buf, sizeof(buf),
					   PCI_LOOKUP_VENDOR | PCI_LOOKUP_DEVICE | PCI_LOOKUP_NO_NUMBERS, int(vendor),
					   int(device));

	return fmt::format("{} [{:04x}:{:04x}]", text ? text : "unnamed device", vendor, device);
}

/* True: the function is bound to a host driver that may do DMA, so that VFIO refuses its group. */
static bool is_foreign(const pci::function &f)
{
	const std::string &d = f.driver;

	return !d.empty() && d.find("vfio") == d.npos && d != "pci-stub" && d != "pcieport" && !is_bridge(f);
}

static void read_group(const context &ctx, candidate *c)
{
	pci::function other;

	c->group.clear();
	c->sharers.clear();
	c->foreign = false;
	if (c->fn.iommu_group < 0 || pci::group_members(ctx.at.sys(), c->fn.iommu_group, &c->group))
		return;
	for (const pci::address &a : c->group) {
		if (a == c->fn.addr || pci::read_function(ctx.at.sys(), a, &other) || is_bridge(other))
			continue;
		c->sharers.push_back(address_format(a) + (other.driver.empty() ? "" : " (" + other.driver + ")"));
		c->foreign |= is_foreign(other);
	}
}

static void fill(const context &ctx, candidate *c)
{
	const dma::driver *d = dma::find_driver(c->fn.vendor, c->fn.device);

	c->name = device_name(c->fn.vendor, c->fn.device);
	c->engine = d ? d->name : "";
	read_group(ctx, c);
}

int read_candidate(const context &ctx, const pci::address &a, candidate *out)
{
	if (const int err = pci::read_function(ctx.at.sys(), a, &out->fn))
		return err;
	fill(ctx, out);
	return 0;
}

int find_candidates(const context &ctx, bool all, std::vector<candidate> *out)
{
	std::vector<pci::function> found;

	out->clear();
	if (!exists(ctx.at.sys() + "/bus/pci/devices"))
		return 0; /* no PCI */
	if (const int err = pci::list(ctx.at.sys(), &found))
		return err;
	for (pci::function &f : found) {
		if (!all && !dma::find_driver(f.vendor, f.device) && f.driver != "vfio-pci")
			continue;
		candidate c;
		c.fn = std::move(f);
		fill(ctx, &c);
		out->push_back(std::move(c));
	}
	return 0;
}

std::vector<std::string> vfio_users(const context &ctx, const pci::function &f)
{
	const std::string group = ctx.at.dev() + "/vfio/" + std::to_string(f.iommu_group);
	const std::string name = pci::vfio_cdev(ctx.at.sys(), f.addr), cdev = ctx.at.dev() + "/vfio/devices/" + name;
	std::vector<std::string> users;
	std::error_code ec;

	for (const std::string &pid : dir_entries(ctx.at.proc())) {
		if (pid.find_first_not_of("0123456789") != pid.npos)
			continue;
		const std::string dir = ctx.at.proc() + "/" + pid;
		for (const std::string &fd : dir_entries(dir + "/fd")) {
			const std::string to = std::filesystem::read_symlink(dir + "/fd/" + fd, ec);

			if (ec || (to != group && (name.empty() || to != cdev)))
				continue;
			users.push_back("pid " + pid + " (" + read_line(dir + "/comm") + ")");
			break;
		}
	}
	return users;
}

json to_json(const candidate &c)
{
	json j = {{"address", address_format(c.fn.addr)},
		  {"name", c.name},
		  {"vendor", fmt::format("{:04x}", c.fn.vendor)},
		  {"device", fmt::format("{:04x}", c.fn.device)},
		  {"driver", c.fn.driver.empty() ? json() : json(c.fn.driver)},
		  {"engine", c.engine.empty() ? json() : json(c.engine)},
		  {"numa_node", c.fn.numa_node < 0 ? json() : json(c.fn.numa_node)},
		  {"iommu_group", c.fn.iommu_group < 0 ? json() : json(c.fn.iommu_group)}};

	j["group_members"] = json::array();
	for (const pci::address &a : c.group)
		j["group_members"].push_back(address_format(a));
	j["group_sharers"] = c.sharers;
	return j;
}

static std::string group_text(const candidate &c)
{
	std::string others;

	if (c.fn.iommu_group < 0)
		return "no IOMMU group";
	for (const pci::address &a : c.group)
		if (a != c.fn.addr)
			others += (others.empty() ? "" : " ") + address_format(a);
	return fmt::format("IOMMU group {} ({})", c.fn.iommu_group, others.empty() ? "alone" : "with " + others);
}

static void print_candidate(const candidate &c)
{
	print_folded(address_format(c.fn.addr) + " " + c.name, 0, 4);
	print_folded(fmt::format("engine {}, driver {}, {}, NUMA node {}", c.engine.empty() ? "none" : c.engine,
				 c.fn.driver.empty() ? "none" : c.fn.driver, group_text(c),
				 c.fn.numa_node < 0 ? "unknown" : std::to_string(c.fn.numa_node)),
		     4, 4);
}

int run_list(const context &ctx, bool all)
{
	std::vector<candidate> found;
	json j = json::array();

	if (const int err = find_candidates(ctx, all, &found))
		return report_error(ctx, err);
	for (const candidate &c : found) {
		if (ctx.json)
			j.push_back(to_json(c));
		else
			print_candidate(c);
	}
	if (ctx.json)
		print_json(j);
	else if (found.empty())
		print_folded("No supported device, and none bound to vfio-pci. The software device needs no hardware: "
			     "USDMA_DEVICES=sim",
			     0, 0);
	return exit_ok;
}

} // namespace usdma::ctl
