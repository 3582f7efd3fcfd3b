/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One vfio-user connection as the client has it: calls from many threads, each
 * with a deadline, and one thread that receives: it hands replies to those who
 * wait, has commands of the server served, and notices the end.
 */
#pragma once

#include "driver/vfio/user_socket.h"

#include <atomic>
#include <mutex>
#include <pthread.h>
#include <span>

namespace usdma::vfio {

/* What the receiver thread calls. */
struct user_link_ops {
	/*
	 * A command of the server.  0: reply with what was put into *reply; -EPROTO: it
	 * breaks the protocol, end the connection; other -errno: goes into the reply.
	 */
	int (*serve)(void *arg, const user_message &cmd, message_body *reply);
	/* The connection is at its end, calls have ended; once, maybe in the thread of a call. */
	void (*lost)(void *arg);
};

class user_link {
public:
	user_link() = default;
	~user_link() { stop(); }
	user_link(const user_link &) = delete;
	user_link &operator=(const user_link &) = delete;

	int start(unique_fd sock, u64 timeout_ms, const user_link_ops *ops, void *arg);
	/* Ends the thread; lost() stays as it was, ops->lost is not called.  Calls must have ended. */
	void stop();

	/*
	 * Sends a command and waits for its reply.  -ETIMEDOUT; -ENODEV: lost; else
	 * what the server answered.  The reply's body is of any length: the caller checks.
	 */
	int call(proto::command cmd, std::span<const iovec> parts, std::span<const int> fds, user_message *reply);

	/* As device::hurry(). */
	void hurry(u64 ms);

	/*
	 * The server broke the protocol (or cannot be trusted any more): ends the connection.  Keeps the error's text.
	 * Our half is closed, the other is read until its end: see ended().
	 */
	void give_up();

	bool lost() const { return lost_.load(std::memory_order_acquire); }
	/*
	 * After the loss: the server has closed its end, which it does when its device has left this process's memory
	 * (a process that ended has).  One that only hangs has not.
	 */
	bool ended() const { return ended_.load(std::memory_order_acquire); }
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
	deadline answer_by() const;
	int too_late(proto::command cmd, deadline until);
	int enter(pending *p);
	void leave(pending *p);
	void end_pending();
	void set_lost();

	unique_fd sock_;
	unique_fd lost_fd_;
	u64 timeout_ms_ = 0;
	std::atomic<u64> hurry_ms_{0};       /* 0: there is none */
	std::atomic<u64> hurry_ns_{~u64(0)}; /* until when */
	const user_link_ops *ops_ = nullptr;
	void *arg_ = nullptr;
	pthread_t thread_{};
	bool running_ = false;
	std::atomic<bool> lost_{false};
	std::atomic<bool> ended_{false};
	std::atomic<bool> stopping_{false};

	std::mutex send_lock_; /* one message at a time on the socket */
	std::mutex wait_lock_; /* list and number */
	pending *waiting_ = nullptr;
	u16 next_id_ = 1;
};

} // namespace usdma::vfio
