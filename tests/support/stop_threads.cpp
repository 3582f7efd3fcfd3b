/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/support/stop_threads.h"

#include "tests/support/test.h"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace usdma::test {

/* A signal that software engines do not block, and that is not sent otherwise. */
static constexpr int signal_number = SIGFPE;
static unsigned held, stopped;

static long futex(unsigned *word, int op, unsigned value)
{
	return syscall(SYS_futex, word, op, value, nullptr, nullptr, 0);
}

static void on_signal(int)
{
	const int err = errno;

	__atomic_add_fetch(&stopped, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&held, __ATOMIC_SEQ_CST))
		futex(&held, FUTEX_WAIT, 1);
	__atomic_sub_fetch(&stopped, 1, __ATOMIC_SEQ_CST);
	errno = err;
}

static bool is_engine(const char *tid)
{
	const std::string path = std::string("/proc/self/task/") + tid + "/comm";
	char name[32] = "";
	FILE *f = fopen(path.c_str(), "re");

	if (!f)
		return false;
	const bool is = fgets(name, sizeof(name), f) && !strncmp(name, "sdma-engine", 11);
	fclose(f);
	return is;
}

std::set<int> engine_threads()
{
	std::set<int> found;
	DIR *tasks = opendir("/proc/self/task");

	assert_non_null(tasks);
	while (const dirent *e = readdir(tasks))
		if (is_engine(e->d_name))
			found.insert(atoi(e->d_name));
	closedir(tasks);
	return found;
}

void stop_threads(const std::set<int> &threads)
{
	struct sigaction act = {};

	act.sa_handler = on_signal;
	act.sa_flags = SA_RESTART;
	sigaction(signal_number, &act, nullptr);
	__atomic_store_n(&held, 1, __ATOMIC_SEQ_CST);
	for (int tid : threads)
		assert_int_equal(syscall(SYS_tgkill, getpid(), tid, signal_number), 0);
	while (__atomic_load_n(&stopped, __ATOMIC_SEQ_CST) < threads.size())
		sched_yield();
}

void resume_threads()
{
	__atomic_store_n(&held, 0, __ATOMIC_SEQ_CST);
	futex(&held, FUTEX_WAKE, INT_MAX);
	while (__atomic_load_n(&stopped, __ATOMIC_SEQ_CST))
		sched_yield();
}

} // namespace usdma::test
