/* SPDX-License-Identifier: BSD-3-Clause */
/* The program that started this process: what it asks for (lib/share/helper_channel.h), and what it exports. */
#pragma once

#include "driver/base/mapping.h"
#include "lib/share/helper_channel.h"
#include "net/exports.h"
#include "net/node.h"

namespace usdma::net {

class program final : public receiver {
public:
	/* fd: the program's socket. */
	program(node &n, int fd) : node_(n), fd_(fd), exports_(n.ucx(), [this] { ring_bell(); }) {}

	/* Waits for its first message. -EPROTONOSUPPORT: it is of another release. */
	int begin();
	/* Once the node is open. */
	int attach();
	/* Between two turns of the loop. -ECANCELED: the program has ended, or says what it may not. */
	int tick();

	void peer_came(u32 slot, const u8 host[id_len]);
	void peer_gone(u32 slot, int err);
	bool listens(bytes name) const;
	void stream_came(u32 slot, side me, bytes name, unique_fd fd);

private:
	/* What a slot of the program waits for. */
	struct request {
		core::helper_request r;
		u64 number = 0; /* of the message that was sent; 0: none */
		u32 peer = 0;
		bool busy = false;
		bool sends = false;    /* UCX reads its data, in the slot's memory or in r; … */
		bool answered = false; /* … and the peer's answer is here already: */
		int status = 0;
		u64 id = 0, size = 0;
		bool receives = false; /* its data are coming into the slot's memory */
		int lost = 0;          /* the peer has left meanwhile: why, … */
		char why[200] = {};
		u64 lost_at = 0; /* … and when */
		u32 port = 0;    /* of a dial that tries several */
		unique_fd to;    /* dial: the program's socket */
	};
	/* A connection that this side has begun. */
	struct link {
		core::net_address at;
		u32 slot;
		bool ready;
	};
	/* Memory of a peer. */
	struct opened {
		u32 slot;
		u64 id;
		std::shared_ptr<u8> lost; /* where its loss is stored; may be none */
	};
	/* A message of send(), until it is answered. */
	struct sending {
		u32 slot;
		u64 opened;
		std::shared_ptr<u8> from; /* … the count is there */
	};
	/* A program's socket for connections to the name. */
	struct listener {
		std::vector<u8> name;
		unique_fd to;
	};

	void on_readable();
	int receive(core::helper_request *r, unique_fd fds[2], ssize_t *length);
	int take(const core::helper_request &r, unique_fd fd);
	int take_other(const core::helper_request &r, const unique_fd &fd, bool *other);
	int start(const core::helper_request &r, unique_fd fd);
	int start_offer(const core::helper_request &r, unique_fd fd);
	int start_open(const core::helper_request &r);
	int start_move(const core::helper_request &r);
	int start_listen(const core::helper_request &r, unique_fd fd);
	int start_dial(const core::helper_request &r, unique_fd fd);
	int dial(request &q, u32 first);
	int send_data(const core::helper_request &r);
	int take_bell(const core::helper_request &r, const unique_fd &fd);
	bool on_sent_ack(const incoming &in);
	void count(const std::shared_ptr<u8> &from);
	void note_lost(const opened &o, int err);
	void ring_bell();
	int find_link(const core::helper_request &r, link **out);
	void send_open(request &q);
	int send(request &q, u32 slot, message kind, const message_header &h, const void *data = nullptr);
	void close(u64 id);
	void on_message(const incoming &in) override;
	void on_sent(request &q, bool done);
	void on_ack(request &q, const incoming &in);
	void on_data(request &q, const incoming &in);
	request *request_of(const incoming &in);
	void finish(request &q, int status, const char *text, u64 id = 0, u64 size = 0);
	void finish_answered(request &q);
	void finish_lost(request &q);
	void fail_request(request &q, int err);
	void ring();
	u8 *part(const request &q) const;
	core::helper_page *page() const { return reinterpret_cast<core::helper_page *>(memory_.data()); }

	node &node_;
	const int fd_;
	unique_fd life_; /* of the program: readable when it has ended; may be none */
	mapping memory_;
	exports exports_;
	request requests_[core::helper_slots];
	std::vector<link> links_;
	std::unordered_map<u64, opened> opened_;
	std::unordered_map<u64, sending> sendings_; /* by number */
	std::vector<listener> listeners_;
	mapping bell_;
	u32 *bell_count_ = nullptr;
	u64 last_id_ = 0, last_number_ = 0;
	bool ended_ = false;
};

} // namespace usdma::net
