/* SPDX-License-Identifier: BSD-3-Clause */
/* The control connection's protocol, without sockets: who is let in, and who is not. */
#include "tests/support/test.h"

#include "driver/base/error.h"
#include "net/handshake.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <endian.h>
#include <optional>
#include <string>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace usdma;
using namespace usdma::net;

static std::mt19937_64 gen;

static std::vector<u8> random_words(size_t n)
{
	std::vector<u8> v(n);

	test::fill_random(v.data(), n, gen);
	return v;
}

/* One side, and all that it has received. */
struct party {
	job_key key;
	std::vector<u8> address, token, heard;
	std::optional<handshake> talk;

	explicit party(side s, const std::vector<u8> &secret, size_t address_length = 40, bytes stream = {},
		       const std::vector<u8> *listens = nullptr)
		: address(random_words(address_length)), token(random_words(token_len))
	{
		identity who = {&key, {}, address};

		who.listens = [](void *arg, bytes name) {
			return arg && equal(name, *static_cast<std::vector<u8> *>(arg));
		};
		who.arg = const_cast<std::vector<u8> *>(listens);

		key.set(secret);
		memset(who.host, s == side::client ? 1 : 2, id_len);
		talk.emplace(s, who, token.data(), stream);
	}

	/* In pieces of a random length. */
	int feed(bytes all)
	{
		heard.insert(heard.end(), all.begin(), all.end());
		while (!all.empty()) {
			const size_t n = std::min({all.size(), talk->needs(), size_t(1 + gen() % 100)});

			if (!n)
				return talk->done() ? 0 : -ENODATA;
			if (const int err = talk->take(all.first(n)))
				return err;
			all = all.subspan(n);
		}
		return 0;
	}
	std::vector<u8> say()
	{
		const bytes out = talk->output();
		const std::vector<u8> copy(out.begin(), out.end());

		talk->sent(out.size());
		return copy;
	}
};

struct outcome {
	int client = 0, server = 0;
};

static outcome meet(party &client, party &server)
{
	outcome o;

	for (int turn = 0; turn < 4; turn++) {
		if (const std::vector<u8> m = client.say(); !m.empty() && !o.server)
			o.server = server.feed(m);
		if (const std::vector<u8> m = server.say(); !m.empty() && !o.client)
			o.client = client.feed(m);
	}
	return o;
}

static void same_key(void **)
{
	for (int i = 0; i < 200; i++) {
		const std::vector<u8> secret = random_words(key_least + gen() % 100);
		party client(side::client, secret, 1 + gen() % address_most),
			server(side::server, secret, address_most);
		const outcome o = meet(client, server);

		assert_int_equal(o.client, 0);
		assert_int_equal(o.server, 0);
		assert_true(client.talk->done() && server.talk->done());
		assert_memory_equal(client.talk->peer_token(), server.token.data(), token_len);
		assert_memory_equal(server.talk->peer_token(), client.token.data(), token_len);
		assert_true(equal(client.talk->peer_address(), server.address));
		assert_true(equal(server.talk->peer_address(), client.address));
		assert_int_equal(client.talk->peer_host()[3], 2);
		assert_int_equal(server.talk->peer_host()[3], 1);
	}
}

/* A connection to a name, for programs. */
static void streams(void **)
{
	const std::vector<u8> secret = random_words(64), name = random_words(key_length),
			      other = random_words(key_length);

	for (const std::vector<u8> *listens : {&name, &other, static_cast<const std::vector<u8> *>(nullptr)}) {
		party client(side::client, secret, 40, name), server(side::server, secret, 40, {}, listens);
		const outcome o = meet(client, server);
		const int want = listens == &name ? 0 : -ENOENT;

		assert_int_equal(o.client, want);
		assert_int_equal(o.server, want);
		assert_true(client.talk->is_stream() && server.talk->is_stream());
		assert_int_equal(client.talk->done() && server.talk->done(), !want);
		assert_true(want || equal(server.talk->peer_address(), name));
	}
}

/* Who has no key cannot make a stream of what another one has said, or a connection of peers of a stream. */
static void streams_are_no_offers(void **)
{
	const std::vector<u8> secret = random_words(64), name = random_words(key_length);

	for (const bool stream : {false, true}) {
		party client(side::client, secret, key_length, stream ? bytes(name) : bytes()),
			server(side::server, secret, 40, {}, &name);

		assert_int_equal(server.feed(client.say()), 0);
		assert_int_equal(client.feed(server.say()), 0);
		std::vector<u8> said = client.say();
		said[0] = u8(stream ? frame_kind::offer : frame_kind::stream);
		assert_int_equal(server.feed(said), -EACCES);
	}
}

/* The server learns it first, and the client hears of it; neither gets the other's address. */
static void other_key(void **)
{
	std::vector<u8> secret = random_words(64);
	party client(side::client, secret);

	secret[gen() % secret.size()] ^= u8(1u << gen() % 8);
	party server(side::server, secret);
	const outcome o = meet(client, server);

	assert_int_equal(o.server, -EACCES);
	assert_int_equal(o.client, -EACCES);
	assert_non_null(strstr(error_text(), "net_key_file"));
	assert_false(client.talk->done() || server.talk->done());
	assert_int_equal(client.talk->peer_address().size() + server.talk->peer_address().size(), 0);
}

static void full(void **)
{
	const std::vector<u8> secret = random_words(32);
	party client(side::client, secret), server(side::server, secret);

	server.talk->set_full();
	const outcome o = meet(client, server);
	assert_int_equal(o.client, -EBUSY);
	assert_int_equal(o.server, -EBUSY);
	/* Who has not the key learns nothing of it. */
	party stranger(side::client, random_words(32)), full_one(side::server, secret);
	full_one.talk->set_full();
	assert_int_equal(meet(stranger, full_one).client, -EACCES);
}

static void other_version(void **)
{
	const std::vector<u8> secret = random_words(32);

	for (const side s : {side::client, side::server}) {
		party mine(s, secret);
		hello h = {};

		memcpy(h.magic, magic, sizeof(magic));
		h.version = htole32(protocol + 1);
		assert_int_equal(mine.feed(bytes_of(h)), -EPROTONOSUPPORT);
		assert_non_null(strstr(error_text(), ("version " + std::to_string(protocol)).c_str()));
		const std::vector<u8> said = mine.say();
		/* The other side learns this one's version, and no proof. */
		assert_true(said.size() < sizeof(hello) + sizeof(offer));
	}
}

/* A proof is of one conversation: with the same words from the client the server has another nonce. */
static void replay(void **)
{
	const std::vector<u8> secret = random_words(32);
	party client(side::client, secret), server(side::server, secret), again(side::server, secret),
		fresh(side::client, secret);

	assert_int_equal(meet(client, server).client, 0);
	assert_int_equal(again.feed(server.heard), -EACCES);
	assert_int_equal(fresh.feed(client.heard), -EACCES);
	assert_false(again.talk->done() || fresh.talk->done());
}

/* Its own words sent back: a role is part of the proof. */
static void reflection(void **)
{
	const std::vector<u8> secret = random_words(32);
	party client(side::client, secret);
	const std::vector<u8> first = client.say();

	assert_int_equal(client.feed(first), 0);
	const std::vector<u8> second = client.say();
	assert_true(second.size() > sizeof(offer));
	assert_int_equal(client.feed(second), -EACCES);
}

/* One byte of a conversation that would succeed is changed: the server refuses it. */
static void changed_bytes(void **)
{
	const std::vector<u8> secret = random_words(32);

	for (int i = 0; i < 2000; i++) {
		party client(side::client, secret), server(side::server, secret);
		bool hit = false;

		for (int turn = 0; turn < 2; turn++) {
			std::vector<u8> up = client.say();

			if (!up.empty() && gen() % 2 && !hit) {
				up[gen() % up.size()] ^= u8(1u << gen() % 8);
				hit = true;
			}
			if (server.feed(up))
				break;
			const std::vector<u8> down = server.say();
			if (client.feed(down))
				break;
		}
		assert_true(!hit || !server.talk->done());
		assert_true(hit || (server.talk->done() && client.talk->done()));
	}
}

static void lengths(void **)
{
	const std::vector<u8> secret = random_words(32);

	for (const u32 kind : {0u, 1u, 2u, 3u, ~0u})
		for (const u32 length : {0u, 1u, u32(sizeof(offer)), u32(sizeof(offer)) + address_most + 1, ~0u}) {
			party client(side::client, secret), server(side::server, secret);
			const frame f = {htole32(kind), htole32(length)};

			assert_int_equal(server.feed(client.say()), 0);
			assert_int_equal(server.feed(bytes_of(f)), -EPROTO);
			assert_int_equal(server.talk->needs(), 0);
		}
}

/* An error, or it waits for more, and takes no more than it said. */
static void garbage(void **)
{
	const std::vector<u8> secret = random_words(32);

	for (int i = 0; i < 2000; i++) {
		party server(side::server, secret);
		std::vector<u8> junk = random_words(1 + gen() % 3000);

		if (gen() % 2 && junk.size() > sizeof(hello)) {
			memcpy(junk.data(), magic, sizeof(magic));
			memset(junk.data() + sizeof(magic), 0, 8);
			junk[sizeof(magic)] = protocol;
		}
		const int err = server.feed(junk);
		assert_true(err == -EPROTO || err == -EPROTONOSUPPORT || err == -EACCES ||
			    junk.size() < sizeof(hello) || server.talk->needs());
		assert_false(server.talk->done());
	}
}

static void messages(void **)
{
	message_header h = {}, out;

	h.number = htole64(7);
	assert_true(message_read(message::ping, &h, sizeof(h), 0, &out) && out.number == 7);
	assert_false(message_read(message::ping, &h, sizeof(h) - 1, 0, &out));
	assert_false(message_read(message::ping, &h, sizeof(h), 1, &out));
	h.length = htole64(sink_most);
	assert_true(message_read(message::sink, &h, sizeof(h), sink_most, &out));
	assert_false(message_read(message::sink, &h, sizeof(h), sink_most - 1, &out));
	assert_false(message_read(message::ack, &h, sizeof(h), sink_most, &out));
	h.length = htole64(sink_most + 1);
	assert_false(message_read(message::sink, &h, sizeof(h), sink_most + 1, &out));
}

static bool reads(message kind, const message_header &h)
{
	const message_header written = message_write(h);
	message_header out;

	return message_read(kind, &written, sizeof(written), h.length, &out) && !memcmp(&out, &h, sizeof(h));
}

/* What concerns memory: each length, and what is requested. */
static void messages_of_memory(void **)
{
	const auto of = [](u64 length, u64 value, u32 pattern = 0, s32 status = 0) {
		return message_header{{}, 1, length, 2, 3, value, 4, pattern, status};
	};

	assert_true(reads(message::open, of(key_length, 0)));
	assert_false(reads(message::open, of(key_length - 1, 0)) || reads(message::open, of(key_length + 1, 0)));
	for (const message kind : {message::put, message::data}) {
		assert_true(reads(kind, of(1, 0)) && reads(kind, of(part_most, 0)));
		assert_false(reads(kind, of(0, 0)) || reads(kind, of(part_most + 1, 0)));
	}
	assert_true(reads(message::get, of(0, 1)) && reads(message::get, of(0, part_most)));
	assert_false(reads(message::get, of(1, 1)) || reads(message::get, of(0, 0)) ||
		     reads(message::get, of(0, part_most + 1)));
	assert_true(reads(message::fill, of(0, 24, 8)) && reads(message::fill, of(0, fill_most, 1)));
	assert_false(reads(message::fill, of(0, 25, 8)) || reads(message::fill, of(0, 24, 3)) ||
		     reads(message::fill, of(0, fill_most + 8, 8)) || reads(message::fill, of(0, 0, 1)));
	assert_true(reads(message::ack, of(0, 0, 0, -ENOENT)) && reads(message::close, of(0, 0)));
	assert_false(reads(message::ack, of(0, 0, 0, 1)) || reads(message::ack, of(0, 0, 0, -5000)));
}

static void key_files(void **)
{
	char path[] = "/tmp/usdma-key-XXXXXX";
	const int fd = mkstemp(path);
	const std::vector<u8> secret = random_words(key_most + 1);
	job_key key;

	assert_true(fd >= 0);
	for (const auto &[size, mode, err] : {std::tuple{key_least, 0600u, 0},
					      {key_most, 0400u, 0},
					      {key_least - 1, 0600u, -EINVAL},
					      {key_most + 1, 0600u, -EINVAL},
					      {key_least, 0640u, -EACCES},
					      {key_least, 0604u, -EACCES}}) {
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, secret.data(), size, 0), size);
		assert_int_equal(fchmod(fd, mode), 0);
		assert_int_equal(key.read(path), err);
	}
	assert_int_equal(key.read("/tmp"), -EINVAL);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(key.read(path), -ENOENT);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(key.read(path), -EINVAL);
	unlink(path);
	close(fd);
}

/* Test cases 2 and 6: a key shorter and one longer than a block. */
static void rfc_4231(void **)
{
	static constexpr u8 first[] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24,
				       0x26, 0x08, 0x95, 0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27,
				       0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43},
			    second[] = {0x60, 0xe4, 0x31, 0x59, 0x1e, 0xe0, 0xb6, 0x7f, 0x0d, 0x8a, 0x26,
					0xaa, 0xcb, 0xf5, 0xb7, 0x7f, 0x8e, 0x0b, 0xc6, 0x21, 0x37, 0x28,
					0xc5, 0x14, 0x05, 0x46, 0x04, 0x0f, 0x0e, 0xe3, 0x7f, 0x54};
	static constexpr char text[] = "what do ya want for nothing?",
			      other[] = "Test Using Larger Than Block-Size Key - Hash Key First";
	const std::vector<u8> longest(131, 0xaa);
	const bytes all = {reinterpret_cast<const u8 *>(text), sizeof(text) - 1};
	job_key key;
	u8 mac[mac_len];

	key.set({reinterpret_cast<const u8 *>("Jefe"), 4});
	key.mac({all.first(5), all.subspan(5)}, mac);
	assert_memory_equal(mac, first, mac_len);
	key.set(longest);
	key.mac({{reinterpret_cast<const u8 *>(other), sizeof(other) - 1}}, mac);
	assert_memory_equal(mac, second, mac_len);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(same_key),
		cmocka_unit_test(streams),
		cmocka_unit_test(streams_are_no_offers),
		cmocka_unit_test(other_key),
		cmocka_unit_test(full),
		cmocka_unit_test(other_version),
		cmocka_unit_test(replay),
		cmocka_unit_test(reflection),
		cmocka_unit_test(changed_bytes),
		cmocka_unit_test(lengths),
		cmocka_unit_test(garbage),
		cmocka_unit_test(messages),
		cmocka_unit_test(messages_of_memory),
		cmocka_unit_test(key_files),
		cmocka_unit_test(rfc_4231),
	};

	gen = test::rng();
	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
