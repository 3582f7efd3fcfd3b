/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/handshake.h"

#include "driver/base/error.h"

#include <cstdlib>
#include <cstring>
#include <endian.h>
#include <sys/random.h>

namespace usdma::net {

static constexpr u8 role_of(side s)
{
	return s == side::client ? 'c' : 's';
}

static constexpr side other(side s)
{
	return s == side::client ? side::server : side::client;
}

int random_bytes(void *out, size_t n)
{
	return getrandom(out, n, 0) == ssize_t(n) ? 0 : fail_errno("random numbers");
}

handshake::handshake(side me, const identity &who, const u8 token[token_len])
	: me_(me), who_(who), mine_(), want_(sizeof(hello))
{
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
	if (kind == u32(frame_kind::offer) && length > sizeof(offer) && length <= sizeof(offer) + address_most)
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
	const u8 role = role_of(of);

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
	const frame f = {htole32(u32(frame_kind::offer)), htole32(u32(sizeof(offer) + who_.address.size()))};
	offer o;

	memcpy(o.token, token_, token_len);
	proof(me_, token_, who_.address, o.mac);
	if (me_ == side::client)
		memcpy(client_mac_, o.mac, mac_len);
	say(bytes_of(f));
	say(bytes_of(o));
	say(who_.address);
}

int handshake::take_offer()
{
	const bytes address = bytes(in_).subspan(sizeof(offer));
	offer o;
	u8 mac[mac_len];

	memcpy(&o, in_.data(), sizeof(o));
	proof(other(me_), o.token, address, mac);
	if (!equal(mac, o.mac))
		return refuse(refusal::key);
	if (full_)
		return refuse(refusal::full);
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
