/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread sleeps in io_uring, and the kernel does not cancel its read. */
#include "driver/base/clock.h"
#include "lib/core/queue/sleep.h"
#include "lib/core/queue/wait.h"
#include "tests/support/test.h"

#include <dlfcn.h>
#include <sys/eventfd.h>
#include <unistd.h>

using namespace usdma;

struct io_uring;

static bool submit_fails;

/* Replaces liburing's: submissions by this function (the cancellation of a read) do not reach the kernel. */
extern "C" int io_uring_submit(io_uring *ring);
extern "C" int io_uring_submit(io_uring *ring)
{
	static auto *const real = reinterpret_cast<int (*)(io_uring *)>(dlsym(RTLD_NEXT, "io_uring_submit"));

	return submit_fails ? -EAGAIN : real(ring);
}

static int sleep_for_ms(int fd, u64 ms)
{
	return core::eventfd_sleep(fd, now_ns() + ms * ns_per_ms);
}

static void sleep_ends_without_cancellation(void **)
{
	const int fd = eventfd(0, EFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(sleep_for_ms(fd, 5), -ETIMEDOUT);
	assert_int_equal(eventfd_write(fd, 1), 0);
	assert_int_equal(sleep_for_ms(fd, 20000), 0);
	submit_fails = true;
	const u64 began = now_ns();
	const int err = sleep_for_ms(fd, 5);
	assert_true(err == 0 || err == -ETIMEDOUT); /* without io_uring there is nothing to cancel */
	assert_true(now_ns() - began < 20 * ns_per_s);
	/* Later sleeps do not use io_uring, and work as before. */
	assert_int_equal(sleep_for_ms(fd, 5), -ETIMEDOUT);
	assert_int_equal(eventfd_write(fd, 1), 0);
	assert_int_equal(sleep_for_ms(fd, 20000), 0);
	close(fd);
}

int main()
{
	const CMUnitTest tests[] = {cmocka_unit_test(sleep_ends_without_cancellation)};

	alarm(60);
	return cmocka_run_group_tests_name("sleep", tests, nullptr, nullptr);
}
