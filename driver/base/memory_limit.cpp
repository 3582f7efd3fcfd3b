/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Formats: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux, proc_meminfo(5).
 */
#include "driver/base/memory_limit.h"

#include "driver/base/barrier.h"
#include "driver/base/cgroup.h"
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/madvise.h"
#include "driver/base/page.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

namespace usdma {

using file_ptr = std::unique_ptr<FILE, int (*)(FILE *)>;

static constexpr u64 unknown = ~u64(0);
static constexpr size_t path_size = 1024, dir_size = 3 * path_size, line_size = 1024;

/* ---- limits of the machine and its control groups ---------------------------------------------------- */

struct hierarchy;

struct budget {
	const hierarchy *at = nullptr; /* that is being visited */
	u64 left = unknown;
	char *text;
	size_t size;
};

[[gnu::format(printf, 3, 4)]] static void limit_to(budget *r, u64 left, const char *fmt, ...)
{
	va_list args;

	if (left >= r->left)
		return;
	r->left = left;
	va_start(args, fmt);
	vsnprintf(r->text, r->size, fmt, args);
	va_end(args);
}

/* The number in DIR/NAME; unknown: "max", or no such file. */
static u64 read_number(const char *dir, const char *name)
{
	char path[dir_size + 64];
	ull n;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	const file_ptr file(fopen(path, "re"), fclose);
	return file && fscanf(file.get(), "%llu", &n) == 1 ? n : unknown;
}

/* The sum of these rows of DIR/memory.stat. */
static u64 read_stat(const char *dir, const char *const (&rows)[3])
{
	char path[dir_size + 64], line[line_size], name[64];
	u64 sum = 0;
	ull n;

	snprintf(path, sizeof(path), "%s/memory.stat", dir);
	const file_ptr file(fopen(path, "re"), fclose);
	while (file && fgets(line, sizeof(line), file.get())) {
		if (sscanf(line, "%63s %llu", name, &n) != 2)
			continue;
		for (const char *row : rows)
			if (row && !strcmp(row, name))
				sum += n;
	}
	return sum;
}

struct hierarchy {
	const char *controller;
	const char *limit, *usage;
	const char *reclaimable[3];
};

static constexpr hierarchy versions[] = {
	{nullptr, "memory.max", "memory.current", {"inactive_file", "active_file", "slab_reclaimable"}},
	{"memory",
	 "memory.limit_in_bytes",
	 "memory.usage_in_bytes",
	 {"total_inactive_file", "total_active_file", nullptr}},
};

static void check_group(const char *dir, const char *shown, void *arg)
{
	budget *const r = static_cast<budget *>(arg);
	const hierarchy &h = *r->at;
	static constexpr u64 unlimited = u64(1) << 60; /* version 1 reports "unlimited" as a huge number */
	const u64 limit = read_number(dir, h.limit), usage = read_number(dir, h.usage);

	if (limit >= unlimited || usage == unknown)
		return;
	const u64 used = usage - std::min(usage, read_stat(dir, h.reclaimable));
	const u64 left = limit - std::min(limit, used);

	limit_to(r, left, "the control group %s has a limit of %llu bytes (%s), of which %llu are left", shown,
		 ull(limit), h.limit, ull(left));
}

/* The sum of these fields of a meminfo file, in bytes; unknown: the first one is not there. */
static u64 read_fields(const char *path, std::initializer_list<const char *> names)
{
	const file_ptr file(fopen(path, "re"), fclose);
	char line[line_size], name[64];
	bool found = false;
	u64 sum = 0;
	ull kib;

	while (file && fgets(line, sizeof(line), file.get())) {
		if (sscanf(line, "Node %*u %63[^:]: %llu", name, &kib) != 2 &&
		    sscanf(line, "%63[^:]: %llu", name, &kib) != 2)
			continue;
		for (const char *n : names)
			sum += strcmp(name, n) ? 0 : kib * KiB;
		found |= !strcmp(name, *names.begin());
	}
	return found ? sum : unknown;
}

/* Free memory and reclaimable page cache of all NUMA nodes; unknown: sysfs does not report it. */
static u64 left_on_nodes(const char *root)
{
	char dir[path_size], path[dir_size];
	u64 sum = unknown;
	unsigned node;

	snprintf(dir, sizeof(dir), "%s/sys/devices/system/node", root);
	const std::unique_ptr<DIR, int (*)(DIR *)> all(opendir(dir), closedir);
	while (const dirent *const e = all ? readdir(all.get()) : nullptr) {
		if (sscanf(e->d_name, "node%u", &node) != 1)
			continue;
		snprintf(path, sizeof(path), "%s/node%u/meminfo", dir, node);
		const u64 n = read_fields(path, {"MemFree", "Active(file)", "Inactive(file)", "SReclaimable"});
		if (n != unknown)
			sum = (sum == unknown ? 0 : sum) + n;
	}
	return sum;
}

/* Without /proc and sysfs: memory that is not shared. What others use besides is not reported. */
static void check_sysinfo(budget *r)
{
	struct sysinfo s;

	if (sysinfo(&s))
		return;
	const auto bytes = [&s](u64 n) { return n * s.mem_unit; };
	const u64 total = bytes(s.totalram), shared = bytes(s.sharedram);
	limit_to(r, total - std::min(total, shared),
		 "the machine has %llu bytes, of which %llu are shared memory in use (sysinfo; /proc/meminfo is not "
		 "readable)",
		 ull(total), ull(shared));
}

/* ProcSubset=pid and sandboxes hide /proc/meminfo. */
static void check_machine(const char *root, budget *r)
{
	char path[path_size];

	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	const u64 available = read_fields(path, {"MemAvailable"});
	const u64 nodes = available == unknown ? left_on_nodes(root) : unknown;

	if (available != unknown)
		limit_to(r, available, "the machine has %llu bytes left (MemAvailable)", ull(available));
	else if (nodes != unknown)
		limit_to(r, nodes,
			 "the machine has %llu bytes left (free memory and page cache of its NUMA nodes; /proc/meminfo "
			 "is not readable)",
			 ull(nodes));
	else
		check_sysinfo(r);
}

u64 memory_left(const memory_source &from, char *text, size_t size)
{
	budget r;

	r.text = text;
	r.size = size;
	for (const hierarchy &h : versions) {
		r.at = &h;
		cgroup_each(from.root, h.controller, check_group, &r);
	}
	if (from.machine)
		check_machine(from.root, &r);
	return r.left;
}

/* ---- claims ------------------------------------------------------------------------------------------ */

/* Bytes claimed by this process and not yet populated; atomic. */
static u64 claimed;

/* Adds page tables and the kernel's metadata for each page. */
static u64 with_tables(u64 size)
{
	return size + size / 256 + MiB;
}

/* *after: bytes left once this and all other claims are populated. */
static int check_left(u64 size, u64 others, const char *what, const memory_source &from, u64 *after)
{
	char text[path_size + 256];
	const u64 left = memory_left(from, text, sizeof(text));

	if (left != unknown && (size >= left || with_tables(size + others) > left))
		return fail(ENOMEM, "%llu bytes for %s: %s", ull(size), what, text);
	*after = left == unknown ? unknown : left - with_tables(size + others);
	return 0;
}

/*
 * Small claims draw on credit from the last reading of the limits before they are read again, which takes a
 * dozen files: a program may register memory in many small pieces.
 */
static struct {
	std::mutex lock;
	u64 left = 0, until = 0; /* ns */
} credit;

static bool take_credit(u64 size)
{
	std::lock_guard guard(credit.lock);

	if (size > credit.left || now_ns() >= credit.until)
		return false;
	credit.left -= size;
	return true;
}

static void give_credit(u64 left)
{
	static constexpr u64 most = 4 * MiB, lifetime = 100 * ns_per_ms;
	std::lock_guard guard(credit.lock);

	credit.left = std::min(left / 64, most);
	credit.until = now_ns() + lifetime;
}

int memory_available(u64 size, const char *what, const memory_source &from)
{
	u64 after;

	return check_left(size, load_relaxed(&claimed), what, from, &after);
}

int memory_claim::take(u64 size, const char *what)
{
	const u64 others = fetch_add_relaxed(&claimed, size);
	u64 after;

	size_ += size;
	if (take_credit(size))
		return 0;
	const int err = check_left(size, others, what, {}, &after);
	if (err)
		populated(size);
	else
		give_credit(after);
	return err;
}

void memory_claim::populated(u64 size)
{
	size = std::min(size, size_);
	size_ -= size;
	fetch_sub_relaxed(&claimed, size);
}

/* In pieces, so that populated memory is not counted as claimed as well. */
int memory_populate(void *addr, u64 size, bool write, memory_claim *claim)
{
	static constexpr u64 piece = 64 * MiB;

	for (u64 at = 0; at < size; at += piece) {
		const u64 n = std::min(piece, size - at);

		if (madvise(static_cast<u8 *>(addr) + at, n, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
			return -errno;
		claim->populated(n);
	}
	return 0;
}

/* ---- limits of the process --------------------------------------------------------------------------- */

/* A field of /proc/self/status in KiB, as bytes. */
static u64 status_row(const char *name)
{
	const file_ptr file(fopen("/proc/self/status", "re"), fclose);
	const size_t n = strlen(name);
	char line[line_size];
	ull kib;

	while (file && fgets(line, sizeof(line), file.get()))
		if (!strncmp(line, name, n) && sscanf(line + n, ": %llu", &kib) == 1)
			return kib * KiB;
	return 0;
}

static u64 soft_limit(int which)
{
	rlimit lim = {RLIM_INFINITY, RLIM_INFINITY};

	getrlimit(__rlimit_resource_t(which), &lim);
	return lim.rlim_cur == RLIM_INFINITY ? unknown : u64(lim.rlim_cur);
}

/* used: before the call that failed. */
static bool exceeds(u64 used, u64 size, u64 limit)
{
	return limit != unknown && (used > limit || size > limit - used);
}

int fail_map(u64 size, bool is_data, const char *what)
{
	const int err = errno;
	const u64 as = soft_limit(RLIMIT_AS), data = soft_limit(RLIMIT_DATA), used = status_row("VmSize"),
		  used_data = status_row("VmData");

	if (err == EAGAIN)
		return fail(ENOMEM,
			    "%llu bytes for %s are locked memory after mlockall(MCL_FUTURE): the limit "
			    "(RLIMIT_MEMLOCK, ulimit -l) is %llu bytes",
			    ull(size), what, ull(soft_limit(RLIMIT_MEMLOCK)));
	if (err == ENOMEM && exceeds(used, size, as))
		return fail(ENOMEM,
			    "%llu bytes for %s: the limit on address space (RLIMIT_AS, ulimit -v) is %llu bytes, of "
			    "which %llu are in use",
			    ull(size), what, ull(as), ull(used));
	if (err == ENOMEM && is_data && exceeds(used_data, size, data))
		return fail(ENOMEM,
			    "%llu bytes for %s: the limit on data (RLIMIT_DATA, ulimit -d) is %llu bytes, of which "
			    "%llu are in use",
			    ull(size), what, ull(data), ull(used_data));
	if (err == ENOMEM)
		return fail(ENOMEM, "%llu bytes for %s: no memory, or vm.max_map_count is reached", ull(size), what);
	errno = err;
	return fail_errno("%llu bytes for %s", ull(size), what);
}

int file_size_check(u64 size)
{
	const u64 limit = soft_limit(RLIMIT_FSIZE);

	return size <= limit ? 0 :
			       fail(ENOMEM,
				    "memfd of %llu bytes: the limit on file size (RLIMIT_FSIZE, ulimit -f) is "
				    "%llu bytes",
				    ull(size), ull(limit));
}

} // namespace usdma
