/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/support/test.h"

#include "tests/support/dropping.h"

#include "driver/base/clock.h"
#include "driver/base/madvise.h"
#include "driver/base/valgrind.h"
#include "lib/core/base/stats.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace usdma {

/* Of a program that has the library's parts in itself, as the unit tests. */
extern wake_counts *wakes [[gnu::weak]];
extern u64 wake_late_ns [[gnu::weak]];

} // namespace usdma

namespace usdma::test {

/* Selects cases: USDMA_TEST_CASE=NAME, with * and ? as in file names.  Each program links it (meson.build). */
extern "C" void usdma_test_choose_cases();
extern "C" [[gnu::constructor]] void usdma_test_choose_cases()
{
	if (const char *pattern = getenv("USDMA_TEST_CASE"))
		cmocka_set_test_filter(pattern);
}

/* cmocka's line of a skipped case, "not ok 3 # SKIP name", is a failure to TAP. */
extern "C" void print_message(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprint_message(strncmp(format, "not ok %u # SKIP", 16) ? format : "ok %u # SKIP %s\n", args);
	va_end(args);
}

/* ---- what is counted ---------------------------------------------------------------------------------- */

static constexpr unsigned late_ms = 5000; /* longer than a busy host stops a virtual CPU for */
static u64 meant_to_be_lost;
static pid_t own_pid; /* a forked child has the counts of its parent */

static void set_late_ms(unsigned ms)
{
	setenv("USDMA_TEST_WAKE_LATE_MS", std::to_string(ms).c_str(), true);
	if (&wake_late_ns)
		wake_late_ns = ms * ns_per_ms;
}

extern "C" [[gnu::constructor]] void usdma_test_begin_counting()
{
	own_pid = getpid();
	set_late_ms(late_ms);
}

/* That of the library, if this program has opened a device (usdmactl stat reads the same page). */
static const core::stats_head *page_of_library()
{
	static const core::stats_head *found;
	static pid_t owner;
	std::error_code closed;

	if (found && owner == getpid())
		return found;
	owner = getpid();

	for (const auto &fd : std::filesystem::directory_iterator("/proc/self/fd", closed)) {
		if (std::filesystem::read_symlink(fd, closed).string().find(core::stats_name) == std::string::npos)
			continue;
		void *const p = mmap(nullptr, sizeof(core::stats_page), PROT_READ, MAP_SHARED,
				     atoi(fd.path().filename().c_str()), 0);
		return found = p == MAP_FAILED ? nullptr : static_cast<const core::stats_head *>(p);
	}
	return found = nullptr;
}

unsigned open_devices()
{
	const core::stats_head *const page = page_of_library();

	return page ? unsigned(std::count_if(page->slot, page->slot + core::stats_slots,
					     [](const auto &s) { return s.open != 0; })) :
		      0;
}

std::uint64_t failures_seen()
{
	const auto *const page = reinterpret_cast<const core::stats_page *>(page_of_library());
	u64 n = 0;

	if (page)
		for (const auto &slot : page->count)
			for (const core::hwq_counters &c : slot)
				n += load_relaxed(&c.faults);
	return n;
}

static wake_counts counted()
{
	if (const core::stats_head *const page = page_of_library())
		return page->wakes;
	return &wakes ? *wakes : wake_counts{};
}

dropping_interrupts::dropping_interrupts()
{
	set_late_ms(0);
}

dropping_interrupts::~dropping_interrupts()
{
	meant_to_be_lost = counted().lost;
	set_late_ms(late_ms);
}

static u64 cpu_ns()
{
	timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return u64(t.tv_sec) * ns_per_s + u64(t.tv_nsec);
}

/* Some thread runs all the time: none of ten pauses leaves the CPU to others. */
static bool never_rests()
{
	static constexpr u64 pause_us = 10000;

	for (unsigned i = 0; i < 10; i++) {
		const u64 before = cpu_ns();

		usleep(pause_us);
		if (cpu_ns() - before < pause_us * ns_per_us / 2)
			return false;
	}
	return true;
}

static std::map<std::string, std::string> names_of_threads()
{
	std::map<std::string, std::string> names;

	for (const auto &task : std::filesystem::directory_iterator("/proc/self/task"))
		std::getline(std::ifstream(task.path() / "comm"), names[task.path().filename()]);
	return names;
}

/* The library's threads that stay, once they were started; each has an eventfd. */
static unsigned lasting_threads()
{
	unsigned n = 0;

	for (const auto &[task, name] : names_of_threads())
		n += name == "usdma-progress" || name == "usdma-file" || name == "usdma-signal";
	return n;
}

static unsigned eventfds()
{
	unsigned n = 0;

	for (const auto &fd : std::filesystem::directory_iterator("/proc/self/fd")) {
		std::error_code closed;
		const std::string name = std::filesystem::read_symlink(fd, closed);

		n += name.find("[eventfd]") != name.npos;
	}
	return n;
}

/*
 * What is there of devices after all are closed. The program may have an eventfd of its own. A lost device is closed by
 * the progress thread once its server, which may be about to end, has ended.
 */
static bool leaves_descriptors()
{
	const core::stats_head *const page = page_of_library();

	if (!page || open_devices())
		return false;
	for (unsigned i = 0; eventfds() > lasting_threads() + 1; i++) {
		if (i == late_ms || !load_relaxed(&page->retained_devices))
			return true;
		usleep(1000);
	}
	return false;
}

/*
 * At the end of each program: no sleep of the library was ended by the check of every 50 ms, as the signal was lost;
 * none was for nothing; nothing runs any more; and closed devices have left no descriptors.
 */
extern "C" [[gnu::destructor]] void usdma_test_check_counts()
{
	if (own_pid != getpid())
		return;
	const wake_counts now = counted();
	const bool runs = !on_valgrind() && never_rests(), leaves = leaves_descriptors();

	if (now.lost == meant_to_be_lost && !now.idle && !runs && !leaves)
		return;
	printf("Bail out! signals lost: %llu, sleeps for nothing: %llu%s%s\n",
	       static_cast<unsigned long long>(now.lost), static_cast<unsigned long long>(now.idle),
	       runs ? ", a thread never sleeps" : "", leaves ? ", descriptors of closed devices" : "");
	fflush(stdout);
	_exit(1);
}

std::uint64_t seed()
{
	static const std::uint64_t value = [] {
		const char *given = getenv("USDMA_TEST_SEED");
		const std::uint64_t s = given ? strtoull(given, nullptr, 0) : std::random_device{}();

		fprintf(stderr, "# USDMA_TEST_SEED=%llu\n", static_cast<unsigned long long>(s));
		return s;
	}();

	return value;
}

std::mt19937_64 rng(std::uint64_t stream)
{
	std::seed_seq mix{std::uint32_t(seed()), std::uint32_t(seed() >> 32), std::uint32_t(stream),
			  std::uint32_t(stream >> 32)};

	return std::mt19937_64(mix);
}

void fill_random(void *buf, size_t len, std::mt19937_64 &gen)
{
	auto *p = static_cast<unsigned char *>(buf);

	for (; len >= 8; p += 8, len -= 8) {
		const std::uint64_t v = gen();

		memcpy(p, &v, 8);
	}
	for (; len; len--)
		*p++ = static_cast<unsigned char>(gen());
}

void poll_pause(unsigned step)
{
	if (step < 50)
		sched_yield();
	else
		usleep(100);
}

/* A number of at least 1; 1 if there is none. */
static unsigned factor(const char *variable)
{
	const char *s = getenv(variable);

	return s && atoi(s) > 0 ? unsigned(atoi(s)) : 1;
}

unsigned scale()
{
	return factor("USDMA_TEST_SCALE");
}

std::uint64_t patience_ms(std::uint64_t usual)
{
	return usual * factor("USDMA_TEST_PATIENCE") * (small() ? 100 : 1);
}

bool small()
{
	const char *s = getenv("USDMA_TEST_SMALL");

	return s && atoi(s) > 0;
}

unsigned open_fds()
{
	return unsigned(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

unsigned fds_without_rings()
{
	unsigned n = 0;

	for (const auto &fd : std::filesystem::directory_iterator("/proc/self/fd")) {
		std::error_code closed;

		n += std::filesystem::read_symlink(fd, closed) != "anon_inode:[io_uring]";
	}
	return n - lasting_threads();
}

unsigned fds_of(int fd)
{
	struct stat want, is;
	unsigned n = 0;

	if (fstat(fd, &want))
		return 0;
	for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd"))
		n += !fstat(atoi(entry.path().filename().c_str()), &is) && is.st_dev == want.st_dev &&
		     is.st_ino == want.st_ino;
	return n;
}

/* Until two listings are equal: if a thread exits while it is listed, those after it are missing. */
unsigned threads_named(const std::string &name)
{
	auto names = names_of_threads();

	for (auto again = names_of_threads(); again != names; again = names_of_threads())
		names = std::move(again);
	return unsigned(std::count_if(names.begin(), names.end(), [&name](const auto &t) { return t.second == name; }));
}

static void *reserve(size_t size, long prot)
{
	/* Not by mmap(): a sanitizer's records what it maps. */
	return reinterpret_cast<void *>(
		syscall(SYS_mmap, nullptr, size, prot, long(MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE), -1L, 0L));
}

bool limit_applies(int resource)
{
	int status = -1;
	const pid_t pid = fork();

	if (!pid) {
		const rlimit low = {1 << 20, 1 << 20};

		setrlimit(__rlimit_resource_t(resource), &low);
		_exit(reserve(size_t(1) << 30, PROT_READ | PROT_WRITE) != MAP_FAILED);
	}
	return waitpid(pid, &status, 0) == pid && !status;
}

static size_t resident_pages()
{
	size_t all = 0, resident = 0;

	std::ifstream("/proc/self/statm") >> all >> resident;
	return resident;
}

bool addresses_are_free()
{
	if (on_valgrind())
		return false;
	const size_t size = size_t(4) << 30, before = resident_pages();
	void *const p = reserve(size, PROT_NONE);
	const size_t after = resident_pages();

	syscall(SYS_munmap, p, size);
	/* A record of 8 bytes for each page is 8 MiB. */
	return after < before + (size_t(4) << 20) / size_t(getpagesize());
}

bool populate_is_checked()
{
	const size_t size = size_t(sysconf(_SC_PAGESIZE));
	void *const p = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const bool is_checked = madvise(p, size, MADV_POPULATE_READ) != 0;

	munmap(p, size);
	return is_checked;
}

} // namespace usdma::test
