/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/unix_listener.h"

#include "driver/base/fd.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"

#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace usdma::sim {

static int make_address(const std::string &path, sockaddr_un *out)
{
	*out = {};
	if (path.empty() || path.size() >= sizeof(out->sun_path) || path.find('\0') != path.npos)
		return fail(EINVAL, "socket path of %zu bytes: 1 to %zu are possible", path.size(),
			    sizeof(out->sun_path) - 1);
	out->sun_family = AF_UNIX;
	memcpy(out->sun_path, path.data(), path.size());
	return 0;
}

static const sockaddr *as_sockaddr(const sockaddr_un &a)
{
	return reinterpret_cast<const sockaddr *>(&a);
}

/* Removes a socket that no process serves. 0: the path is free. */
static int remove_stale(const std::string &path, const sockaddr_un &addr)
{
	unique_fd probe(fd_above_stdio(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
	struct stat st;

	if (lstat(path.c_str(), &st))
		return errno == ENOENT ? 0 : fail_errno("%s", path.c_str());
	if (!S_ISSOCK(st.st_mode))
		return fail(EEXIST, "%s exists and is not a socket: choose another path or remove it", path.c_str());
	if (!probe.valid())
		return fail_errno("socket");
	if (!connect(probe.get(), as_sockaddr(addr), sizeof(addr)) || errno == EAGAIN)
		return fail(EADDRINUSE, "%s is served by another process: choose another path or end that one",
			    path.c_str());
	if (errno != ECONNREFUSED)
		return fail_errno("%s is a socket: cannot determine whether a process serves it", path.c_str());
	return unlink(path.c_str()) ? fail_errno("cannot remove the old socket %s", path.c_str()) : 0;
}

int unix_listener::open(const std::string &path)
{
	unique_fd sock(fd_above_stdio(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
	sockaddr_un addr;
	int err = make_address(path, &addr);

	if (!err && !sock.valid())
		err = fail_errno("socket");
	if (!err)
		err = remove_stale(path, addr);
	if (err)
		return err;
	/* Before bind(), which applies the mode (unix(7)): other users can never connect. */
	if (fchmod(sock.get(), 0600))
		return fail_errno("cannot set the mode of the socket");
	if (!try_assign(&path_, path))
		return no_memory("the socket's path");
	if (bind(sock.get(), as_sockaddr(addr), sizeof(addr)))
		return fail_errno("cannot make the socket %s", path.c_str());
	if (stat(path.c_str(), &made_) || listen(sock.get(), 4))
		return fail_errno("cannot listen on %s", path.c_str());
	sock_ = std::move(sock);
	return 0;
}

static int int_option(int fd, int name)
{
	int v = -1;
	socklen_t len = sizeof(v);

	return getsockopt(fd, SOL_SOCKET, name, &v, &len) ? -1 : v;
}

int unix_listener::adopt(unique_fd sock)
{
	const int fd = sock.get();

	if (int_option(fd, SO_DOMAIN) != AF_UNIX || int_option(fd, SO_TYPE) != SOCK_STREAM ||
	    int_option(fd, SO_ACCEPTCONN) != 1)
		return fail(ENOTSOCK, "descriptor %d is not a UNIX stream socket that listens", fd);
	/* A client that left before it was accepted must not block the loop. */
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) || fcntl(fd, F_SETFL, O_NONBLOCK))
		return fail_errno("fcntl of descriptor %d", fd);
	any_peer_ = true;
	sock_ = std::move(sock);
	return 0;
}

unix_listener::~unix_listener()
{
	remove_path();
}

void unix_listener::remove_path()
{
	struct stat st;

	if (!path_.empty() && !stat(path_.c_str(), &st) && st.st_ino == made_.st_ino && st.st_dev == made_.st_dev)
		unlink(path_.c_str());
	path_.clear();
}

/* Only the user that runs the server, and root, whatever the socket's mode is now. */
static bool is_allowed(int sock)
{
	ucred peer = {};
	socklen_t len = sizeof(peer);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return false;
	if (peer.uid == geteuid() || peer.uid == 0)
		return true;
	log_warn_limited("a client of user %u is rejected: the server runs as %u", peer.uid, geteuid());
	return false;
}

int unix_listener::accept(unique_fd *out, int flags, void (*refuse)(int sock))
{
	out->reset(fd_above_stdio(accept4(sock_.get(), nullptr, nullptr, SOCK_CLOEXEC | flags)));
	if (!out->valid() && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
		return fail_errno("accept");
	if (out->valid() && !any_peer_ && !is_allowed(out->get())) {
		if (refuse)
			refuse(out->get());
		out->reset();
	}
	return out->valid() ? 0 : -EAGAIN;
}

} // namespace usdma::sim
