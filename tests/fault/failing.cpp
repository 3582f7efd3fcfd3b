/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The linker replaces system calls of the library's static parts by the __wrap_ functions (meson.build).  This file
 * also replaces operators new and delete.
 */
#include "tests/fault/failing.h"

#include "driver/base/clock.h"
#include "driver/base/unique_fd.h"
#include "lib/core/queue/sleep.h"
#include "lib/core/memory/memory.h"
#include "lib/core/memory/retire.h"
#include "tests/support/level.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <malloc.h>
#include <new>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the calls that can be made to fail ------------------------------------------------------------------ */

namespace usdma::test::failing {

static constexpr const char *call_names[] = {
	"-",       "mmap",  "ftruncate",      "memfd_create",        "eventfd", "socketpair",        "recvmsg",
	"sendmsg", "fcntl", "pthread_create", "io_uring_queue_init", "new",     "new and later ones"};

static std::atomic<int> armed{0};
static std::atomic<long> countdown{0};
static std::atomic<bool> hit{false};

/* A thread creates its ring when it first sleeps; on a busy machine a scenario may never have to sleep. */
static void sleep_once()
{
	const unique_fd fd(eventfd(1, EFD_CLOEXEC));

	assert_true(fd.valid());
	assert_int_equal(core::eventfd_sleep(fd.get(), now_ns() + ns_per_s), 0);
}

void arm(call c, long n)
{
	hit = false;
	countdown = n;
	armed = int(c);
	if (c == call::uring)
		sleep_once();
}

void disarm()
{
	armed = 0;
}

/* True: this is the n-th call. */
static bool fails(call c)
{
	if (armed.load() != int(c) || countdown.fetch_sub(1) != 1)
		return false;
	hit = true;
	return true;
}

/* True: this is the n-th call or a later one. */
static bool out_of_memory()
{
	if (armed.load() != int(call::all_memory) || countdown.fetch_sub(1) > 1)
		return false;
	hit = true;
	return true;
}

} // namespace usdma::test::failing

using namespace usdma::test::failing;

static int refuse(int err)
{
	errno = err;
	return -1;
}

struct io_uring;

extern "C" {
#define WRAP(type, name, ...)                                                                                          \
	type __real_##name(__VA_ARGS__);                                                                               \
	type __wrap_##name(__VA_ARGS__);                                                                               \
	type __wrap_##name(__VA_ARGS__)

WRAP(void *, mmap64, void *at, size_t len, int prot, int flags, int fd, off64_t off)
{
	if (!fails(call::mmap))
		return __real_mmap64(at, len, prot, flags, fd, off);
	errno = ENOMEM;
	return MAP_FAILED;
}
WRAP(int, ftruncate64, int fd, off64_t size)
{
	return fails(call::ftruncate) ? refuse(ENOSPC) : __real_ftruncate64(fd, size);
}
WRAP(int, memfd_create, const char *name, unsigned flags)
{
	return fails(call::memfd) ? refuse(EMFILE) : __real_memfd_create(name, flags);
}
WRAP(int, eventfd, unsigned count, int flags)
{
	return fails(call::eventfd) ? refuse(EMFILE) : __real_eventfd(count, flags);
}
WRAP(int, socketpair, int domain, int type, int protocol, int *pair)
{
	return fails(call::socketpair) ? refuse(EMFILE) : __real_socketpair(domain, type, protocol, pair);
}
WRAP(ssize_t, recvmsg, int fd, msghdr *m, int flags)
{
	return fails(call::recvmsg) ? refuse(ENOBUFS) : __real_recvmsg(fd, m, flags);
}
WRAP(ssize_t, sendmsg, int fd, const msghdr *m, int flags)
{
	return fails(call::sendmsg) ? refuse(ENOBUFS) : __real_sendmsg(fd, m, flags);
}
WRAP(int, fcntl64, int fd, int cmd, long arg)
{
	return fails(call::fcntl) ? refuse(EMFILE) : __real_fcntl64(fd, cmd, arg);
}
WRAP(int, pthread_create, pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *arg)
{
	return fails(call::thread) ? EAGAIN : __real_pthread_create(t, a, f, arg);
}
WRAP(int, io_uring_queue_init, unsigned entries, io_uring *ring, unsigned flags)
{
	return fails(call::uring) ? -ENOMEM : __real_io_uring_queue_init(entries, ring, flags);
}
}

/*
 * Every form of new, in the library's own code and in the standard library's: a replacement in the program
 * applies to all (C++20 [new.delete.replacement]).
 */
static std::atomic<long> live_blocks{0};

static void *allocate(size_t n, size_t align)
{
	if (fails(call::memory) || out_of_memory())
		return nullptr;
	void *p = align ? aligned_alloc(align, (n + align - 1) / align * align) : malloc(n ? n : 1);
	live_blocks += p != nullptr;
	return p;
}

static void *allocate_or_throw(size_t n, size_t align)
{
	void *p = allocate(n, align);

	if (!p)
		throw std::bad_alloc();
	return p;
}

void *operator new(size_t n)
{
	return allocate_or_throw(n, 0);
}
void *operator new[](size_t n)
{
	return allocate_or_throw(n, 0);
}
void *operator new(size_t n, std::align_val_t a)
{
	return allocate_or_throw(n, size_t(a));
}
void *operator new[](size_t n, std::align_val_t a)
{
	return allocate_or_throw(n, size_t(a));
}
void *operator new(size_t n, const std::nothrow_t &) noexcept
{
	return allocate(n, 0);
}
void *operator new[](size_t n, const std::nothrow_t &) noexcept
{
	return allocate(n, 0);
}
void *operator new(size_t n, std::align_val_t a, const std::nothrow_t &) noexcept
{
	return allocate(n, size_t(a));
}
void *operator new[](size_t n, std::align_val_t a, const std::nothrow_t &) noexcept
{
	return allocate(n, size_t(a));
}

static void release(void *p)
{
	live_blocks -= p != nullptr;
	free(p);
}

void operator delete(void *p) noexcept
{
	release(p);
}
void operator delete[](void *p) noexcept
{
	release(p);
}
void operator delete(void *p, size_t) noexcept
{
	release(p);
}
void operator delete[](void *p, size_t) noexcept
{
	release(p);
}
void operator delete(void *p, std::align_val_t) noexcept
{
	release(p);
}
void operator delete[](void *p, std::align_val_t) noexcept
{
	release(p);
}
void operator delete(void *p, size_t, std::align_val_t) noexcept
{
	release(p);
}
void operator delete[](void *p, size_t, std::align_val_t) noexcept
{
	release(p);
}
/* Called if a constructor throws after a nothrow new. */
void operator delete(void *p, const std::nothrow_t &) noexcept
{
	release(p);
}
void operator delete[](void *p, const std::nothrow_t &) noexcept
{
	release(p);
}
void operator delete(void *p, std::align_val_t, const std::nothrow_t &) noexcept
{
	release(p);
}
void operator delete[](void *p, std::align_val_t, const std::nothrow_t &) noexcept
{
	release(p);
}

/* ---- leak checks --------------------------------------------------------------------------------------------- */

namespace usdma::test::failing {

static void check_leak(const test::level &before, call c, long n)
{
	const u64 end = now_ns() + 5 * ns_per_s;
	const char *leak;

	/* Memory that a lost device may still write to is retained until its server has ended, which is soon. */
	bool still_retained;
	do {
		core::devices_quiesce();
		core::memory_reclaim();
		still_retained = core::retired_get().devices;
		test::level now;
		now.maps = before.maps; /* one of the amounts below */
		leak = test::leak_report(before, now);
	} while (*leak && still_retained && now_ns() < end);
	if (*leak)
		print_error("%s, from %ld on: %s\n", call_names[int(c)], n, leak);
	assert_string_equal(leak, "");
}

/* Mappings, blocks of new, and the bytes in use by the C library. */
struct amounts {
	std::array<long, 3> of = {0, ::live_blocks, 0};

	amounts()
	{
		if (test::sanitized)
			return; /* its allocator creates mappings; the address sanitizer detects leaks itself */
		of[0] = test::level().maps;
		of[2] = long(mallinfo2().uordblks);
	}
};
static constexpr const char *amount_names[] = {"mappings", "blocks of memory", "bytes of memory"};

/* ---- runs of the scenario ------------------------------------------------------------------------------------ */

static scenario_fn scenario;

struct step {
	call c;
	long n;
	int err;
};

static void *step_main(void *arg)
{
	auto *s = static_cast<step *>(arg);

	s->err = scenario(s->c, s->n);
	return nullptr;
}

/* False: the scenario makes fewer such calls. */
static bool run_point(call c, long n, unsigned *errors)
{
	step s{c, n, 1};
	pthread_t thread;

	/* A thread creates its ring when it first sleeps (arm): each run needs a new thread. */
	if (c == call::uring) {
		assert_int_equal(pthread_create(&thread, nullptr, step_main, &s), 0);
		pthread_join(thread, nullptr);
	} else {
		step_main(&s);
	}
	*errors += s.err != 0;
	return hit;
}

static void must_work(call c, long n)
{
	const int err = scenario(call::none, 0);

	if (err)
		print_error("after %s %ld: %d\n", call_names[int(c)], n, err);
	assert_int_equal(err, 0);
}

/* Beyond the first 64, every fifth message and every third allocation; with USDMA_TEST_SCALE=2 every one. */
static long next_point(call c, long n)
{
	return n + (n < 64 || scale() > 1 ? 1 : c >= call::memory ? 3 : 5);
}

/* Consecutive points, which are checked for leaks together. */
struct points {
	long first, end; /* end: the next point */
	unsigned count = 0, errors = 0;
};

static constexpr unsigned points_per_check = 8;

/* Fewer than points_per_check: the scenario makes no more such calls. */
static points run_points(call c, long first)
{
	points p{first, first};

	for (; p.count < points_per_check && run_point(c, p.end, &p.errors); p.count++)
		p.end = next_point(c, p.end);
	return p;
}

/*
 * The capacity of containers stays, heaps and cached stacks of the C library vary, and so do threads: those of calls
 * end a second after the last call.  A leak is what grows with each failure for longer than that.  A minimum of rounds
 * is required, too, because on a busy machine a second may have only one or two.
 */
static void check_growth(call c, long n, amounts *most)
{
	const u64 end = now_ns() + 3 * ns_per_s;
	unsigned left = 20;
	amounts last;
	bool grows[] = {true, true, true};

	if (last.of[0] <= most->of[0] && last.of[1] <= most->of[1] && last.of[2] <= most->of[2])
		return;
	for (; (left || now_ns() < end) && (grows[0] || grows[1] || grows[2]); left -= left > 0) {
		run_points(c, n);
		must_work(c, n);
		const amounts now;
		for (int i = 0; i < 3; i++)
			grows[i] = grows[i] && now.of[i] > last.of[i];
		last = now;
	}
	for (int i = 0; i < 3; i++) {
		if (grows[i])
			print_error("%s from %ld on: %s grow with each failure\n", call_names[int(c)], n,
				    amount_names[i]);
		assert_false(grows[i]);
		most->of[i] = std::max(most->of[i], last.of[i]);
	}
}

static void sweep(call c)
{
	unsigned errors = 0, all = 0;

	sleep_once();
	must_work(c, 0);
	const test::level before;
	amounts most;
	for (points p{0, 1, points_per_check}; p.count == points_per_check && p.end < 4000;) {
		p = run_points(c, p.end);
		all += p.count;
		errors += p.errors;
		must_work(c, p.first);
		check_leak(before, c, p.first);
		check_growth(c, p.first, &most);
	}
	assert_true(all > 0);
	fprintf(stderr, "# %-20s %4u points, %4u errors reported, %u survived\n", call_names[int(c)], all, errors,
		all - errors);
}

static void test_sweep(void **state)
{
	sweep(*static_cast<const call *>(*state));
}

/* ---- the first run in a process ------------------------------------------------------------------------------ */

enum child_status : int { point_hit = 0, point_not_hit = 2 };

/* In a child: a failed assertion must end it instead of continuing with the next test. */
[[noreturn]] static void first_run(call c, long n)
{
	unsigned errors = 0;

	setenv("CMOCKA_TEST_ABORT", "1", 1);
	alarm(60); /* a call that hangs */
	const bool was_hit = run_point(c, n, &errors);
	must_work(c, n);
	_exit(was_hit ? point_hit : point_not_hit);
}

/* The first creation of what exists once in a process (settings, tables, threads, rings of waiters) fails. */
static void test_first_use(void **state)
{
	const call c = *static_cast<const call *>(*state);
	/* Every sixth allocation fails alone, every eighth with all later ones; the seed selects which. */
	const long step = c < call::memory || scale() > 1 ? 1 : c == call::memory ? 6 : 8;
	long n = 1 + long(seed() % std::uint64_t(step));

	for (int status = 0; n < 1000 && !status; n += step) {
		const pid_t child = fork();

		assert_true(child >= 0);
		if (!child)
			first_run(c, n);
		assert_int_equal(waitpid(child, &status, 0), child);
		if (status && !(WIFEXITED(status) && WEXITSTATUS(status) == point_not_hit)) {
			print_error("the first run in a process with %s %ld: status %x\n", call_names[int(c)], n,
				    unsigned(status));
			assert_true(false);
		}
	}
	const long count = (n - 1) / step - 1;
	assert_true(count > 0);
	fprintf(stderr, "# %-20s %4ld points in the first run of a process\n", call_names[int(c)], count);
}

std::vector<u8> random_bytes(size_t len, u64 stream)
{
	auto gen = test::rng(stream);
	std::vector<u8> out(len);

	test::fill_random(out.data(), len, gen);
	return out;
}

int main_with(const char *name, scenario_fn run)
{
	static constexpr call first_use_calls[] = {call::mmap,    call::ftruncate, call::memfd,
						   call::eventfd, call::fcntl,     call::thread,
						   call::uring,   call::memory,    call::all_memory};
	static call swept[int(call::count)];
	CMUnitTest tests[std::size(first_use_calls) + std::size(swept)];
	size_t n = 0;

	/* The children first: they are forked before this process uses the library. */
	for (const call &c : first_use_calls)
		tests[n++] = {call_names[int(c)], test_first_use, nullptr, nullptr, const_cast<call *>(&c)};
	for (int c = 1; c < int(call::count); c++) {
		swept[c] = call(c);
		tests[n++] = {call_names[c], test_sweep, nullptr, nullptr, &swept[c]};
	}
	test::seed(); /* printed once, not by each child */
	scenario = run;
	const char *const device = getenv("USDMA_TEST_DEVICE");
	setenv("USDMA_DEVICES", device ? device : "sim:mem=16M:engines=1:channels=4:spin=0", 1);
	setenv("USDMA_HANG_MS", "1000", 1);
	setenv("USDMA_WAIT", "interrupt", 1); /* each run sleeps, as a rule */
	setenv("USDMA_LOG", "none", 1);
	setenv("USDMA_TEST_HOST_ARENA", "1M", 1); /* small, so that leaked blocks become visible */
	return _cmocka_run_group_tests(name, tests, n, nullptr, nullptr);
}

} // namespace usdma::test::failing
