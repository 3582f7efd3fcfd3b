/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/support/soak.h"

#include "driver/base/clock.h"
#include "tests/support/test.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>

namespace usdma::test {

/* Allocators' caches, and pages that are first touched late; a leak in every operation is many times as much. */
static constexpr u64 slack_kib = 8 * 1024, slack_maps = 32;

static u64 mappings()
{
	FILE *f = fopen("/proc/self/maps", "re");
	u64 n = 0;

	if (!f)
		return 0;
	for (int c = fgetc(f); c != EOF; c = fgetc(f))
		n += c == '\n';
	fclose(f);
	return n;
}

/* Not statm, whose sums lack what each CPU has not added yet. */
static u64 resident_kib()
{
	FILE *f = fopen("/proc/self/smaps_rollup", "re");
	u64 kib = 0;
	char line[256];

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f) && sscanf(line, "Rss: %lu", &kib) != 1)
		;
	fclose(f);
	return kib;
}

resources resources_now()
{
	resources r;

	r.fds = open_fds();
	r.threads = u64(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
	r.maps = mappings();
	r.rss_kib = resident_kib();
	return r;
}

static u64 seconds()
{
	const char *s = getenv("USDMA_TEST_SECONDS");

	return s ? strtoull(s, nullptr, 10) : 0;
}

bool soak::wanted()
{
	return seconds() > 0;
}

soak::soak(const char *load) : name(load), began(now_ns()), length(seconds() * ns_per_s) {}

u64 soak::elapsed_ns() const
{
	return now_ns() - began;
}

bool soak::over(u64 operations)
{
	if (!warm && elapsed_ns() > length / 4 && operations) {
		first = resources_now();
		warm = true;
	}
	return warm && elapsed_ns() >= length;
}

void soak::finish(u64 operations)
{
	const resources last = resources_now();

	fprintf(stderr, "# soak %s: operations %lu rss_kib %lu %lu fds %lu %lu maps %lu %lu threads %lu %lu\n", name,
		operations, first.rss_kib, last.rss_kib, first.fds, last.fds, first.maps, last.maps, first.threads,
		last.threads);
	assert_true(warm && operations > 0);
	assert_true(first.rss_kib > 0 && first.fds > 0);
	assert_true(last.rss_kib <= first.rss_kib + slack_kib);
	assert_true(last.fds <= first.fds);
	assert_true(last.threads <= first.threads);
	assert_true(last.maps <= first.maps + slack_maps);
}

} // namespace usdma::test
