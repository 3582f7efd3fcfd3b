/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hardened PROGRAM...: runs the program as a systemd service with SystemCallFilter=@system-service, NoNewPrivileges=yes
 * and ProcSubset=pid. A system call that is not in the group kills it (SIGSYS).
 *
 * Without the right to mount, /proc stays as it is.
 */
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sched.h>
#include <seccomp.h>
#include <sys/mount.h>
#include <unistd.h>

/*
 * All that `systemd-analyze syscall-filter` of systemd 252 to 257 lists and @system-service lacks, without calls of
 * other architectures, and seccomp, by which tests install filters of their own. Ours of them, once: mincore (until
 * 241 in the group), cachestat (listed since 254).
 */
static const char *const others[] = {
	"acct",
	"adjtimex",
	"bpf",
	"cachestat",
	"chroot",
	"clock_adjtime",
	"clock_settime",
	"create_module",
	"delete_module",
	"fanotify_init",
	"fanotify_mark",
	"finit_module",
	"fsconfig",
	"fsmount",
	"fsopen",
	"fspick",
	"init_module",
	"ioperm",
	"iopl",
	"kexec_file_load",
	"kexec_load",
	"landlock_add_rule",
	"landlock_create_ruleset",
	"landlock_restrict_self",
	"lookup_dcookie",
	"memfd_secret",
	"mincore",
	"modify_ldt",
	"mount",
	"mount_setattr",
	"move_mount",
	"open_by_handle_at",
	"open_tree",
	"perf_event_open",
	"pidfd_getfd",
	"pivot_root",
	"pkey_alloc",
	"pkey_free",
	"pkey_mprotect",
	"process_mrelease",
	"ptrace",
	"quotactl",
	"quotactl_fd",
	"reboot",
	"sethostname",
	"settimeofday",
	"swapoff",
	"swapon",
	"syslog",
	"umount2",
	"uselib",
	"ustat",
	"vhangup",
};

static bool hide_proc()
{
	return !unshare(CLONE_NEWNS) && !mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) &&
	       !mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "subset=pid");
}

/* Also sets NO_NEW_PRIVS. */
static bool filter()
{
	const scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	bool ok = f;

	for (const char *name : others) {
		int nr = seccomp_syscall_resolve_name(name);

		/* Newer than this libseccomp. */
		if (nr < 0 && !strcmp(name, "cachestat"))
			nr = 451;
		ok = ok && (nr < 0 || !seccomp_rule_add(f, SCMP_ACT_KILL_PROCESS, nr, 0));
	}
	return ok && !seccomp_load(f);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	if (!hide_proc())
		fprintf(stderr, "# /proc is complete here: %s\n", strerror(errno));
	if (!filter()) {
		fputs("hardened: no filter of system calls\n", stderr);
		return 2;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
