/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UCX's worker and its endpoints, the only part that calls UCX. One thread. Peers are known by slots; a token that a
 * message must carry begins with the slot's number.
 */
#pragma once

#include "net/auth.h"
#include "net/wire.h"

#include "driver/base/types.h"

#include <functional>
#include <memory>
#include <string>
#include <ucp/api/ucp.h>
#include <vector>

namespace usdma::net {

inline constexpr u32 slots_most = 256;
/* What a peer sends, and answers to it; one that has more is lost. */
inline constexpr u32 in_flight_most = 1024;

/* A message of a peer; its data, if there are any, are here or on their way. */
struct incoming {
	message kind;
	u32 slot;
	message_header h;
	void *data;
	const ucp_am_recv_param_t *param;
};

/* Gets acks, and messages that concern memory; called by progress(). */
class receiver {
public:
	virtual ~receiver() = default;
	virtual void on_message(const incoming &in) = 0;
};

class worker {
public:
	/* False: the peer is gone, and what was sent or received may be incomplete. */
	using finished = std::function<void(bool done)>;

	worker() = default;
	~worker();
	worker(const worker &) = delete;
	worker &operator=(const worker &) = delete;

	/* The environment has chosen transports, interface and ports. */
	int open();
	bytes address() const { return address_; }
	/* To be polled after arm() has returned true; -1: cannot be polled. */
	int event_fd() const { return event_fd_; }
	unsigned progress() { return ucp_worker_progress(worker_); }
	bool arm() { return ucp_worker_arm(worker_) == UCS_OK; }
	void set_receiver(receiver *r) { receiver_ = r; }

	/* A slot with a new token for a peer to come. -EBUSY: all are taken. */
	int slot_take(u32 *slot, const u8 **token);
	/* Its peer is here: an endpoint. */
	int slot_connect(u32 slot, bytes peer_address, const u8 peer_token[token_len]);
	void slot_give(u32 slot);
	/* 0, or the error with which UCX has lost the peer. */
	int slot_error(u32 slot) const;
	/* When something has come from the peer. */
	u64 slot_heard(u32 slot) const { return slots_[slot]->heard; }

	/* For a measurement: a sink's data is whatever lies in a buffer of this process. The answer of each is an ack.
	 */
	int send(u32 slot, message kind, u64 number, u64 length = 0);
	/* h.length bytes of data, which stay until finished is called. It is not called after a failure. */
	int send(u32 slot, message kind, const message_header &h, const void *data = nullptr, finished f = nullptr);
	/* The data of a message, within on_message(); finished may be called before it returns. */
	void receive(const incoming &in, void *to, finished f);
	/* Messages that carried no valid token, or a length that is not theirs. */
	u64 dropped() const { return dropped_; }
	/* A message is over, which was counted for the slot's peer of then. */
	void end(u32 slot, u64 visit, bool counted, ucs_status_t status);

private:
	struct peer {
		u8 token[token_len];
		u8 peer_token[token_len];
		ucp_ep_h ep = nullptr;
		ucs_status_t error = UCS_OK;
		u32 in_flight = 0;
		u64 heard = 0, visit = 0;
	};
	struct handler {
		worker *w;
		message kind;
	};

	int start(ucp_config_t *config);
	int make_worker();
	int listen_to(message kind);
	int begin(peer *p, bool counted);
	int post(u32 slot, message kind, const message_header &h, const void *data, finished f);
	peer *peer_of(const u8 token[token_len], u32 *slot);
	void close_endpoint(ucp_ep_h ep);
	void acknowledge(u32 slot, u64 number, int status = 0);
	ucs_status_t take_sink(const incoming &in);
	ucs_status_t take(message kind, const void *header, size_t header_length, void *data, size_t length,
			  const ucp_am_recv_param_t *param);
	void *scratch();

	static ucs_status_t on_message(void *arg, const void *header, size_t header_length, void *data, size_t length,
				       const ucp_am_recv_param_t *param);
	static void on_failure(void *arg, ucp_ep_h ep, ucs_status_t status);

	ucp_context_h context_ = nullptr;
	ucp_worker_h worker_ = nullptr;
	std::vector<u8> address_;
	int event_fd_ = -1;
	std::vector<std::unique_ptr<peer>> slots_;
	handler handlers_[message_kinds];
	void *scratch_ = nullptr;
	receiver *receiver_ = nullptr;
	u64 dropped_ = 0, visits_ = 0;
};

} // namespace usdma::net
