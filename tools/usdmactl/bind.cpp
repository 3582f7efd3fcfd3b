/* SPDX-License-Identifier: BSD-3-Clause */
/* Binds a device to VFIO, and restores its former driver. */
#include "driver/base/error.h"
#include "tools/usdmactl/ctl.h"

#include <nlohmann/json.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <unistd.h>

namespace usdma::ctl {

/* Records the former driver: one file for each device, valid until the next boot. */
static std::string memo_path(const context &ctx, const pci::address &a)
{
	return ctx.at.run() + "/former-driver/" + address_format(a);
}

static int remember(const context &ctx, const candidate &c)
{
	const std::string path = memo_path(ctx, c.fn.addr);
	std::error_code ec;

	std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ec);
	std::ofstream out(path, std::ios::trunc);
	out << c.fn.driver << "\n";
	out.close();
	return out ? 0 :
		     fail(EACCES, "cannot write %s (it records the former driver): run this as root (sudo)",
			  path.c_str());
}

static std::string join(const std::vector<std::string> &v)
{
	std::string text;

	for (const std::string &s : v)
		text += (text.empty() ? "" : ", ") + s;
	return text;
}

/* The reason why the device cannot be bound; "": it can. */
static std::string refusal(const context &ctx, const candidate &c, const bind_options &opt)
{
	const std::string name = address_format(c.fn.addr);
	const auto users = pci::users(ctx.at.sys(), c.fn.addr);

	if (is_bridge(c.fn))
		return name + " is a bridge: the devices behind it need it";
	if (!users.empty())
		return fmt::format(
			"{} is in use: {}; take it out of use first (ip link set … down, umount …), or choose another "
			"device",
			name, join(users));
	if (c.fn.iommu_group < 0 && !pci::iommu_group_pending(ctx.at.sys(), c.fn))
		return fmt::format("{} has no IOMMU group: VFIO needs an IOMMU (usdmactl doctor says how to get one)",
				   name);
	if (!c.sharers.empty())
		return fmt::format(
			"{} shares IOMMU group {} with {}: VFIO assigns whole groups only, and the device could "
			"reach their memory; move it to a separate slot",
			name, c.fn.iommu_group, join(c.sharers));
	if (!pci::driver_loaded(ctx.at.sys(), opt.driver))
		return fmt::format("driver {} is not loaded: modprobe {}", opt.driver, opt.driver);
	return "";
}

static int done(const context &ctx, const candidate &c, const char *what, const std::string &now, bool dry)
{
	const std::string former = c.fn.driver.empty() ? "none" : c.fn.driver, later = now.empty() ? "none" : now;

	if (ctx.json)
		print_json({{"address", address_format(c.fn.addr)},
			    {"action", what},
			    {"dry_run", dry},
			    {"former_driver", c.fn.driver.empty() ? json() : json(c.fn.driver)},
			    {"driver", now.empty() ? json() : json(now)}});
	else
		print_folded(fmt::format("{}{}: {}, driver {} -> {}", dry ? "would: " : "", address_format(c.fn.addr),
					 what, former, later),
			     0, 4);
	return exit_ok;
}

static int load(const context &ctx, const std::string &device, candidate *c)
{
	pci::address a;

	if (const int err = pci::address_parse(device, &a))
		return err;
	return read_candidate(ctx, a, c);
}

/* The reason why the device is not to stay bound; "": it is. An IOMMU group that is created only now is checked now. */
static std::string try_bind(const context &ctx, const candidate &c, const bind_options &opt)
{
	const bool pending = c.fn.iommu_group < 0;
	int err = pci::bind(ctx.at.sys(), c.fn.addr, opt.driver);
	candidate now;

	if (!err && pending)
		err = read_candidate(ctx, c.fn.addr, &now);
	if (err)
		return (pending ? address_format(c.fn.addr) + " has no IOMMU group: " : "") +
		       (*error_text() ? error_text() : strerror(-err));
	return pending ? refusal(ctx, now, opt) : "";
}

int run_bind(const context &ctx, const bind_options &opt)
{
	candidate c;

	if (const int err = load(ctx, opt.device, &c))
		return report_error(ctx, err);
	if (c.fn.driver == opt.driver)
		return done(ctx, c, "bound already", opt.driver, opt.dry_run);
	if (const std::string why = refusal(ctx, c, opt); !why.empty())
		return report(ctx, why);
	if (opt.dry_run)
		return done(ctx, c, "bind", opt.driver, true);
	/* The record first: without it a bound device could not be given back to its driver. */
	if (const int err = remember(ctx, c))
		return report_error(ctx, err);
	if (const std::string why = try_bind(ctx, c, opt); !why.empty()) {
		if (pci::unbind(ctx.at.sys(), c.fn.addr, c.fn.driver) < 0)
			return report(ctx, why + "; restoring the former driver failed, too: " + error_text());
		unlink(memo_path(ctx, c.fn.addr).c_str());
		return report(ctx, why);
	}
	return done(ctx, c, "bind", opt.driver, false);
}

int run_unbind(const context &ctx, const bind_options &opt)
{
	candidate c, now;

	if (const int err = load(ctx, opt.device, &c))
		return report_error(ctx, err);
	const std::string memo = memo_path(ctx, c.fn.addr), former = read_line(memo);
	if (c.fn.driver.find("vfio") == std::string::npos)
		return report(ctx, fmt::format("{} is not bound to a VFIO driver but to {}: nothing to undo",
					       address_format(c.fn.addr), c.fn.driver.empty() ? "none" : c.fn.driver));
	if (const auto users = vfio_users(ctx, c.fn); !users.empty())
		return report(ctx, address_format(c.fn.addr) + " is in use by " + join(users));
	if (opt.dry_run)
		return done(ctx, c, exists(memo) ? "restore" : "unbind", former, true);
	if (const int err = pci::unbind(ctx.at.sys(), c.fn.addr, former))
		return report_error(ctx, err);
	unlink(memo.c_str());
	if (const int err = read_candidate(ctx, c.fn.addr, &now))
		return report_error(ctx, err);
	return done(ctx, c, former.empty() ? "unbind" : "restore", now.fn.driver, false);
}

} // namespace usdma::ctl
