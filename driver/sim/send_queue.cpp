/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/send_queue.h"

#include "driver/base/error.h"

#include <algorithm>
#include <sys/socket.h>

namespace usdma::sim {

namespace proto = vfio::proto;

int send_queue::put(proto::header head, std::span<const iovec> parts, std::span<const int> fds, deadline until)
{
	u64 size = sizeof(head);

	for (const iovec &p : parts)
		size += p.iov_len;
	if (size > proto::our_max_message || fds.size() > std::size(fds_))
		return fail(EMSGSIZE, "vfio-user message of %llu bytes and %zu descriptors",
			    static_cast<unsigned long long>(size), fds.size());
	drop();
	head.size = u32(size);
	bytes_.append(&head, sizeof(head));
	for (const iovec &p : parts)
		bytes_.append(p.iov_base, p.iov_len);
	if (bytes_.truncated()) {
		drop();
		return no_memory("a message to the vfio-user client");
	}
	std::copy(fds.begin(), fds.end(), fds_);
	n_fds_ = fds.size();
	until_ = until;
	return 0;
}

void send_queue::drop()
{
	bytes_.clear();
	at_ = n_fds_ = 0;
	until_ = deadline::never();
}

/* The file descriptors are sent with the first byte. */
ssize_t send_queue::send_some(int sock)
{
	alignas(cmsghdr) char control[CMSG_SPACE(sizeof(fds_))] = {};
	iovec iov = {bytes_.data() + at_, bytes_.size() - at_};
	msghdr m{};

	m.msg_iov = &iov;
	m.msg_iovlen = 1;
	if (n_fds_ && !at_) {
		m.msg_control = control;
		m.msg_controllen = CMSG_SPACE(n_fds_ * sizeof(int));
		cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds_ * sizeof(int));
		memcpy(CMSG_DATA(c), fds_, n_fds_ * sizeof(int));
	}
	return sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int send_queue::push(int sock)
{
	while (!empty()) {
		const ssize_t n = send_some(sock);

		if (n >= 0)
			at_ += size_t(n);
		else if (errno == EAGAIN || errno == EWOULDBLOCK)
			return -EAGAIN;
		else if (errno == EPIPE || errno == ECONNRESET)
			return fail(ENODEV, "the vfio-user client has disconnected");
		else if (errno != EINTR)
			return fail_errno("send to the vfio-user client");
	}
	drop();
	return 0;
}

int locked_send_queue::put(proto::header head, std::span<const iovec> parts, std::span<const int> fds, deadline until)
{
	const int err = slots_[(first_ + n_) % most].put(head, parts, fds, until);

	n_ += !err;
	return err;
}

void locked_send_queue::take(send_queue *to)
{
	std::swap(*to, slots_[first_]);
	first_ = (first_ + 1) % most;
	n_--;
}

} // namespace usdma::sim
