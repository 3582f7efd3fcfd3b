/* SPDX-License-Identifier: BSD-3-Clause */
/* Live counters of the processes that use usdma, read from their shared pages (lib/core/base/stats.h). */
#include "driver/base/clock.h"
#include "driver/base/printable.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/usdmactl/pages.h"

#include <nlohmann/json.hpp>
#include <fmt/format.h>
#include <unistd.h>

namespace usdma::ctl {

static double rate(u64 now, u64 before, double seconds)
{
	return now > before && seconds > 0 ? double(now - before) / seconds : 0;
}

static json to_json(const open_device &r, const core::hwq_counters &old, double seconds)
{
	return {{"pid", r.pid},
		{"command", r.command},
		{"device", r.device},
		{"driver", r.driver},
		{"hw_queues", r.hw_queues},
		{"copies", r.sum.copies},
		{"bytes", r.sum.bytes},
		{"requests", r.sum.requests},
		{"doorbells", r.sum.doorbells},
		{"wakes", r.sum.wakes},
		{"faults", r.sum.faults},
		{"sleeps", r.sum.sleeps},
		{"copies_per_s", rate(r.sum.copies, old.copies, seconds)},
		{"bytes_per_s", rate(r.sum.bytes, old.bytes, seconds)}};
}

static void print_row(const open_device &r, const core::hwq_counters &old, double seconds)
{
	/* Filtered first, because fmt counts columns of the visible text. */
	print_line(fmt::format("{:>7} {:<15.15} {:<17.17} {:>10.0f} {:>9.1f} {:>7.0f} {:>7}", r.pid,
			       printable(r.command), printable(r.device), rate(r.sum.copies, old.copies, seconds),
			       rate(r.sum.bytes, old.bytes, seconds) / double(MiB),
			       rate(r.sum.sleeps, old.sleeps, seconds), r.sum.faults));
}

static json to_json(const std::vector<retained> &lost)
{
	json list = json::array();

	for (const retained &k : lost)
		list.push_back({{"pid", k.pid}, {"command", k.command}, {"devices", k.devices}, {"bytes", k.bytes}});
	return list;
}

static void print_retained(const retained &k)
{
	print_line(fmt::format("{:>7} {:<15.15} {} lost device{} may still write: {} KiB out of use", k.pid,
			       printable(k.command), k.devices, k.devices == 1 ? "" : "s", k.bytes / KiB));
}

static void show(const context &ctx, const page_sample &now, const page_sample &before, double seconds)
{
	json list = json::array();

	if (!ctx.json) {
		if (isatty(STDOUT_FILENO))
			tool::put("\033[H\033[J");
		print_line(fmt::format("{:>7} {:<15} {:<17} {:>10} {:>9} {:>7} {:>7}", "PID", "COMMAND", "DEVICE",
				       "COPIES/S", "MIB/S", "SLEEP/S", "FAULTS"));
	}
	for (const auto &[k, r] : now.rows) {
		const auto it = before.rows.find(k);
		const core::hwq_counters old = it == before.rows.end() ? core::hwq_counters() : it->second.sum;

		if (ctx.json)
			list.push_back(to_json(r, old, seconds));
		else
			print_row(r, old, seconds);
	}
	if (ctx.json)
		tool::put(json{{"processes", list}, {"kept", to_json(now.lost)}}.dump(-1, ' ', true,
										      json::error_handler_t::replace) +
			  "\n");
	else if (now.rows.empty() && now.lost.empty())
		print_line("no readable process uses usdma (root can read all processes)");
	if (!ctx.json)
		for (const retained &k : now.lost)
			print_retained(k);
}

int run_stat(const context &ctx, const stat_options &opt)
{
	page_sample before = read_pages(ctx, opt.pid);
	u64 then = now_ns();

	if (opt.pid && before.rows.empty() && before.lost.empty())
		return report(ctx, fmt::format("process {} does not use usdma, or cannot be read", opt.pid));
	tool::catch_interrupts();
	for (unsigned n = 0; (!opt.count || n < opt.count) && tool::flush_output(); n++) {
		usleep(useconds_t(opt.interval * 1e6));
		if (tool::interrupted())
			break;
		const page_sample now = read_pages(ctx, opt.pid);
		const u64 at = now_ns();

		show(ctx, now, before, double(at - then) / 1e9);
		before = now;
		then = at;
	}
	return exit_ok;
}

} // namespace usdma::ctl
