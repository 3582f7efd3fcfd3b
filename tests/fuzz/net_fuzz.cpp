/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes for the control connection of usdma-net, by a peer that does not have the key, and headers of active messages.
 * The first byte: bit 0: as the peer of a client; bit 1: the input begins behind a valid hello; bits 2-7: the length
 * of pieces, bit 2: a client's is for a stream. What follows is received in these pieces, and is read as the header of
 * a message.
 */
#include "tests/fuzz/fuzz.h"

#include "driver/base/error.h"
#include "net/handshake.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <endian.h>

using namespace usdma;
using namespace usdma::fuzz;
using namespace usdma::net;

static constexpr size_t said_most = sizeof(hello) + 2 * sizeof(frame) + sizeof(offer) + sizeof(u32);
static constexpr u8 worker_address[40] = {1, 2, 3}, stream_name[key_length] = {4};

static void check(const handshake &h)
{
	must_hold(!h.done());
	must_hold(h.needs() <= sizeof(offer) + address_most);
	must_hold(h.output().size() <= said_most + sizeof(stream_name));
}

static int feed(handshake *h, bytes all, size_t piece)
{
	while (!all.empty() && h->needs()) {
		const size_t n = std::min({all.size(), h->needs(), piece});

		if (const int err = h->take(all.first(n)))
			return err;
		check(*h);
		all = all.subspan(n);
	}
	return 0;
}

static void talk(u8 how, bytes all)
{
	static const u8 secret[key_least] = {42}, token[token_len] = {};
	const side me = how & 1 ? side::client : side::server;
	hello h = {};
	job_key key;

	key.set(secret);
	const bool stream = me == side::client && how & 4;
	handshake mine(me, {&key, {}, worker_address}, token, stream ? bytes(stream_name) : bytes());
	memcpy(h.magic, magic, sizeof(magic));
	h.version = htole32(protocol);
	if (how & 2)
		must_hold(!feed(&mine, bytes_of(h), sizeof(h)));
	const int err = feed(&mine, all, 1 + (how >> 2));
	must_hold(!err || err == -EPROTO || err == -EPROTONOSUPPORT || err == -EACCES || err == -EBUSY ||
		  (err == -ENOENT && me == side::client));
	must_hold(!err || (*error_text() && !mine.needs()));
	check(mine);
}

static void check_message(message kind, const message_header &h, size_t length)
{
	must_hold(h.length == length && h.status <= 0);
	switch (kind) {
	case message::sink:
		break;
	case message::open:
		must_hold(length == key_length);
		break;
	case message::put:
		must_hold(length <= part_most);
		must_hold(h.pattern_size ? h.pattern_size == 8 && h.pattern % 8 == 0 : length != 0);
		break;
	case message::data:
		must_hold(length && length <= part_most);
		break;
	case message::get:
		must_hold(!length && h.value && h.value <= part_most);
		break;
	case message::fill:
		must_hold(!length && h.value <= fill_most && h.pattern_size && h.value % h.pattern_size == 0);
		break;
	default:
		must_hold(!length);
	}
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	const bytes all(data, size);
	message_header out;

	if (!size)
		return 0;
	talk(data[0], all.subspan(1));
	for (u32 kind = 1; kind <= message_kinds; kind++)
		for (const size_t length : {size_t(0), size_t(data[0]), key_length, size})
			if (message_read(message(kind), data, std::min(size, sizeof(out) + data[0] % 2), length, &out))
				check_message(message(kind), out, length);
	return 0;
}
