/* SPDX-License-Identifier: BSD-3-Clause */
/* Replies of clients to DMA_READ and DMA_WRITE: the two layouts that the specification has, and invalid ones. */
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

static constexpr u64 mem_base = u64(1) << 44, iova = 0x40000000, size = MiB, remote_data = u64(1) << 40,
		     local_offset = 64 * KiB;

/* Composes the body of a reply from the command's header, address, count and bytes (of a write). */
using answer = std::function<std::vector<u8>(const proto::header &h, const proto::dma_access_head &a, u8 *bytes)>;

struct rig {
	explicit rig(int send_buffer = 0)
		: model(settings()), client(model.connect(send_buffer)), memory("replies", size)
	{
		assert_int_equal(client.begin(mem_base), 0);
		assert_int_equal(client.map(iova, size, memory.fd.get()), 0);
		assert_int_equal(client.map(remote_data, size), 0);
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
	/* Runs one descriptor and replies to the requests that it causes. */
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
		const proto::header h = {m.head.id, u16(m.head.cmd ^ other_command), 0, proto::type_reply, 0};
		assert_int_equal(vfio::user_send(client.fd(), h, {&part, reply.empty() ? 0u : 1u}, {},
						 deadline::in_ms(raw_wait_ms)),
				 0);
	}
	u8 *local() { return memory.data + local_offset; }

	raw_model model;
	raw_client client;
	raw_memory memory;
	std::unique_ptr<raw_channel> channel;
	u8 remote[4096] = {};  /* the client's memory at remote_data */
	u16 other_command = 0; /* replies name the request's command, with these bits changed */
};

static bool is_read(const proto::header &h)
{
	return h.cmd == u16(proto::command::dma_read);
}

/* As the specification: a head of `head` bytes; no_body: replies to writes have none. */
static answer valid_replies(rig &r, size_t head, bool no_body = false)
{
	return [&r, head, no_body](const proto::header &h, const proto::dma_access_head &a, u8 *bytes) {
		std::vector<u8> out(is_read(h) ? head + a.count : no_body ? 0 : head);

		if (!out.empty())
			memcpy(out.data(), &a, head);
		if (is_read(h))
			memcpy(out.data() + head, r.remote + (a.address - remote_data), a.count);
		else
			memcpy(r.remote + (a.address - remote_data), bytes, a.count);
		return out;
	};
}

/* The count has 32 bits, but the head has the length of one with 64. */
static answer counts_in_32_bits(rig &r)
{
	return [&r](const proto::header &h, const proto::dma_access_head &a, u8 *bytes) {
		std::vector<u8> out(is_read(h) ? sizeof(a) + a.count : 0);

		if (is_read(h)) {
			memcpy(out.data(), &a, 12);
			memcpy(out.data() + 12, r.remote + (a.address - remote_data), a.count);
		} else {
			memcpy(r.remote + (a.address - remote_data), bytes - 4, a.count);
		}
		return out;
	};
}

static descriptor in(u64 len)
{
	return raw_copy(space::host, remote_data, space::host, iova + local_offset, len);
}

static descriptor out(u64 len)
{
	return raw_copy(space::host, iova + local_offset, space::host, remote_data, len);
}

static void copy_in_and_out(rig &r, const answer &how)
{
	auto gen = rng(3);

	for (u64 len : {1, 3, 4, 8, 64, 1000, 4096}) {
		fill_random(r.remote, len, gen);
		r.remote[len - 1] |= 1;
		memset(r.local(), 0, len);
		assert_int_equal(r.run(in(len), how), fault_reason::none);
		assert_memory_equal(r.local(), r.remote, len);
		fill_random(r.local(), len, gen);
		assert_int_equal(r.run(out(len), how), fault_reason::none);
		assert_memory_equal(r.local(), r.remote, len);
	}
}

static void both_head_lengths(void **)
{
	for (size_t head : {12, 16}) {
		rig r;

		copy_in_and_out(r, valid_replies(r, head));
	}
}

/* A write may be answered without a body only after the client has sent a valid count. */
static void reply_without_body(void **)
{
	rig r;
	const answer no_body = valid_replies(r, 16, true);

	memset(r.local(), 0x77, 64);
	assert_int_equal(r.run(out(64), no_body), fault_reason::transfer);
	memset(r.remote, 0x11, 64);
	assert_int_equal(r.run(in(64), no_body), fault_reason::none);
	copy_in_and_out(r, no_body);
}

/* Data that are shifted by four bytes are refused. */
static void counts_of_32_bits_refused(void **)
{
	rig r;
	auto gen = rng(4);

	for (unsigned round = 0; round < 20; round++) {
		fill_random(r.remote, 64, gen);
		r.remote[0] |= 1;
		assert_int_equal(r.run(in(64), counts_in_32_bits(r)), fault_reason::transfer);
		fill_random(r.local(), 64, gen);
		assert_int_equal(r.run(out(64), counts_in_32_bits(r)), fault_reason::transfer);
	}
}

/* If the first four bytes of data are zeros, the head is valid: the server checks the data, unless all are zeros. */
static void zeros_after_32_bit_counts(void **)
{
	auto gen = rng(5);

	for (u64 len : {1, 4, 5, 8, 12, 64, 1000, 4096}) {
		rig r;

		memset(r.local(), 0x77, len);
		assert_int_equal(r.run(in(len), counts_in_32_bits(r)), fault_reason::none);
		assert_memory_equal(r.local(), r.remote, len);
		if (len <= 4)
			continue;
		fill_random(r.remote + 4, len - 4, gen);
		r.remote[4 + gen() % (len - 4)] |= 1;
		assert_int_equal(r.run(in(len), counts_in_32_bits(r)), fault_reason::transfer);
	}
}

/* Data with zeros at the end are accepted from a client with valid counts, also in its first reply. */
static void trailing_zeros_accepted(void **)
{
	for (u64 len : {5, 8, 64, 4096})
		for (u64 at : {u64(0), u64(1), len / 2, len - 5}) {
			rig r;

			r.remote[at] = 0x5a;
			assert_int_equal(r.run(in(len), valid_replies(r, 16)), fault_reason::none);
			assert_memory_equal(r.local(), r.remote, len);
		}
}

static void invalid_replies(void **)
{
	rig r;
	const answer right = valid_replies(r, 16);
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
				 fault_reason::transfer); /* the count's high half */
		assert_int_equal(r.run(d, with([](auto *o) { o->pop_back(); })), fault_reason::transfer);
		assert_int_equal(r.run(d, with([](auto *o) { o->push_back(0); })), fault_reason::transfer);
		assert_int_equal(r.run(d, with([](auto *o) { o->resize(8); })), fault_reason::transfer);
		r.other_command = u16(proto::command::dma_read) ^ u16(proto::command::dma_write);
		assert_int_equal(r.run(d, right), fault_reason::transfer);
		r.other_command = 0;
		assert_int_equal(r.run(d, right), fault_reason::none);
	}
}

/* Sends a command; its reply is read later. */
static void send_command(rig &r, u64 offset)
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

/* Returns when the server has begun to send an access that the client does not read yet. */
static void begin_unread_access(rig &r, u64 len)
{
	const u64 tail = (r.channel->put(out(len)), r.channel->posted);
	const deadline until = deadline::in_ms(raw_wait_ms);
	const proto::region_access_head h = {chan_doorbell(0) + doorbell_tail, vfio::region_bar0, 8};
	u8 body[sizeof(h) + sizeof(tail)];

	memcpy(body, &h, sizeof(h));
	memcpy(body + sizeof(h), &tail, sizeof(tail));
	assert_true(r.client.say(proto::command::region_write, body, sizeof(body), {}, proto::flag_no_reply));
	for (int readable = 0; !readable;) {
		assert_false(until.passed());
		assert_int_equal(ioctl(r.client.fd(), FIONREAD, &readable), 0);
	}
}

static void read_access(rig &r, u64 len)
{
	const vfio::user_message m = next_message(r);

	assert_int_equal(m.head.cmd, proto::command::dma_write);
	assert_int_equal(m.body.size(), sizeof(proto::dma_access_head) + len);
	assert_memory_equal(m.body.data() + sizeof(proto::dma_access_head), r.local(), len);
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

/* One access, which is larger than the server's send buffer. */
static constexpr u64 one_access = 64 * KiB, large = size / 2;
static constexpr int send_buffer_size = 16 * KiB;

/*
 * A client that sends a large message does not read meanwhile: the server must read, although an access and the
 * replies after it wait for the client.  Otherwise each waits for the other.
 */
static void both_sides_send(void **)
{
	static constexpr unsigned commands = 4;
	rig r(send_buffer_size);
	auto gen = rng(5);
	std::vector<u8> message(sizeof(proto::region_access_head) + large);
	const proto::region_access_head h = {0, vfio::region_bar2, large};

	fill_random(r.local(), one_access, gen);
	memcpy(message.data(), &h, sizeof(h));
	begin_unread_access(r, one_access);
	for (unsigned i = 0; i < commands; i++)
		send_command(r, 0);
	assert_true(r.client.say(proto::command::region_write, message.data(), message.size()));
	read_access(r, one_access);
	read_replies(r, commands + 1);
}

/* More commands than the send queue has space for: they wait in the socket until the client reads. */
static void many_replies_wait(void **)
{
	static constexpr unsigned commands = 5 * sim::locked_send_queue::most;
	rig r(send_buffer_size);
	auto gen = rng(6);

	fill_random(r.local(), one_access, gen);
	begin_unread_access(r, one_access);
	for (unsigned i = 0; i < commands; i++)
		send_command(r, 0);
	read_access(r, one_access);
	read_replies(r, commands);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(both_head_lengths),         cmocka_unit_test(reply_without_body),
		cmocka_unit_test(counts_of_32_bits_refused), cmocka_unit_test(zeros_after_32_bit_counts),
		cmocka_unit_test(trailing_zeros_accepted),   cmocka_unit_test(invalid_replies),
		cmocka_unit_test(both_sides_send),           cmocka_unit_test(many_replies_wait),
	};

	return cmocka_run_group_tests_name("sim_replies", tests, nullptr, nullptr);
}
