/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/support/level.h"

#include "tests/support/test.h"

#include <cstdio>
#include <cstring>

namespace usdma::test {

/* A sanitizer's allocator creates mappings at any time; the address sanitizer detects leaks itself. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef SANITIZED
const bool sanitized = true;
static constexpr long map_slack = 4000;
#else
const bool sanitized = false;
static constexpr long map_slack = 16;
#endif

/* Memory for DMA is not inherited by children (MADV_DONTFORK): "dc" in VmFlags (proc(5)). */
level::level() : fds(open_fds()), files(0), pinned(0), maps(0)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long from, to;
	char line[512];
	long bytes = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
			bytes = long(to - from);
			files += strstr(line, "memfd:") ? bytes : 0;
			++maps;
		} else if (!strncmp(line, "VmFlags:", 8)) {
			pinned += strstr(line, " dc") ? bytes : 0;
		}
	}
	fclose(f);
}

const char *leak_report(const level &before, const level &now)
{
	static thread_local char text[256];

	if (now.fds == before.fds && now.files == before.files && now.pinned == before.pinned &&
	    now.maps <= before.maps + map_slack)
		return "";
	snprintf(text, sizeof(text),
		 "descriptors %ld, were %ld; bytes of mapped files %ld, were %ld; bytes pinned %ld, were %ld; "
		 "mappings %ld, were %ld",
		 now.fds, before.fds, now.files, before.files, now.pinned, before.pinned, now.maps, before.maps);
	return text;
}

} // namespace usdma::test
