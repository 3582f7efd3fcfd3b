/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between two workers of one process: whose tokens are taken; connections that come and go. */
#include "tests/support/test.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "net/node.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace usdma;
using namespace usdma::net;

static constexpr u64 patience = 20000;

struct pair final : receiver {
	worker a, b;
	u32 at_a = 0, at_b = 0; /* slots */
	const u8 *token_a = nullptr, *token_b = nullptr;
	u64 acks = 0, last = 0;

	pair()
	{
		assert_int_equal(a.open() | b.open(), 0);
		a.set_receiver(this);
		meet();
	}
	void on_message(const incoming &in) override
	{
		assert_true(in.kind == message::ack);
		acks++;
		last = in.h.number;
	}
	void meet()
	{
		assert_int_equal(a.slot_take(&at_a, &token_a) | b.slot_take(&at_b, &token_b), 0);
		assert_int_equal(b.slot_connect(at_b, a.address(), token_a), 0);
		assert_int_equal(a.slot_connect(at_a, b.address(), token_b), 0);
	}
	template <class F> void until(F &&f)
	{
		const deadline end = deadline::in_ms(test::patience_ms(patience));

		while (!f()) {
			a.progress();
			b.progress();
			assert_false(end.passed());
		}
	}
};

static void every_size_is_answered(void **)
{
	pair p;
	u64 n = 0;

	for (const u64 length : {u64(0), u64(1), u64(100), 4 * KiB, 8 * KiB + 1, MiB, sink_most}) {
		assert_int_equal(p.a.send(p.at_a, message::sink, ++n, length), 0);
		p.until([&] { return p.acks == n; });
		assert_int_equal(p.last, n);
	}
	assert_int_equal(p.a.send(p.at_a, message::ping, ++n), 0);
	p.until([&] { return p.acks == n; });
	assert_int_equal(p.a.dropped() + p.b.dropped(), 0);
}

/* Eager and by rendezvous: without its token a message has no effect, and no answer. */
static void tokens(void **)
{
	pair p;
	u64 n = 0;

	auto by = [&](const u8 *token) {
		u32 slot;
		const u8 *mine;

		assert_int_equal(p.a.slot_take(&slot, &mine), 0);
		assert_int_equal(p.a.slot_connect(slot, p.b.address(), token), 0);
		for (const u64 length : {u64(8), MiB}) {
			const u64 dropped = p.b.dropped(), acks = p.acks;

			assert_int_equal(p.a.send(slot, message::sink, ++n, length), 0);
			p.until([&] { return p.b.dropped() == dropped + 1; });
			assert_int_equal(p.acks, acks);
		}
		p.a.slot_give(slot);
	};
	for (const size_t at : {size_t(0), size_t(4), token_len - 1}) {
		u8 wrong[token_len];

		memcpy(wrong, p.token_b, token_len);
		wrong[at] ^= 1;
		by(wrong);
	}
	const u8 none[token_len] = {}, beyond[token_len] = {255, 255, 255, 255};
	by(none);
	by(beyond);
	/* That of a peer that was there before, in a slot that has another one now. */
	u8 old[token_len];
	memcpy(old, p.token_b, token_len);
	p.a.slot_give(p.at_a);
	p.b.slot_give(p.at_b);
	p.meet();
	assert_memory_equal(old, p.token_b, sizeof(u32));
	by(old);
	p.acks = 0;
	assert_int_equal(p.a.send(p.at_a, message::sink, ++n, 8), 0);
	p.until([&] { return p.acks == 1; });
}

/* ---- nodes ------------------------------------------------------------------------------------------- */

static node_options loopback()
{
	node_options o = {};

	assert_int_equal(net_find("127.0.0.1:18700-18899", &o.local), 0);
	o.lost_ms = 30000;
	return o;
}

static const u8 secret[key_least] = {1, 2, 3};

[[noreturn]] static void serve(int ready, int end)
{
	job_key key;
	u16 port = 0;

	key.set(secret);
	node n(loopback(), key, {});
	if (n.open(end) || n.listen(&port) || write(ready, &port, sizeof(port)) != sizeof(port))
		_exit(1);
	while (!n.turn(deadline::in_ms(1000))) {
	}
	_exit(0);
}

struct server {
	pid_t pid;
	int life;
	sockaddr_storage at = loopback().local.address;

	server()
	{
		int ready[2], alive[2];
		u16 port = 0;

		assert_int_equal(pipe(ready) | pipe(alive), 0);
		pid = fork();
		if (!pid) {
			close(alive[1]);
			serve(ready[1], alive[0]);
		}
		close(ready[1]);
		close(alive[0]);
		life = alive[1];
		assert_int_equal(read(ready[0], &port, sizeof(port)), sizeof(port));
		close(ready[0]);
		port_set(&at, port);
	}
	~server()
	{
		int status;

		close(life);
		waitpid(pid, &status, 0);
		assert_int_equal(status, 0);
	}
	/* Descriptors and kilobytes. */
	std::pair<size_t, size_t> uses() const;
};

std::pair<size_t, size_t> server::uses() const
{
	const std::string folder = "/proc/" + std::to_string(pid);
	const std::filesystem::directory_iterator fds(folder + "/fd");
	FILE *const f = fopen((folder + "/status").c_str(), "r");
	size_t kb = 0;
	char line[256];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "VmRSS: %zu", &kb);
	fclose(f);
	return {size_t(std::distance(begin(fds), end(fds))), kb};
}

static void connects_without_growth(void **)
{
	const unsigned rounds = 20 * test::scale(), warm = rounds / 4;
	const server s;
	std::pair<size_t, size_t> first;
	job_key key;

	key.set(secret);
	for (unsigned i = 0; i < rounds; i++) {
		node n(loopback(), key, {});
		u32 slot;

		assert_int_equal(n.open(-1), 0);
		assert_int_equal(n.connect(s.at, &slot), 0);
		assert_int_equal(n.ucx().send(slot, message::ping, 1), 0);
		if (i == warm)
			first = s.uses();
	}
	/* It hears of the last one's end a moment later. */
	const deadline end = deadline::in_ms(test::patience_ms(patience));
	std::pair<size_t, size_t> last = s.uses();
	for (unsigned step = 0; last.first >= first.first && !end.passed(); last = s.uses())
		test::poll_pause(step++);
	print_message("# %u connects: descriptors %zu, %zu; memory %zu, %zu KiB\n", rounds, first.first, last.first,
		      first.second, last.second);
	assert_true(last.first < first.first); /* then one was connected */
	/* UCX keeps pools, which are full after some. */
	assert_true(last.second < first.second + 4096);
}

/* A socket of the loopback interface, listening or connected to. */
static unique_fd plain_socket(sockaddr_storage *at, bool listens)
{
	unique_fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	const auto a = reinterpret_cast<sockaddr *>(at);
	socklen_t length = sizeof(sockaddr_in);

	if (listens)
		assert_int_equal(bind(fd.get(), a, length) | listen(fd.get(), 8) | getsockname(fd.get(), a, &length),
				 0);
	else
		assert_int_equal(connect(fd.get(), a, length), 0);
	return fd;
}

/* They push out each other, but no connection that this side has begun. */
static void many_strangers(void **)
{
	sockaddr_storage there = loopback().local.address, here = there;
	const unique_fd silent = plain_socket(&there, true);
	std::vector<unique_fd> strangers;
	const deadline end = deadline::in_ms(test::patience_ms(patience));
	job_key key;
	u16 port = 0;
	bool closed = false;
	u32 slot;
	char c;

	key.set(secret);
	node n(loopback(), key,
	       {&closed, nullptr, [](void *arg, u32, const std::string &, int) { *static_cast<bool *>(arg) = true; }});
	assert_int_equal(n.open(-1) | n.listen(&port) | n.connect_begin(there, &slot), 0);
	port_set(&here, port);
	for (size_t i = 0; i < strangers_most + 8; i++) {
		strangers.push_back(plain_socket(&here, false));
		n.turn(deadline::in_ms(0));
	}
	/* The oldest is closed. */
	while (recv(strangers[0].get(), &c, 1, MSG_DONTWAIT) != 0) {
		n.turn(deadline::in_ms(0));
		assert_false(end.passed());
	}
	assert_false(closed);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(every_size_is_answered),
		cmocka_unit_test(tokens),
		cmocka_unit_test(many_strangers),
		cmocka_unit_test(connects_without_growth),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
