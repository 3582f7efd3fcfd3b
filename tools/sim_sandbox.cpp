/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/sim_sandbox.h"

#include "driver/base/error.h"
#include "driver/base/foreign_fd.h"
#include "driver/base/types.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sched.h>
#include <span>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef USDMA_SECCOMP
#include <seccomp.h>
#include <sys/syscall.h>
#if __has_include(<linux/landlock.h>)
#include <linux/landlock.h>
#else
#undef SYS_landlock_create_ruleset
#endif
#endif

namespace usdma::tool {

bool sandbox_filters()
{
#ifdef USDMA_SECCOMP
	return true;
#else
	return false;
#endif
}

#ifdef USDMA_SECCOMP

/* Allowed with any arguments: memory, threads, waiting, existing sockets and descriptors, exit. */
static constexpr const char *for_all[] = {
	"munmap",
	"mremap",
	"madvise",
	"mincore",
	"brk",
	"memfd_create",
	"ftruncate",
	"mlock",
	"munlock",
	"futex",
	"set_robust_list",
	"rseq",
	"sched_yield",
	"sched_setaffinity",
	"sched_getaffinity",
	"membarrier",
	"gettid",
	"getpid",
	"geteuid",
	"set_tid_address",
	"restart_syscall",
	"getrandom",
	"sysinfo",
	"exit",
	"exit_group",
	"rt_sigprocmask",
	"rt_sigaction",
	"rt_sigreturn",
	"sigaltstack",
	"poll",
	"ppoll",
	"epoll_create1",
	"epoll_ctl",
	"epoll_wait",
	"epoll_pwait",
	"clock_gettime",
	"clock_nanosleep",
	"nanosleep",
	"gettimeofday",
	"read",
	"write",
	"writev",
	"close",
	"fstat",
	"dup",
	"eventfd2",
	"lseek",
	"recvmsg",
	"sendmsg",
	"sendto",
	"shutdown",
};
/* The parent accepts clients, and forks and reaps a process for each. */
static constexpr const char *for_parent[] = {
	"accept4", "getsockopt", "wait4", "socketpair", "getppid", "close_range", "seccomp", "fcntl",
};
static constexpr int file_commands[] = {F_GETFD, F_SETFD, F_GETFL, F_DUPFD, F_DUPFD_CLOEXEC, F_ADD_SEALS, F_GET_SEALS};

struct rule {
	const char *name;
	scmp_arg_cmp when;
};

static int allow(scmp_filter_ctx f, const char *name, const scmp_arg_cmp *when = nullptr)
{
	const int nr = seccomp_syscall_resolve_name(name);

	/* The call does not exist on this architecture. */
	if (nr < 0)
		return 0;
	return seccomp_rule_add_array(f, SCMP_ACT_ALLOW, nr, when ? 1 : 0, when);
}

static int allow(scmp_filter_ctx f, std::span<const char *const> names, std::span<const rule> rules)
{
	int err = 0;

	for (const char *name : names)
		err = err ? err : allow(f, name);
	for (const rule &r : rules)
		err = err ? err : allow(f, r.name, &r.when);
	return err;
}

static int add_common(scmp_filter_ctx f)
{
	static constexpr scmp_datum_t thread = CLONE_THREAD | CLONE_VM | CLONE_SIGHAND;
	const rule rules[] = {
		{"clone", {0, SCMP_CMP_MASKED_EQ, thread, thread}},
		/* Limits may be read, not changed. */
		{"prlimit64", {2, SCMP_CMP_EQ, 0, 0}},
		/* The fstat() of the C library. */
		{"newfstatat", {3, SCMP_CMP_EQ, AT_EMPTY_PATH, 0}},
		/* stat_file(), which does not wait for a file server. */
		{"statx", {2, SCMP_CMP_EQ, AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0}},
		/* No executable mappings. */
		{"mmap", {2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0}},
		{"mprotect", {2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0}},
		{"prctl", {0, SCMP_CMP_EQ, PR_SET_NAME, 0}},
	};
	const int err = allow(f, for_all, rules);

	/* The flags of clone3 are in memory, which a filter cannot read: the C library falls back to clone. */
	return err ? err : seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

static int add_for_parent(scmp_filter_ctx f)
{
	static constexpr scmp_datum_t kinds = CLONE_VM | CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET |
					      CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
	const rule rules[] = {
		/* fork() */
		{"clone", {0, SCMP_CMP_MASKED_EQ, kinds, 0}},
		/* SIGKILL to a client's process that does not exit; the others are sent by such a process to itself. */
		{"kill", {1, SCMP_CMP_EQ, SIGKILL, 0}},
		{"tgkill", {2, SCMP_CMP_EQ, SIGUSR1, 0}},
		{"tgkill", {2, SCMP_CMP_EQ, SIGABRT, 0}},
		/* A client's process before it loads its own list. */
		{"prctl", {0, SCMP_CMP_EQ, PR_SET_PDEATHSIG, 0}},
		{"prctl", {0, SCMP_CMP_EQ, PR_SET_NO_NEW_PRIVS, 0}},
		{"prctl", {0, SCMP_CMP_EQ, PR_SET_SECCOMP, 0}},
	};

	return allow(f, for_parent, rules);
}

static int add_for_child(scmp_filter_ctx f)
{
	const scmp_datum_t self = scmp_datum_t(getpid());
	const rule rules[] = {
		/*
		 * The fault "die"; abort(); interrupting an engine that blocks in a write to a client's descriptor
		 * (interrupting.h).
		 */
		{"kill", {0, SCMP_CMP_EQ, self, 0}},
		{"tgkill", {0, SCMP_CMP_EQ, self, 0}},
	};
	/* pthread_setname_np() of another thread opens its file in /proc: fail that rather than kill the process. */
	int err = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(openat), 0);

	for (int cmd : file_commands) {
		const scmp_arg_cmp when = {1, SCMP_CMP_EQ, scmp_datum_t(cmd), 0};

		err = err ? err : allow(f, "fcntl", &when);
	}
	return err ? err : allow(f, {}, rules);
}

static int filter(u32 otherwise, int (*more)(scmp_filter_ctx))
{
	const scmp_filter_ctx f = seccomp_init(otherwise);
	int err;

	if (!f)
		return fail(ENOMEM, "cannot make a list of system calls");
	err = add_common(f);
	if (!err)
		err = more(f);
	if (!err)
		err = seccomp_load(f);
	seccomp_release(f);
	return err ? fail(-err, "cannot restrict the system calls: the kernel needs CONFIG_SECCOMP_FILTER") : 0;
}

int sandbox_leave_files()
{
#ifdef SYS_landlock_create_ruleset
	const int version = int(syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION));
	landlock_ruleset_attr all = {};

	if (version < 1)
		return 0;
	/* Version 1 has thirteen rights. Later versions add a bit each, which older kernels refuse. */
	all.handled_access_fs = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
	if (version >= 2)
		all.handled_access_fs |= u64(1) << 13; /* REFER */
	if (version >= 3)
		all.handled_access_fs |= u64(1) << 14; /* TRUNCATE */
	const unique_fd rules(int(syscall(SYS_landlock_create_ruleset, &all, sizeof(all), 0)));
	if (!rules.valid() || syscall(SYS_landlock_restrict_self, rules.get(), 0))
		return fail_errno("cannot give up files (Landlock)");
#endif
	return 0;
}

int sandbox_confine()
{
	return filter(SCMP_ACT_KILL_PROCESS, add_for_child);
}

static int restrict()
{
	const int err = sandbox_leave_files();

	return err ? err : filter(SCMP_ACT_ERRNO(EPERM), add_for_parent);
}

#else

static int restrict()
{
	return 0;
}

int sandbox_leave_files()
{
	return 0;
}

int sandbox_confine()
{
	return 0;
}

#endif

int sandbox_enter()
{
	foreign_fd_prepare();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return fail_errno("cannot give up new privileges");
	return restrict();
}

/* Returns child_side in the child. */
int keeper::split()
{
	int pair[2];

	if (pipe2(pair, O_CLOEXEC))
		return fail_errno("pipe");
	unique_fd in(pair[0]);

	pipe_.reset(pair[1]);
	child_ = fork();
	if (child_ < 0)
		return fail_errno("fork");
	if (child_)
		return 0;
	/*
	 * Closes all else: others wait for the end of pipes and of the socket, which this process must not hold open.
	 */
	if (dup2(in.get(), 0) < 0 || close_range(1, ~0u, 0) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		leave();
	return child_side;
}

bool keeper::wait_release()
{
	char word;
	ssize_t n;

	do
		n = read(0, &word, 1);
	while (n < 0 && errno == EINTR);
	return n == 1;
}

void keeper::leave()
{
	_exit(0);
}

void keeper::release()
{
	if (child_ <= 0)
		return;
	if (write(pipe_.get(), "", 1) == 1)
		while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
		}
	child_ = -1;
}

} // namespace usdma::tool
