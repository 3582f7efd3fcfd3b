/* SPDX-License-Identifier: BSD-3-Clause */
/* How clients answer DMA_READ and DMA_WRITE: as the specification has it in two places, and wrongly. */
#include "tests/support/raw_client.h"
#include "tests/support/raw_model.h"
#include "tests/support/test.h"

#include "driver/base/barrier.h"

#include <functional>
#include <sys/ioctl.h>

using namespace usdma;
using namespace usdma::test;
using namespace usdma::sdma;
using dma::fault_reason;
using dma::space;

static constexpr u64 mem_base = u64(1) << 44, iova = 0x40000000, size = MiB, far = u64(1) << 40, data = 64 * KiB;

/* Says of a reply what it is; takes the command's header, address, count and bytes (of a write). */
using answer = std::function<std::vector<u8>(const proto::header &h, const proto::dma_access_head &a, u8 *bytes)>;

struct rig {
	explicit rig(int send_room = 0) : model(settings()), client(model.connect(send_room)), memory("replies", size)
	{
		assert_int_equal(client.begin(mem_base), 0);
		assert_int_equal(client.map(iova, size, memory.fd.get()), 0);
		assert_int_equal(client.map(far, size), 0);
		channel = std::make_unique<raw_channel>(client, 0, memory, iova, 0);
		assert_int_equal(channel->enable(), chan_state_running);
	}
	static sim::config settings()
	{
		sim::config c;

		c.mem = size;
		c.channels = c.engines = 1;
		return c;
	}
	/* Runs one descriptor, and answers what it asks the client. */
	fault_reason run(const descriptor &d, const answer &how)
	{
		const u64 seq = channel->put(d);
		const deadline until = deadline::in_ms(raw_wait_ms);
		const u64 tail = channel->posted;
		u8 body[24];
		const proto::region_access_head h = {chan_doorbell(0) + doorbell_tail, vfio::region_bar0, 8};

		memcpy(body, &h, sizeof(h));
		memcpy(body + sizeof(h), &tail, sizeof(tail));
		assert_true(client.say(proto::command::region_write, body, sizeof(body), {}, proto::flag_no_reply));
		while (channel->completed() < seq &&
		       load_acquire(&channel->status->record.state) != dma::state_halted) {
			assert_false(until.passed());
			serve_one(how);
		}
		if (channel->completed() >= seq)
			return fault_reason::none;
		const auto why = fault_reason(load_acquire(&channel->status->record.reason));
		assert_int_equal(channel->command(chan_cmd_resume), 0);
		return why;
	}
	void serve_one(const answer &how)
	{
		vfio::user_message m;
		proto::dma_access_head a;

		if (vfio::user_recv(client.fd(), deadline::in_ms(1), raw_wait_ms, &m))
			return;
		assert_int_equal(m.head.flags & proto::flag_type_mask, proto::type_command);
		assert_true(m.body.size() >= sizeof(a));
		memcpy(&a, m.body.data(), sizeof(a));
		const std::vector<u8> reply = how(m.head, a, m.body.data() + sizeof(a));
		const iovec part = {const_cast<u8 *>(reply.data()), reply.size()};
		const proto::header h = {m.head.id, m.head.cmd, 0, proto::type_reply, 0};
		assert_int_equal(vfio::user_send(client.fd(), h, {&part, reply.empty() ? 0u : 1u}, {},
						 deadline::in_ms(raw_wait_ms)),
				 0);
	}
	u8 *near() { return memory.data + data; }

	raw_model model;
	raw_client client;
	raw_memory memory;
	std::unique_ptr<raw_channel> channel;
	u8 there[4096] = {}; /* what lies at far */
};

static bool is_read(const proto::header &h)
{
	return h.cmd == u16(proto::command::dma_read);
}

/* As the specification's structures: a head of `head` bytes; bare: none of a write. */
static answer by_the_book(rig &r, size_t head, bool bare = false)
{
	return [&r, head, bare](const proto::header &h, const proto::dma_access_head &a, u8 *bytes) {
		std::vector<u8> out(is_read(h) ? head + a.count : bare ? 0 : head);

		if (!out.empty())
			memcpy(out.data(), &a, head);
		if (is_read(h))
			memcpy(out.data() + head, r.there + (a.address - far), a.count);
		else
			memcpy(r.there + (a.address - far), bytes, a.count);
		return out;
	};
}

/* The count has 32 bits, the structure the length of one with 64. */
static answer in_32_bits(rig &r)
{
	return [&r](const proto::header &h, const proto::dma_access_head &a, u8 *bytes) {
		std::vector<u8> out(is_read(h) ? sizeof(a) + a.count : 0);

		if (is_read(h)) {
			memcpy(out.data(), &a, 12);
			memcpy(out.data() + 12, r.there + (a.address - far), a.count);
		} else {
			memcpy(r.there + (a.address - far), bytes - 4, a.count);
		}
		return out;
	};
}

static descriptor in(u64 len)
{
	return raw_copy(space::host, far, space::host, iova + data, len);
}

static descriptor out(u64 len)
{
	return raw_copy(space::host, iova + data, space::host, far, len);
}

static void there_and_back(rig &r, const answer &how)
{
	auto gen = rng(3);

	for (u64 len : {1, 3, 4, 8, 64, 1000, 4096}) {
		fill_random(r.there, len, gen);
		r.there[len - 1] |= 1;
		memset(r.near(), 0, len);
		assert_int_equal(r.run(in(len), how), fault_reason::none);
		assert_memory_equal(r.near(), r.there, len);
		fill_random(r.near(), len, gen);
		assert_int_equal(r.run(out(len), how), fault_reason::none);
		assert_memory_equal(r.near(), r.there, len);
	}
}

static void both_lengths(void **)
{
	for (size_t head : {12, 16}) {
		rig r;

		there_and_back(r, by_the_book(r, head));
	}
}

/* A bare header for a write: only from a client that has shown that its counts are right. */
static void bare_header(void **)
{
	rig r;
	const answer bare = by_the_book(r, 16, true);

	memset(r.near(), 0x77, 64);
	assert_int_equal(r.run(out(64), bare), fault_reason::transfer);
	memset(r.there, 0x11, 64);
	assert_int_equal(r.run(in(64), bare), fault_reason::none);
	there_and_back(r, bare);
}

/* Data that are off by four bytes are not taken for data. */
static void counts_of_32_bits(void **)
{
	rig r;
	auto gen = rng(4);

	for (unsigned round = 0; round < 20; round++) {
		fill_random(r.there, 64, gen);
		r.there[0] |= 1;
		assert_int_equal(r.run(in(64), in_32_bits(r)), fault_reason::transfer);
		fill_random(r.near(), 64, gen);
		assert_int_equal(r.run(out(64), in_32_bits(r)), fault_reason::transfer);
	}
}

/* Where the first four bytes are zeros, their head is right: the data tell, and zeros are zeros either way. */
static void counts_of_32_bits_before_zeros(void **)
{
	auto gen = rng(5);

	for (u64 len : {1, 4, 5, 8, 12, 64, 1000, 4096}) {
		rig r;

		memset(r.near(), 0x77, len);
		assert_int_equal(r.run(in(len), in_32_bits(r)), fault_reason::none);
		assert_memory_equal(r.near(), r.there, len);
		if (len <= 4)
			continue;
		fill_random(r.there + 4, len - 4, gen);
		r.there[4 + gen() % (len - 4)] |= 1;
		assert_int_equal(r.run(in(len), in_32_bits(r)), fault_reason::transfer);
	}
}

/* … and those that end so are not refused of a client that counts right, first of all. */
static void zeros_at_the_end(void **)
{
	for (u64 len : {5, 8, 64, 4096})
		for (u64 at : {u64(0), u64(1), len / 2, len - 5}) {
			rig r;

			r.there[at] = 0x5a;
			assert_int_equal(r.run(in(len), by_the_book(r, 16)), fault_reason::none);
			assert_memory_equal(r.near(), r.there, len);
		}
}

static void wrong_answers(void **)
{
	rig r;
	const answer right = by_the_book(r, 16);
	auto with = [&](auto change) {
		return [&right, change](const proto::header &h, const proto::dma_access_head &a, u8 *bytes) {
			std::vector<u8> out = right(h, a, bytes);

			change(&out);
			return out;
		};
	};

	for (bool read : {true, false}) {
		const descriptor d = read ? in(64) : out(64);

		assert_int_equal(r.run(d, with([](auto *o) { (*o)[0] ^= 1; })), fault_reason::transfer); /* address */
		assert_int_equal(r.run(d, with([](auto *o) { (*o)[8] ^= 1; })), fault_reason::transfer); /* count */
		assert_int_equal(r.run(d, with([](auto *o) { (*o)[15] ^= 1; })),
				 fault_reason::transfer); /* its high half */
		assert_int_equal(r.run(d, with([](auto *o) { o->pop_back(); })), fault_reason::transfer);
		assert_int_equal(r.run(d, with([](auto *o) { o->push_back(0); })), fault_reason::transfer);
		assert_int_equal(r.run(d, with([](auto *o) { o->resize(8); })), fault_reason::transfer);
		assert_int_equal(r.run(d, right), fault_reason::none);
	}
}

/* A command whose reply is not read yet. */
static void ask_later(rig &r, u64 offset)
{
	const proto::region_access_head h = {offset, vfio::region_bar0, 8};

	assert_true(r.client.say(proto::command::region_read, &h, sizeof(h)));
}

static vfio::user_message next_message(rig &r)
{
	vfio::user_message m;

	assert_int_equal(vfio::user_recv(r.client.fd(), deadline::in_ms(raw_wait_ms), raw_wait_ms, &m), 0);
	return m;
}

/* The server is in the middle of an access that the client does not read. */
static void begin_half_an_access(rig &r, u64 len)
{
	const u64 tail = (r.channel->put(out(len)), r.channel->posted);
	const deadline until = deadline::in_ms(raw_wait_ms);
	const proto::region_access_head h = {chan_doorbell(0) + doorbell_tail, vfio::region_bar0, 8};
	u8 body[sizeof(h) + sizeof(tail)];

	memcpy(body, &h, sizeof(h));
	memcpy(body + sizeof(h), &tail, sizeof(tail));
	assert_true(r.client.say(proto::command::region_write, body, sizeof(body), {}, proto::flag_no_reply));
	for (int there = 0; !there;) {
		assert_false(until.passed());
		assert_int_equal(ioctl(r.client.fd(), FIONREAD, &there), 0);
	}
}

static void read_access(rig &r, u64 len)
{
	const vfio::user_message m = next_message(r);

	assert_int_equal(m.head.cmd, proto::command::dma_write);
	assert_int_equal(m.body.size(), sizeof(proto::dma_access_head) + len);
	assert_memory_equal(m.body.data() + sizeof(proto::dma_access_head), r.near(), len);
}

static void read_replies(rig &r, unsigned n)
{
	for (unsigned i = 0, last = 0; i < n; i++) {
		const vfio::user_message m = next_message(r);

		assert_int_equal(m.head.flags, proto::type_reply);
		assert_true(!i || m.head.id == last + 1);
		last = m.head.id;
	}
}

/* One access, which is more than the server may have on its way. */
static constexpr u64 one_access = 64 * KiB, large = size / 2;
static constexpr int send_room = 16 * KiB;

/*
 * A client in the middle of something large reads nothing meanwhile: the server has to, though half an access
 * and the replies behind it wait for the client.  Else each waits for the other.
 */
static void both_in_the_middle(void **)
{
	static constexpr unsigned asked = 4;
	rig r(send_room);
	auto gen = rng(5);
	std::vector<u8> message(sizeof(proto::region_access_head) + large);
	const proto::region_access_head h = {0, vfio::region_bar2, large};

	fill_random(r.near(), one_access, gen);
	memcpy(message.data(), &h, sizeof(h));
	begin_half_an_access(r, one_access);
	for (unsigned i = 0; i < asked; i++)
		ask_later(r, 0);
	assert_true(r.client.say(proto::command::region_write, message.data(), message.size()));
	read_access(r, one_access);
	read_replies(r, asked + 1);
}

/* More than there is room for: they wait in the socket, and are answered when the client reads. */
static void many_replies_wait(void **)
{
	static constexpr unsigned asked = 5 * sim::locked_send_queue::most;
	rig r(send_room);
	auto gen = rng(6);

	fill_random(r.near(), one_access, gen);
	begin_half_an_access(r, one_access);
	for (unsigned i = 0; i < asked; i++)
		ask_later(r, 0);
	read_access(r, one_access);
	read_replies(r, asked);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(both_lengths),       cmocka_unit_test(bare_header),
		cmocka_unit_test(counts_of_32_bits),  cmocka_unit_test(counts_of_32_bits_before_zeros),
		cmocka_unit_test(zeros_at_the_end),   cmocka_unit_test(wrong_answers),
		cmocka_unit_test(both_in_the_middle), cmocka_unit_test(many_replies_wait),
	};

	return cmocka_run_group_tests_name("sim_replies", tests, nullptr, nullptr);
}
