/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/usdmactl/pages.h"

#include "lib/share/peer_file.h"
#include "driver/base/words.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

namespace usdma::ctl {

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

static void read_slot(int fd, unsigned pid, const std::string &command, unsigned slot, const core::stats_head &head,
		      page_sample *out)
{
	const core::stats_slot &s = head.slot[slot];
	const core::stats_memory_use &memory = head.memory[slot];
	std::vector<core::hwq_counters> counts(std::min(s.hw_queues, core::stats_hw_queues));
	open_device r;

	r.pid = pid;
	r.command = command;
	r.device = std::string(s.spec, strnlen(s.spec, sizeof(s.spec)));
	r.driver = std::string(s.driver, strnlen(s.driver, sizeof(s.driver)));
	r.hw_queues = s.hw_queues;
	r.opened_ns = s.opened_ns;
	r.memory_used = memory.used;
	r.memory_size = memory.size;

	if (!s.open ||
	    !read_at(fd, counts.data(), counts.size() * sizeof(counts[0]),
		     offsetof(core::stats_page, count) + sizeof(core::hwq_counters) * core::stats_hw_queues * slot))
		return;
	for (const core::hwq_counters &c : counts)
		add(r.sum, c);
	out->rows[{pid, slot, s.opened_ns}] = r;
}

static void read_process(const context &ctx, const std::string &pid, page_sample *out)
{
	const unsigned id = number_of(pid);
	const unique_fd fd = open_page(ctx, id);
	core::stats_head head;

	/* A forked child inherits its parent's page: the page's PID identifies the owner. */
	if (!fd.valid() || !read_at(fd.get(), &head, sizeof(head), 0) || !valid_layout(head) || head.pid != id)
		return;
	const std::string command = read_line(ctx.at.proc() + "/" + pid + "/comm");
	for (unsigned slot = 0; slot < core::stats_slots; slot++)
		read_slot(fd.get(), id, command, slot, head, out);
	if (head.retained_devices)
		out->lost.push_back({id, command, head.retained_devices, head.retained_bytes});
}

page_sample read_pages(const context &ctx, unsigned only)
{
	page_sample s;

	for (const std::string &pid : dir_entries(ctx.at.proc()))
		if (pid.find_first_not_of("0123456789") == pid.npos && (!only || pid == std::to_string(only)))
			read_process(ctx, pid, &s);
	return s;
}

} // namespace usdma::ctl
