/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The n-th call of each kind fails, for every n that opening, pinning,
 * registering, streaming, copying and closing reaches: the caller hears a clear
 * error (or the library did without), no descriptor and no mapping stays, and the
 * same process then does the whole way well.  The linker puts wrap_ functions in
 * the place of the system calls of the library's static parts (meson.build).
 */
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "lib/core/copy.h"
#include "lib/core/event.h"
#include "tests/support/level.h"
#include "tests/support/test.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <pthread.h>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace usdma;
using namespace usdma::core;

/* ---- the calls that can be made to fail ------------------------------------------------------------------ */

enum class call { none, mmap, ftruncate, memfd, eventfd, socketpair, recvmsg, sendmsg, fcntl, thread, uring, memory, all_memory, count };
static constexpr const char *call_names[] = {"-", "mmap", "ftruncate", "memfd_create", "eventfd", "socketpair", "recvmsg",
					     "sendmsg", "fcntl", "pthread_create", "io_uring_queue_init", "new", "new, from there on"};

static std::atomic<int> armed{0};
static std::atomic<long> countdown{0};
static std::atomic<bool> hit{false};

static void arm(call c, long n)
{
	hit = false;
	countdown = n;
	armed = int(c);
}

static void disarm()
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
static void *take(size_t n, size_t align)
{
	if (fails(call::memory) || out_of_memory())
		return nullptr;
	return align ? aligned_alloc(align, (n + align - 1) / align * align) : malloc(n ? n : 1);
}

static void *take_or_throw(size_t n, size_t align)
{
	void *p = take(n, align);

	if (!p)
		throw std::bad_alloc();
	return p;
}

void *operator new(size_t n) { return take_or_throw(n, 0); }
void *operator new[](size_t n) { return take_or_throw(n, 0); }
void *operator new(size_t n, std::align_val_t a) { return take_or_throw(n, size_t(a)); }
void *operator new[](size_t n, std::align_val_t a) { return take_or_throw(n, size_t(a)); }
void *operator new(size_t n, const std::nothrow_t &) noexcept { return take(n, 0); }
void *operator new[](size_t n, const std::nothrow_t &) noexcept { return take(n, 0); }
void *operator new(size_t n, std::align_val_t a, const std::nothrow_t &) noexcept { return take(n, size_t(a)); }
void *operator new[](size_t n, std::align_val_t a, const std::nothrow_t &) noexcept { return take(n, size_t(a)); }
void operator delete(void *p) noexcept { free(p); }
void operator delete[](void *p) noexcept { free(p); }
void operator delete(void *p, size_t) noexcept { free(p); }
void operator delete[](void *p, size_t) noexcept { free(p); }
void operator delete(void *p, std::align_val_t) noexcept { free(p); }
void operator delete[](void *p, std::align_val_t) noexcept { free(p); }
void operator delete(void *p, size_t, std::align_val_t) noexcept { free(p); }
void operator delete[](void *p, size_t, std::align_val_t) noexcept { free(p); }

/* ---- the way ----------------------------------------------------------------------------------------------- */

static constexpr u64 size = 256 * KiB;
static constexpr u64 longest = 20000; /* ms */

struct things {
	device *dev = nullptr;
	stream *s = nullptr;
	event *e = nullptr;
	void *pinned = nullptr;
	u64 mem = 0;
	bool registered = false;
	u8 *own = static_cast<u8 *>(aligned_alloc(4096, size));
	u8 *plain = static_cast<u8 *>(malloc(size));

	~things()
	{
		free(own);
		free(plain);
	}
};

static void *ptr(u64 a)
{
	return reinterpret_cast<void *>(a);
}

static int set_up(things *t)
{
	stream_options opt;
	int err = device_get(0, &t->dev);

	opt.wait = int(wait_mode::interrupt);
	if (!err)
		err = stream_create(t->dev, opt, &t->s);
	if (!err)
		err = host_alloc(size, -1, &t->pinned);
	if (!err)
		err = host_register(t->own, size, 0);
	t->registered = !err;
	if (!err)
		err = event_create(t->dev, event_timing, &t->e);
	if (!err)
		err = device_alloc(t->dev, size, page_policy::normal_only, &t->mem);
	return err;
}

static const u64 open_gate = 1;

static void no_call(void *)
{
}

/* own → device → pinned, waiting asleep; then pageable → device → own. */
static int copies(things *t)
{
	const deadline until = deadline::in_ms(longest);
	int err = copy_async(t->s, ptr(t->mem), t->own, size);

	if (!err)
		err = event_record(t->e, t->s);
	if (!err)
		err = stream_wait_word(t->s, &open_gate, dma::compare::eq, 1, until);
	if (!err)
		err = stream_host_func(t->s, no_call, nullptr, true);
	if (!err)
		err = copy_async(t->s, t->pinned, ptr(t->mem), size);
	const int end = stream_sync(t->s, until);
	err = err ? err : end;
	if (!err)
		assert_memory_equal(t->pinned, t->own, size);
	if (!err)
		err = copy_sync(t->dev, ptr(t->mem), t->plain, size, until);
	if (!err)
		err = copy_sync(t->dev, t->own, ptr(t->mem), size, until);
	if (!err)
		assert_memory_equal(t->plain, t->own, size);
	return err;
}

static int take_down(things *t)
{
	int err = 0;
	auto keep = [&err](int e) { err = err ? err : e; };

	if (t->e)
		keep(event_destroy(t->e));
	if (t->mem)
		keep(device_free(t->mem));
	if (t->registered)
		keep(host_unregister(t->own));
	if (t->pinned)
		keep(host_free(t->pinned));
	if (t->s)
		keep(stream_destroy(t->s));
	if (t->dev)
		device_put(t->dev);
	return err;
}

/* The first error; what was made is unmade in any case.  The n-th of the calls fails on the way. */
static int whole_way(call c = call::none, long n = 0)
{
	auto gen = test::rng(5);
	things t;

	test::fill_random(t.own, size, gen);
	test::fill_random(t.plain, size, gen);
	error_clear();
	arm(c, n);
	int err = set_up(&t);
	if (!err)
		err = copies(&t);
	if (err && !*error_text())
		print_error("error %d without a text\n", err);
	assert_true(!err || *error_text());
	const int end = take_down(&t);
	disarm();
	return err ? err : end;
}

/* ---- what must not stay -------------------------------------------------------------------------------------- */

static void check_leak(const test::level &before, call c, long n)
{
	const char *stays = test::what_stays(before, test::level());

	if (*stays)
		print_error("%s %ld: %s\n", call_names[int(c)], n, stays);
	assert_string_equal(stays, "");
}

static void must_work(call c, long n)
{
	error_clear();
	const int err = whole_way();

	if (err)
		print_error("after %s %ld: %d: %s\n", call_names[int(c)], n, err, error_text());
	assert_int_equal(err, 0);
}

struct way {
	call c;
	long n;
	int err;
};

static void *way_main(void *arg)
{
	auto *w = static_cast<way *>(arg);

	w->err = whole_way(w->c, w->n);
	return nullptr;
}

/* False: the way makes fewer such calls. */
static bool one(call c, long n, unsigned *errors)
{
	way w{c, n, 1};
	pthread_t thread;

	/* A thread has a ring of its own to sleep in, made when it first sleeps: here a new thread goes each way. */
	if (c == call::uring) {
		assert_int_equal(pthread_create(&thread, nullptr, way_main, &w), 0);
		pthread_join(thread, nullptr);
	} else {
		way_main(&w);
	}
	*errors += w.err != 0;
	assert_true(w.err <= 0);
	return hit;
}

/* What is made once in a process (threads, rings of waiting threads) fails at its first making. */
static void at_first_use(void **)
{
	for (call c : {call::thread, call::uring, call::eventfd, call::memory})
		for (long n = 1; n <= 3; n++) {
			unsigned errors = 0;

			one(c, n, &errors);
			must_work(c, n);
		}
}

static void sweep(call c)
{
	unsigned errors = 0, points = 0;

	must_work(c, 0);
	const test::level before;
	/* Messages are many and alike: beyond the first 64 every fifth. */
	for (long n = 1; n < 4000; n += n < 64 ? 1 : 5) {
		if (!one(c, n, &errors))
			break;
		points++;
		must_work(c, n);
		/* Heaps and cached stacks of the C library come and go, but do not grow with the failures. */
		check_leak(before, c, n);
	}
	assert_true(points > 0);
	fprintf(stderr, "# %-20s %4u points, %4u errors told, %u survived\n", call_names[int(c)], points, errors, points - errors);
}

#define SWEEP(name)                                                                                                    \
	static void fail_##name(void **)                                                                               \
	{                                                                                                              \
		sweep(call::name);                                                                                     \
	}
SWEEP(mmap)
SWEEP(ftruncate)
SWEEP(memfd)
SWEEP(eventfd)
SWEEP(socketpair)
SWEEP(recvmsg)
SWEEP(sendmsg)
SWEEP(fcntl)
SWEEP(thread)
SWEEP(uring)
SWEEP(memory)
SWEEP(all_memory)

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(at_first_use),	  cmocka_unit_test(fail_mmap),	 cmocka_unit_test(fail_ftruncate),
		cmocka_unit_test(fail_memfd),	  cmocka_unit_test(fail_eventfd), cmocka_unit_test(fail_socketpair),
		cmocka_unit_test(fail_recvmsg),	  cmocka_unit_test(fail_sendmsg), cmocka_unit_test(fail_fcntl),
		cmocka_unit_test(fail_thread),	  cmocka_unit_test(fail_uring),	 cmocka_unit_test(fail_memory),
		cmocka_unit_test(fail_all_memory),
	};

	setenv("USDMA_DEVICES", "sim:mem=16M:engines=1:channels=4", 1);
	setenv("USDMA_HANG_MS", "1000", 1);
	setenv("USDMA_LOG", "none", 1);
	setenv("USDMA_HOST_ARENA", "1M", 1); /* small: blocks that stay show soon as memory that stays */
	alarm(280);
	return cmocka_run_group_tests_name("failing calls", tests, nullptr, nullptr);
}
