/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/vfio_user/socket.h"

#include "driver/base/await_fds.h"
#include "driver/base/error.h"
#include "driver/base/fd.h"

#include <climits>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace usdma::vfio {

static constexpr size_t control_size = CMSG_SPACE(sizeof(int) * proto::our_max_msg_fds);
/*
 * The maximum of a message (SCM_MAX_FD): the kernel closes descriptors that do not fit, synchronously in this
 * thread.
 */
static constexpr size_t control_space = CMSG_SPACE(sizeof(int) * 253);

static int peer_closed()
{
	return fail(ENODEV, "the vfio-user connection is closed: the peer exited or was killed");
}

/* 0: ready (or in error, which the next call on the socket reports); -ETIMEDOUT. */
static int wait_ready(int sock, short events, deadline until)
{
	while (true) {
		pollfd p = {sock, events, 0};
		const int n = await_fds(&p, 1, until.is_never() ? -1 : until.left_ms(INT_MAX));

		if (n > 0)
			return 0;
		if (until.passed())
			return -ETIMEDOUT;
	}
}

static void put_fds(msghdr *m, char *control, std::span<const int> fds)
{
	cmsghdr *c;

	if (fds.empty())
		return;
	m->msg_control = control;
	m->msg_controllen = CMSG_SPACE(fds.size_bytes());
	memset(control, 0, m->msg_controllen);
	c = CMSG_FIRSTHDR(m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(fds.size_bytes());
	memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
}

/* Removes n bytes from the front of the vector. */
static void advance(msghdr *m, size_t n)
{
	while (m->msg_iovlen && n >= m->msg_iov->iov_len) {
		n -= m->msg_iov->iov_len;
		m->msg_iov++;
		m->msg_iovlen--;
	}
	if (m->msg_iovlen) {
		m->msg_iov->iov_base = static_cast<u8 *>(m->msg_iov->iov_base) + n;
		m->msg_iov->iov_len -= n;
	}
}

static int send_error(bool partial)
{
	if (errno == EPIPE || errno == ECONNRESET)
		return peer_closed();
	return partial ? fail(EPROTO, "send failed within a vfio-user message: %s", strerrordesc_np(errno)) :
			 fail_errno("send on the vfio-user socket");
}

static int send_all(int sock, msghdr *m, deadline until)
{
	bool partial = false;

	while (m->msg_iovlen) {
		const ssize_t n = sendmsg(sock, m, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0) {
			partial = true;
			/* The descriptors were sent with the first byte. */
			m->msg_control = nullptr;
			m->msg_controllen = 0;
			advance(m, size_t(n));
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN && errno != EWOULDBLOCK)
			return send_error(partial);
		if (const int err = wait_ready(sock, POLLOUT, until); err == -ETIMEDOUT)
			return fail(partial ? EPROTO : ETIMEDOUT, "the vfio-user peer does not read its socket");
		else if (err)
			return err;
	}
	return 0;
}

int user_send(int sock, proto::header head, std::span<const iovec> parts, std::span<const int> fds, deadline until)
{
	alignas(cmsghdr) char control[control_size];
	iovec iov[1 + user_send_parts];
	u64 size = sizeof(head);
	msghdr m{};

	if (parts.size() > user_send_parts || fds.size() > proto::our_max_msg_fds)
		return fail(EINVAL, "vfio-user message of %zu parts and %zu descriptors", parts.size(), fds.size());
	iov[0] = {&head, sizeof(head)};
	for (size_t i = 0; i < parts.size(); i++) {
		iov[1 + i] = parts[i];
		size += parts[i].iov_len;
	}
	if (size > proto::our_max_message)
		return fail(EMSGSIZE, "vfio-user message of %llu bytes", static_cast<unsigned long long>(size));
	head.size = u32(size);
	m.msg_iov = iov;
	m.msg_iovlen = 1 + parts.size();
	put_fds(&m, control, fds);
	return send_all(sock, &m, until);
}

/* Takes ownership of all received descriptors, even if the message is invalid. */
static void take_fds(msghdr *m, message_fds *fds)
{
	for (cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= c->cmsg_len; at += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
			fd = fd_above_stdio(fd);
			if (fd < 0)
				fds->mark_lost();
			else
				fds->push(unique_fd(fd));
		}
	}
}

/* One receive: bytes (0 at the end of the stream), or -errno; -EAGAIN: no data. */
static ssize_t recv_some(int sock, u8 *buf, size_t len, message_fds *fds)
{
	alignas(cmsghdr) char control[control_space];
	iovec iov = {buf, len};
	msghdr m{};
	ssize_t n;

	m.msg_iov = &iov;
	m.msg_iovlen = 1;
	m.msg_control = control;
	m.msg_controllen = sizeof(control);
	n = recvmsg(sock, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == ECONNRESET ? 0 : -errno;
	take_fds(&m, fds);
	/* The buffer fits all that a message can carry: a truncation means that this process has no free descriptor. */
	if (m.msg_flags & MSG_CTRUNC)
		fds->mark_lost();
	if (fds->too_many())
		return fail(EPROTO, "vfio-user message with more than %u descriptors", proto::our_max_msg_fds);
	if (foreign_full() && fds->any_slow())
		return fail(EPROTO, "vfio-user message with a descriptor whose close may block, and too many such "
				    "closes are pending");
	return n;
}

/* Waits for at least one byte; the number received, or -errno. */
static ssize_t recv_wait(int sock, u8 *buf, size_t len, deadline until, message_fds *fds)
{
	while (true) {
		const ssize_t n = recv_some(sock, buf, len, fds);

		if (n > 0 || n == -EPROTO)
			return n;
		if (n == 0)
			return peer_closed();
		if (n == -EINTR)
			continue;
		if (n != -EAGAIN && n != -EWOULDBLOCK)
			return fail(int(-n), "receive on the vfio-user socket");
		if (const int err = wait_ready(sock, POLLIN, until))
			return err;
	}
}

static int recv_all(int sock, u8 *buf, size_t len, deadline until, message_fds *fds)
{
	for (size_t got = 0; got < len;) {
		const ssize_t n = recv_wait(sock, buf + got, len - got, until, fds);

		if (n < 0)
			return int(n);
		got += size_t(n);
	}
	return 0;
}

static int truncated_error(int err)
{
	if (err == -EPROTO)
		return err;
	return fail(EPROTO, "vfio-user message truncated: %s",
		    err == -ETIMEDOUT ? "the rest did not arrive in time" : "the connection closed within it");
}

static int check_head(const proto::header &h)
{
	if (h.size < sizeof(h) || h.size > proto::our_max_message)
		return fail(EPROTO, "vfio-user message has a size of %u bytes (%zu to %u are allowed)", h.size,
			    sizeof(h), proto::our_max_message);
	return 0;
}

/* Discards a body for which there is no memory, and its descriptors. */
static int discard_body(int sock, user_message *out, deadline rest)
{
	const size_t size = out->head.size - sizeof(out->head);
	u8 part[512];

	for (size_t at = 0; at < size; at += sizeof(part)) {
		const int err = recv_all(sock, part, std::min(sizeof(part), size - at), rest, &out->fds);

		if (err)
			return truncated_error(err);
	}
	out->body.clear();
	out->fds.clear();
	return no_memory("a vfio-user message");
}

int no_fds_free()
{
	errno = EMFILE;
	return fail_errno("the descriptors of a vfio-user message");
}

static int without_fds(user_message *out)
{
	out->body.clear();
	out->fds.clear();
	return no_fds_free();
}

int user_recv(int sock, deadline first, u64 rest_ms, user_message *out)
{
	u8 *const head = reinterpret_cast<u8 *>(&out->head);
	ssize_t got;
	int err;

	out->body.clear();
	out->fds.clear();
	got = recv_wait(sock, head, sizeof(out->head), first, &out->fds);
	if (got < 0)
		return int(got);
	const deadline rest = deadline::in_ms(rest_ms);

	err = recv_all(sock, head + got, sizeof(out->head) - size_t(got), rest, &out->fds);
	if (err)
		return truncated_error(err);
	err = check_head(out->head);
	if (err)
		return err;
	if (!out->body.resize(out->head.size - sizeof(out->head)))
		return discard_body(sock, out, rest);
	err = recv_all(sock, out->body.data(), out->body.size(), rest, &out->fds);
	if (err)
		return truncated_error(err);
	return out->fds.any_lost() ? without_fds(out) : 0;
}

/* Discards data and descriptors; on close the kernel would close these, and block for as long as that takes. */
static ssize_t discard_rest(int sock, deadline until)
{
	message_fds fds;
	u8 rest[4096];
	ssize_t n;

	do {
		fds.clear();
		n = recv_wait(sock, rest, sizeof(rest), until, &fds);
	} while (n > 0);
	return n;
}

bool user_await_end(int sock, deadline until)
{
	pollfd p = {sock, 0, 0};

	if (discard_rest(sock, until) == -ENODEV)
		return true;
	/* The peer sends data that cannot be received: wait for hang-up only. */
	await_fds(&p, 1, until.left_ms(INT_MAX));
	return p.revents & (POLLHUP | POLLERR);
}

static bool drained(int sock)
{
	return discard_rest(sock, deadline::in_ms(0)) == -ENODEV;
}

/* close(2) of a socket also closes descriptors in its queue. */
void user_hang_up(unique_fd sock)
{
	const saved_error why;

	shutdown(sock.get(), SHUT_RDWR);
	/*
	 * The peer cannot send any more: an error that stopped the first pass (too many, no memory) is followed by
	 * the rest.
	 */
	if (!drained(sock.get()) && !drained(sock.get()))
		close_foreign(std::move(sock));
	why.again(0); /* the end of the connection is not an error */
}

} // namespace usdma::vfio
