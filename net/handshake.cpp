/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/handshake.h"

#include "driver/base/error.h"

#include <cstdlib>
#include <cstring>
#include <endian.h>
#include <sys/random.h>

namespace usdma::net {

/* A proof of an offer is none of a stream. */
static constexpr u8 role_of(side s, bool stream)
{
	return u8((s == side::client ? 'c' : 's') - (stream ? 'a' - 'A' : 0));
}

static constexpr side other(side s)
{
	return s == side::client ? side::server : side::client;
}

int random_bytes(void *out, size_t n)
{
	return getrandom(out, n, 0) == ssize_t(n) ? 0 : fail_errno("random numbers");
}

handshake::handshake(side me, const identity &who, const u8 token[token_len], bytes stream)
	: me_(me), who_(who), mine_(), want_(sizeof(hello)), stream_(!stream.empty())
{
	if (stream_)
		peer_address_.assign(stream.begin(), stream.end());
	memcpy(token_, token, token_len);
	memcpy(mine_.magic, magic, sizeof(magic));
	mine_.version = htole32(protocol);
	memcpy(mine_.host, who.host, id_len);
	/* Without a nonce of its own a side would accept what it was told before. */
	if (random_bytes(mine_.nonce, nonce_len))
		abort();
	if (me == side::client)
		say(bytes_of(mine_));
}

void handshake::expect(state s, size_t n)
{
	state_ = s;
	want_ = n;
	in_.clear();
}

int handshake::refuse(refusal why)
{
	const frame f = {htole32(u32(frame_kind::refusal)), htole32(sizeof(u32))};

	if (me_ == side::server) {
		say(bytes_of(f));
		say(bytes_of(htole32(u32(why))));
	}
	expect(state_, 0);
	switch (why) {
	case refusal::key:
		return fail(EACCES, "the peer has another key (net_key_file): each machine needs the same file");
	case refusal::version:
		return fail(EPROTONOSUPPORT,
			    "the peer speaks version %u of the protocol, this usdma-net version %u: install the same "
			    "release on both machines",
			    le32toh(theirs_.version), protocol);
	case refusal::full:
		return fail(EBUSY, "the peer has as many connections as it takes");
	case refusal::nobody:
		return fail(ENOENT, "no program there waits for this connection (any more)");
	default:
		return fail(EPROTO, "the peer's message is malformed");
	}
}

int handshake::take_hello()
{
	memcpy(&theirs_, in_.data(), sizeof(theirs_));
	if (memcmp(theirs_.magic, magic, sizeof(magic)) != 0) {
		expect(state_, 0);
		return fail(EPROTO, "it is no usdma-net that answers there");
	}
	if (me_ == side::server)
		say(bytes_of(mine_));
	if (le32toh(theirs_.version) != protocol)
		return refuse(refusal::version);
	if (theirs_.reserved)
		return refuse(refusal::malformed);
	if (me_ == side::client)
		say_offer();
	expect(state::frame, sizeof(frame));
	return 0;
}

int handshake::take_frame()
{
	frame f;

	memcpy(&f, in_.data(), sizeof(f));
	const u32 kind = le32toh(f.kind), length = le32toh(f.length);
	if (me_ == side::server)
		stream_ = kind == u32(frame_kind::stream);
	if (kind == u32(this->kind()) && length > sizeof(offer) && length <= sizeof(offer) + address_most &&
	    (!stream_ || length == sizeof(offer) + key_length))
		expect(state::offer, length);
	else if (kind == u32(frame_kind::refusal) && length == sizeof(u32) && me_ == side::client)
		expect(state::refusal, length);
	else
		return refuse(refusal::malformed);
	return 0;
}

/* The server's covers the client's proof, too: one offer answers one other. */
void handshake::proof(side of, const u8 *token, bytes address, u8 mac[mac_len]) const
{
	const hello &client = me_ == side::client ? mine_ : theirs_, &server = me_ == side::client ? theirs_ : mine_;
	const u32 length = htole32(u32(address.size()));
	const u8 role = role_of(of, stream_);

	who_.key->mac({bytes_of(role),
		       bytes_of(client),
		       bytes_of(server),
		       {token, token_len},
		       bytes_of(length),
		       address,
		       of == side::server ? bytes(client_mac_) : bytes()},
		      mac);
}

void handshake::say_offer()
{
	const bytes address = stream_ ? bytes(peer_address_) : who_.address;
	const frame f = {htole32(u32(kind())), htole32(u32(sizeof(offer) + address.size()))};
	offer o;

	memcpy(o.token, token_, token_len);
	proof(me_, token_, address, o.mac);
	if (me_ == side::client)
		memcpy(client_mac_, o.mac, mac_len);
	say(bytes_of(f));
	say(bytes_of(o));
	say(address);
}

refusal handshake::check_offer(const offer &o, bytes address) const
{
	u8 mac[mac_len];

	proof(other(me_), o.token, address, mac);
	if (!equal(mac, o.mac))
		return refusal::key;
	if (full_)
		return refusal::full;
	if (!stream_)
		return refusal::none;
	if (me_ == side::client)
		return equal(address, peer_address_) ? refusal::none : refusal::malformed;
	return who_.listens && who_.listens(who_.arg, address) ? refusal::none : refusal::nobody;
}

int handshake::take_offer()
{
	const bytes address = bytes(in_).subspan(sizeof(offer));
	offer o;

	memcpy(&o, in_.data(), sizeof(o));
	if (const refusal why = check_offer(o, address); why != refusal::none)
		return refuse(why);
	memcpy(peer_token_, o.token, token_len);
	peer_address_.assign(address.begin(), address.end());
	if (me_ == side::server) {
		memcpy(client_mac_, o.mac, mac_len);
		say_offer();
	}
	expect(state::done, 0);
	return 0;
}

int handshake::take_refusal()
{
	u32 why;

	memcpy(&why, in_.data(), sizeof(why));
	return refuse(refusal(le32toh(why)));
}

int handshake::take(bytes data)
{
	if (data.size() > needs() || state_ == state::done)
		return fail(EPROTO, "the peer says more than it may");
	in_.insert(in_.end(), data.begin(), data.end());
	if (needs())
		return 0;
	switch (state_) {
	case state::hello:
		return take_hello();
	case state::frame:
		return take_frame();
	case state::offer:
		return take_offer();
	default:
		return take_refusal();
	}
}

} // namespace usdma::net
