/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/usdmactl/doctor.h"

#include <nlohmann/json.hpp>
#include <fmt/format.h>

namespace usdma::ctl {

/* In the order in which to fix them: a later check often depends on an earlier one. */
static constexpr check checks[] = {
	{"iommu", "IOMMU", check_iommu},
	{"modules", "VFIO modules", check_modules},
	{"denylist", "Modules and devices not denied", check_denylist},
	{"devices", "Devices bound to vfio-pci", check_devices},
	{"permissions", "Permissions", check_permissions},
	{"memlock", "Memory that may be locked", check_memlock},
	{"huge_pages", "Huge pages", check_huge_pages},
	{"numa", "NUMA", check_numa},
	{"io_uring", "io_uring", check_io_uring},
	{"power", "Power states", check_power},
	{"settings", "Settings", check_settings},
};

static const char *word(verdict v)
{
	switch (v) {
	case verdict::ok:
		return "ok";
	case verdict::advice:
		return "advice";
	case verdict::failed:
		return "failed";
	case verdict::skipped:
		break;
	}
	return "skipped";
}

std::string shell_word(const std::string &text)
{
	static constexpr const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:-+,@%";
	std::string out = "'";

	if (!text.empty() && text.find_first_not_of(plain) == text.npos)
		return text;
	for (const char ch : text)
		out += ch == '\'' ? std::string("'\\''") : std::string(1, ch);
	return out + "'";
}

static json to_json(const check &k, const finding &f)
{
	return {{"id", k.id},
		{"title", k.title},
		{"state", word(f.state)},
		{"text", f.text},
		{"fix", f.fix.empty() ? json() : json(f.fix)},
		{"price", f.price.empty() ? json() : json(f.price)}};
}

static void print(const check &k, const finding &f)
{
	print_folded(fmt::format("[{}] {}: {}", word(f.state), k.title, f.text), 0, 4);
	/* Before the fix, so that it is read before the command is copied. */
	if (!f.price.empty())
		print_folded("price: " + f.price, 4, 11);
	/* Commands are not wrapped, so that they can be copied. */
	if (!f.fix.empty())
		print_line("    fix: " + f.fix);
}

int run_doctor(const context &ctx)
{
	checkup c{ctx, {}};
	json list = json::array();
	unsigned failed = 0;

	if (const int err = find_candidates(ctx, false, &c.devices))
		return report_error(ctx, err);
	for (const check &k : checks) {
		const finding f = k.run(c);

		failed += f.state == verdict::failed;
		if (ctx.json)
			list.push_back(to_json(k, f));
		else
			print(k, f);
	}
	if (ctx.json)
		print_json({{"ok", failed == 0}, {"failed", failed}, {"checks", list}});
	else if (failed)
		print_folded(
			fmt::format("{} check{} failed: real devices cannot be used until this is fixed. The software "
				    "device (USDMA_DEVICES=sim) works anyway, unless the settings are wrong.",
				    failed, failed == 1 ? "" : "s"),
			0, 0);
	return failed ? exit_failed : exit_ok;
}

} // namespace usdma::ctl
