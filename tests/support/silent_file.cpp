/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/support/silent_file.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef TEST_FUSE
#define FUSE_USE_VERSION 31
#include <fuse3/fuse_lowlevel.h>
#endif

namespace usdma::test {

#ifdef TEST_FUSE

/* A byte and a descriptor. */
struct fd_message {
	fd_message()
	{
		head.msg_iov = &part;
		head.msg_iovlen = 1;
		head.msg_control = control;
		head.msg_controllen = sizeof(control);
	}
	alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
	char byte = 0;
	iovec part = {&byte, 1};
	msghdr head = {};
};

static void send_fd(int to, int fd)
{
	fd_message m;

	if (fd < 0)
		_exit(1);
	cmsghdr *c = CMSG_FIRSTHDR(&m.head);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	sendmsg(to, &m.head, 0);
}

/* -1: the peer exited. */
static int receive_fd(int from)
{
	fd_message m;
	int fd = -1;

	if (recvmsg(from, &m.head, MSG_CMSG_CLOEXEC) == 1)
		if (const cmsghdr *c = CMSG_FIRSTHDR(&m.head))
			memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static constexpr fuse_ino_t root = 1, file = 2;

static struct stat status_of(fuse_ino_t ino)
{
	struct stat st = {};

	st.st_ino = ino;
	st.st_nlink = 1;
	st.st_mode = ino == root ? S_IFDIR | 0755 : S_IFREG | 0666;
	st.st_size = 4 << 20;
	return st;
}

/* The reply is not cached: the next request is not answered, as all others. */
static void answer_lookup(fuse_req_t r, fuse_ino_t, const char *)
{
	fuse_entry_param e = {};

	e.ino = file;
	e.attr = status_of(file);
	fuse_reply_entry(r, &e);
}

static void answer_open(fuse_req_t r, fuse_ino_t, fuse_file_info *info)
{
	fuse_reply_open(r, info);
}

static void answer_getattr(fuse_req_t r, fuse_ino_t ino, fuse_file_info *)
{
	const struct stat st = status_of(ino);

	if (ino == root)
		fuse_reply_attr(r, &st, 1);
}

static void no_answer(fuse_req_t, fuse_ino_t, fuse_file_info *) {}

static void answer_ok(fuse_req_t r, fuse_ino_t, fuse_file_info *)
{
	fuse_reply_err(r, 0);
}

/* Without the page cache: each read and write is a request. */
static void answer_open_direct(fuse_req_t r, fuse_ino_t, fuse_file_info *info)
{
	info->direct_io = 1;
	fuse_reply_open(r, info);
}

static void faulty_read(fuse_req_t r, fuse_ino_t, size_t size, off_t at, fuse_file_info *)
{
	static char data[faulty_at];
	const size_t from = size_t(at);

	if (from >= silent_at)
		return;
	if (from + size > faulty_at) {
		fuse_reply_err(r, EIO);
		return;
	}
	for (size_t i = 0; i < size; i++)
		data[i] = char(faulty_byte(from + i));
	fuse_reply_buf(r, data, size);
}

static void faulty_write(fuse_req_t r, fuse_ino_t, const char *, size_t size, off_t at, fuse_file_info *)
{
	if (size_t(at) >= silent_at)
		return;
	if (size_t(at) + size > faulty_at)
		fuse_reply_err(r, ENOSPC);
	else
		fuse_reply_write(r, size);
}

static void faulty_fsync(fuse_req_t r, fuse_ino_t, int, fuse_file_info *)
{
	usleep(faulty_sync_ms * 1000);
	fuse_reply_err(r, EIO);
}

[[noreturn]] static void open_and_send(int to, const char *where)
{
	char path[64];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(path, sizeof(path), "%s/silent", where);
	send_fd(to, open(path, O_RDWR | O_CLOEXEC));
	for (;;)
		pause();
}

enum class behaviour { silent, closes, faulty };

/* In a mount namespace of its own, so that the mount ends with the process. */
[[noreturn]] static void serve_file_system(int to, behaviour how)
{
	fuse_lowlevel_ops ops = {};
	char name[] = "silent", where[] = "/tmp";
	char *words[] = {name, nullptr};
	fuse_args args = FUSE_ARGS_INIT(1, words);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ops.lookup = answer_lookup, ops.getattr = answer_getattr, ops.open = answer_open;
	ops.flush = ops.release = how == behaviour::silent ? no_answer : answer_ok;
	if (how == behaviour::faulty)
		ops.open = answer_open_direct, ops.read = faulty_read, ops.write = faulty_write,
		ops.fsync = faulty_fsync;
	fuse_session *s = !unshare(CLONE_NEWNS) && !mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) ?
				  fuse_session_new(&args, &ops, sizeof(ops), nullptr) :
				  nullptr;
	if (!s || fuse_session_mount(s, where))
		_exit(1);
	if (!fork()) {
		close(fuse_session_fd(s)); /* the server's is the last one */
		open_and_send(to, where);
	}
	close(to); /* so that receive_fd() returns if the child exits */
	fuse_session_loop(s);
	_exit(0);
}

static pid_t server = -1;

static int make_file(const char **why, behaviour how)
{
	int fds[2], fd;

	*why = "no FUSE can be mounted here: not root, or no /dev/fuse";
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return -1;
	server = fork();
	if (!server) {
		close(fds[0]);
		serve_file_system(fds[1], how);
	}
	close(fds[1]);
	fd = receive_fd(fds[0]);
	close(fds[0]);
	return fd;
}

/* Pending requests fail when the server ends. */
void end_silent_file()
{
	if (server > 0 && !kill(server, SIGKILL))
		waitpid(server, nullptr, 0);
	server = -1;
}

#else

enum class behaviour { silent, closes, faulty };

static int make_file(const char **why, behaviour)
{
	*why = "the tests were built without libfuse3 (libfuse3-dev)";
	return -1;
}

void end_silent_file() {}

#endif

int silent_file(const char **why, bool closes)
{
	return make_file(why, closes ? behaviour::closes : behaviour::silent);
}

int faulty_file(const char **why)
{
	return make_file(why, behaviour::faulty);
}

int lingering_socket()
{
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
		  fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const linger hour = {1, 3600};
	sockaddr_in at = {};
	socklen_t len = sizeof(at);
	char data[4096] = {};

	at.sin_family = AF_INET;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, reinterpret_cast<sockaddr *>(&at), len) || listen(listener, 1) ||
	    getsockname(listener, reinterpret_cast<sockaddr *>(&at), &len) ||
	    connect(fd, reinterpret_cast<sockaddr *>(&at), len))
		abort();
	while (send(fd, data, sizeof(data), MSG_DONTWAIT) > 0) {
	}
	if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &hour, sizeof(hour)))
		abort();
	/* The listener stays open: the connection is neither accepted nor refused. */
	return fd;
}

} // namespace usdma::test
