/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/sim_sandbox.h"

#include "driver/base/error.h"

#include <cerrno>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef USDMA_SECCOMP
#include <seccomp.h>
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

/* Whatever the arguments.  Memory, threads, waiting, the sockets and descriptors that are there, the end. */
static constexpr const char *allowed[] = {
	"mmap", "munmap", "mremap", "madvise", "mincore", "brk", "mprotect", "memfd_create", "ftruncate", "mlock", "munlock",
	"futex", "set_robust_list", "rseq", "sched_yield", "sched_setaffinity", "sched_getaffinity", "membarrier",
	"gettid", "getpid", "geteuid", "set_tid_address", "restart_syscall", "getrandom", "sysinfo", "exit", "exit_group",
	"rt_sigprocmask", "rt_sigaction", "rt_sigreturn", "sigaltstack",
	"poll", "ppoll", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "clock_gettime", "clock_nanosleep", "nanosleep", "gettimeofday",
	"read", "write", "writev", "close", "fstat", "fcntl", "dup", "eventfd2", "lseek",
	"accept4", "getsockopt", "recvmsg", "sendmsg", "sendto", "shutdown", "wait4",
};

struct rule {
	const char *name;
	scmp_arg_cmp when;
};

static int allow(scmp_filter_ctx f, const char *name, const scmp_arg_cmp *when = nullptr)
{
	const int nr = seccomp_syscall_resolve_name(name);

	/* Not on this architecture: then nobody calls it. */
	if (nr < 0)
		return 0;
	return seccomp_rule_add_array(f, SCMP_ACT_ALLOW, nr, when ? 1 : 0, when);
}

static int add_rules(scmp_filter_ctx f)
{
	const scmp_datum_t self = scmp_datum_t(getpid());
	const rule rules[] = {
		/* Threads of this process, no processes. */
		{"clone", {0, SCMP_CMP_MASKED_EQ, CLONE_THREAD | CLONE_VM | CLONE_SIGHAND, CLONE_THREAD | CLONE_VM | CLONE_SIGHAND}},
		/* A status by descriptor: the C library's fstat. */
		{"newfstatat", {3, SCMP_CMP_EQ, AT_EMPTY_PATH, 0}},
		/* abort(), and the fault "die". */
		{"kill", {0, SCMP_CMP_EQ, self, 0}},
		{"tgkill", {0, SCMP_CMP_EQ, self, 0}},
		{"prctl", {0, SCMP_CMP_EQ, PR_SET_NAME, 0}},
	};
	int err = 0;

	for (const char *name : allowed)
		err = err ? err : allow(f, name);
	for (const rule &r : rules)
		err = err ? err : allow(f, r.name, &r.when);
	/* Its flags lie in memory, where a filter cannot look: the C library then takes clone. */
	return err ? err : seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

static int filter()
{
	const scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int err;

	if (!f)
		return fail(ENOMEM, "cannot make a list of system calls");
	err = add_rules(f);
	if (!err)
		err = seccomp_load(f);
	seccomp_release(f);
	return err ? fail(-err, "cannot restrict the system calls: the kernel needs CONFIG_SECCOMP_FILTER") : 0;
}

#else

static int filter()
{
	return 0;
}

#endif

int sandbox_enter()
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return fail_errno("cannot give up new privileges");
	return filter();
}

/* child_side in the child. */
int keeper::split()
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return fail_errno("pipe");
	unique_fd in(ends[0]);

	pipe_.reset(ends[1]);
	child_ = fork();
	if (child_ < 0)
		return fail_errno("fork");
	if (child_)
		return 0;
	/* Nobody who waits for the end of a pipe or of the socket waits for this process. */
	if (dup2(in.get(), 0) < 0 || close_range(1, ~0u, 0) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		leave();
	return child_side;
}

bool keeper::told()
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
