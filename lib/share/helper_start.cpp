/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/share/helper_start.h"

#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/fd.h"
#include "driver/base/words.h"
#include "lib/core/config/config.h"
#include "lib/share/fabric.h"

#include <arpa/inet.h>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace usdma::core {

static constexpr u64 start_ms = 20000;

/* ---- requests -------------------------------------------------------------------------------------------- */

int helper_send(int socket, const helper_request &r, const int *fds, unsigned n, u64 wait_ms)
{
	alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
	iovec from = {const_cast<helper_request *>(&r), sizeof(r)};
	pollfd p = {socket, POLLOUT, 0};
	msghdr m = {};

	m.msg_iov = &from;
	m.msg_iovlen = 1;
	if (n) {
		m.msg_control = control;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		cmsghdr *const c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	for (const deadline end = deadline::in_ms(wait_ms);; poll(&p, 1, end.left_ms(int(wait_ms)))) {
		if (sendmsg(socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
			return 0;
		if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN)
			return fail(ECONNRESET, "usdma-net has ended: %s", strerror(errno));
		if (errno != EAGAIN && errno != EINTR)
			return fail_errno("a request to usdma-net");
		if (end.passed())
			return fail(EAGAIN, "usdma-net takes no requests");
	}
}

/* ---- the program ------------------------------------------------------------------------------------------ */

struct command {
	char program[PATH_MAX], lost_ms[16], host[33];
	const char *words[16];
};

/* "": unknown. */
static const char *this_library()
{
	Dl_info here = {};

	return dladdr(reinterpret_cast<void *>(&this_library), &here) && here.dli_fname ? here.dli_fname : "";
}

/*
 * A program that others may change is theirs: as the dynamic linker trusts files of this user and of root, and as this
 * library was trusted. In a user namespace root's files may have another owner.
 */
static int check_program(const char *path)
{
	struct stat st, own;

	if (stat(path, &st))
		return fail_errno("%s", path);
	const bool as_library = !stat(this_library(), &own) && own.st_uid == st.st_uid;
	const bool foreign = st.st_uid && st.st_uid != geteuid() && !as_library;
	const bool by_group = st.st_mode & S_IWGRP && st.st_gid && st.st_gid != getegid();
	return foreign || by_group || st.st_mode & S_IWOTH ?
		       fail(EACCES, "%s is not run: it belongs to another user, or others may write it", path) :
		       0;
}

/* In the tree that built this library, or installed. */
static bool find_program(char path[PATH_MAX])
{
	const char *const here = this_library(), *const end = strrchr(here, '/');

	snprintf(path, PATH_MAX, "%.*s/../../net/usdma-net", end ? int(end - here) : 1, end ? here : ".");
	if (!access(path, X_OK))
		return true;
	static constexpr char installed[] = USDMA_PREFIX "/libexec/usdma/usdma-net";
	static_assert(sizeof(installed) <= PATH_MAX);

	memcpy(path, installed, sizeof(installed));
	return !access(path, X_OK);
}

static int make_command(const config &c, command *out)
{
	u8 id[16];
	size_t n = 0;

	if (c.net.empty())
		return fail(EOPNOTSUPP,
			    "the setting net (USDMA_NET) is empty: it names the interface to other machines");
	if (c.net_key_file.empty())
		return fail(EINVAL,
			    "net is given, and net_key_file (USDMA_NET_KEY_FILE) is empty: it names the file with "
			    "the key that the machines share");
	if (!find_program(out->program))
		return fail(ENOPKG,
			    "usdma-net is not installed: install the package usdma-net, or build with UCX 1.13 or "
			    "later and nettle");
	if (const int err = check_program(out->program))
		return err;
	fabric_boot_id(id);
	for (size_t i = 0; i < sizeof(id); i++)
		snprintf(out->host + 2 * i, 3, "%02x", id[i]);
	snprintf(out->lost_ms, sizeof(out->lost_ms), "%u", c.net_lost_ms);
	for (const char *word :
	     {static_cast<const char *>(out->program), "--net", c.net.c_str(), "--key-file", c.net_key_file.c_str(),
	      "--tls", c.net_tls.c_str(), "--lost-ms", static_cast<const char *>(out->lost_ms), "--host-id",
	      static_cast<const char *>(out->host), "--program"})
		out->words[n++] = word;
	out->words[n] = nullptr;
	return 0;
}

/* Without the program's descriptors, signal mask and handlers; what UCX has to say goes nowhere. */
static int spawn(const command &c, int socket, int output, pid_t *pid)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	sigset_t none, all;
	char *const env[] = {nullptr};

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&how);
	posix_spawn_file_actions_adddup2(&files, socket, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
	posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&how, &none);
	posix_spawnattr_setsigdefault(&how, &all);
	const int err = posix_spawn(pid, c.program, &files, &how, const_cast<char **>(c.words), env);
	posix_spawnattr_destroy(&how);
	posix_spawn_file_actions_destroy(&files);
	return err ? fail(err, "%s: %s", c.program, strerror(err)) : 0;
}

/* ---- its first line ---------------------------------------------------------------------------------------- */

/* False: it has ended, or is late. */
static bool read_line(int fd, char *line, size_t size)
{
	const deadline end = deadline::in_ms(start_ms);
	pollfd p = {fd, POLLIN, 0};
	size_t n = 0;

	while (n + 1 < size && !end.passed()) {
		if (poll(&p, 1, end.left_ms(int(start_ms))) <= 0)
			continue;
		const ssize_t got = read(fd, line + n, 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		if (line[n] == '\n') {
			line[n] = '\0';
			return true;
		}
		n++;
	}
	return false;
}

/* "listening ADDRESS PORT …", "error KIND TEXT" (net/main.cpp). */
static int take_line(const char *line, net_address *at)
{
	char address[64], kind[16];
	unsigned port;
	int text = 0;

	*at = {};
	if (sscanf(line, "listening %63s %u", address, &port) == 2 && port <= 0xffff) {
		at->port = u16(port);
		at->family = strchr(address, ':') ? 6 : 4;
		if (inet_pton(at->family == 6 ? AF_INET6 : AF_INET, address, at->address) == 1)
			return 0;
	}
	if (sscanf(line, "error %15s %n", kind, &text) == 1 && text)
		return fail(strcmp(kind, "setting") ? EIO : EINVAL, "usdma-net: %s", line + text);
	return fail(EIO, "usdma-net does not start");
}

static void await(pid_t pid)
{
	while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR)
		;
}

static int make_pair(int flags, int (*make)(int out[2], int flags), unique_fd *a, unique_fd *b)
{
	int out[2];

	if (make(out, flags))
		return fail_errno("a connection to usdma-net");
	a->reset(fd_above_stdio(out[0]));
	b->reset(fd_above_stdio(out[1]));
	return a->valid() && b->valid() ? 0 : fail_errno("a connection to usdma-net");
}

static int helpers_end = -1; /* of the socket, while one starts; atomic */

/* A child of fork that had it would hide the helper's death. */
static void close_helpers_end()
{
	const int fd = load_relaxed(&helpers_end);

	if (fd >= 0)
		close(fd);
}

static void keep_from_children(int fd)
{
	static const int once = pthread_atfork(nullptr, nullptr, close_helpers_end);

	(void)once;
	store_relaxed(&helpers_end, fd);
}

static int make_sockets(int out[2], int flags)
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | flags, 0, out);
}

static int begin(int socket, int memory)
{
	const unique_fd life(fd_above_stdio(int(syscall(SYS_pidfd_open, getpid(), 0))));
	const int fds[] = {memory, life.get()};
	helper_request r = {};

	r.op = u32(helper_op::begin);
	r.id = helper_version;
	/* Without (before Linux 5.3, or forbidden) the end of the program is that of the socket, which children may
	 * hold. */
	return helper_send(socket, r, fds, life.valid() ? 2 : 1);
}

/* The process that is started makes another one, which stays, and exits (net/main.cpp). */
int helper_start(int memory, unique_fd *socket, net_address *at)
{
	unique_fd theirs, output, input;
	char line[512] = "";
	command c;
	pid_t pid;
	int err = make_command(config_get(), &c);

	if (!err)
		err = make_pair(SOCK_CLOEXEC, make_sockets, socket, &theirs);
	keep_from_children(theirs.get());
	if (!err)
		err = make_pair(O_CLOEXEC, pipe2, &output, &input);
	if (!err)
		err = begin(socket->get(), memory);
	if (!err)
		err = spawn(c, theirs.get(), input.get(), &pid);
	keep_from_children(-1);
	if (err)
		return err;
	theirs.reset();
	input.reset();
	const bool said = read_line(output.get(), line, sizeof(line));
	/* If it is late: the one that stays finds the socket closed. */
	if (!said) {
		socket->reset();
		kill(pid, SIGKILL);
	}
	await(pid);
	return said ? take_line(line, at) : fail(EIO, "usdma-net does not start");
}

} // namespace usdma::core
