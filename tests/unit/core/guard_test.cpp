/* SPDX-License-Identifier: BSD-3-Clause */
/* Guarded pages: memory that cannot be protected, the program's signal handlers, fork(). */
#include "tests/support/test.h"

#include "driver/base/page_guard.h"
#include "driver/base/valgrind.h"
#include "lib/core/check/guarded_pages.h"

#include <csignal>
#include <cstdio>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace usdma;
using namespace usdma::core;

static constexpr u64 size = 4096;

static u8 *make_pages(u64 n)
{
	void *const p = mmap(nullptr, n * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return static_cast<u8 *>(p);
}

static guarded_range range_of(const u8 *p, u64 n)
{
	return {reinterpret_cast<u64>(p), reinterpret_cast<u64>(p), n * size};
}

static void store(u8 *p)
{
	*static_cast<volatile u8 *>(p) = 1;
}

static u64 faults()
{
	u64 n = 0;

	for (page_fault f; page_fault_take(&f); n++)
		assert_true(f.stack[0]);
	return n;
}

/* An access is recorded once; the rest of the range remains guarded. */
static void an_access_is_recorded(void **)
{
	u8 *const p = make_pages(3);
	page_fault f;

	assert_true(pages_guard(range_of(p, 3), false, 7));
	store(p + size + 5);
	store(p + size + 6);
	assert_true(page_fault_take(&f));
	assert_true(f.writes && !f.operation_writes && f.operation == 7);
	assert_non_null(f.stack[1]);
	assert_int_equal(f.address, reinterpret_cast<u64>(p) + size + 5);
	assert_int_equal(faults(), 0);
	store(p);
	assert_int_equal(faults(), 1);
	pages_release(range_of(p, 3), false);
	store(p + 2 * size);
	assert_int_equal(faults(), 0);
	pages_forget(range_of(p, 3));
}

/* A range with a hole is not guarded; an earlier guard of a part of it remains. */
static void a_hole_is_not_guarded(void **)
{
	u8 *const p = make_pages(8);
	const u64 before = pages_unguarded();

	assert_true(pages_guard(range_of(p, 2), false, 1));
	assert_int_equal(munmap(p + 4 * size, size), 0);
	assert_false(pages_guard(range_of(p, 8), true, 2));
	assert_int_equal(pages_unguarded() - before, 8);
	for (const u64 i : {2, 3, 5, 6, 7})
		store(p + i * size);
	assert_int_equal(faults(), 0);
	store(p + size);
	assert_int_equal(faults(), 1);
	pages_forget(range_of(p, 8));
}

/* Each separate guarded page takes two mappings; some must be left for the program. */
static void mappings_are_bounded(void **)
{
	FILE *const file = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned long most;
	u64 n = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu", &most), 1);
	fclose(file);
	if (most > 1 << 17 || on_valgrind()) /* valgrind limits mappings itself */
		skip();
	u8 *const p = make_pages(most);
	while (n < most / 2 && pages_guard(range_of(p + 2 * n * size, 1), true, 1))
		n++;
	assert_int_equal(n, most / 4);
	store(p + 2 * n * size);
	assert_int_equal(faults(), 0);
	for (u64 i = 0; i < n; i++)
		pages_release(range_of(p + 2 * i * size, 1), true);
	assert_true(pages_guard(range_of(p, 1), true, 1));
	pages_forget(range_of(p, most));
	assert_int_equal(munmap(p, most * size), 0);
}

static struct sigaction inner;
static u8 *opened;
static unsigned seen;

static void open_later(int sig, siginfo_t *info, void *context)
{
	if (++seen == 3)
		mprotect(opened, size, PROT_READ | PROT_WRITE);
	inner.sa_sigaction(sig, info, context);
}

/* A thread that faulted before pages_forget() retries its access. */
static void a_late_fault_is_retried(void **)
{
	struct sigaction own = {};

	opened = make_pages(1);
	assert_true(pages_guard(range_of(opened, 1), true, 1));
	pages_forget(range_of(opened, 1));
	mprotect(opened, size, PROT_NONE);
	own.sa_sigaction = open_later;
	own.sa_flags = SA_SIGINFO;
	assert_int_equal(sigaction(SIGSEGV, &own, &inner), 0);
	store(opened);
	assert_int_equal(sigaction(SIGSEGV, &inner, nullptr), 0);
	assert_int_equal(seen, 3);
	assert_int_equal(faults(), 0);
	/* The number of retries is limited. */
	mprotect(opened, size, PROT_NONE);
	const void *bad;
	assert_false(page_guarded(
		{opened, 1}, {}, [] { store(opened); }, &bad));
	assert_ptr_equal(bad, opened);
}

static u8 *fork_page;

static void store_at_fork()
{
	if (fork_page)
		store(fork_page);
}

/* The program's handlers of pthread_atfork() run while the table is locked. */
static void handlers_of_fork_may_fault(void **)
{
	u8 *const p = make_pages(3);
	int status;

	assert_true(pages_guard(range_of(p, 3), true, 1));
	fork_page = p + size;
	const pid_t child = fork();
	if (!child)
		_exit(0);
	fork_page = nullptr;
	assert_true(child > 0 && waitpid(child, &status, 0) == child && !status);
	assert_int_equal(faults(), 1);
	pages_forget(range_of(p, 3));
}

/* With a small alternate stack only the faulting instruction is recorded. */
static void a_small_stack_suffices(void **)
{
	u8 *const p = make_pages(1);
	static u8 small[16 << 10];
	const stack_t to = {small, 0, sizeof(small)};
	stack_t before;
	page_fault f;

	assert_true(pages_guard(range_of(p, 1), true, 1));
	assert_int_equal(sigaltstack(&to, &before), 0);
	store(p);
	assert_int_equal(sigaltstack(&before, nullptr), 0);
	assert_true(page_fault_take(&f));
	assert_non_null(f.stack[0]);
	assert_null(f.stack[1]);
	pages_forget(range_of(p, 1));
}

static void program_handler(int, siginfo_t *, void *)
{
	_exit(3);
}

/* If the program replaces the handler, guards are refused.  Must be the last test: cmocka replaces it for each one. */
static void a_replaced_handler_guards_nothing(void **)
{
	u8 *const p = make_pages(1);
	struct sigaction own = {}, first;
	unsigned n = 0;

	own.sa_sigaction = program_handler;
	own.sa_flags = SA_SIGINFO;
	assert_true(pages_guard(range_of(p, 1), true, 1));
	pages_release(range_of(p, 1), true);
	assert_int_equal(sigaction(SIGSEGV, nullptr, &first), 0);
	while (n < 20 && pages_guard(range_of(p, 1), true, 1)) {
		pages_release(range_of(p, 1), true);
		assert_int_equal(sigaction(SIGSEGV, &own, nullptr), 0);
		n++;
	}
	assert_in_range(n, 1, 8);
	store(p);
	assert_int_equal(sigaction(SIGSEGV, &first, nullptr), 0);
	assert_true(pages_guard(range_of(p, 1), true, 1));
	pages_forget(range_of(p, 1));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(an_access_is_recorded),
		cmocka_unit_test(a_hole_is_not_guarded),
		cmocka_unit_test(mappings_are_bounded),
		cmocka_unit_test(a_late_fault_is_retried),
		cmocka_unit_test(handlers_of_fork_may_fault),
		cmocka_unit_test(a_small_stack_suffices),
		cmocka_unit_test(a_replaced_handler_guards_nothing),
	};

	/* Before the library registers its own handlers, which then run before and after these. */
	if (pthread_atfork(store_at_fork, store_at_fork, store_at_fork))
		return 1;
	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
