/* SPDX-License-Identifier: BSD-3-Clause */
/* This process among those of other machines: the control connections, the peers behind them, the loop of all. */
#pragma once

#include "net/address.h"
#include "net/handshake.h"
#include "net/worker.h"

#include "driver/base/clock.h"
#include "driver/base/unique_fd.h"

#include <memory>
#include <optional>
#include <string>
#include <sys/epoll.h>
#include <vector>

namespace usdma::net {

/* Connections that have not proved anything yet; one more closes the oldest. And peers that have. */
inline constexpr size_t strangers_most = 64, peers_most = slots_most - strangers_most;
/* From accept() or connect() to the last byte of the handshake, whatever the peer does. */
inline constexpr u64 handshake_ms = 5000;

struct node_options {
	local_net local;
	u8 host[id_len];
	u32 lost_ms;
};

class node {
public:
	/* What happens to peers, and to connections that this side began; the error's text says why one is gone. */
	struct watcher {
		void *arg = nullptr;
		void (*come)(void *arg, u32 slot, const std::string &address, const u8 host[id_len]) = nullptr;
		void (*gone)(void *arg, u32 slot, const std::string &address, int err) = nullptr;
		/* Connections between programs: whether one here waits for the name, and one that is made. */
		bool (*listens)(void *arg, bytes name) = nullptr;
		void (*stream)(void *arg, u32 slot, side me, bytes name, unique_fd fd) = nullptr;
	};

	node(const node_options &opt, const job_key &key, const watcher &to) : opt_(opt), key_(key), to_(to) {}
	node(const node &) = delete;
	node &operator=(const node &) = delete;

	/* UCX's part, and a descriptor whose end is that of the loop (-1: none). */
	int open(int end_fd);
	/* At the first free port for control connections, or at this one. */
	int listen(u16 *port);
	/* -ECONNREFUSED, -EHOSTUNREACH, -ETIMEDOUT, …: of the connection; else as handshake::take(). */
	int connect(const sockaddr_storage &to, u32 *slot);
	/* The same without waiting: the watcher hears what comes of it. */
	int connect_begin(const sockaddr_storage &to, u32 *slot, bytes stream = {});
	const local_net &local() const { return opt_.local; }
	/* Another descriptor whose input the loop waits for, one at most. */
	int set_source(int fd, void (*ready)(void *arg), void *arg);
	/* The loop ends when this one can be read. */
	int add_end(int fd) { return watch(fd, tag_end, EPOLLIN); }
	/* One turn: progress, then sleep until something comes or the time has passed. -ECANCELED: the end. */
	int turn(deadline until);
	worker &ucx() { return ucx_; }
	/* 0, or why the peer in the slot is gone. */
	int lost(u32 slot) const { return failures_[slot]; }

private:
	struct connection {
		unique_fd fd;
		sockaddr_storage peer = {};
		std::optional<handshake> talk; /* until it is done */
		u64 since = 0, pinged = 0;
		u32 slot = 0;
		side me = side::server;
		bool connecting = false;
		bool is_peer() const { return !talk; }
		/* Has come by itself, and proved nothing. */
		bool is_stranger() const { return talk && me == side::server; }
	};
	/* What epoll says of a descriptor; connections follow, by index. */
	enum mark : u64 { tag_ucx, tag_listener, tag_end, tag_source, tag_connection };

	int watch(int fd, u64 what, u32 how, bool change = false);
	int add(connection &&c, size_t *index);
	int start(int fd, const sockaddr_storage &peer, side me, bytes stream, size_t *index);
	void drop(size_t index, int err);
	void accept_all();
	void drop_oldest_stranger();
	size_t count(bool (connection::*is)() const) const;
	int converse(size_t index);
	int hear(connection &c);
	int say(connection &c);
	int welcome(size_t index);
	int hand_over(size_t index);
	void on_event(u64 what, u32 how);
	void on_connection(size_t index, u32 how);
	void tend();
	int tend_one(connection &c, u64 now);
	bool work();

	const node_options opt_;
	const job_key &key_;
	const watcher to_;
	void (*source_)(void *arg) = nullptr;
	void *source_arg_ = nullptr;
	unique_fd epoll_, listener_;
	std::vector<std::unique_ptr<connection>> connections_;
	worker ucx_;
	u64 tended_ = 0, worked_ = 0;
	int failures_[slots_most] = {}; /* by slot: why its last connection has ended; 0: it has not */
	bool ended_ = false, deaf_ = false;
};

} // namespace usdma::net
