/* SPDX-License-Identifier: BSD-3-Clause */
/* Live counters of the processes that use usdma, read from their shared pages (lib/core/base/stats.h). */
#include "driver/base/clock.h"
#include "driver/base/peer_file.h"
#include "driver/base/printable.h"
#include "driver/base/words.h"
#include "lib/core/base/stats.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/usdmactl/ctl.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <unistd.h>

namespace usdma::ctl {

namespace {

struct row {
	unsigned pid = 0;
	std::string command, device, driver;
	u32 hw_queues = 0;
	u64 opened_ns = 0;
	core::hwq_counters sum;
};

using key = std::tuple<unsigned, unsigned, u64>; /* process, slot, when it was opened */

/* Host memory that a process retains for devices that it lost and closed. */
struct retained {
	unsigned pid = 0;
	std::string command;
	u64 devices = 0, bytes = 0;
};

struct sample {
	std::map<key, row> rows;
	std::vector<retained> lost;
};

} // namespace

/* The name of a process or descriptor in /proc; 0: it is none. */
static unsigned number_of(const std::string &name)
{
	u64 n = 0;

	number_parse(name, &n, 0, ~0u);
	return unsigned(n);
}

/*
 * Opens the counter page of a process; invalid: it has none.  The name alone is not trusted, because any process can
 * open a file of this name, and root reads the pages of all users.
 */
static unique_fd open_page(const context &ctx, unsigned pid)
{
	const std::string proc = ctx.at.proc(), dir = fmt::format("{}/{}/fd/", proc, pid);
	const std::string want = std::string("/memfd:") + core::stats_name + " (deleted)";
	std::error_code ec;
	peer_user user;
	peer_file page;

	if (peer_user_of(proc.c_str(), pid, &user))
		return {};
	for (const std::string &fd : dir_entries(dir)) {
		if (std::filesystem::read_symlink(dir + fd, ec) != want || ec)
			continue;
		/* Owned by root: created before the process dropped its privileges. */
		if (!peer_file_open(proc.c_str(), pid, number_of(fd), O_RDONLY, &page) &&
		    page.size == sizeof(core::stats_page) && (user.any(page.owner) || page.owner == 0))
			return std::move(page.fd);
	}
	return {};
}

static bool read_at(int fd, void *buf, size_t len, size_t offset)
{
	return pread(fd, buf, len, off_t(offset)) == ssize_t(len);
}

static void add(core::hwq_counters &to, const core::hwq_counters &c)
{
	to.copies += c.copies;
	to.bytes += c.bytes;
	to.requests += c.requests;
	to.doorbells += c.doorbells;
	to.wakes += c.wakes;
	to.faults += c.faults;
	to.sleeps += c.sleeps;
	to.spins += c.spins;
}

static bool valid_layout(const core::stats_head &h)
{
	return !memcmp(h.magic, core::stats_magic, sizeof(core::stats_magic)) && h.version == core::stats_version &&
	       h.slots == core::stats_slots && h.hw_queues == core::stats_hw_queues;
}

static void read_slot(int fd, unsigned pid, const std::string &command, unsigned slot, const core::stats_slot &s,
		      sample *out)
{
	std::vector<core::hwq_counters> counts(std::min(s.hw_queues, core::stats_hw_queues));
	row r = {pid,
		 command,
		 std::string(s.spec, strnlen(s.spec, sizeof(s.spec))),
		 std::string(s.driver, strnlen(s.driver, sizeof(s.driver))),
		 s.hw_queues,
		 s.opened_ns,
		 {}};

	if (!s.open ||
	    !read_at(fd, counts.data(), counts.size() * sizeof(counts[0]),
		     offsetof(core::stats_page, count) + sizeof(core::hwq_counters) * core::stats_hw_queues * slot))
		return;
	for (const core::hwq_counters &c : counts)
		add(r.sum, c);
	out->rows[{pid, slot, s.opened_ns}] = r;
}

static void read_process(const context &ctx, const std::string &pid, sample *out)
{
	const unsigned id = number_of(pid);
	const unique_fd fd = open_page(ctx, id);
	core::stats_head head;

	/* A forked child inherits its parent's page: the page's PID identifies the owner. */
	if (!fd.valid() || !read_at(fd.get(), &head, sizeof(head), 0) || !valid_layout(head) || head.pid != id)
		return;
	const std::string command = read_line(ctx.at.proc() + "/" + pid + "/comm");
	for (unsigned slot = 0; slot < core::stats_slots; slot++)
		read_slot(fd.get(), id, command, slot, head.slot[slot], out);
	if (head.retained_devices)
		out->lost.push_back({id, command, head.retained_devices, head.retained_bytes});
}

static sample take(const context &ctx, unsigned only)
{
	sample s;

	for (const std::string &pid : dir_entries(ctx.at.proc()))
		if (pid.find_first_not_of("0123456789") == pid.npos && (!only || pid == std::to_string(only)))
			read_process(ctx, pid, &s);
	return s;
}

static double rate(u64 now, u64 before, double seconds)
{
	return now > before && seconds > 0 ? double(now - before) / seconds : 0;
}

static json to_json(const row &r, const core::hwq_counters &old, double seconds)
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

static void print_row(const row &r, const core::hwq_counters &old, double seconds)
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

static void show(const context &ctx, const sample &now, const sample &before, double seconds)
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
		print_line("no process that can be read uses usdma (root can read all processes)");
	if (!ctx.json)
		for (const retained &k : now.lost)
			print_retained(k);
}

int run_stat(const context &ctx, const stat_options &opt)
{
	sample before = take(ctx, opt.pid);
	u64 then = now_ns();

	if (opt.pid && before.rows.empty() && before.lost.empty())
		return report(ctx, fmt::format("process {} does not use usdma, or cannot be read", opt.pid));
	tool::catch_interrupts();
	for (unsigned n = 0; (!opt.count || n < opt.count) && tool::flush_output(); n++) {
		usleep(useconds_t(opt.interval * 1e6));
		if (tool::interrupted())
			break;
		const sample now = take(ctx, opt.pid);
		const u64 at = now_ns();

		show(ctx, now, before, double(at - then) / 1e9);
		before = now;
		then = at;
	}
	return exit_ok;
}

} // namespace usdma::ctl
