/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of another process by its number in /proc: each reason for which that fails is named. */
#include "tests/support/test.h"

#include "driver/base/error.h"
#include "driver/base/memfd.h"
#include "driver/base/page.h"
#include "lib/share/peer_file.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#if __has_include(<linux/landlock.h>)
#include <linux/landlock.h>
#endif

using namespace usdma;

static constexpr uid_t other_user = 65534;

/* A process that has a memfd, once prepare() has returned true. */
class exporter {
public:
	explicit exporter(bool (*prepare)())
	{
		int ready[2], number = -1;

		assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
		pid_ = fork();
		assert_true(pid_ >= 0);
		if (!pid_)
			serve(prepare, ready[1]);
		close(ready[1]);
		started_ = read(ready[0], &number, sizeof(number)) == ssize_t(sizeof(number));
		close(ready[0]);
		fd_ = unsigned(number);
	}
	~exporter()
	{
		kill(pid_, SIGKILL);
		waitpid(pid_, nullptr, 0);
	}
	exporter(const exporter &) = delete;
	exporter &operator=(const exporter &) = delete;

	bool started() const { return started_; }
	unsigned pid() const { return unsigned(pid_); }
	int open(peer_file *out) const { return peer_file_open("/proc", pid(), fd_, O_RDWR, out); }

private:
	[[noreturn]] static void serve(bool (*prepare)(), int ready)
	{
		unique_fd fd;
		const bool made = !memfd_make("test", os_page_size(), 0, &fd);
		const int number = fd.get();

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (made && prepare() && write(ready, &number, sizeof(number)) > 0)
			pause();
		_exit(0);
	}

	pid_t pid_ = -1;
	unsigned fd_ = 0;
	bool started_ = false;
};

/* Runs f(exporter) in a child, as a user without capabilities. */
static bool as_user(const exporter &e, bool (*f)(const exporter &))
{
	int status = 0;
	const pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		if (!geteuid() && setresuid(other_user, other_user, other_user))
			_exit(2);
		_exit(f(e) ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status == 0;
}

static bool become_user()
{
	return geteuid() || (!setresuid(other_user, other_user, other_user) && !prctl(PR_SET_DUMPABLE, 1));
}

static bool fails_with(const exporter &e, int err, const char *text)
{
	peer_file file;
	const int got = e.open(&file);

	if (got == err && strstr(error_text(), text))
		return true;
	fprintf(stderr, "# %d: %s\n", got, error_text());
	return false;
}

static void of_the_same_user(void **)
{
	const exporter e(become_user);

	assert_true(e.started());
	assert_true(as_user(e, [](const exporter &from) {
		peer_file file;

		return !from.open(&file) && file.size == os_page_size();
	}));
}

/* setuid(), a file capability and PR_SET_DUMPABLE all lead to this. */
static void of_a_process_that_is_not_dumpable(void **)
{
	const exporter e([] { return become_user() && !prctl(PR_SET_DUMPABLE, 0); });

	assert_true(e.started());
	assert_true(as_user(e, [](const exporter &from) { return fails_with(from, -EACCES, "not dumpable"); }));
}

static void of_a_process_with_more_capabilities(void **)
{
	if (geteuid())
		skip();
	const exporter e([] { return !prctl(PR_SET_KEEPCAPS, 1) && become_user(); });

	assert_true(e.started());
	assert_true(as_user(e, [](const exporter &from) { return fails_with(from, -EACCES, "capabilities"); }));
}

static void of_a_process_that_has_exited(void **)
{
	peer_user user;
	unsigned pid;
	{
		const exporter e(become_user);
		pid = e.pid();
	}
	assert_int_equal(peer_user_of("/proc", pid, &user), -ENOENT);
	assert_non_null(strstr(error_text(), "does not exist"));
	/* A /proc that does not show a process that lives. */
	assert_int_equal(peer_user_of("/nonexistent", unsigned(getpid()), &user), -EOPNOTSUPP);
	assert_non_null(strstr(error_text(), "exists, but"));
}

static void without_a_descriptor(void **)
{
	const exporter e(become_user);

	assert_true(e.started());
	assert_true(as_user(e, [](const exporter &from) {
		const rlimit none = {0, 0};
		peer_user user;

		return !setrlimit(RLIMIT_NOFILE, &none) && peer_user_of("/proc", from.pid(), &user) == -EMFILE &&
		       strstr(error_text(), "RLIMIT_NOFILE") && fails_with(from, -EMFILE, "RLIMIT_NOFILE");
	}));
}

#ifdef LANDLOCK_ACCESS_FS_READ_FILE
static bool read_no_files()
{
	landlock_ruleset_attr all = {};

	all.handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE;
	const int rules = int(syscall(SYS_landlock_create_ruleset, &all, sizeof(all), 0));
	return rules >= 0 && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !syscall(SYS_landlock_restrict_self, rules, 0);
}
#endif

static void in_a_sandbox(void **)
{
#ifdef LANDLOCK_ACCESS_FS_READ_FILE
	if (syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) < 1)
		skip();
	const exporter e(become_user);

	assert_true(e.started());
	assert_true(as_user(e, [](const exporter &from) {
		peer_user user;

		return read_no_files() && peer_user_of("/proc", from.pid(), &user) == -EOPNOTSUPP &&
		       strstr(error_text(), "Landlock") && fails_with(from, -EACCES, "Landlock");
	}));
#else
	skip();
#endif
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(of_the_same_user),
		cmocka_unit_test(of_a_process_that_is_not_dumpable),
		cmocka_unit_test(of_a_process_with_more_capabilities),
		cmocka_unit_test(of_a_process_that_has_exited),
		cmocka_unit_test(without_a_descriptor),
		cmocka_unit_test(in_a_sandbox),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
