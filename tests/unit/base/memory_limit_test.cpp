/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits on memory: the lowest one applies, and is named in the error text. */
#include "tests/support/test.h"

#include "driver/base/error.h"
#include "driver/base/memfd.h"
#include "driver/base/memory_limit.h"
#include "driver/base/page.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace usdma;
namespace fs = std::filesystem;

/* A directory with files of /proc and /sys of a fake machine. */
struct machine {
	char root[64] = "/tmp/usdma-memory-XXXXXX";
	char text[2048] = "";

	machine() { assert_non_null(mkdtemp(root)); }
	~machine() { fs::remove_all(root); }
	void file(const std::string &path, const std::string &text_of)
	{
		fs::create_directories(fs::path(root + path).parent_path());
		std::ofstream(root + path) << text_of;
	}
	void available(u64 mib)
	{
		file("/proc/meminfo", "MemTotal: 99999999 kB\nMemAvailable: " + std::to_string(mib * 1024) + " kB\n");
	}
	/* Version 2: a group with its limit, use and file pages, in MiB; limit 0: none. */
	void group(const std::string &path, u64 limit, u64 used, u64 cached)
	{
		const std::string dir = "/sys/fs/cgroup" + path;

		file(dir + "/memory.max", limit ? std::to_string(limit * MiB) + "\n" : "max\n");
		file(dir + "/memory.current", std::to_string(used * MiB) + "\n");
		file(dir + "/memory.stat", "anon 5\nfile 99\ninactive_file " + std::to_string(cached * MiB) + "\n");
	}
	u64 left_mib(bool whole_machine = true) { return memory_left({root, whole_machine}, text, sizeof(text)) / MiB; }
	bool names(const char *what) const { return strstr(text, what); }
};

static void of_the_machine(void **)
{
	machine m;

	assert_int_equal(m.left_mib(false), ~u64(0) / MiB);
	m.available(300);
	assert_int_equal(m.left_mib(), 300);
	assert_true(m.names("MemAvailable"));
	assert_int_equal(memory_available(301 * MiB, "a test", {m.root}), -ENOMEM);
	assert_non_null(strstr(error_text(), "a test"));
	assert_non_null(strstr(error_text(), "MemAvailable"));
	assert_int_equal(memory_available(250 * MiB, "a test", {m.root}), 0);
}

/* ProcSubset=pid and sandboxes hide /proc/meminfo: sysfs reports the same, and without it sysinfo(2). */
static void of_the_machine_without_meminfo(void **)
{
	machine m;
	const u64 total = u64(sysconf(_SC_PHYS_PAGES)) * os_page_size();

	assert_in_range(m.left_mib(), 1, total / MiB);
	assert_true(m.names("sysinfo"));
	assert_int_equal(memory_available(4096 * GiB, "a test", {m.root}), -ENOMEM);
	for (const char *node : {"node0", "node3"})
		m.file(std::string("/sys/devices/system/node/") + node + "/meminfo",
		       "Node 3 MemTotal:       999999 kB\nNode 3 MemFree:        10240 kB\n"
		       "Node 3 Active(file):    2048 kB\nNode 3 Inactive(file):  1024 kB\n"
		       "Node 3 Shmem:           5555 kB\nNode 3 SReclaimable:    1024 kB\n");
	m.file("/sys/devices/system/node/online", "0,3\n");
	assert_int_equal(m.left_mib(), 2 * (10 + 2 + 1 + 1));
	assert_true(m.names("NUMA"));
	m.available(300);
	assert_int_equal(m.left_mib(), 300);
}

static void of_a_group_and_its_parents(void **)
{
	machine m;

	m.available(9000);
	m.file("/proc/self/cgroup", "0::/pod/box\n");
	m.file("/proc/self/mountinfo", "30 20 0:5 / /proc rw - proc proc rw\n"
				       "31 20 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
	m.group("/pod/box", 1024, 600, 100);
	assert_int_equal(m.left_mib(), 524);
	assert_true(m.names("/pod/box") && m.names("memory.max"));
	m.group("/pod", 2048, 1900, 0);
	assert_int_equal(m.left_mib(), 148);
	assert_true(m.names("/sys/fs/cgroup/pod has"));
	m.group("/pod", 0, 1900, 0);
	m.group("/pod/box", 0, 600, 100);
	assert_int_equal(m.left_mib(), 9000);
	/* More is used than the limit, which was lowered. */
	m.group("/pod/box", 100, 600, 100);
	assert_int_equal(m.left_mib(), 0);
}

static void of_version_1_in_a_container(void **)
{
	machine m;

	m.file("/proc/self/cgroup", "9:cpu,cpuacct:/a\n4:hugetlb,memory:/docker/abc/in\n0::/x\n");
	m.file("/proc/self/mountinfo",
	       "40 20 0:30 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
	       "41 20 0:31 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,hugetlb,memory\n");
	m.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(500 * MiB));
	m.file("/sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(450 * MiB));
	m.file("/sys/fs/cgroup/memory/memory.stat",
	       "inactive_file 1\ntotal_inactive_file " + std::to_string(40 * MiB) + "\n");
	m.file("/sys/fs/cgroup/memory/in/memory.limit_in_bytes", "9223372036854771712");
	m.file("/sys/fs/cgroup/memory/in/memory.usage_in_bytes", std::to_string(450 * MiB));
	assert_int_equal(m.left_mib(), 90);
	assert_true(m.names("memory.limit_in_bytes"));
	/* A group outside the mount: that of the mount is used. */
	m.file("/proc/self/cgroup", "4:memory:/../other\n");
	assert_int_equal(m.left_mib(), 90);
}

/* Memory that this process has claimed and not yet populated is unavailable to other claims. */
static void claims_add_up(void **)
{
	char text[2048];
	const u64 left = memory_left({}, text, sizeof(text));
	memory_claim one, two;

	if (left == ~u64(0))
		skip();
	assert_int_equal(one.take(left / 8 * 5, "a test"), 0);
	assert_int_equal(two.take(left / 8 * 5, "a test"), -ENOMEM);
	one.populated(left / 8 * 5);
	assert_int_equal(two.take(left / 8 * 5, "a test"), 0);
}

static void present_pages_are_not_counted(void **)
{
	const size_t size = 20 * MiB, half = 10 * MiB;
	auto *p = static_cast<u8 *>(
		mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));

	assert_true(p != MAP_FAILED);
	madvise(p, size, MADV_NOHUGEPAGE);
	assert_int_equal(memory_absent(p, size), size);
	memset(p + half, 1, half);
	assert_int_equal(memory_absent(p, size), half);
	munmap(p, size);
}

/* Pages of a file count as there if they are in memory, though not in this process's page table yet. */
static void shared_pages_in_memory_are_not_counted(void **)
{
	const size_t size = 20 * MiB, half = 10 * MiB;
	const std::vector<u8> data(half, 1);
	unique_fd fd;

	if (os_page_size() >= 64 * KiB)
		skip();
	assert_int_equal(memfd_make("test", size, 0, &fd), 0);
	assert_int_equal(write(fd.get(), data.data(), half), half);
	auto *p = static_cast<u8 *>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
	assert_true(p != MAP_FAILED);
	const u64 absent = memory_absent(p, size);
	/* At most one of sixteen of the others was allocated. */
	assert_in_range(absent, half / 16 * 15, half);
	memset(p, 1, size);
	assert_int_equal(memory_absent(p, size), 0);
	munmap(p, size);
}

static bool in_child(bool (*run)())
{
	int status = 0;
	const pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(run() ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status == 0;
}

/* Fails with an error, not with a signal (SIGXFSZ). */
static void a_limit_on_files(void **)
{
	assert_true(in_child([] {
		const rlimit lim = {1 * MiB, 1 * MiB};
		unique_fd fd;

		setrlimit(RLIMIT_FSIZE, &lim);
		return memfd_make("test", 2 * MiB, 0, &fd) == -ENOMEM && strstr(error_text(), "RLIMIT_FSIZE") &&
		       memfd_make("test", 1 * MiB, 0, &fd) == 0;
	}));
}

static void limits_on_addresses_and_data(void **)
{
	if (!usdma::test::limit_applies(RLIMIT_AS) || !usdma::test::limit_applies(RLIMIT_DATA))
		skip();
	assert_true(in_child([] {
		rlimit lim = {GiB, GiB};

		setrlimit(RLIMIT_DATA, &lim);
		errno = ENOMEM;
		if (fail_map(2 * GiB, true, "a test") != -ENOMEM || !strstr(error_text(), "RLIMIT_DATA"))
			return false;
		errno = ENOMEM;
		if (fail_map(2 * GiB, false, "a test") != -ENOMEM || strstr(error_text(), "RLIMIT_DATA"))
			return false;
		lim = {4 * GiB, 4 * GiB};
		setrlimit(RLIMIT_AS, &lim);
		errno = ENOMEM;
		return fail_map(5 * GiB, false, "a test") == -ENOMEM && strstr(error_text(), "RLIMIT_AS");
	}));
}

/* False: no privilege, or a sanitizer, which ignores the call. */
static bool locks_future_mappings()
{
	if (mlockall(MCL_FUTURE))
		return false;
	void *const p = mmap(nullptr, os_page_size(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char present = 0;

	return p != MAP_FAILED && !mincore(p, os_page_size(), &present) && present & 1;
}

/* mlockall(MCL_FUTURE) populates each mapping: more than there is would end the process. */
static void a_mapping_after_mlockall(void **)
{
	static constexpr u64 size = u64(1) << 45;

	if (!in_child(locks_future_mappings))
		skip();
	assert_true(in_child([] {
		unique_fd fd;
		int err = memfd_make("test", size, 0, &fd);

		err = err || memory_before_map(fd.get(), size, "a test") ? -1 : mlockall(MCL_FUTURE | MCL_ONFAULT);
		err = err || memory_before_map(fd.get(), size, "a test") ? -1 : mlockall(MCL_FUTURE);
		return !err && memory_before_map(fd.get(), size, "a test") == -ENOMEM &&
		       strstr(error_text(), "a test") && !memory_before_map(fd.get(), os_page_size(), "a test");
	}));
}

static void a_limit_on_locked_memory(void **)
{
	errno = EAGAIN;
	assert_int_equal(fail_map(MiB, false, "a test"), -ENOMEM);
	assert_non_null(strstr(error_text(), "RLIMIT_MEMLOCK"));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(of_the_machine),
		cmocka_unit_test(of_the_machine_without_meminfo),
		cmocka_unit_test(of_a_group_and_its_parents),
		cmocka_unit_test(of_version_1_in_a_container),
		cmocka_unit_test(claims_add_up),
		cmocka_unit_test(present_pages_are_not_counted),
		cmocka_unit_test(shared_pages_in_memory_are_not_counted),
		cmocka_unit_test(a_limit_on_files),
		cmocka_unit_test(limits_on_addresses_and_data),
		cmocka_unit_test(a_limit_on_locked_memory),
		cmocka_unit_test(a_mapping_after_mlockall),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
