/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread's sleep in io_uring, when the kernel does not give a read back. */
#include "driver/base/clock.h"
#include "lib/core/queue/sleep.h"
#include "lib/core/queue/wait.h"
#include "tests/support/test.h"

#include <dlfcn.h>
#include <sys/eventfd.h>
#include <unistd.h>

using namespace usdma;

struct io_uring;

static bool deaf;

/* In the place of liburing's: what is submitted by it (the cancelling of a read) never gets to the kernel. */
extern "C" int io_uring_submit(io_uring *ring);
extern "C" int io_uring_submit(io_uring *ring)
{
	static auto *const real = reinterpret_cast<int (*)(io_uring *)>(dlsym(RTLD_NEXT, "io_uring_submit"));

	return deaf ? -EAGAIN : real(ring);
}

static int doze(int fd, u64 ms)
{
	return core::eventfd_sleep(fd, now_ns() + ms * ns_per_ms);
}

static void no_sleep_without_an_end(void **)
{
	const int fd = eventfd(0, EFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(doze(fd, 5), -ETIMEDOUT);
	assert_int_equal(eventfd_write(fd, 1), 0);
	assert_int_equal(doze(fd, 20000), 0);
	deaf = true;
	const u64 began = now_ns();
	const int err = doze(fd, 5);
	assert_true(err == 0 || err == -ETIMEDOUT); /* without io_uring there is nothing to cancel */
	assert_true(now_ns() - began < 20 * ns_per_s);
	/* From then on without it, as well as before. */
	assert_int_equal(doze(fd, 5), -ETIMEDOUT);
	assert_int_equal(eventfd_write(fd, 1), 0);
	assert_int_equal(doze(fd, 20000), 0);
	close(fd);
}

int main()
{
	const CMUnitTest tests[] = {cmocka_unit_test(no_sleep_without_an_end)};

	alarm(60);
	return cmocka_run_group_tests_name("sleep", tests, nullptr, nullptr);
}
