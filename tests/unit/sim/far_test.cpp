/* SPDX-License-Identifier: BSD-3-Clause */
/* Rings and status blocks in memory that the server reaches only by DMA messages; each test decides when to answer. */
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
/* Less than the server waits for a reply: the state during an access in flight is checked only for this long. */
static constexpr u64 in_flight_ms = 2500;

static void assert_before(const deadline &until, bool holds)
{
	assert_true(holds || until.passed());
}

/* A client that shares no memory but the ring (shared_ring); it answers a request only when the test says so. */
struct rig {
	explicit rig(bool shared_ring = false, unsigned channels = 1)
		: model(settings(channels)), client(model.connect()), memory("remote", size)
	{
		assert_int_equal(client.begin(mem_base), 0);
		/* The data are never in the shared area. */
		assert_int_equal(client.map(iova, size, shared_ring ? memory.fd.get() : -1), 0);
		assert_int_equal(client.map(remote_data, size), 0);
	}
	static sim::config settings(unsigned channels)
	{
		sim::config c;

		c.mem = size;
		c.channels = channels;
		c.engines = 1;
		return c;
	}
	/* As raw_channel::enable, which discards requests of the server. */
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
	/* Waits for a request of the server; false: none within ms. */
	bool next_request(u64 ms)
	{
		while (requests.empty())
			if (!receive(ms))
				return false;
		return true;
	}
	/* One message of any type. */
	bool receive(u64 ms)
	{
		vfio::user_message m;

		if (vfio::user_recv(client.fd(), deadline::in_ms(ms), raw_wait_ms, &m))
			return false;
		enqueue(std::move(m));
		return true;
	}
	void enqueue(vfio::user_message m)
	{
		if ((m.head.flags & proto::flag_type_mask) == proto::type_command)
			requests.push_back(std::move(m));
		else
			replies.push_back(m.head.id);
	}
	/* Executes the oldest request and replies; error: only replies with it. */
	void answer(u32 error = 0)
	{
		assert_false(requests.empty());
		const vfio::user_message m = std::move(requests.front());
		proto::dma_access_head a;
		proto::header h = {m.head.id, m.head.cmd, 0, proto::type_reply | (error ? u32(proto::flag_error) : 0),
				   error};

		requests.pop_front();
		memcpy(&a, m.body.data(), sizeof(a));
		const bool read = m.head.cmd == u16(proto::command::dma_read);
		u8 *const at = translate(a.address, a.count);
		const iovec parts[] = {{&a, sizeof(a)}, {at, a.count}};
		if (!read && !error)
			memcpy(at, m.body.data() + sizeof(a), a.count);
		assert_int_equal(vfio::user_send(client.fd(), h,
						 {parts, error || (!read && no_body) ? 0u :
							 read                        ? 2u :
										       1u},
						 {}, deadline::in_ms(raw_wait_ms)),
				 0);
	}
	u8 *translate(u64 address, u64 len)
	{
		if (range_within(address - iova, len, size))
			return memory.data + (address - iova);
		assert_true(range_within(address - remote_data, len, size));
		return remote_memory + (address - remote_data);
	}
	template <class F> void serve_until(F done)
	{
		const deadline until = deadline::in_ms(raw_wait_ms);

		while (!done()) {
			assert_false(until.passed());
			if (next_request(1))
				answer();
		}
	}
	void command(proto::command cmd, const void *body, size_t len) { assert_true(client.say(cmd, body, len)); }
	/* Reads a register; requests that arrive before the reply are queued. */
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
				enqueue(std::move(m));
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
			enqueue(std::move(m));
		}
	}
	void ring_doorbell() { ring_doorbell_of(*channel); }
	void ring_doorbell_of(const raw_channel &ch)
	{
		assert_int_equal(write(chan_doorbell(ch.index) + doorbell_tail, ch.posted, 8), 0);
	}
	u32 state() { return u32(read(chan_ctrl(0) + chan_state, 4)); }
	bool is_pending() { return read(device_status, 2, vfio::region_config) & pending; }
	bool is_ready() { return read(reg_status, 4) & status_ready; }
	u32 command(u32 cmd) { return write(chan_ctrl(0) + chan_command, cmd, 4); }
	u64 completed() { return load_acquire(&channel->status->record.completed); }
	/* Answers requests until one, the newest in the queue, is for remote_data. */
	void wait_for_data()
	{
		const deadline until = deadline::in_ms(raw_wait_ms);

		for (;;) {
			proto::dma_access_head a;

			assert_false(until.passed());
			if (!next_request(100))
				continue;
			memcpy(&a, requests.back().body.data(), sizeof(a));
			if (range_within(a.address - remote_data, a.count, size))
				return;
			answer();
		}
	}

	/* Begins d on a new channel; until the returned deadline the access is in flight. */
	deadline begin_access(const descriptor &d)
	{
		open();
		channel->put(d);
		const deadline until = deadline::in_ms(in_flight_ms);
		ring_doorbell();
		wait_for_data();
		return until;
	}

	static constexpr u64 remote_data = u64(1) << 40;
	raw_model model;
	raw_client client;
	raw_memory memory;
	std::unique_ptr<raw_channel> channel;
	std::deque<vfio::user_message> requests;
	std::vector<u16> replies;
	bool no_body = false; /* replies to writes have no body */
	u8 remote_memory[size] = {};
};

static descriptor copy_in(u64 len)
{
	return raw_copy(space::host, rig::remote_data, space::device, mem_base, len);
}

static descriptor copy_out(u64 len)
{
	return raw_copy(space::device, mem_base, space::host, rig::remote_data, len);
}

/* Batches of random length on rings of several sizes, past the wrap: each descriptor runs once, in order. */
static void batches_wrap_ring(void **)
{
	auto gen = rng(401);

	for (u32 order : {2u, 6u, 7u, 10u}) {
		rig r;
		u64 sum = 0;

		r.open(order);
		r.serve_until([&] { return load_acquire(&r.channel->status->asleep) == 1; });
		assert_int_equal(r.state(), chan_state_running);
		for (u64 n = 0; n < (2u << order) + 300;) {
			const u64 space_left = (u64(1) << order) - (r.channel->posted - r.completed()),
				  batch = std::min(1 + gen() % 40, space_left);

			for (u64 i = 0; i < batch; i++, n++) {
				descriptor d = {};

				/* The value shows the order. */
				d.op = u8(dma::opcode::write);
				d.spaces = u8(space::host) << 4;
				d.dst = rig::remote_data + n % 512 * 8;
				d.a = n + 1;
				r.channel->put(d);
			}
			r.ring_doorbell();
			r.serve_until([&] { return r.completed() == r.channel->posted; });
		}
		for (u64 i = 0; i < 512; i++)
			memcpy(&sum, r.remote_memory + i * 8, 8), assert_true(sum % 512 == (i + 1) % 512 || !sum);
		assert_int_equal(load_acquire(&r.channel->status->asleep), 1);
	}
}

/* Replies to writes may have no body: the first request is a read, which shows how the client counts. */
static void replies_without_body(void **)
{
	rig r;

	r.no_body = true;
	r.open();
	for (unsigned i = 0; i < 20; i++) {
		const u64 seq = r.channel->put(copy_out(100));

		r.ring_doorbell();
		r.serve_until([&] { return r.completed() == seq; });
	}
}

/* One channel's long copy delays neither the completions nor the disable of another channel. */
static void other_channel_unaffected(void **)
{
	rig r(false, 2);
	std::unique_ptr<raw_channel> other;

	r.open();
	r.open_one(1, 6, &other);
	r.serve_until([&] {
		return load_acquire(&r.channel->status->asleep) == 1 && load_acquire(&other->status->asleep) == 1;
	});
	const u64 seq = other->put({});
	r.ring_doorbell_of(*other);
	r.serve_until([&] { return r.read(chan_ctrl(1) + chan_head, 8) == seq; });
	r.channel->put(copy_out(4096));
	r.ring_doorbell();
	r.wait_for_data();
	/* The request for data stays unanswered; all others are answered. */
	const vfio::user_message data_request = std::move(r.requests.back());
	r.requests.pop_back();
	r.serve_until([&] { return other->completed() == seq; });
	assert_int_equal(r.write(chan_ctrl(1) + chan_command, chan_cmd_stop, 4), 0);
	r.serve_until([&] { return load_acquire(&other->status->record.state) == dma::state_halted; });
	assert_int_equal(r.write(chan_ctrl(1) + chan_command, chan_cmd_disable, 4), 0);
	r.serve_until([&] { return r.read(chan_ctrl(1) + chan_state, 4) == chan_state_off; });
}

/* Descriptors that ended before the disable are reported before the channel is off. */
static void completed_before_off(void **)
{
	rig r;

	r.open();
	r.serve_until([&] { return load_acquire(&r.channel->status->asleep) == 1; });
	for (u64 n = 1; n <= 2; n++) {
		r.channel->put({});
		r.ring_doorbell();
		const deadline until = deadline::in_ms(raw_wait_ms);
		/* Only reads are answered: the completion of the first is not delivered. */
		while (r.read(chan_ctrl(0) + chan_head, 8) != n) {
			assert_false(until.passed());
			if (r.next_request(1) && r.requests.back().head.cmd == u16(proto::command::dma_read)) {
				std::swap(r.requests.front(), r.requests.back());
				r.answer();
			}
		}
	}
	assert_int_equal(r.completed(), 0);
	assert_int_equal(r.command(chan_cmd_disable), 0);
	assert_int_equal(r.state(), chan_state_stopping);
	r.serve_until([&] { return r.requests.empty() && r.state() == chan_state_off; });
	assert_int_equal(r.completed(), 2);
}

/* A fault is written before the state; resume fetches rewritten descriptors again. */
static void fault_then_resume(void **)
{
	rig r;
	descriptor bad = copy_in(64), good = copy_out(64);

	r.open();
	bad.src = 0x123456789000;
	bad.cookie = 77;
	r.channel->put(bad);
	r.channel->put(bad);
	const u64 last = r.channel->put(good);
	r.ring_doorbell();
	r.serve_until([&] { return load_acquire(&r.channel->status->record.state) == dma::state_halted; });
	const dma::completion_record &rec = r.channel->status->record;
	assert_int_equal(rec.fault_seq, 1);
	assert_int_equal(rec.fault_cookie, 77);
	assert_int_equal(rec.reason, u32(fault_reason::src_unmapped));
	assert_int_equal(rec.fault_address, bad.src);
	/* The second one becomes a no-op. */
	r.channel->ring[2].op = u8(dma::opcode::nop);
	assert_int_equal(r.command(chan_cmd_resume), 0);
	r.serve_until([&] { return r.completed() == last; });
	assert_int_equal(rec.state, dma::state_running);
	assert_int_equal(rec.reason, 0);
}

/* An interrupt is raised after the record that it announces. */
static void interrupt_after_record(void **)
{
	rig r;
	const unique_fd waiter(eventfd(0, EFD_NONBLOCK)), service(eventfd(0, EFD_NONBLOCK));
	const proto::irq_set_head h = {sizeof(h), proto::irq_set_data_eventfd | proto::irq_set_action_trigger,
				       vfio::irq_msix, 0, 2};
	eventfd_t v;

	assert_int_equal(
		r.client.request(proto::command::device_set_irqs, &h, sizeof(h), {waiter.get(), service.get()}), 0);
	r.open();
	r.serve_until([&] { return load_acquire(&r.channel->status->asleep) == 1; });
	for (u64 i = 0; i < 50; i++) {
		descriptor d = copy_out(8);

		d.flags = dma::flag_interrupt;
		const u64 seq = r.channel->put(d);
		assert_int_equal(r.write(chan_doorbell(0) + doorbell_arm, seq, 8), 0);
		r.ring_doorbell();
		bool raised = false;
		r.serve_until([&] {
			raised |= eventfd_read(waiter.get(), &v) == 0;
			assert_true(!raised || r.completed() >= seq);
			return raised;
		});
	}
}

/* ---- disable, stop and reset during an access ------------------------------------------------------- */

/* Registers answer at once; the channel is off when the last access has been answered. */
static void disable_during_access(void **)
{
	for (bool shared_ring : {true, false})
		for (bool out : {true, false}) {
			rig r(shared_ring);
			const deadline until = r.begin_access(out ? copy_out(4096) : copy_in(4096));

			assert_int_equal(r.command(chan_cmd_disable), 0);
			assert_before(until, r.state() == chan_state_stopping);
			assert_before(until, r.is_pending());
			assert_before(until, !r.is_ready());
			/* A second disable has no effect; enable is refused and the set-up is unchanged. */
			assert_int_equal(r.command(chan_cmd_disable), 0);
			assert_before(until, r.write(chan_ctrl(0) + chan_ring_order, 9, 4) == 0 &&
						     r.read(chan_ctrl(0) + chan_ring_order, 4) == 6);
			assert_true(until.passed() || r.command(chan_cmd_enable) == EBUSY);
			r.serve_until([&] { return r.requests.empty() && r.state() == chan_state_off; });
			assert_false(r.is_pending());
			assert_true(r.is_ready());
			assert_true(r.requests.empty() && !r.next_request(20));
			r.open();
		}
}

/* The device's enable bit, its reset, bus mastering, D3hot and FLR have the same effect as disable. */
static void other_disables_during_access(void **)
{
	const struct {
		u32 region;
		u64 at, value;
		u32 len;
	} writes[] = {{vfio::region_bar0, reg_ctrl, 0, 4},
		      {vfio::region_bar0, reg_ctrl, ctrl_reset, 4},
		      {vfio::region_config, 4, 2, 2},
		      {vfio::region_config, 0x44, 3, 2},
		      {vfio::region_config, 0x58, 0x8000, 2}};

	for (const auto &w : writes) {
		rig r;
		const deadline until = r.begin_access(copy_out(4096));

		assert_int_equal(r.write(w.at, w.value, w.len, w.region), 0);
		assert_before(until, r.state() == chan_state_stopping);
		assert_before(until, r.is_pending());
		r.serve_until([&] { return r.requests.empty() && r.state() == chan_state_off; });
		assert_false(r.is_pending());
		assert_false(r.next_request(20));
	}
}

/* The record reports the stop only after the last access was answered. */
static void stop_during_access(void **)
{
	rig r(true);
	const deadline until = r.begin_access(copy_out(4096));
	const u64 seq = r.channel->posted;

	assert_int_equal(r.command(chan_cmd_stop), 0);
	assert_before(until, r.state() == chan_state_running);
	assert_before(until, load_acquire(&r.channel->status->record.state) == dma::state_running);
	r.answer();
	r.serve_until([&] { return load_acquire(&r.channel->status->record.state) == dma::state_halted; });
	assert_before(until, r.channel->status->record.reason == u32(fault_reason::stopped));
	assert_int_equal(r.command(chan_cmd_resume), 0);
	r.serve_until([&] { return r.completed() == seq; });
}

/* The reply to DEVICE_RESET comes after those that the device waits for, or after a second. */
static void reset_waits_for_replies(void **)
{
	for (bool answers : {true, false}) {
		rig r;
		const deadline until = r.begin_access(copy_out(4096));

		r.replies.clear();
		const u64 begun = now_ns();
		r.command(proto::command::device_reset, nullptr, 0);
		assert_before(until, r.is_pending() && r.replies.empty());
		if (answers)
			r.answer();
		while (r.replies.empty())
			assert_true(r.receive(1) || now_ns() - begun < raw_wait_ms * ns_per_ms);
		if (answers)
			assert_int_equal(r.state(), chan_state_off);
		else
			assert_before(until, now_ns() - begun > 900 * ns_per_ms && r.is_pending());
	}
}

/* ---- clients that refuse or do not answer ----------------------------------------------------------- */

/* A client that refuses an access loses that channel only. */
static void client_refuses(void **)
{
	for (unsigned good : {0u, 1u, 2u}) {
		rig r(false, 2);

		r.open();
		r.channel->put(copy_out(8));
		r.ring_doorbell();
		for (unsigned i = 0; i < good; i++) {
			while (!r.next_request(100)) {
			}
			r.answer();
		}
		while (r.state() == chan_state_running)
			if (r.next_request(1))
				r.answer(EFAULT);
		if (good == 2) /* the access to the data: a normal fault */
			assert_true(r.state() == chan_state_halted || r.state() == chan_state_error);
		else
			assert_int_equal(r.state(), chan_state_error);
		assert_int_equal(r.command(chan_cmd_disable), 0);
		r.serve_until([&] { return r.state() == chan_state_off; });
		r.memory.data[0] = 0;
		r.open();
		const u64 seq = r.channel->put(copy_out(8));
		r.ring_doorbell();
		r.serve_until([&] { return r.completed() == seq; });
	}
}

/* A client never answers: registers still work; the channel is in error after the timeout of three seconds. */
static void client_never_answers(void **)
{
	rig r;

	r.open();
	r.channel->put(copy_out(8));
	r.ring_doorbell();
	const u64 begun = now_ns();
	for (unsigned step = 0; r.state() == chan_state_running; step++) {
		assert_true(now_ns() - begun < raw_wait_ms * ns_per_ms);
		poll_pause(step);
	}
	assert_int_equal(r.state(), chan_state_error);
	assert_true(now_ns() - begun > 2 * ns_per_s);
}

/* A ring that is unmapped or read-only does not start; if it is unmapped later, the channel is in error. */
static void ring_not_mapped(void **)
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
	/* A sleeping engine notices it when it wakes. */
	assert_int_equal(r.write(chan_ctrl(0) + chan_wake, 1, 4), 0);
	while (r.state() == chan_state_running)
		if (r.next_request(1))
			r.answer(EFAULT);
	assert_int_equal(r.state(), chan_state_error);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(replies_without_body),  cmocka_unit_test(other_channel_unaffected),
		cmocka_unit_test(completed_before_off),  cmocka_unit_test(batches_wrap_ring),
		cmocka_unit_test(fault_then_resume),     cmocka_unit_test(interrupt_after_record),
		cmocka_unit_test(disable_during_access), cmocka_unit_test(other_disables_during_access),
		cmocka_unit_test(stop_during_access),    cmocka_unit_test(reset_waits_for_replies),
		cmocka_unit_test(client_refuses),        cmocka_unit_test(client_never_answers),
		cmocka_unit_test(ring_not_mapped),
	};

	return cmocka_run_group_tests_name("sim_far", tests, nullptr, nullptr);
}
