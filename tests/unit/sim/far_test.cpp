/* SPDX-License-Identifier: BSD-3-Clause */
/* Rings and status blocks that only messages reach, against a client that answers when the test says so. */
#include "tests/support/raw_client.h"
#include "tests/support/raw_model.h"
#include "tests/support/test.h"

#include "driver/base/barrier.h"

#include <deque>
#include <tuple>

using namespace usdma;
using namespace usdma::test;
using namespace usdma::sdma;
using dma::fault_reason;
using dma::space;

static constexpr u64 mem_base = u64(1) << 44, iova = 0x40000000, size = MiB;
static constexpr u32 device_status = 0x5a, pending = 0x20; /* PCI Express capability at 0x50 */
/* Less than the server waits for an answer; what is said of an access in flight is not held later than that. */
static constexpr u64 soon_ms = 2500;

static void meanwhile(const deadline &until, bool holds)
{
	assert_true(holds || until.passed());
}

/* A client all of whose memory is its own; it answers what the test lets it. */
struct rig {
	explicit rig(bool near_ring = false, unsigned channels = 1)
		: model(settings(channels)), client(model.connect()), memory("far", size)
	{
		assert_int_equal(client.begin(mem_base), 0);
		/* The data of a near ring stand elsewhere. */
		assert_int_equal(client.map(iova, size, near_ring ? memory.fd.get() : -1), 0);
		assert_int_equal(client.map(far_data, size), 0);
	}
	static sim::config settings(unsigned channels)
	{
		sim::config c;

		c.mem = size;
		c.channels = channels;
		c.engines = 1;
		return c;
	}
	/* As raw_channel::enable, which passes over what the server asks. */
	void open(u32 order = 6) { open_one(0, order, &channel); }
	void open_one(u32 index, u32 order, std::unique_ptr<raw_channel> *out)
	{
		auto &ch = *out;

		ch = std::make_unique<raw_channel>(client, index, memory, iova, index * (size / 2), order);
		const std::tuple<u32, u64, u32> set_up[] = {{chan_ring_base, ch->ring_iova, 8},
							    {chan_ring_order, order, 4},
							    {chan_vectors, 1 << 16, 4},
							    {chan_record, ch->record_iova, 8},
							    {chan_first_seq, 0, 8},
							    {chan_command, chan_cmd_enable, 4}};

		for (const auto &[reg, value, len] : set_up)
			assert_int_equal(write(chan_ctrl(index) + reg, value, len), 0);
		assert_int_equal(read(chan_ctrl(index) + chan_state, 4), chan_state_running);
	}
	/* The next thing that the server asks; false: nothing within ms. */
	bool next(u64 ms)
	{
		while (asked.empty())
			if (!hear(ms))
				return false;
		return true;
	}
	/* Whatever comes. */
	bool hear(u64 ms)
	{
		vfio::user_message m;

		if (vfio::user_recv(client.fd(), deadline::in_ms(ms), raw_wait_ms, &m))
			return false;
		take(std::move(m));
		return true;
	}
	void take(vfio::user_message m)
	{
		if ((m.head.flags & proto::flag_type_mask) == proto::type_command)
			asked.push_back(std::move(m));
		else
			replies.push_back(m.head.id);
	}
	/* Does what the oldest question asks, and says so; error: only says that it did not. */
	void answer(u32 error = 0)
	{
		assert_false(asked.empty());
		const vfio::user_message m = std::move(asked.front());
		proto::dma_access_head a;
		proto::header h = {m.head.id, m.head.cmd, 0, proto::type_reply | (error ? u32(proto::flag_error) : 0),
				   error};

		asked.pop_front();
		memcpy(&a, m.body.data(), sizeof(a));
		const bool read = m.head.cmd == u16(proto::command::dma_read);
		u8 *const at = place(a.address, a.count);
		const iovec parts[] = {{&a, sizeof(a)}, {at, a.count}};
		if (!read && !error)
			memcpy(at, m.body.data() + sizeof(a), a.count);
		assert_int_equal(vfio::user_send(client.fd(), h,
						 {parts, error || (!read && bare) ? 0u :
							 read                     ? 2u :
										    1u},
						 {}, deadline::in_ms(raw_wait_ms)),
				 0);
	}
	u8 *place(u64 address, u64 len)
	{
		if (range_within(address - iova, len, size))
			return memory.data + (address - iova);
		assert_true(range_within(address - far_data, len, size));
		return there + (address - far_data);
	}
	template <class F> void serve_until(F done)
	{
		const deadline until = deadline::in_ms(raw_wait_ms);

		while (!done()) {
			assert_false(until.passed());
			if (next(1))
				answer();
		}
	}
	void command(proto::command cmd, const void *body, size_t len) { assert_true(client.say(cmd, body, len)); }
	/* A register, while questions come in between and are kept. */
	u64 read(u64 at, u32 len, u32 region = vfio::region_bar0)
	{
		const proto::region_access_head h = {at, region, len};
		const deadline until = deadline::in_ms(raw_wait_ms);
		u64 v = 0;

		command(proto::command::region_read, &h, sizeof(h));
		for (;;) {
			vfio::user_message m;

			assert_false(until.passed());
			assert_int_equal(vfio::user_recv(client.fd(), deadline::in_ms(raw_wait_ms), raw_wait_ms, &m),
					 0);
			if ((m.head.flags & proto::flag_type_mask) != proto::type_reply ||
			    m.head.cmd != u16(proto::command::region_read)) {
				take(std::move(m));
				continue;
			}
			memcpy(&v, m.body.data() + sizeof(h), len);
			return v;
		}
	}
	/* The error of the write's reply. */
	u32 write(u64 at, u64 v, u32 len, u32 region = vfio::region_bar0)
	{
		const proto::region_access_head h = {at, region, len};
		u8 body[sizeof(h) + 8];

		memcpy(body, &h, sizeof(h));
		memcpy(body + sizeof(h), &v, len);
		command(proto::command::region_write, body, sizeof(h) + len);
		for (;;) {
			vfio::user_message m;

			assert_int_equal(vfio::user_recv(client.fd(), deadline::in_ms(raw_wait_ms), raw_wait_ms, &m),
					 0);
			if ((m.head.flags & proto::flag_type_mask) == proto::type_reply &&
			    m.head.cmd == u16(proto::command::region_write))
				return m.head.error;
			take(std::move(m));
		}
	}
	void bell() { bell_of(*channel); }
	void bell_of(const raw_channel &ch)
	{
		assert_int_equal(write(chan_doorbell(ch.index) + doorbell_tail, ch.posted, 8), 0);
	}
	u32 state() { return u32(read(chan_ctrl(0) + chan_state, 4)); }
	bool is_pending() { return read(device_status, 2, vfio::region_config) & pending; }
	bool is_ready() { return read(reg_status, 4) & status_ready; }
	u32 command(u32 cmd) { return write(chan_ctrl(0) + chan_command, cmd, 4); }
	u64 completed() { return load_acquire(&channel->status->record.completed); }
	/* The device asks for far_data: its last question, and the test has it. */
	void wait_for_data()
	{
		const deadline until = deadline::in_ms(raw_wait_ms);

		for (;;) {
			proto::dma_access_head a;

			assert_false(until.passed());
			if (!next(100))
				continue;
			memcpy(&a, asked.back().body.data(), sizeof(a));
			if (range_within(a.address - far_data, a.count, size))
				return;
			answer();
		}
	}

	/* On a new channel; until then what is said of the access in flight holds. */
	deadline begin_access(const descriptor &d)
	{
		open();
		channel->put(d);
		const deadline until = deadline::in_ms(soon_ms);
		bell();
		wait_for_data();
		return until;
	}

	static constexpr u64 far_data = u64(1) << 40;
	raw_model model;
	raw_client client;
	raw_memory memory;
	std::unique_ptr<raw_channel> channel;
	std::deque<vfio::user_message> asked;
	std::vector<u16> replies;
	bool bare = false; /* a write is answered by a header alone */
	u8 there[size] = {};
};

static descriptor from_far(u64 len)
{
	return raw_copy(space::host, rig::far_data, space::device, mem_base, len);
}

static descriptor to_far(u64 len)
{
	return raw_copy(space::device, mem_base, space::host, rig::far_data, len);
}

/* Numbers of posted descriptors of all sizes of a ring, round and round: each runs once, in order. */
static void round_and_round(void **)
{
	auto gen = rng(401);

	for (u32 order : {2u, 6u, 7u, 10u}) {
		rig r;
		u64 sum = 0;

		r.open(order);
		r.serve_until([&] { return load_acquire(&r.channel->status->asleep) == 1; });
		assert_int_equal(r.state(), chan_state_running);
		for (u64 n = 0; n < (2u << order) + 300;) {
			const u64 room = (u64(1) << order) - (r.channel->posted - r.completed()),
				  some = std::min(1 + gen() % 40, room);

			for (u64 i = 0; i < some; i++, n++) {
				descriptor d = {};

				/* In order: each reads what the one before it wrote. */
				d.op = u8(dma::opcode::write);
				d.spaces = u8(space::host) << 4;
				d.dst = rig::far_data + n % 512 * 8;
				d.a = n + 1;
				r.channel->put(d);
			}
			r.bell();
			r.serve_until([&] { return r.completed() == r.channel->posted; });
		}
		for (u64 i = 0; i < 512; i++)
			memcpy(&sum, r.there + i * 8, 8), assert_true(sum % 512 == (i + 1) % 512 || !sum);
		assert_int_equal(load_acquire(&r.channel->status->asleep), 1);
	}
}

/* Replies to writes may be headers alone: the first question of all is a read, by which the client is known. */
static void bare_headers(void **)
{
	rig r;

	r.bare = true;
	r.open();
	for (unsigned i = 0; i < 20; i++) {
		const u64 seq = r.channel->put(to_far(100));

		r.bell();
		r.serve_until([&] { return r.completed() == seq; });
	}
}

/* One channel's long copy holds up neither what another has to tell nor its end. */
static void others_go_on(void **)
{
	rig r(false, 2);
	std::unique_ptr<raw_channel> other;

	r.open();
	r.open_one(1, 6, &other);
	r.serve_until([&] {
		return load_acquire(&r.channel->status->asleep) == 1 && load_acquire(&other->status->asleep) == 1;
	});
	const u64 seq = other->put({});
	r.bell_of(*other);
	r.serve_until([&] { return r.read(chan_ctrl(1) + chan_head, 8) == seq; });
	r.channel->put(to_far(4096));
	r.bell();
	r.wait_for_data();
	/* The data's question stays; all others are answered. */
	const vfio::user_message data_question = std::move(r.asked.back());
	r.asked.pop_back();
	r.serve_until([&] { return other->completed() == seq; });
	assert_int_equal(r.write(chan_ctrl(1) + chan_command, chan_cmd_stop, 4), 0);
	r.serve_until([&] { return load_acquire(&other->status->record.state) == dma::state_halted; });
	assert_int_equal(r.write(chan_ctrl(1) + chan_command, chan_cmd_disable, 4), 0);
	r.serve_until([&] { return r.read(chan_ctrl(1) + chan_state, 4) == chan_state_off; });
}

/* What ended before the channel was switched off is told before it is off. */
static void completed_before_off(void **)
{
	rig r;

	r.open();
	r.serve_until([&] { return load_acquire(&r.channel->status->asleep) == 1; });
	for (u64 n = 1; n <= 2; n++) {
		r.channel->put({});
		r.bell();
		const deadline until = deadline::in_ms(raw_wait_ms);
		/* Reads only: that the first has ended, the client does not hear. */
		while (r.read(chan_ctrl(0) + chan_head, 8) != n) {
			assert_false(until.passed());
			if (r.next(1) && r.asked.back().head.cmd == u16(proto::command::dma_read)) {
				std::swap(r.asked.front(), r.asked.back());
				r.answer();
			}
		}
	}
	assert_int_equal(r.completed(), 0);
	assert_int_equal(r.command(chan_cmd_disable), 0);
	assert_int_equal(r.state(), chan_state_stopping);
	r.serve_until([&] { return r.asked.empty() && r.state() == chan_state_off; });
	assert_int_equal(r.completed(), 2);
}

/* A fault is told before the state; resume fetches anew what was rewritten. */
static void faults_and_resume(void **)
{
	rig r;
	descriptor bad = from_far(64), good = to_far(64);

	r.open();
	bad.src = 0x123456789000;
	bad.cookie = 77;
	r.channel->put(bad);
	r.channel->put(bad);
	const u64 last = r.channel->put(good);
	r.bell();
	r.serve_until([&] { return load_acquire(&r.channel->status->record.state) == dma::state_halted; });
	const dma::completion_record &rec = r.channel->status->record;
	assert_int_equal(rec.fault_seq, 1);
	assert_int_equal(rec.fault_cookie, 77);
	assert_int_equal(rec.reason, u32(fault_reason::src_unmapped));
	assert_int_equal(rec.fault_address, bad.src);
	/* The second one shall do nothing now. */
	r.channel->ring[2].op = u8(dma::opcode::nop);
	assert_int_equal(r.command(chan_cmd_resume), 0);
	r.serve_until([&] { return r.completed() == last; });
	assert_int_equal(rec.state, dma::state_running);
	assert_int_equal(rec.reason, 0);
}

/* An interrupt comes behind the record that it is for. */
static void interrupts_come_after(void **)
{
	rig r;
	const unique_fd waiter(eventfd(0, EFD_NONBLOCK)), service(eventfd(0, EFD_NONBLOCK));
	const proto::irq_set_head h = {sizeof(h), proto::irq_set_data_eventfd | proto::irq_set_action_trigger,
				       vfio::irq_msix, 0, 2};
	eventfd_t v;

	assert_int_equal(r.client.ask(proto::command::device_set_irqs, &h, sizeof(h), {waiter.get(), service.get()}),
			 0);
	r.open();
	r.serve_until([&] { return load_acquire(&r.channel->status->asleep) == 1; });
	for (u64 i = 0; i < 50; i++) {
		descriptor d = to_far(8);

		d.flags = dma::flag_interrupt;
		const u64 seq = r.channel->put(d);
		assert_int_equal(r.write(chan_doorbell(0) + doorbell_arm, seq, 8), 0);
		r.bell();
		bool rung = false;
		r.serve_until([&] {
			rung |= eventfd_read(waiter.get(), &v) == 0;
			assert_true(!rung || r.completed() >= seq);
			return rung;
		});
	}
}

/* ---- what is in flight when it is to end ----------------------------------------------------------- */

/* Registers answer at once; the channel is off when the last access has been answered. */
static void off_under_way(void **)
{
	for (bool near_ring : {true, false})
		for (bool out : {true, false}) {
			rig r(near_ring);
			const deadline until = r.begin_access(out ? to_far(4096) : from_far(4096));

			assert_int_equal(r.command(chan_cmd_disable), 0);
			meanwhile(until, r.state() == chan_state_stopping);
			meanwhile(until, r.is_pending());
			meanwhile(until, !r.is_ready());
			/* Again is nothing new; on again it cannot be yet, and its set-up stays. */
			assert_int_equal(r.command(chan_cmd_disable), 0);
			meanwhile(until, r.write(chan_ctrl(0) + chan_ring_order, 9, 4) == 0 &&
						 r.read(chan_ctrl(0) + chan_ring_order, 4) == 6);
			assert_true(until.passed() || r.command(chan_cmd_enable) == EBUSY);
			r.serve_until([&] { return r.asked.empty() && r.state() == chan_state_off; });
			assert_false(r.is_pending());
			assert_true(r.is_ready());
			assert_true(r.asked.empty() && !r.next(20));
			r.open();
		}
}

/* By the device's own switch, its bus mastering, its power, its reset: all alike. */
static void off_by_other_ways(void **)
{
	const struct {
		u32 region;
		u64 at, value;
		u32 len;
	} ways[] = {{vfio::region_bar0, reg_ctrl, 0, 4},
		    {vfio::region_bar0, reg_ctrl, ctrl_reset, 4},
		    {vfio::region_config, 4, 2, 2},
		    {vfio::region_config, 0x44, 3, 2},
		    {vfio::region_config, 0x58, 0x8000, 2}};

	for (const auto &way : ways) {
		rig r;
		const deadline until = r.begin_access(to_far(4096));

		assert_int_equal(r.write(way.at, way.value, way.len, way.region), 0);
		meanwhile(until, r.state() == chan_state_stopping);
		meanwhile(until, r.is_pending());
		r.serve_until([&] { return r.asked.empty() && r.state() == chan_state_off; });
		assert_false(r.is_pending());
		assert_false(r.next(20));
	}
}

/* The record says stopped when the client moves no bytes for it any more. */
static void stop_under_way(void **)
{
	rig r(true);
	const deadline until = r.begin_access(to_far(4096));
	const u64 seq = r.channel->posted;

	assert_int_equal(r.command(chan_cmd_stop), 0);
	meanwhile(until, r.state() == chan_state_running);
	meanwhile(until, load_acquire(&r.channel->status->record.state) == dma::state_running);
	r.answer();
	r.serve_until([&] { return load_acquire(&r.channel->status->record.state) == dma::state_halted; });
	meanwhile(until, r.channel->status->record.reason == u32(fault_reason::stopped));
	assert_int_equal(r.command(chan_cmd_resume), 0);
	r.serve_until([&] { return r.completed() == seq; });
}

/* DEVICE_RESET is answered behind the answers that it waits for, or after a second. */
static void a_reset_waits(void **)
{
	for (bool answers : {true, false}) {
		rig r;
		const deadline until = r.begin_access(to_far(4096));

		r.replies.clear();
		const u64 begun = now_ns();
		r.command(proto::command::device_reset, nullptr, 0);
		meanwhile(until, r.is_pending() && r.replies.empty());
		if (answers)
			r.answer();
		while (r.replies.empty())
			assert_true(r.hear(1) || now_ns() - begun < raw_wait_ms * ns_per_ms);
		if (answers)
			assert_int_equal(r.state(), chan_state_off);
		else
			meanwhile(until, now_ns() - begun > 900 * ns_per_ms && r.is_pending());
	}
}

/* ---- clients that do not do their part -------------------------------------------------------------- */

/* One that refuses loses that channel, and nothing else. */
static void refusals(void **)
{
	for (unsigned good : {0u, 1u, 2u}) {
		rig r(false, 2);

		r.open();
		r.channel->put(to_far(8));
		r.bell();
		for (unsigned i = 0; i < good; i++) {
			while (!r.next(100)) {
			}
			r.answer();
		}
		while (r.state() == chan_state_running)
			if (r.next(1))
				r.answer(EFAULT);
		if (good == 2) /* the data themselves: a fault like any other */
			assert_true(r.state() == chan_state_halted || r.state() == chan_state_error);
		else
			assert_int_equal(r.state(), chan_state_error);
		assert_int_equal(r.command(chan_cmd_disable), 0);
		r.serve_until([&] { return r.state() == chan_state_off; });
		r.memory.data[0] = 0;
		r.open();
		const u64 seq = r.channel->put(to_far(8));
		r.bell();
		r.serve_until([&] { return r.completed() == seq; });
	}
}

/* One that never answers: registers go on, the channel is in error after the three seconds that it gets. */
static void silence(void **)
{
	rig r;

	r.open();
	r.channel->put(to_far(8));
	r.bell();
	const u64 begun = now_ns();
	for (unsigned step = 0; r.state() == chan_state_running; step++) {
		assert_true(now_ns() - begun < raw_wait_ms * ns_per_ms);
		poll_pause(step);
	}
	assert_int_equal(r.state(), chan_state_error);
	assert_true(now_ns() - begun > 2 * ns_per_s);
}

/* A ring that is not mapped, or without the right, does not start; one that is unmapped later is in error. */
static void not_mapped(void **)
{
	rig r;

	assert_int_equal(r.client.unmap(iova, size), 0);
	r.channel = std::make_unique<raw_channel>(r.client, 0, r.memory, iova, 0);
	assert_int_equal(r.channel->enable(), chan_state_error);
	assert_int_equal(r.client.map(iova, size, -1, 0, vfio::dma_read), 0);
	assert_int_equal(r.channel->enable(), chan_state_error);
	assert_int_equal(r.client.unmap(iova, size), 0);
	assert_int_equal(r.client.map(iova, size), 0);
	r.open();
	r.serve_until([&] { return load_acquire(&r.channel->status->asleep) == 1; });
	assert_int_equal(r.client.unmap(iova, size), 0);
	/* An engine that sleeps sees it when it wakes. */
	assert_int_equal(r.write(chan_ctrl(0) + chan_wake, 1, 4), 0);
	while (r.state() == chan_state_running)
		if (r.next(1))
			r.answer(EFAULT);
	assert_int_equal(r.state(), chan_state_error);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(bare_headers),
		cmocka_unit_test(others_go_on),
		cmocka_unit_test(completed_before_off),
		cmocka_unit_test(round_and_round),
		cmocka_unit_test(faults_and_resume),
		cmocka_unit_test(interrupts_come_after),
		cmocka_unit_test(off_under_way),
		cmocka_unit_test(off_by_other_ways),
		cmocka_unit_test(stop_under_way),
		cmocka_unit_test(a_reset_waits),
		cmocka_unit_test(refusals),
		cmocka_unit_test(silence),
		cmocka_unit_test(not_mapped),
	};

	return cmocka_run_group_tests_name("sim_far", tests, nullptr, nullptr);
}
