/* SPDX-License-Identifier: BSD-3-Clause */
/* Pinned memory and a software device's memory are in pages of 2 MiB, although shared memory gets none by itself. */
#include "driver/base/huge_pages.h"
#include "driver/base/memfd.h"
#include "lib/core/copy/copy.h"
#include "lib/core/memory/memory.h"
#include "lib/core/stream/stream.h"
#include "tests/support/core.h"

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <sys/mman.h>
#include <vector>

using namespace usdma;
using namespace usdma::core;

static device *dev;

/* KiB of the mapping at p that are in pages of 2 MiB. */
static u64 huge_kib(const void *p)
{
	const u64 at = reinterpret_cast<u64>(p);
	std::ifstream maps("/proc/self/smaps");
	unsigned long from, to, kib;
	bool here = false;
	u64 sum = 0;

	for (std::string line; std::getline(maps, line);) {
		if (sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2)
			here = at >= from && at < to;
		for (const char *field : {"ShmemPmdMapped: %lu", "Shared_Hugetlb: %lu", "Private_Hugetlb: %lu"})
			sum += here && sscanf(line.c_str(), field, &kib) == 1 ? kib : 0;
	}
	return sum;
}

/* Whether the kernel provides huge pages: since Linux 6.1, unless its memory is fragmented. An emulator does not. */
static bool has_huge_pages()
{
	static constexpr int collapse = 25;
	unique_fd fd;
	mapping m;

	ok(memfd_make("test", 4 * MiB, 0, &fd));
	ok(map_file_aligned(fd.get(), 4 * MiB, "the test", &m));
	m.data()[0] = m.data()[2 * MiB] = 1;
	return test::populate_is_checked() && madvise(m.data(), m.size(), collapse) == 0;
}

/* The kernel may have huge pages at one time and none at the next: some tries. */
static void expect_kib(u64 want, const std::function<u64()> &kib_of_try)
{
	u64 kib = 0;

	for (unsigned i = 0; i < 20 && kib < want; i++)
		kib = kib_of_try();
	if (kib < want && !has_huge_pages())
		print_message("# the kernel has run out of huge pages\n");
	else
		assert_int_equal(kib, want);
}

static void pinned_memory(void **)
{
	if (!has_huge_pages())
		skip();
	expect_kib(4 * KiB, [] {
		void *p;

		ok(host_alloc(4 * MiB, -1, &p));
		const u64 kib = huge_kib(p);
		ok(host_free(p));
		return kib;
	});
}

/* What `work` adds to the pages of 2 MiB of the device's memory, in KiB. */
template <class Work> static u64 added_by(const Work &work)
{
	const void *const mem = device_memory(dev).cpu;
	const u64 before = huge_kib(mem);

	work();
	return huge_kib(mem) - before;
}

/* Blocks that stay allocated: memory that was used before is in huge pages already. */
struct blocks {
	~blocks()
	{
		for (u64 at : all)
			ok(device_free(at));
	}
	u64 add(u64 size)
	{
		u64 d;

		ok(device_alloc(dev, size, page_policy::huge_only, &d));
		all.push_back(d);
		return d;
	}

	std::vector<u64> all;
};

static void allocated_device_memory(void **)
{
	if (!has_huge_pages())
		skip();
	blocks b;

	expect_kib(4 * KiB, [&] { return added_by([&] { b.add(4 * MiB); }); });
}

/* A block of this size gets its pages when they are accessed. */
static constexpr u64 large = 66 * MiB;

/* By the CPU, as the library does with pageable memory. */
static void device_memory_that_the_cpu_copies_to(void **)
{
	if (!has_huge_pages())
		skip();
	const std::vector<u8> from(MiB);
	blocks b;
	u64 at = b.add(large);

	expect_kib(2 * KiB, [&] {
		return added_by([&] {
			ok(copy_sync(dev, test::ptr(at), from.data(), from.size(), test::soon()));
			at += 2 * MiB;
		});
	});
}

static void device_memory_that_an_engine_copies_to(void **)
{
	if (!has_huge_pages())
		skip();
	blocks b;
	u64 at = b.add(large);
	stream *s;
	void *from;

	ok(stream_create(dev, {}, &s));
	ok(host_alloc(MiB, -1, &from));
	expect_kib(2 * KiB, [&] {
		return added_by([&] {
			ok(copy_async(s, test::ptr(at), from, MiB));
			ok(stream_sync(s, test::soon()));
			at += 2 * MiB;
		});
	});
	ok(stream_destroy(s));
	ok(host_free(from));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(pinned_memory),
		cmocka_unit_test(allocated_device_memory),
		cmocka_unit_test(device_memory_that_the_cpu_copies_to),
		cmocka_unit_test(device_memory_that_an_engine_copies_to),
	};

	setenv("USDMA_CONFIG", "/dev/null", 1);
	setenv("USDMA_TEST_HOST_ARENA", "1M", 1);
	unsetenv("USDMA_HUGE_PAGES");
	setenv("USDMA_DEVICES", "sim:mem=512M:engines=1", 1);
	const int failed = device_get(0, &dev);
	if (failed)
		return failed;
	const int status = cmocka_run_group_tests_name("huge-pages", tests, nullptr, nullptr);
	device_put(dev);
	return status;
}
