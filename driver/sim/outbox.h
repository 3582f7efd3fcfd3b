/* SPDX-License-Identifier: BSD-3-Clause */
/* One vfio-user message on its way out: sent as far as the socket takes it, without ever waiting for the peer. */
#pragma once

#include "driver/base/clock.h"
#include "driver/vfio/user_message.h"

#include <span>
#include <sys/uio.h>

namespace usdma::sim {

class outbox {
public:
	bool empty() const { return at_ == bytes_.size(); }
	/* Whether the peer has part of it: then the rest must follow before anything else. */
	bool begun() const { return at_ != 0 && !empty(); }
	const deadline &until() const { return until_; }

	/* Copies what it is given (descriptors stay the caller's); only while empty.  -ENOMEM, -EMSGSIZE. */
	int put(vfio::proto::header head, std::span<const iovec> parts, std::span<const int> fds, deadline until);
	/* 0: all of it is out; -EAGAIN: the socket takes no more now; else -errno. */
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

/* Replies in their order.  Bounded: a client that asks and does not read is not read from either, once it is full. */
class outbox_queue {
public:
	static constexpr size_t most = 16;

	bool empty() const { return !n_; }
	bool full() const { return n_ == most; }
	/* As outbox::put; only while not full. */
	int put(vfio::proto::header head, std::span<const iovec> parts, std::span<const int> fds, deadline until);
	/* The oldest; only while not empty. */
	void take(outbox *to);

private:
	outbox slots_[most];
	size_t first_ = 0, n_ = 0;
};

} // namespace usdma::sim
