/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client side of a vfio-user connection: calls from many threads, each with a deadline, and a receiver
 * thread that delivers replies to their callers, serves the server's commands, and detects the end.
 */
#pragma once

#include "driver/base/barrier.h"
#include "driver/base/futex_lock.h"
#include "driver/vfio_user/socket.h"

#include <mutex>
#include <pthread.h>
#include <span>

namespace usdma::vfio {

/* Callbacks of the receiver thread. */
struct user_link_ops {
	/*
	 * Handles a command of the server. 0: reply with *reply; -EPROTO: a protocol violation, close the connection;
	 * other -errno: sent in the reply.
	 */
	int (*serve)(void *arg, const user_message &cmd, message_body *reply);
	/* The connection is closed and calls have ended; called once, possibly by a caller's thread. */
	void (*lost)(void *arg);
};

class user_link {
public:
	user_link() = default;
	~user_link() { stop(); }
	user_link(const user_link &) = delete;
	user_link &operator=(const user_link &) = delete;

	int start(unique_fd sock, u64 timeout_ms, const user_link_ops *ops, void *arg);
	/* Ends the thread; lost() is unchanged, ops->lost is not called. Calls must have ended. */
	void stop();

	/*
	 * Sends a command and waits for its reply. -ETIMEDOUT; -ENODEV: lost; otherwise the server's error. The
	 * caller checks the length of the reply's body.
	 */
	int call(proto::command cmd, std::span<const iovec> parts, std::span<const int> fds, user_message *reply);

	/* Sends a command that has no reply. */
	int post(proto::command cmd, std::span<const iovec> parts);

	/* As device::set_deadline(). */
	void set_deadline(u64 ms);
	/* As device::limit_wait(). */
	void limit_wait(u64 ms);

	/*
	 * Closes the connection, after a protocol violation or when the server cannot be trusted any more. Preserves
	 * the error text. Our direction is shut down, the other is read until its end: see ended().
	 */
	void give_up();

	bool lost() const { return load_acquire(&lost_); }
	/*
	 * After the loss: the server has closed its end, which it does when its device no longer accesses this
	 * process's memory (as does its exit). A server that hangs has not.
	 */
	bool ended() const { return load_acquire(&ended_); }
	int lost_fd() const { return lost_fd_.get(); }

private:
	struct pending;

	static void *thread_main(void *arg);
	void receive();
	void await_end();
	int handle(user_message *m);
	int handle_reply(user_message *m, int err);
	int handle_bodyless(user_message *m, int err);
	int handle_command(const user_message &m);
	int send_reply(const user_message &to, int err, const message_body &body);
	int send(proto::header head, std::span<const iovec> parts, std::span<const int> fds, deadline until);
	u64 wait_ms() const;
	deadline reply_deadline() const;
	int too_late(proto::command cmd, deadline until);
	int enter(pending *p);
	void leave(pending *p);
	void end_pending();
	void mark_lost();

	unique_fd sock_;
	unique_fd lost_fd_;
	u64 timeout_ms_ = 0;
	u64 limit_ms_ = 0, limited_ = 0; /* of one thread, which is the second; 0: none; atomic */
	u64 total_ms_ = 0;               /* total deadline's length; 0: none; atomic */
	u64 total_ns_ = ~u64(0);         /* and when it expires; atomic */
	const user_link_ops *ops_ = nullptr;
	void *arg_ = nullptr;
	pthread_t thread_{};
	bool running_ = false;
	bool lost_ = false; /* atomic, as the next two */
	bool ended_ = false;
	bool stopping_ = false;

	futex_lock send_lock_; /* one message at a time on the socket, held for as long as the server does not read */
	std::mutex wait_lock_; /* protects waiting_ and next_id_ */
	pending *waiting_ = nullptr;
	u16 next_id_ = 1;
};

} // namespace usdma::vfio
