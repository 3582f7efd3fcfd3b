/* SPDX-License-Identifier: BSD-3-Clause */
/* The process at the other end of a Unix socket. */
#pragma once

#include "driver/base/fd.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace usdma {

/*
 * A pidfd, which poll() finds readable when that process has ended: a child that it has forked may still have the
 * socket, which then is not at its end. -1: it is this process, or is not visible here.
 */
inline int peer_process(int socket)
{
	ucred peer = {};
	socklen_t len = sizeof(peer);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &len) || peer.pid <= 0 || peer.pid == getpid())
		return -1;
	return fd_above_stdio(int(syscall(SYS_pidfd_open, peer.pid, 0)));
}

} // namespace usdma
