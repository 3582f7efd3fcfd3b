/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/sim_sandbox.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/foreign_fd.h"
#include "driver/base/types.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <span>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <sys/syscall.h>
#ifdef USDMA_SECCOMP
#include <linux/netlink.h>
#include <linux/sockios.h>
#include <seccomp.h>
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
	"pselect6",
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

/* Signals to itself (the fault "die"; abort(); interrupting.h), and requests about descriptors. */
static int add_own(scmp_filter_ctx f)
{
	const scmp_datum_t self = scmp_datum_t(getpid());
	const rule rules[] = {{"kill", {0, SCMP_CMP_EQ, self, 0}}, {"tgkill", {0, SCMP_CMP_EQ, self, 0}}};
	int err = allow(f, {}, rules);

	for (int cmd : file_commands) {
		const scmp_arg_cmp when = {1, SCMP_CMP_EQ, scmp_datum_t(cmd), 0};

		err = err ? err : allow(f, "fcntl", &when);
	}
	return err;
}

/* Of VFIO and iommufd (linux/vfio.h, linux/iommufd.h): mapping, interrupts, reset. It makes no process. */
static int add_for_device(scmp_filter_ctx f)
{
	static constexpr scmp_datum_t kind = 0xff00, vfio = scmp_datum_t(';') << 8;
	const rule rules[] = {{"ioctl", {1, SCMP_CMP_MASKED_EQ, kind, vfio}}};
	/* Registers; doorbells of a device that another process serves, without blocking (eventfd_raise). */
	static constexpr const char *calls[] = {"pread64",      "pwrite64", "io_setup",   "io_submit",
						"io_getevents", "accept4",  "getsockopt", "wait4"};
	const int err = add_own(f);

	return err ? err : allow(f, calls, rules);
}

static int add_for_child(scmp_filter_ctx f)
{
	/* pthread_setname_np() of another thread opens its file in /proc: fail that rather than kill the process. */
	const int err = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(openat), 0);

	return err ? err : add_own(f);
}

/*
 * UCX connects to peers, and is connected to, at any time; for each peer it reads the properties of its interface
 * and for routes, which it cannot change without privileges.
 */
static constexpr const char *for_net[] = {
	"connect",    "bind",        "listen",      "accept",   "accept4",        "getsockopt",
	"setsockopt", "getsockname", "getpeername", "recvfrom", "readv",          "epoll_pwait2",
	"fcntl",      "uname",       "stat",        "access",   "timerfd_create", "timerfd_settime",
};
static constexpr unsigned interface_properties[] = {
	SIOCETHTOOL, SIOCGIFADDR, SIOCGIFBRDADDR, SIOCGIFFLAGS, SIOCGIFHWADDR, SIOCGIFINDEX, SIOCGIFMTU, SIOCGIFNETMASK,
};

static int add_for_net(scmp_filter_ctx f)
{
	/* Landlock says which. */
	static constexpr scmp_datum_t changes = O_ACCMODE | O_CREAT | O_TRUNC | O_PATH;
	const rule rules[] = {
		{"socket", {0, SCMP_CMP_EQ, AF_INET, 0}},
		{"socket", {0, SCMP_CMP_EQ, AF_INET6, 0}},
		/* abort() */
		{"tgkill", {0, SCMP_CMP_EQ, scmp_datum_t(getpid()), 0}},
		{"openat", {2, SCMP_CMP_MASKED_EQ, changes, O_RDONLY}},
	};
	const scmp_arg_cmp routes[] = {{0, SCMP_CMP_EQ, AF_NETLINK, 0}, {2, SCMP_CMP_EQ, NETLINK_ROUTE, 0}};
	int err = seccomp_rule_add_array(f, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2, routes);

	for (const unsigned request : interface_properties) {
		const scmp_arg_cmp when = {1, SCMP_CMP_EQ, request, 0};

		err = err ? err : allow(f, "ioctl", &when);
	}
	return err ? err : allow(f, for_net, rules);
}

static int filter(u32 otherwise, int (*more)(scmp_filter_ctx))
{
	const scmp_filter_ctx f = seccomp_init(otherwise);
	int err;

	if (!f)
		return fail(ENOMEM, "cannot make a list of system calls");
	/* Libraries of others may have made threads already. */
	err = seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1);
	if (!err)
		err = add_common(f);
	if (!err)
		err = more(f);
	if (!err)
		err = seccomp_load(f);
	seccomp_release(f);
	return err ? fail(-err, "cannot restrict the system calls: the kernel needs CONFIG_SECCOMP_FILTER") : 0;
}

#ifdef SYS_landlock_create_ruleset
/* Files below it may be read. Landlock means the directory of now: it stays open. */
static int may_read(int rules, const char *folder)
{
	const int at = open(folder, O_PATH | O_CLOEXEC);
	landlock_path_beneath_attr below = {};

	if (at < 0)
		return errno == ENOENT ? 0 : fail_errno("%s", folder);
	below.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
	below.parent_fd = at;
	return syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &below, 0) ?
		       fail_errno("Landlock: %s", folder) :
		       0;
}
#endif

static int leave_files(std::span<const char *const> but)
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
	for (const char *folder : but)
		if (const int err = rules.valid() ? may_read(rules.get(), folder) : 0)
			return err;
	if (!rules.valid() || syscall(SYS_landlock_restrict_self, rules.get(), 0))
		return fail_errno("cannot give up files (Landlock)");
#endif
	return 0;
}

int sandbox_leave_files()
{
	return leave_files({});
}

int sandbox_confine()
{
	return filter(SCMP_ACT_KILL_PROCESS, add_for_child);
}

static int restrict(std::span<const char *const> but, int (*more)(scmp_filter_ctx))
{
	const int err = leave_files(but);

	return err ? err : filter(SCMP_ACT_ERRNO(EPERM), more);
}

#else

using scmp_filter_ctx = void *;
static constexpr int (*add_for_parent)(scmp_filter_ctx) = nullptr, (*add_for_device)(scmp_filter_ctx) = nullptr,
		     (*add_for_net)(scmp_filter_ctx) = nullptr;

static int restrict(std::span<const char *const>, int (*)(scmp_filter_ctx))
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

static int enter(std::span<const char *const> but, int (*more)(scmp_filter_ctx))
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return fail_errno("cannot give up new privileges");
	return restrict(but, more);
}

int sandbox_enter()
{
	foreign_fd_prepare();
	return enter({}, add_for_parent);
}

int sandbox_enter_with_device()
{
	foreign_fd_prepare();
	return enter({}, add_for_device);
}

int sandbox_leave_privileges()
{
	__user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};

	if (syscall(SYS_capset, &header, none))
		return fail_errno("cannot give up privileges");
	return 0;
}

int sandbox_enter_net()
{
	static constexpr const char *to_read[] = {"/proc/net", "/sys"};

	return enter(to_read, add_for_net);
}

/* With stop_ms of sim_clients.cpp within the ten seconds of usdma-sim(1). */
static constexpr u64 release_ms = 1000;

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
	const deadline until = deadline::in_ms(release_ms);
	const timespec nap = {0, 200 * 1000};

	if (write(pipe_.get(), "", 1) == 1)
		while (waitpid(child_, nullptr, WNOHANG) == 0 && !until.passed())
			nanosleep(&nap, nullptr);
	child_ = -1;
}

} // namespace usdma::tool
