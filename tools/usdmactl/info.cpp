/* SPDX-License-Identifier: BSD-3-Clause */
/* Properties of a device. */
#include "driver/base/error.h"
#include "driver/dma/registry.h"
#include "driver/dma/softop.h"
#include "lib/core/info.h"
#include "tools/usdmactl/ctl.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <fmt/format.h>

namespace usdma::ctl {

/* ---- a device ---------------------------------------------------------------------------------------- */

static const char *region_name(unsigned i)
{
	static const char *const names[] = {"BAR0", "BAR1", "BAR2", "BAR3", "BAR4", "BAR5", "ROM", "config", "VGA"};

	return i < std::size(names) ? names[i] : "other";
}

static json regions_of(vfio::device &dev)
{
	json list = json::array();
	vfio::region_info r;

	for (unsigned i = 0; i < vfio::region_count; i++) {
		if (dev.region(i, &r) < 0 || !r.size)
			continue;
		json one = {{"index", i},
			    {"name", region_name(i)},
			    {"size", r.size},
			    {"readable", bool(r.flags & vfio::region_readable)},
			    {"writable", bool(r.flags & vfio::region_writable)},
			    {"mappable", bool(r.flags & vfio::region_mappable)}};
		for (const vfio::range &m : r.mappable)
			one["mappable_parts"].push_back({m.start, m.last});
		list.push_back(one);
	}
	return list;
}

static json interrupts_of(vfio::device &dev)
{
	static const char *const names[] = {"INTx", "MSI", "MSI-X", "error", "request"};
	json list = json::object();
	vfio::irq_info irq;

	for (unsigned i = 0; i < std::size(names); i++)
		if (dev.irq(i, &irq) >= 0 && irq.count)
			list[names[i]] = irq.count;
	return list;
}

static std::string capability_name(const pci::capability &c)
{
	static constexpr struct {
		u16 id;
		bool extended;
		const char *name;
	} names[] = {
		{0x01, false, "power management"},
		{0x05, false, "MSI"},
		{0x09, false, "vendor specific"},
		{0x10, false, "PCI Express"},
		{0x11, false, "MSI-X"},
		{0x13, false, "advanced features"},
		{0x01, true, "error reporting"},
		{0x0d, true, "ACS"},
		{0x0e, true, "ARI"},
		{0x10, true, "SR-IOV"},
		{0x1b, true, "PASID"},
		{0x0f, true, "ATS"},
		{0x13, true, "PRI"},
	};

	for (const auto &k : names)
		if (k.id == c.id && k.extended == c.extended)
			return k.name;
	return fmt::format("{}0x{:02x}", c.extended ? "extended " : "", c.id);
}

static json capabilities_of(std::span<const u8> config)
{
	std::vector<pci::capability> caps;
	json list = json::array();

	if (pci::capabilities(config, &caps) < 0)
		return {{{"error", error_text()}}};
	for (const pci::capability &c : caps)
		list.push_back(
			{{"id", c.id}, {"extended", c.extended}, {"offset", c.offset}, {"name", capability_name(c)}});
	return list;
}

static std::vector<u8> config_of(vfio::device &dev)
{
	vfio::region_info r;
	std::vector<u8> bytes;

	if (dev.region(vfio::region_config, &r) < 0)
		return bytes;
	bytes.resize(std::min<u64>(r.size, 4096));
	if (!bytes.empty() && dev.region_read(vfio::region_config, 0, bytes.data(), bytes.size()) < 0)
		bytes.clear();
	return bytes;
}

void describe_function(vfio::device &dev, json *j)
{
	(*j)["regions"] = regions_of(dev);
	(*j)["interrupts"] = interrupts_of(dev);
	(*j)["capabilities"] = capabilities_of(config_of(dev));
}

static json operations(u32 ops)
{
	json names = json::array();

	for (u8 op = 0; op < u8(dma::opcode::op_count); op++)
		if (ops & dma::op_bit(dma::opcode(op)))
			names.push_back(dma::softop::name(dma::opcode(op)));
	return names;
}

/* Where copies of pageable memory are made that are longer than direct_store. */
static const char *pageable_path(const dma::engine &e, const std::string &spec)
{
	const core::check_timing timing = spec.starts_with("sim") ? core::check_timing_of(spec) :
								    core::config_get().checks.timing;

	return core::pageable_by_cpu(e.limits(), timing) ? "cpu" : "staging";
}

static json limits_of(const dma::engine &e, const std::string &spec)
{
	const dma::engine_limits &l = e.limits();

	return {{"driver", e.driver_name()},
		{"channels", l.channels},
		{"units", l.engines},
		{"ring_size", l.ring_size},
		{"max_copy", l.max_len},
		{"memory_size", l.memory_size},
		{"own_memory", bool(l.caps & dma::cap_memory)},
		{"pageable", pageable_path(e, spec)},
		{"hardware_operations", operations(l.ops)},
		{"driver_operations", operations(dma::all_ops & ~l.ops)},
		{"numa_node", l.numa_node < 0 ? json() : json(l.numa_node)}};
}

/* Describes the device as the transport reports it, then the engine as its driver reports it. */
static int describe_open(std::unique_ptr<vfio::device> dev, json *j)
{
	vfio::address_limits lim;
	std::unique_ptr<dma::engine> eng;
	u16 vendor = 0, device = 0;

	if (int err = vfio::config_read16(*dev, 0, &vendor); err < 0)
		return err;
	if (int err = vfio::config_read16(*dev, 2, &device); err < 0)
		return err;
	if (int err = dev->answers(); err < 0)
		return err;
	(*j)["name"] = device_name(vendor, device);
	(*j)["transport"] = dev->backend();
	describe_function(*dev, j);
	if (!dev->limits(&lim))
		for (const vfio::range &r : lim.usable)
			(*j)["addresses"].push_back(fmt::format("{:#x}-{:#x}", r.start, r.last));
	const dma::driver *d = dma::find_driver(vendor, device);
	if (!d) {
		(*j)["engine"] = nullptr;
		return 0;
	}
	if (int err = d->probe(dev, &eng); err < 0)
		return err;
	(*j)["engine"] = limits_of(*eng, (*j)["device"]);
	return 0;
}

static std::string plain(const json &v)
{
	return v.is_string() ? v.get<std::string>() : v.is_null() ? "none" : v.dump();
}

static void print_regions(const json &j)
{
	for (const json &r : j["regions"])
		print_line(fmt::format("  region {:<7} {:>12}  {}{}{}", r["name"].get<std::string>(),
				       human_size(r["size"]), r["readable"] ? "r" : "-", r["writable"] ? "w" : "-",
				       r["mappable"] ? "m" : "-"));
	for (const auto &[name, count] : j["interrupts"].items())
		print_line(fmt::format("  {:<14} {:>12}", "irq " + name, count.get<u32>()));
}

static void print_device(const json &j)
{
	std::string caps, addresses;

	print_folded(j["device"].get<std::string>() + ": " + j.value("name", ""), 0, 4);
	if (j.contains("opened_as") && j["opened_as"] != j["device"])
		print_folded("opened as " + j["opened_as"].get<std::string>() + " by the settings in force", 2, 4);
	if (j.contains("pci"))
		print_folded(fmt::format("driver {}, IOMMU group {}, NUMA node {}", plain(j["pci"]["driver"]),
					 plain(j["pci"]["iommu_group"]), plain(j["pci"]["numa_node"])),
			     2, 4);
	if (j.contains("transport"))
		print_line("  transport " + j["transport"].get<std::string>());
	if (j.contains("regions"))
		print_regions(j);
	for (const json &c : j.value("capabilities", json::array()))
		caps += (caps.empty() ? "" : ", ") + c.value("name", c.value("error", ""));
	print_folded("capabilities: " + (caps.empty() ? "none" : caps), 2, 4);
	for (const json &a : j.value("addresses", json::array()))
		addresses += " " + a.get<std::string>();
	if (!addresses.empty())
		print_folded("DMA addresses:" + addresses, 2, 4);
	if (!j.contains("engine") || j["engine"].is_null()) {
		print_folded(j.contains("note") ? j["note"].get<std::string>() : "not supported by an engine driver", 2,
			     4);
		return;
	}
	const json &e = j["engine"];
	print_folded(
		fmt::format("engine {}: {} channels, {} engine{}, rings of {}, at most {} a request, {} of {}memory",
			    e["driver"].get<std::string>(), e["channels"].get<u32>(), e["units"].get<u32>(),
			    e["units"] == 1 ? "" : "s", e["ring_size"].get<u32>(), human_size(e["max_copy"]),
			    human_size(e["memory_size"]), e["own_memory"] ? "" : "host "),
		2, 4);
	print_folded(e["pageable"] == "cpu" ? "pageable copies: by the CPU" :
					      "pageable copies: through staging buffers",
		     2, 4);
}

/* Reads a PCI function from sysfs, bound or not. *open: it is bound to VFIO and can be opened. */
static int describe_pci(const context &ctx, const std::string &spec, json *j, bool *open)
{
	std::vector<u8> config;
	pci::address a;
	candidate c;

	if (int err = pci::address_parse(spec, &a); err < 0)
		return err;
	if (int err = read_candidate(ctx, a, &c); err < 0)
		return err;
	*open = c.fn.driver.find("vfio") != std::string::npos;
	(*j)["name"] = c.name;
	(*j)["pci"] = to_json(c);
	if (*open)
		return 0;
	if (!pci::read_config(ctx.at.sys(), a, &config))
		(*j)["capabilities"] = capabilities_of(config);
	for (unsigned i = 0; i < c.fn.bars.size(); i++)
		if (c.fn.bars[i].size)
			(*j)["regions"].push_back({{"index", i},
						   {"name", region_name(i)},
						   {"size", c.fn.bars[i].size},
						   {"readable", true},
						   {"writable", true},
						   {"mappable", false}});
	(*j)["interrupts"] = json::object();
	(*j)["note"] = "not bound to vfio-pci; sudo usdmactl bind " + address_format(a) + " shows the rest";
	return 0;
}

int run_info(const context &ctx, const std::string &device)
{
	std::unique_ptr<vfio::device> dev;
	json j = {{"device", device}};
	std::string scheme;
	bool open = true;

	if (device.empty())
		return run_settings(ctx);
	if (int err = dma::parse_scheme(device, &scheme); err < 0)
		return report_error(ctx, err);
	if (scheme == "pci")
		if (int err = describe_pci(ctx, device, &j, &open); err < 0)
			return report_error(ctx, err);
	if (open) {
		const std::string whole = core::config_device(core::config_get(), device);
		int err = dma::open_device(whole, &dev);

		j["opened_as"] = whole;

		if (!err)
			err = describe_open(std::move(dev), &j);
		if (err < 0)
			return report_error(ctx, err);
	}
	if (ctx.json)
		print_json(j);
	else
		print_device(j);
	return exit_ok;
}

int run_reset(const context &ctx, const std::string &device)
{
	std::unique_ptr<vfio::device> dev;
	int err = dma::open_device(device, &dev);

	if (!err)
		err = dev->reset();
	if (err < 0)
		return report_error(ctx, err);
	if (ctx.json)
		print_json({{"device", device}, {"reset", true}});
	else
		print_line(device + ": reset");
	return exit_ok;
}

} // namespace usdma::ctl
