/* SPDX-License-Identifier: BSD-3-Clause */
/* One vfio-user message being sent, as far as the socket accepts it, without ever waiting for the peer. */
#pragma once

#include "driver/base/clock.h"
#include "driver/vfio_user/message.h"

#include <span>
#include <sys/uio.h>

namespace usdma::sim {

class send_queue {
public:
	bool empty() const { return at_ == bytes_.size(); }
	/* The peer has received a part: the rest must be sent before anything else. */
	bool begun() const { return at_ != 0 && !empty(); }
	const deadline &until() const { return until_; }

	/* Copies the message (descriptors stay the caller's); only while empty. -ENOMEM, -EMSGSIZE. */
	int put(vfio::proto::header head, std::span<const iovec> parts, std::span<const int> fds, deadline until);
	/* 0: all sent; -EAGAIN: the socket buffer is full; else -errno. */
	int push(int sock);
	void drop();

private:
	ssize_t send_some(int sock);

	vfio::message_body bytes_;
	size_t at_ = 0;
	int fds_[vfio::proto::our_max_msg_fds] = {};
	size_t n_fds_ = 0;
	deadline until_ = deadline::never();
};

/* Replies in order. Bounded: while full, the server does not read from a client that does not read its replies. */
class locked_send_queue {
public:
	static constexpr size_t most = 16;

	bool empty() const { return !n_; }
	bool full() const { return n_ == most; }
	/* As send_queue::put; only while not full. */
	int put(vfio::proto::header head, std::span<const iovec> parts, std::span<const int> fds, deadline until);
	/* Moves the oldest out; only while not empty. */
	void take(send_queue *to);

private:
	send_queue slots_[most];
	size_t first_ = 0, n_ = 0;
};

} // namespace usdma::sim
