/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys: files and numbers from another process are read once and checked before use. */
#include "driver/base/barrier.h"
#include "driver/base/cpu.h"
#include "driver/base/unique_fd.h"
#include "lib/share/share.h"
#include "tests/support/core.h"

#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string>
#include <thread>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace usdma;
using namespace usdma::core;

static constexpr size_t page = 4096;

static int memory_file(size_t size, int seals)
{
	const int fd = memfd_create("share-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, off_t(size)), 0);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static share *exported(int data, u64 offset, u64 size)
{
	share *s;

	ok(share_export({share_kind::memory, true, data, offset, size, 7}, false, &s));
	return s;
}

/* The share's key with this file descriptor instead of its own. */
static std::string key_of(const share *s, int fd)
{
	std::string key = s->key;
	char number[9];

	snprintf(number, sizeof(number), "%08x", unsigned(fd));
	return key.replace(strlen("usdma-1-") + 9, 8, number);
}

static int import_of(const share *s, int fd)
{
	share *got;
	const int err = share_import(key_of(s, fd).c_str(), share_kind::memory, false, &got);

	if (!err)
		share_unref(got);
	return err;
}

/* A copy of the page in files that are invalid. */
static void invalid_page_files(void **)
{
	share *s = exported(-1, 0, 0);
	const int unsealed = memory_file(page, 0), sealed = memory_file(page, F_SEAL_SHRINK),
		  too_large = memory_file(2 * page, F_SEAL_SHRINK);
	int pipe_fds[2];

	for (int fd : {unsealed, sealed, too_large})
		assert_int_equal(pwrite(fd, s->page, sizeof(share_page), 0), sizeof(share_page));
	assert_int_equal(import_of(s, s->fd.get()), 0);
	assert_int_equal(import_of(s, sealed), 0);
	assert_int_equal(import_of(s, unsealed), -EINVAL);
	assert_non_null(strstr(error_text(), "not sealed"));
	assert_int_equal(import_of(s, too_large), -ENOENT);
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	assert_int_equal(import_of(s, pipe_fds[0]), -ENOENT);
	for (int fd : {unsealed, sealed, too_large, pipe_fds[0], pipe_fds[1]})
		close(fd);
	share_unref(s);
}

/* Files of other kinds are not opened: the reader of a FIFO would see a writer. */
static void foreign_files_are_not_opened(void **)
{
	char folder[] = "/tmp/usdma-share-XXXXXX";
	share *s = exported(-1, 0, 0);

	assert_non_null(mkdtemp(folder));
	const std::string fifo = std::string(folder) + "/pipe";
	assert_int_equal(mkfifo(fifo.c_str(), 0600), 0);
	const int fd = open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(import_of(s, fd), -ENOENT);
	/* poll(2) would report a hang-up if the FIFO had been opened and closed by a writer. */
	pollfd p = {fd, POLLIN, 0};
	assert_int_equal(poll(&p, 1, 0), 0);
	close(fd);
	unlink(fifo.c_str());
	rmdir(folder);
	share_unref(s);
}

static void numbers_are_read_once(void **)
{
	const int data = memory_file(4 * page, F_SEAL_SHRINK);
	share *s = exported(data, page, 2 * page), *got;

	ok(share_import(s->key, share_kind::memory, false, &got));
	/* The exporter changes the page after the check. */
	s->page->offset = ~u64(0) - page;
	s->page->size = u64(1) << 60;
	s->page->flags = ~0u;
	assert_int_equal(got->offset, page);
	assert_int_equal(got->size, 2 * page);
	assert_int_equal(got->flags, 7);
	share_unref(got);
	/* To the last byte of the file, and one beyond. */
	const struct {
		u64 offset, size;
		int want;
	} rows[] = {{0, 4 * page, 0},           {3 * page, page, 0},
		    {0, 4 * page + 1, -EINVAL}, {page, 3 * page + 1, -EINVAL},
		    {4 * page, 1, -EINVAL},     {5 * page, page, -EINVAL},
		    {page, 0, -EINVAL},         {page, ~u64(0), -EINVAL}};
	for (const auto &row : rows) {
		s->page->offset = row.offset;
		s->page->size = row.size;
		assert_int_equal(share_import(s->key, share_kind::memory, false, &got), row.want);
		if (!row.want)
			share_unref(got);
		else
			assert_non_null(strstr(error_text(), "do not fit its file"));
	}
	share_unref(s);
	close(data);
}

/* Closed during an import: the import fails, or the exporter sees its lock. */
static void closed_during_an_import(void **)
{
	const int data = memory_file(4 * page, F_SEAL_SHRINK);
	share *s = exported(data, 0, page), *got;
	auto gen = test::rng();

	for (int i = 0; i < 300; i++) {
		const unsigned pause = unsigned(gen() % 4000);
		struct flock l = {F_WRLCK, SEEK_SET, 0, page, 0};
		std::atomic<bool> begun{false};
		std::thread closer([&] {
			while (!begun)
				;
			for (unsigned n = 0; n < pause; n++)
				cpu_relax();
			store_release(&s->page->closed, 1u);
			barrier_full();
			if (fcntl(data, F_OFD_GETLK, &l))
				l.l_type = F_UNLCK;
		});

		begun = true;
		const int err = share_import(s->key, share_kind::memory, false, &got);
		closer.join();
		assert_true(err ? err == -ENOENT : l.l_type == F_RDLCK);
		if (!err)
			share_unref(got);
		store_release(&s->page->closed, 0u);
	}
	share_unref(s);
	close(data);
}

static void unsealed_memory_is_refused(void **)
{
	const int data = memory_file(4 * page, 0);
	share *s = exported(data, 0, page), *got;

	assert_int_equal(share_import(s->key, share_kind::memory, false, &got), -EINVAL);
	share_unref(s);
	close(data);
}

/* Becomes dumpable again, like a program started by this user. */
static bool become_user(uid_t user)
{
	return !setresgid(user, user, user) && !setresuid(user, user, user) && !prctl(PR_SET_DUMPABLE, 1);
}

/* Starts a process that calls become() and exports a page; it exits when hold[1] is closed. */
static pid_t exporter_of(const std::function<bool()> &become, const int *hold, char *key)
{
	int key_pipe[2];

	assert_int_equal(pipe2(key_pipe, O_CLOEXEC), 0);
	const pid_t pid = fork();
	if (pid == 0) {
		share *s = nullptr;
		char wait;

		if (become() && !share_export({share_kind::memory, true, -1, 0, 0, 0}, false, &s))
			(void)!write(key_pipe[1], s->key, sizeof(s->key));
		close(key_pipe[1]);
		close(hold[1]);
		_exit(read(hold[0], &wait, 1) < 0);
	}
	close(key_pipe[1]);
	assert_int_equal(read(key_pipe[0], key, share_key_len + 1), share_key_len + 1);
	close(key_pipe[0]);
	return pid;
}

/* Root may open the files of all users, but must not do so on behalf of another user. */
static void root_opens_no_files_of_others(void **)
{
	char key[share_key_len + 1];
	int hold[2], status;
	share *got;

	if (geteuid())
		skip(); /* the kernel refuses others by itself */
	assert_int_equal(pipe2(hold, O_CLOEXEC), 0);
	const pid_t other = exporter_of([] { return become_user(65534); }, hold, key);
	assert_int_equal(share_import(key, share_kind::memory, false, &got), -EACCES);
	assert_non_null(strstr(error_text(), "as user 65534"));
	const pid_t same = exporter_of([] { return become_user(0); }, hold, key);
	ok(share_import(key, share_kind::memory, false, &got));
	share_unref(got);
	close(hold[1]);
	close(hold[0]);
	for (pid_t pid : {other, same})
		assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* Continues as the first process of a new pid namespace; the intermediate process exits after it. */
static bool enter_pid_namespace()
{
	int status;

	if (unshare(CLONE_NEWPID))
		return false;
	const pid_t first = fork();
	if (first && !close_range(3, ~0u, 0)) /* others wait until all copies are closed */
		_exit(waitpid(first, &status, 0) != first || status);
	return true;
}

static void another_pid_namespace(void **)
{
	char key[share_key_len + 1];
	int hold[2], status;
	share *got;

	if (geteuid())
		skip(); /* only root may create one */
	assert_int_equal(pipe2(hold, O_CLOEXEC), 0);
	const pid_t other = exporter_of(enter_pid_namespace, hold, key);
	assert_int_equal(share_import(key, share_kind::memory, false, &got), -EOPNOTSUPP);
	assert_non_null(strstr(error_text(), "pid namespace"));
	close(hold[1]);
	close(hold[0]);
	assert_int_equal(waitpid(other, &status, 0), other);
}

/* /proc is still that of the outer namespace: its pids are those of other processes. */
static void proc_of_another_namespace(void **)
{
	share *s = exported(-1, 0, 0), *got;
	int status;

	if (geteuid())
		skip();
	const pid_t child = fork();
	if (!child) {
		if (!enter_pid_namespace())
			_exit(1);
		/* Makes it a key of this namespace. */
		memset(s->key + 43, '0', 17);
		_exit(share_import(s->key, share_kind::memory, false, &got) != -EOPNOTSUPP ||
		      !strstr(error_text(), "mount"));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	share_unref(s);
}

/* Another user's file, which the exporter may only read, must not be opened for writing on its behalf. */
static void files_of_other_users(void **)
{
	const int data = memory_file(4 * page, F_SEAL_SHRINK);

	if (geteuid())
		skip(); /* only root may change the owner */
	assert_int_equal(fchown(data, 12345, 12345), 0);
	assert_int_equal(fchmod(data, 0600), 0);
	share *s = exported(data, 0, page), *got;
	assert_int_equal(share_import(s->key, share_kind::memory, false, &got), -EACCES);
	assert_non_null(strstr(error_text(), "of user 12345"));
	/* If all users may write the file, it is opened. */
	assert_int_equal(fchmod(data, 0666), 0);
	ok(share_import(s->key, share_kind::memory, false, &got));
	share_unref(got);
	share_unref(s);
	close(data);
}

/* open(2) of a leased file waits until the lease is released, up to 45 seconds by default. */
static void a_leased_file(void **)
{
	const unique_fd writable(memory_file(4 * page, F_SEAL_SHRINK));
	unique_fd data(open(("/proc/self/fd/" + std::to_string(writable.get())).c_str(), O_RDONLY | O_CLOEXEC));
	share *s = exported(data.get(), 0, page), *got;

	assert_true(data.valid());
	close(writable.get());
	assert_int_equal(dup2(data.get(), writable.get()), writable.get());
	signal(SIGIO, SIG_IGN);
	assert_int_equal(fcntl(data.get(), F_SETLEASE, F_RDLCK), 0);
	assert_int_equal(share_import(s->key, share_kind::memory, false, &got), -EAGAIN);
	assert_int_equal(fcntl(data.get(), F_SETLEASE, F_UNLCK), 0);
	ok(share_import(s->key, share_kind::memory, false, &got));
	share_unref(got);
	share_unref(s);
}

/* A promised number is owed as long as a participant that has promised it exists. */
static void owed_numbers(void **)
{
	share *s = exported(-1, 0, 0), *other;

	ok(share_join(s));
	ok(share_import(s->key, share_kind::memory, false, &other));
	ok(share_join(other));
	assert_int_not_equal(s->index, other->index);
	assert_false(share_owed_by(s, 1));
	other->page->owed[other->index] = 5;
	assert_true(share_owed_by(s, 5));
	assert_false(share_owed_by(s, 6));
	share_unref(other);
	assert_false(share_owed_by(s, 5));
	s->page->owed[s->index] = 5;
	assert_true(share_owed_by(s, 5));
	share_unref(s);
}

/* The names of bells are other processes'. */
static void names_of_bells(void **)
{
	const unique_fd larger(memory_file(2 * page, F_SEAL_SHRINK)), other(memory_file(page, F_SEAL_SHRINK));
	bell_name own;
	bell *b, *again;
	share *s = exported(-1, 0, 0);
	const u64 secret = s->page->secret;

	ok(bell_own(&own));
	for (const bell_name &none : {bell_name{own.pid, own.fd, own.token ^ 2},
				      {own.pid, u32(larger.get()), 3},
				      {own.pid, u32(other.get()), 3},
				      {own.pid, ~0u, 3},
				      /* Another page of the library, and another page for the own token. */
				      {own.pid, u32(s->fd.get()), s->page->magic},
				      {own.pid, u32(other.get()), own.token},
				      {(1u << 22) - 1, 3, 3}})
		assert_int_equal(bell_open(none, &b), -ENOENT);
	ok(bell_open(own, &b));
	ok(bell_open(own, &again));
	assert_ptr_equal(b, again);
	const u32 before = bell_rings();
	bell_ring(b);
	assert_int_equal(bell_rings(), before + 1);
	assert_int_equal(s->page->secret, secret);
	bell_close(b);
	bell_close(again);
	share_unref(s);
}

/* Who waits gets reports, no other; those that have exited are no reason to poll. */
static void who_waits_gets_reports(void **)
{
	share *s = exported(-1, 0, 0), *other;
	bell_name none = {(1u << 22) - 1, 3, 3};

	ok(share_join(s));
	ok(share_import(s->key, share_kind::memory, false, &other));
	ok(share_join(other));
	const u32 before = bell_rings();
	share_report(other);
	assert_int_equal(bell_rings(), before);
	assert_true(share_listen(s));
	s->page->bells[other->index] = none;
	s->page->n_bells = ~0u;
	share_report(other);
	assert_int_equal(bell_rings(), before + 1);
	share_unlisten(s);
	share_report(other);
	assert_int_equal(bell_rings(), before + 1);
	assert_true(share_is_reported(s));
	share_unref(other);
	/* The next one at that index. */
	ok(share_import(s->key, share_kind::memory, false, &other));
	ok(share_join(other));
	assert_int_equal(s->page->bells[other->index].token, 0);
	share_unref(other);
	share_unref(s);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(invalid_page_files),
		cmocka_unit_test(foreign_files_are_not_opened),
		cmocka_unit_test(numbers_are_read_once),
		cmocka_unit_test(closed_during_an_import),
		cmocka_unit_test(unsealed_memory_is_refused),
		cmocka_unit_test(root_opens_no_files_of_others),
		cmocka_unit_test(files_of_other_users),
		cmocka_unit_test(another_pid_namespace),
		cmocka_unit_test(proc_of_another_namespace),
		cmocka_unit_test(a_leased_file),
		cmocka_unit_test(owed_numbers),
		cmocka_unit_test(names_of_bells),
		cmocka_unit_test(who_waits_gets_reports),
	};

	return cmocka_run_group_tests_name("share", tests, nullptr, nullptr);
}
