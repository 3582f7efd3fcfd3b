/* SPDX-License-Identifier: BSD-3-Clause */
/* Eventfds that a peer fills or clears at any time, and other files. */
#include "driver/base/await_fds.h"
#include "driver/base/clock.h"
#include "driver/base/eventfd.h"
#include "driver/base/unique_fd.h"
#include "tests/support/refuse_call.h"
#include "tests/support/test.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace usdma;

static constexpr u64 full = 0xfffffffffffffffe;

/* eventfd_raise() and eventfd_clear() do not block, even on a blocking descriptor. */
static void full_counters_stay_full(void **)
{
	const unique_fd fd(eventfd(0, EFD_CLOEXEC));

	if (!eventfd_raise(fd.get())) {
		fprintf(stderr, "# aio is unavailable\n");
		skip();
	}
	assert_int_equal(eventfd_clear(fd.get()), 1);
	assert_int_equal(eventfd_clear(fd.get()), 0);
	assert_int_equal(write(fd.get(), &full, sizeof(full)), sizeof(full));
	/* Often: the kernel's aio completions are consumed. */
	for (unsigned i = 0; i < 5000; i++)
		assert_true(eventfd_raise(fd.get()));
	assert_true(eventfd_clear(fd.get()) >= full);
	for (unsigned i = 0; i < 5000; i++)
		assert_true(eventfd_raise(fd.get()));
	assert_int_equal(eventfd_clear(fd.get()), 5000);
}

/* Two readers: one may find the counter 0 after poll(2) has reported it readable, and must not block. */
static void two_readers(void **)
{
	const unique_fd fd(eventfd(0, EFD_CLOEXEC));
	std::atomic<bool> stop{false};
	std::atomic<u64> passes[2] = {};
	std::thread readers[2];

	for (unsigned i = 0; i < 2; i++)
		readers[i] = std::thread([&, i] {
			while (!stop) {
				if (eventfd_ready(fd.get(), POLLIN))
					eventfd_clear(fd.get());
				else
					sched_yield();
				passes[i]++;
			}
		});
	/* Fewer rounds on a busy machine. */
	const deadline enough = deadline::in_ms(3000);
	for (unsigned round = 0; round < 2000 && !enough.passed(); round++) {
		const u64 before[2] = {passes[0], passes[1]};
		const deadline until = deadline::in_ms(20000);

		assert_int_equal(eventfd_write(fd.get(), 1), 0);
		while (passes[0] < before[0] + 2 || passes[1] < before[1] + 2) {
			assert_false(until.passed());
			sched_yield();
		}
	}
	stop = true;
	for (std::thread &t : readers)
		t.join();
}

static void other_files_are_refused(void **)
{
	int pipe_fds[2], pair[2];

	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	close(pipe_fds[0]);
	close(pair[0]);
	const unique_fd some[] = {unique_fd(pipe_fds[1]),
				  unique_fd(pair[1]),
				  unique_fd(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
				  unique_fd(open("/", O_PATH | O_CLOEXEC)),
				  unique_fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)),
				  unique_fd(memfd_create("anon_inode:[eventfd]", MFD_CLOEXEC))};
	const unique_fd one(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));

	for (const unique_fd &fd : some) {
		assert_true(fd.valid());
		assert_false(is_eventfd(fd.get()));
		assert_false(eventfd_raise(fd.get()));
	}
	assert_true(is_eventfd(one.get()));
	assert_false(is_eventfd(-1));
	assert_false(eventfd_raise(-1));
}

/* Runs f in a child that restricts itself first. */
template <class R, class F> static void in_child(R restrict_itself, F f)
{
	int status = -1;

	const pid_t pid = fork();
	if (!pid) {
		alarm(20);
		if (!restrict_itself())
			_exit(2);
		_exit(f() ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* This system call fails with ENOSYS, as on a kernel without it. */
template <class F> static void without(unsigned call, F f)
{
	in_child([=] { return test::refuse_call(call, ENOSYS); }, f);
}

/* Five entries are more than a program may poll once it has lowered RLIMIT_NOFILE. */
static void descriptors_are_awaited(void **)
{
	const rlimit none = {0, 0};
	const unique_fd empty(eventfd(0, EFD_CLOEXEC)), raised(eventfd(1, EFD_CLOEXEC));
	const auto awaits = [&] {
		pollfd p[] = {{-1, POLLIN, 0},
			      {empty.get(), POLLIN, 0},
			      {empty.get(), POLLOUT, 0},
			      {raised.get(), POLLIN, 0},
			      {4000, POLLIN, 0}};
		const deadline over = deadline::in_ms(20);

		eventfd_clear(empty.get());
		return await_fds(p, 2, 20) == 0 && over.passed() && await_fds(p, 4, -1) == 2 && !p[1].revents &&
		       p[2].revents == POLLOUT && p[3].revents == POLLIN && await_fds(p, 5, -1) == 3 &&
		       p[4].revents == POLLNVAL && eventfd_signal(empty.get()) && await_fds(p, 2, -1) == 1 &&
		       p[1].revents == POLLIN;
	};

	in_child([] { return true; }, awaits);
	in_child([&] { return !setrlimit(RLIMIT_NOFILE, &none); }, awaits);
	if (test::can_refuse_calls())
		without(SYS_ppoll, awaits);
}

/* Must run before the first use of aio, which is set up once per process. */
static void without_system_calls(void **)
{
	const unique_fd fd(eventfd(0, EFD_CLOEXEC));

	if (!test::can_refuse_calls())
		skip();
	without(SYS_io_setup, [&] { return !eventfd_raise(fd.get()); });
	without(SYS_preadv2, [&] {
		return !eventfd_clear(fd.get()) && !eventfd_write(fd.get(), 3) && eventfd_clear(fd.get()) == 3 &&
		       !eventfd_clear(fd.get());
	});
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(without_system_calls),    cmocka_unit_test(descriptors_are_awaited),
		cmocka_unit_test(full_counters_stay_full), cmocka_unit_test(two_readers),
		cmocka_unit_test(other_files_are_refused),
	};

	alarm(100);
	return cmocka_run_group_tests_name("eventfd", tests, nullptr, nullptr);
}
