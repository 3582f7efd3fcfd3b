/* SPDX-License-Identifier: BSD-3-Clause */
/* Address ranges for device pointers, in processes that have mapped or limited the address space. */
#include "tests/support/test.h"

#include "driver/base/error.h"
#include "lib/core/memory/window.h"
#include "tests/support/level.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace usdma;
using namespace usdma::core;

static constexpr u64 TiB = 1024 * GiB;

static void *take(u64 at, u64 size)
{
	return mmap(reinterpret_cast<void *>(at), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static bool is_free(u64 at, u64 size)
{
	void *p = take(at, size);

	if (p != MAP_FAILED)
		munmap(p, size);
	return p == reinterpret_cast<void *>(at);
}

/* Tests in child processes, which may exhaust their address space: prints a failed condition and returns 1. */
#define EXPECT(x)                                                                                                      \
	do {                                                                                                           \
		if (!(x)) {                                                                                            \
			fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #x, error_text());                      \
			return 1;                                                                                      \
		}                                                                                                      \
	} while (0)

static int status_of(int (*run)())
{
	int status = 0;
	const pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(run());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void in_child(int (*run)())
{
	assert_int_equal(status_of(run), 0);
}

static void slots_and_ranges(void **)
{
	u64 slot[2], range, same, none;

	assert_int_equal(window_take_slot(1, 3 * GiB + 512, &slot[0]), 0);
	assert_int_equal(window_take_slot(2, 5000, &slot[1]), 0);
	assert_int_equal(slot[0] % GiB, 0);
	assert_int_equal(window_take(4 * MiB, 64 * MiB, 0, &range), 0);
	assert_int_equal(range % (64 * MiB), 0);
	for (u64 at : {slot[0], slot[0] + 3 * GiB + 511, slot[1] + 4999, range, range + 4 * MiB - 1}) {
		assert_true(in_window(at));
		assert_true(window_overlaps(at, 1));
		assert_false(is_free(align_down(at, u64(4096)), 4096));
	}
	assert_true(window_overlaps(range - 1, 2));
	assert_false(window_overlaps(range - 1, 1));
	assert_int_equal(window_take(2 * MiB, 2 * MiB, range, &none), -EEXIST);
	assert_int_equal(window_take(2 * MiB, 2 * MiB, range + 1, &none), -EEXIST);
	window_give(range);
	assert_false(window_overlaps(range, 4 * MiB));
	/* The requested address, once it is free. */
	assert_int_equal(window_take(2 * MiB, 2 * MiB, range, &same), 0);
	assert_int_equal(same, range);
	window_give(same);
	window_give(slot[0]);
	window_give(slot[1]);
	assert_true(is_free(slot[1], 4096));
}

/* Larger than the window, if the process has the addresses: a sanitizer leaves fewer. */
static void larger_than_the_window(void **)
{
	u64 slot, base;

	if (!test::addresses_are_free())
		skip();
	assert_int_equal(window_take_slot(0, GiB, &slot), 0);
	for (u64 size = 4 * TiB; size <= 32 * TiB; size *= 2) {
		void *plain = take(0, size);

		if (plain == MAP_FAILED) {
			assert_int_equal(window_take(size, 2 * MiB, 0, &base), -ENOMEM);
			continue;
		}
		munmap(plain, size);
		assert_int_equal(window_take(size, GiB, 0, &base), 0);
		assert_int_equal(base % GiB, 0);
		for (u64 at : {base, base + size / 3, base + size - 1}) {
			assert_true(in_window(at) && window_overlaps(at, 1));
			assert_false(is_free(align_down(at, u64(4096)), 4096));
		}
		assert_true(in_window(slot));
		window_give(base);
		assert_false(window_overlaps(base, size));
		assert_true(is_free(base, size));
	}
	assert_int_equal(window_take(u64(1) << 48, 2 * MiB, 0, &base), -ENOMEM);
	window_give(slot);
}

static void host_memory_is_outside(void **)
{
	int on_stack;
	void *heap = malloc(64), *p = take(0, 4096);
	u64 base;

	assert_int_equal(window_take_slot(0, GiB, &base), 0);
	for (const void *host : {static_cast<const void *>(&on_stack), static_cast<const void *>(heap),
				 static_cast<const void *>(p), reinterpret_cast<const void *>(&host_memory_is_outside)})
		assert_false(in_window(reinterpret_cast<u64>(host)));
	window_give(base);
	munmap(p, 4096);
	free(heap);
}

/* ZGC and AddressSanitizer use the first base addresses: the next ones are tried, and then any address. */
static int bases_are_taken()
{
	auto gen = test::rng();
	u64 base, range;

	for (u64 start = window_base; start < window_base + 4 * window_size; start += window_size) {
		EXPECT(take(start, GiB + gen() % GiB) != MAP_FAILED);
		EXPECT(!window_take_slot(0, GiB, &base) && base != start);
		EXPECT(in_window(base) && in_window(base + GiB - 1) && !is_free(base, GiB));
		window_give(base);
	}
	for (u64 at = window_base; at < window_base + 4 * window_size; at += TiB)
		take(at, TiB);
	EXPECT(!window_take_slot(3, 2 * GiB, &base) && base % GiB == 0);
	EXPECT(!window_take(2 * MiB, 4 * MiB, 0, &range) && range % (4 * MiB) == 0);
	EXPECT(in_window(base) && in_window(base + 2 * GiB - 1) && in_window(range));
	EXPECT(in_window(base + 64 * GiB)); /* in the slot, beyond the memory */
	/* The program's own mappings inside the window are not device memory. */
	EXPECT(!in_window(window_base + 4096) && !in_window(window_base + 4 * TiB));
	window_give(base);
	EXPECT(!window_overlaps(base, 2 * GiB));
	return 0;
}

static int limit_on_address_space()
{
	const rlimit as = {8 * GiB, 8 * GiB};
	u64 base;

	EXPECT(!setrlimit(RLIMIT_AS, &as));
	EXPECT(!window_take_slot(0, GiB, &base));
	EXPECT(window_take_slot(1, 6 * GiB, &base) == -ENOMEM);
	EXPECT(strstr(error_text(), "RLIMIT_AS") && strstr(error_text(), "8589934592"));
	EXPECT(window_take(16 * GiB, 2 * MiB, 0, &base) == -ENOMEM && strstr(error_text(), "RLIMIT_AS"));
	return 0;
}

static int everything_is_taken()
{
	u64 base;

	for (u64 size = 64 * TiB; size >= GiB; size /= 2)
		while (take(0, size) != MAP_FAILED)
			;
	EXPECT(window_take_slot(0, 4 * GiB, &base) == -ENOMEM);
	EXPECT(strstr(error_text(), "the largest gap has") && strstr(error_text(), "---p"));
	EXPECT(!window_take_slot(0, 64 * MiB, &base));
	return 0;
}

/* An emulator reports the limit on locked memory as ENOMEM, which the window cannot recognize. */
static constexpr int not_reported = 77;

/* mlockall(2) and RLIMIT_MEMLOCK do not apply to reservations. */
static int all_is_locked()
{
	const rlimit little = {8 * MiB, 8 * MiB};
	u64 base, range;

	EXPECT(geteuid() != 0 || !setuid(65534));
	EXPECT(!setrlimit(RLIMIT_MEMLOCK, &little) && !mlockall(MCL_FUTURE));
	EXPECT(take(0, GiB) == MAP_FAILED);
	if (errno == ENOMEM)
		return not_reported;
	EXPECT(errno == EAGAIN);
	EXPECT(!window_take_slot(0, GiB, &base) && in_window(base));
	EXPECT(!window_take(128 * MiB, 2 * MiB, 0, &range) && in_window(range));
	EXPECT(take(0, 4 * MiB) != MAP_FAILED);
	return 0;
}

static void window_bases_in_use(void **)
{
	if (!test::addresses_are_free())
		skip(); /* it maps terabytes */
	in_child(bases_are_taken);
}

static void address_space_exhausted(void **)
{
	if (test::sanitized || !test::addresses_are_free())
		skip(); /* the sanitizer needs addresses itself */
	in_child(everything_is_taken);
}

static void limited_address_space(void **)
{
	if (test::sanitized || !test::limit_applies(RLIMIT_AS))
		skip(); /* a sanitizer's addresses exceed the limit */
	in_child(limit_on_address_space);
}

static void locked_address_space(void **)
{
	if (test::sanitized)
		skip(); /* mlockall does nothing there */
	const int status = status_of(all_is_locked);
	if (WIFEXITED(status) && WEXITSTATUS(status) == not_reported)
		skip();
	assert_int_equal(status, 0);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(slots_and_ranges),        cmocka_unit_test(larger_than_the_window),
		cmocka_unit_test(host_memory_is_outside),  cmocka_unit_test(window_bases_in_use),
		cmocka_unit_test(address_space_exhausted), cmocka_unit_test(limited_address_space),
		cmocka_unit_test(locked_address_space),
	};

	return cmocka_run_group_tests_name("window", tests, nullptr, nullptr);
}
