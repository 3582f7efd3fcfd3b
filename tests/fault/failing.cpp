/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The linker puts the wrap_ functions in the place of the system calls of the library's static parts (meson.build);
 * new and delete are replaced as the language lets a program do.
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
	"sendmsg", "fcntl", "pthread_create", "io_uring_queue_init", "new",     "new, from there on"};

static std::atomic<int> armed{0};
static std::atomic<long> countdown{0};
static std::atomic<bool> hit{false};

/* A thread creates its ring at its first sleep; on a busy machine a way may find its work done, and not sleep. */
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

/* True: this one is the n-th. */
static bool fails(call c)
{
	if (armed.load() != int(c) || countdown.fetch_sub(1) != 1)
		return false;
	hit = true;
	return true;
}

/* True: the n-th, or one after it. */
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
 * Every form of new, of the library's own code and of the standard library's within it: a replacement
 * in the program stands for all (C++20 [new.delete.replacement]).
 */
static std::atomic<long> blocks{0};

static void *take(size_t n, size_t align)
{
	if (fails(call::memory) || out_of_memory())
		return nullptr;
	void *p = align ? aligned_alloc(align, (n + align - 1) / align * align) : malloc(n ? n : 1);
	blocks += p != nullptr;
	return p;
}

static void *take_or_throw(size_t n, size_t align)
{
	void *p = take(n, align);

	if (!p)
		throw std::bad_alloc();
	return p;
}

void *operator new(size_t n)
{
	return take_or_throw(n, 0);
}
void *operator new[](size_t n)
{
	return take_or_throw(n, 0);
}
void *operator new(size_t n, std::align_val_t a)
{
	return take_or_throw(n, size_t(a));
}
void *operator new[](size_t n, std::align_val_t a)
{
	return take_or_throw(n, size_t(a));
}
void *operator new(size_t n, const std::nothrow_t &) noexcept
{
	return take(n, 0);
}
void *operator new[](size_t n, const std::nothrow_t &) noexcept
{
	return take(n, 0);
}
void *operator new(size_t n, std::align_val_t a, const std::nothrow_t &) noexcept
{
	return take(n, size_t(a));
}
void *operator new[](size_t n, std::align_val_t a, const std::nothrow_t &) noexcept
{
	return take(n, size_t(a));
}

static void give(void *p)
{
	blocks -= p != nullptr;
	free(p);
}

void operator delete(void *p) noexcept
{
	give(p);
}
void operator delete[](void *p) noexcept
{
	give(p);
}
void operator delete(void *p, size_t) noexcept
{
	give(p);
}
void operator delete[](void *p, size_t) noexcept
{
	give(p);
}
void operator delete(void *p, std::align_val_t) noexcept
{
	give(p);
}
void operator delete[](void *p, std::align_val_t) noexcept
{
	give(p);
}
void operator delete(void *p, size_t, std::align_val_t) noexcept
{
	give(p);
}
void operator delete[](void *p, size_t, std::align_val_t) noexcept
{
	give(p);
}
/* Of a constructor that threw behind a new that does not. */
void operator delete(void *p, const std::nothrow_t &) noexcept
{
	give(p);
}
void operator delete[](void *p, const std::nothrow_t &) noexcept
{
	give(p);
}
void operator delete(void *p, std::align_val_t, const std::nothrow_t &) noexcept
{
	give(p);
}
void operator delete[](void *p, std::align_val_t, const std::nothrow_t &) noexcept
{
	give(p);
}

/* ---- what must not stay -------------------------------------------------------------------------------------- */

namespace usdma::test::failing {

static void check_leak(const test::level &before, call c, long n)
{
	const u64 end = now_ns() + 5 * ns_per_s;
	const char *stays;

	/* What a lost device may still write to is kept until its server has ended, which is soon. */
	bool kept;
	do {
		core::devices_quiesce();
		core::memory_reclaim();
		kept = core::retired_get().devices;
		test::level now;
		now.maps = before.maps; /* one of the amounts below */
		stays = test::what_stays(before, now);
	} while (*stays && kept && now_ns() < end);
	if (*stays)
		print_error("%s, from %ld on: %s\n", call_names[int(c)], n, stays);
	assert_string_equal(stays, "");
}

/* Mappings, blocks of new that are in use, and bytes that the C library says are. */
struct amounts {
	std::array<long, 3> of = {0, ::blocks, 0};

	amounts()
	{
		if (test::sanitized)
			return; /* its own allocator maps as it goes; the address sanitizer looks for leaks itself */
		of[0] = test::level().maps;
		of[2] = long(mallinfo2().uordblks);
	}
};
static constexpr const char *amount_names[] = {"mappings", "blocks of memory", "bytes of memory"};

/* ---- going the way ------------------------------------------------------------------------------------------- */

static whole_way the_way;

struct step {
	call c;
	long n;
	int err;
};

static void *step_main(void *arg)
{
	auto *s = static_cast<step *>(arg);

	s->err = the_way(s->c, s->n);
	return nullptr;
}

/* False: the way makes fewer such calls. */
static bool one(call c, long n, unsigned *errors)
{
	step s{c, n, 1};
	pthread_t thread;

	/* A thread creates its ring at its first sleep (arm): each way runs in a new thread. */
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
	const int err = the_way(call::none, 0);

	if (err)
		print_error("after %s %ld: %d\n", call_names[int(c)], n, err);
	assert_int_equal(err, 0);
}

/* Beyond the first 64, every fifth message and every third allocation; with USDMA_TEST_SCALE=2 every one. */
static long after(call c, long n)
{
	return n + (n < 64 || scale() > 1 ? 1 : c >= call::memory ? 3 : 5);
}

/* Points that follow one another; what they leave behind is looked at once. */
struct points {
	long first, end; /* end: the next one's */
	unsigned count = 0, errors = 0;
};

static constexpr unsigned at_a_time = 8;

/* Fewer than at_a_time: the way makes no more such calls. */
static points some_points(call c, long first)
{
	points p{first, first};

	for (; p.count < at_a_time && one(c, p.end, &p.errors); p.count++)
		p.end = after(c, p.end);
	return p;
}

/*
 * Lists keep the room that they have once grown to, heaps and cached stacks of the C library come and go, and so do
 * threads, those of calls a second after their last one: lost is what grows with each failure for longer than that.
 * Rounds are counted too: on a busy machine a second may be one or two of them, and one block more is no trend.
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
		some_points(c, n);
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
	for (points p{0, 1, at_a_time}; p.count == at_a_time && p.end < 4000;) {
		p = some_points(c, p.end);
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

/* ---- the first way of a process ------------------------------------------------------------------------------ */

enum child_end : int { hit_well = 0, not_hit = 2 };

/* In a child, in which no test of cmocka's may be gone on with. */
[[noreturn]] static void first_way(call c, long n)
{
	unsigned errors = 0;

	setenv("CMOCKA_TEST_ABORT", "1", 1);
	alarm(60); /* a call that hangs */
	const bool was_hit = one(c, n, &errors);
	must_work(c, n);
	_exit(was_hit ? hit_well : not_hit);
}

/* What is made once in a process (settings, tables, threads, rings of waiting threads) fails at its first making. */
static void test_first_use(void **state)
{
	const call c = *static_cast<const call *>(*state);
	/* Of hundreds of allocations one in six fails alone, one in eight with all that follow; others in each run. */
	const long step = c < call::memory || scale() > 1 ? 1 : c == call::memory ? 6 : 8;
	long n = 1 + long(seed() % std::uint64_t(step));

	for (int status = 0; n < 1000 && !status; n += step) {
		const pid_t child = fork();

		assert_true(child >= 0);
		if (!child)
			first_way(c, n);
		assert_int_equal(waitpid(child, &status, 0), child);
		if (status && !(WIFEXITED(status) && WEXITSTATUS(status) == not_hit)) {
			print_error("the first way of a process with %s %ld: status %x\n", call_names[int(c)], n,
				    unsigned(status));
			assert_true(false);
		}
	}
	const long count = (n - 1) / step - 1;
	assert_true(count > 0);
	fprintf(stderr, "# %-20s %4ld points in the first way of a process\n", call_names[int(c)], count);
}

std::vector<u8> random_bytes(size_t len, u64 stream)
{
	auto gen = test::rng(stream);
	std::vector<u8> out(len);

	test::fill_random(out.data(), len, gen);
	return out;
}

int main_with(const char *name, whole_way way)
{
	static constexpr call firsts[] = {call::mmap,   call::ftruncate, call::memfd,  call::eventfd,   call::fcntl,
					  call::thread, call::uring,     call::memory, call::all_memory};
	static call swept[int(call::count)];
	CMUnitTest tests[std::size(firsts) + std::size(swept)];
	size_t n = 0;

	/* The children first: they are made before this process uses the library. */
	for (const call &c : firsts)
		tests[n++] = {call_names[int(c)], test_first_use, nullptr, nullptr, const_cast<call *>(&c)};
	for (int c = 1; c < int(call::count); c++) {
		swept[c] = call(c);
		tests[n++] = {call_names[c], test_sweep, nullptr, nullptr, &swept[c]};
	}
	test::seed(); /* said once, not by each child */
	the_way = way;
	setenv("USDMA_DEVICES", "sim:mem=16M:engines=1:channels=4:spin=0", 1);
	setenv("USDMA_HANG_MS", "1000", 1);
	setenv("USDMA_WAIT", "interrupt", 1); /* each way sleeps, as a rule */
	setenv("USDMA_LOG", "none", 1);
	setenv("USDMA_HOST_ARENA", "1M", 1); /* small: blocks that stay show soon as memory that stays */
	return _cmocka_run_group_tests(name, tests, n, nullptr, nullptr);
}

} // namespace usdma::test::failing
