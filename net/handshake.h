/* SPDX-License-Identifier: BSD-3-Clause */
/* The control connection's protocol (wire.h) without a socket: bytes in, bytes out. */
#pragma once

#include "net/auth.h"
#include "net/wire.h"

#include <vector>

namespace usdma::net {

enum class side : u8 { client, server };

/* What a side says of itself. */
struct identity {
	const job_key *key;
	u8 host[id_len];
	bytes address; /* of its worker */
	/* Whether a program here waits for connections to the name. */
	bool (*listens)(void *arg, bytes name) = nullptr;
	void *arg = nullptr;
};

class handshake {
public:
	/*
	 * token: what the peer shall put into its messages. The nonce is random. stream: a client's, which wants a
	 * connection to that name.
	 */
	handshake(side me, const identity &who, const u8 token[token_len], bytes stream = {});

	/* How many bytes it takes next, at most; 0: the peer has said all it may. */
	size_t needs() const { return want_ - in_.size(); }
	/*
	 * Bytes of the peer, at most needs(). A failure ends the connection, when output() is sent: -EPROTO: it is no
	 * helper of usdma, or a message is malformed; -EPROTONOSUPPORT: another version; -EACCES: another key;
	 * -EBUSY: the peer has no place. -ENOENT: no program there waits for the stream. The text says what to do.
	 */
	int take(bytes data);
	/* To be sent to the peer. */
	bytes output() const { return bytes(out_).subspan(sent_); }
	void sent(size_t n) { sent_ += n; }
	bool done() const { return state_ == state::done; }
	/* By a server, before the end: a peer with the key hears that there is no place. */
	void set_full() { full_ = true; }

	/* Once it is done; … */
	bool is_stream() const { return stream_; }
	/* … of the peer: */
	const u8 *peer_host() const { return theirs_.host; }
	const u8 *peer_token() const { return peer_token_; }
	/* Or the stream's name. */
	bytes peer_address() const { return peer_address_; }

private:
	enum class state : u8 { hello, frame, offer, refusal, done };

	int take_hello();
	int take_frame();
	int take_offer();
	int take_refusal();
	int refuse(refusal why);
	void proof(side of, const u8 *token, bytes address, u8 mac[mac_len]) const;
	frame_kind kind() const { return stream_ ? frame_kind::stream : frame_kind::offer; }
	refusal check_offer(const offer &o, bytes address) const;
	void say_offer();
	void say(bytes what) { out_.insert(out_.end(), what.begin(), what.end()); }
	void expect(state s, size_t n);

	const side me_;
	const identity who_;
	u8 token_[token_len], peer_token_[token_len] = {}, client_mac_[mac_len] = {};
	hello mine_, theirs_ = {};
	std::vector<u8> in_, out_, peer_address_;
	size_t want_, sent_ = 0;
	state state_ = state::hello;
	bool full_ = false, stream_ = false;
};

int random_bytes(void *out, size_t n);

} // namespace usdma::net
