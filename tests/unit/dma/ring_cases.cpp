/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of any ring engine. */
#include "tests/unit/dma/ring_cases.h"
#include "tests/support/dropping.h"

#include "driver/dma/ring_channel.h"
#include "driver/vfio/capability.h"

namespace usdma::test {

using namespace usdma::dma;

/* Random operations of the hardware and of the driver, compared with normal memory. */
static void test_random_ops_against_memory(void **)
{
	ring_bench b(kind.plain, {.ring_size = 16, .first_seq = 0xfffffff0});
	auto gen = test::rng(1);
	std::vector<u8> want(host_bytes);
	static constexpr u64 words = 2 * MiB;

	test::fill_random(b.bytes, host_bytes, gen);
	memcpy(want.data(), b.bytes, host_bytes);
	for (unsigned i = 0; i < 300 * test::scale(); i++) {
		const u64 len = 8 + gen() % (i % 50 ? 3000 : MiB - 8), x = gen() % (words - len);
		const u64 y = words + gen() % (host_bytes - words - len), even = align_up(x, u64(8));
		const u64 pattern = gen();

		switch (gen() % 6) {
		case 0:
		case 1:
			b.post(copy(y, x, len));
			memcpy(&want[y], &want[x], len);
			break;
		case 2:
			b.post(fill(x, len, 1, i));
			memset(&want[x], int(i & 0xff), len);
			break;
		case 3:
			b.post(fill(even, 8, 8, pattern));
			memcpy(&want[even], &pattern, 8);
			break;
		case 4:
			b.post({.op = opcode::write, .dst = host + even, .a = pattern});
			memcpy(&want[even], &pattern, 8);
			break;
		case 5:
			b.post({.op = opcode::copy_2d,
				.height = 4,
				.src = host + x / 2,
				.dst = host + words,
				.len = 5,
				.a = 100,
				.b = 7});
			for (u64 row = 0; row < 4; row++)
				memcpy(&want[words + row * 7], &want[x / 2 + row * 100], 5);
			break;
		}
		if (b.ch->posted - completed(b.ch) >= 15)
			assert_true(b.await(b.ch->posted - gen() % 8));
	}
	assert_true(b.await(b.ch->posted));
	assert_memory_equal(b.bytes, want.data(), host_bytes);
}

static void test_fill_widths(void **)
{
	ring_bench b;
	u8 want[64];

	for (u64 at : {0, 3})
		for (u8 width : {1, 4, 8}) {
			const u64 pattern = 0x1122334455667788;

			b.run(fill(at, 64, width, pattern));
			for (unsigned i = 0; i < 64; i++)
				want[i] = reinterpret_cast<const u8 *>(&pattern)[i % width];
			assert_memory_equal(b.bytes + at, want, 64);
		}
}

static void test_indirect_wait_reduce_timestamp(void **)
{
	ring_bench b;
	auto *word = reinterpret_cast<u64 *>(b.bytes);
	auto *sums = reinterpret_cast<u32 *>(b.bytes + 8192);

	const indirect_block block = {{0, 0}, 0, 256, host + 1024, host + 2048};
	memcpy(b.bytes + 512, &block, sizeof(block));
	memset(b.bytes + 1024, 0x5a, 256);
	b.run({.op = opcode::copy_indirect, .arg = indirect_host, .src = host + 512});
	assert_memory_equal(b.bytes + 1024, b.bytes + 2048, 256);

	const u64 seq = b.post(wait_word(0, 7));
	if (channel *const other = b.open_other()) {
		const request w = {.op = opcode::write, .dst = host, .a = 7};

		assert_int_equal(other->ops->post(other, &w, 1), 1);
		other->ops->doorbell(other);
		assert_true(b.await(seq));
		/* A wait for the other channel's record. */
		const u64 next = b.post(
			{.op = opcode::wait, .arg = u8(compare::geq), .src = other->record_iova, .a = 2});
		assert_int_equal(other->ops->post(other, &w, 1), 1);
		other->ops->doorbell(other);
		assert_true(b.await(next));
		other->ops->close(other);
	} else {
		store_release(word, u64(7));
		assert_true(b.await(seq));
	}

	const u64 before = now_ns();
	b.run({.op = opcode::timestamp, .dst = host + 8});
	assert_in_range(word[1], before, now_ns());
	for (u32 i = 0; i < 100; i++)
		sums[i] = sums[100 + i] = i;
	b.run({.op = opcode::reduce,
	       .arg = reduce_arg(element::u32, reduce_op::sum),
	       .src = host + 8192,
	       .dst = host + 8192 + 400,
	       .len = 400});
	for (u32 i = 0; i < 100; i++)
		assert_int_equal(sums[100 + i], 2 * i);
	request late = wait_word(0, 8);
	late.height = 20;
	assert_int_equal(b.run_fault(late).reason, fault_reason::timeout);
}

struct bad_case {
	request r;
	fault_reason reason;
	u64 address;
};

static void test_faults(void **)
{
	ring_bench b;
	const u64 end = host + host_bytes, locked = 0x50000000000;
	void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const bad_case cases[] = {
		{{.op = opcode(200)}, fault_reason::bad_op, 0},
		{{.op = opcode::copy, .flags = 0x80, .src = host, .dst = host, .len = 1}, fault_reason::bad_op, 0},
		{{.op = opcode::copy, .spaces = 0x22, .src = host, .dst = host, .len = 1}, fault_reason::bad_op, 0},
		{{.op = opcode::copy, .src = host, .dst = host, .len = 0}, fault_reason::bad_length, 0},
		{{.op = opcode::fill, .arg = 3, .dst = host, .len = 12}, fault_reason::bad_op, 0},
		{{.op = opcode::fill, .arg = 8, .dst = host, .len = 12}, fault_reason::bad_length, 0},
		{{.op = opcode::write, .dst = host + 4}, fault_reason::unaligned, host + 4},
		/* The device may not report the address of these. */
		{{.op = opcode::copy, .src = 0x1000, .dst = host, .len = 8}, fault_reason::src_unmapped, 0x1000},
		{{.op = opcode::copy, .src = end - 4, .dst = host, .len = 8}, fault_reason::src_unmapped, end},
		{{.op = opcode::copy, .src = host, .dst = end - 4, .len = 8}, fault_reason::dst_unmapped, end},
		{{.op = opcode::copy, .src = ~u64(0) - 3, .dst = host, .len = 8},
		 fault_reason::src_unmapped,
		 ~u64(0) - 3},
		{{.op = opcode::copy, .src = host, .dst = locked + 8, .len = 8}, fault_reason::dst_denied, locked + 8},
		{{.op = opcode::fill, .arg = 1, .dst = locked, .len = 8}, fault_reason::dst_denied, locked},
		{{.op = opcode::write, .dst = 0x2000}, fault_reason::dst_unmapped, 0x2000},
	};

	assert_int_equal(b.eng->map({.iova = locked, .size = 4096, .vaddr = page, .prot = vfio::dma_read}), 0);
	for (size_t i = 0; i < std::size(cases); i++) {
		request r = cases[i].r;

		r.cookie = 1000 + i;
		const fault f = b.run_fault(r);
		assert_int_equal(f.reason, cases[i].reason);
		assert_int_equal(f.address, cases[i].address);
		assert_int_equal(f.cookie, 1000 + i);
		b.run(copy(0, 4096, 64));
	}
	assert_int_equal(b.eng->unmap(locked, 4096), 0);
	assert_int_equal(b.eng->unmap(host, host_bytes), 0);
	assert_int_equal(b.run_fault(copy(0, 4096, 64)).reason, fault_reason::src_unmapped);
	munmap(page, 4096);
}

static void test_cancel_and_order(void **)
{
	ring_bench b(kind.plain, {.ring_size = 64, .first_seq = (u64(1) << 32) - 3});
	const u64 first = b.ch->posted;
	const request list[] = {fill(0, 8, 1, 0x11, 1),
				{.op = opcode::copy, .src = 0x1000, .dst = host, .len = 8, .cookie = 7},
				fill(8, 8, 1, 0x22, 2),
				fill(16, 8, 1, 0x33, 7),
				{.op = opcode::write, .dst = host + 24, .a = 4, .cookie = 7},
				fill(32, 8, 1, 0x44, 2)};
	fault f;

	memset(b.bytes, 0, 64);
	assert_int_equal(b.ch->ops->post(b.ch, list, 6), 6);
	b.ch->ops->doorbell(b.ch);
	assert_false(b.await(b.ch->posted));
	assert_true(read_fault(b.ch, &f));
	assert_int_equal(f.seq, first + 2);
	assert_int_equal(f.cookie, 7);
	assert_int_equal(b.bytes[8], 0);
	assert_int_equal(b.ch->ops->cancel(b.ch, 7), 2);
	assert_int_equal(b.ch->ops->resume(b.ch), 0);
	assert_true(b.await(b.ch->posted));
	assert_int_equal(b.bytes[0], 0x11);
	assert_int_equal(b.bytes[8], 0x22);
	assert_int_equal(b.bytes[16], 0);
	assert_int_equal(b.bytes[24], 0);
	assert_int_equal(b.bytes[32], 0x44);
}

/* What is not completed, which operation it is, and in which order it was posted. */
static void test_last_use(void **)
{
	ring_bench b(kind.plain, {.ring_size = 16, .first_seq = (u64(1) << 32) - 3});
	const auto last_use = [&](u64 at, u64 size) {
		u64 seq;

		return b.ch->ops->last_use(b.ch, {host + at, size}, &seq) ? seq : 0;
	};
	u64 copied = 0, read = 0;

	for (int i = 0; i < 10; i++)
		b.run(fill(0x3000, 8, 1, 1, 0));
	store_release(reinterpret_cast<u64 *>(b.bytes), u64(0));
	assert_int_equal(last_use(0, host_bytes), 0);
	const u64 wait = b.post(wait_word(0, 1));
	b.post(copy(0x1000, 0x2000, 64));
	copied = b.post(copy(0x1000, 0x2000, 64));
	read = b.post(copy(0x4000, 0x2000, 64));
	assert_int_equal(last_use(0, 8), wait);
	assert_int_equal(last_use(0x1000, 0x1000), copied);
	assert_int_equal(last_use(0x203f, 1), read);
	assert_int_equal(last_use(0x2040, 0x1fc0), 0);
	assert_int_equal(last_use(0, host_bytes), read);
	store_release(reinterpret_cast<u64 *>(b.bytes), u64(1));
	assert_true(b.await(read));
	assert_int_equal(last_use(0, host_bytes), 0);
}

static void test_faults_in_a_row(void **)
{
	ring_bench b;
	fault f;

	for (u64 i = 0; i < 20; i++)
		b.post({.op = opcode::copy, .src = 0x1000, .dst = host, .len = 8, .cookie = i});
	for (u64 i = 0; i < 20; i++) {
		b.until_halted();
		assert_true(read_fault(b.ch, &f));
		assert_int_equal(f.seq, i + 1);
		assert_int_equal(f.cookie, i);
		assert_int_equal(b.ch->ops->resume(b.ch), 0);
	}
	assert_true(b.await(20));
}

static void test_stop_and_resume(void **)
{
	ring_bench b(kind.faulty);
	auto *word = reinterpret_cast<u64 *>(b.bytes);
	fault f;

	/* During a wait. */
	const u64 seq = b.post(wait_word(0, 1, 77));
	assert_int_equal(b.ch->ops->stop(b.ch), 0);
	assert_true(read_fault(b.ch, &f));
	assert_int_equal(f.reason, fault_reason::stopped);
	assert_int_equal(f.seq, seq);
	assert_int_equal(f.cookie, 77);
	store_release(word, u64(1));
	assert_int_equal(b.ch->ops->resume(b.ch), 0);
	assert_true(b.await(seq)); /* it ran again */
	/* Cancelled, it does not. */
	const u64 dropped = b.post(wait_word(0, 2, 78));
	assert_int_equal(b.ch->ops->stop(b.ch), 0);
	assert_int_equal(b.ch->ops->cancel(b.ch, 78), 1);
	assert_int_equal(b.ch->ops->resume(b.ch), 0);
	assert_true(b.await(dropped));
	/* While idle. */
	assert_int_equal(b.ch->ops->stop(b.ch), 0);
	assert_int_equal(b.ch->ops->resume(b.ch), 0);
	b.run({.op = opcode::nop});
	/* With requests in the hardware queue: those that were not begun are canceled or run after resume. */
	assert_int_equal(b.inject(("slow%1/" + std::to_string(kind.slow_us)).c_str()), 0);
	memset(b.bytes + 2 * MiB, 0xa0, 8);
	for (u64 i = 0; i < 140; i++)
		b.post(copy(4096 + i * 8, 2 * MiB, 8, i % 2));
	assert_int_equal(b.ch->ops->stop(b.ch), 0);
	assert_true(read_fault(b.ch, &f));
	assert_int_equal(f.reason, fault_reason::stopped);
	assert_int_equal(f.seq, completed(b.ch) + 1);
	assert_true(f.seq < b.ch->posted);
	const u64 left = b.ch->posted - completed(b.ch);
	assert_in_range(b.ch->ops->cancel(b.ch, 1), left / 2, (left + 1) / 2);
	assert_int_equal(b.inject(""), 0);
	assert_int_equal(b.ch->ops->resume(b.ch), 0);
	assert_true(b.await(b.ch->posted));
	assert_int_equal(b.bytes[4096 + 138 * 8], 0xa0);
	assert_int_equal(b.bytes[4096 + 139 * 8], 0);
}

static void test_full_ring_takes_no_more(void **)
{
	ring_bench b(kind.plain, {.ring_size = 4, .first_seq = 0xfffffffd});
	const request list[8] = {wait_word(0, 1)};

	assert_int_equal(b.ch->ops->post(b.ch, list, 8), 4);
	assert_int_equal(b.ch->ops->post(b.ch, list, 8), 0);
	assert_int_equal(b.ch->posted, 0xfffffffd + 4ull);
	b.ch->ops->doorbell(b.ch);
	store_release(reinterpret_cast<u64 *>(b.bytes), u64(1));
	assert_true(b.await(b.ch->posted));
	assert_int_equal(b.ch->ops->post(b.ch, list + 1, 7), 4);
	b.ch->ops->doorbell(b.ch);
	assert_true(b.await(b.ch->posted));
}

/* More requests than a batch or a counter of the hardware can hold. */
static void test_long_lists(void **)
{
	ring_bench b(kind.plain, {.ring_size = 1024});
	std::vector<request> list(1024, copy(0, 4096, 8));

	b.bytes[4096] = 1;
	for (unsigned i = 0; i < kind.long_rounds; i++) {
		assert_int_equal(b.ch->ops->post(b.ch, list.data(), 1024), 1024);
		b.ch->ops->doorbell(b.ch);
		assert_true(b.await(b.ch->posted));
	}
	b.run(copy(64, 0, 8));
	assert_int_equal(b.bytes[64], 1);
}

/* The device raises no interrupts. */
static void test_lost_interrupts(void **)
{
	const test::dropping_interrupts scope;
	ring_bench b(kind.faulty);

	assert_int_equal(b.inject("drop-irq%1"), 0);
	for (unsigned i = 0; i < 5; i++)
		b.run(copy(i * 8, 4096, 8));
	assert_int_equal(b.run_fault(copy(host_bytes, 0, 8)).reason, fault_reason::dst_unmapped);
}

static void test_service_interrupts(void **)
{
	ring_bench b(kind.plain, {.coalesce_count = 3, .coalesce_us = 1000000});
	pollfd p = {b.ch->irq_fd[irq_service], POLLIN, 0};
	u64 n = 0, got = 0;

	for (unsigned i = 0; i < 6; i++)
		b.run({.op = i % 2 ? opcode::nop : opcode::timestamp, .flags = flag_interrupt, .dst = host});
	while (got < 1) {
		assert_int_equal(poll(&p, 1, int(patience)), 1);
		assert_int_equal(read(p.fd, &n, 8), 8);
		got += n;
	}
	assert_in_range(got, 1, 2);
	/* A single one is raised after the time limit. */
	b.run({.op = opcode::nop, .flags = flag_interrupt});
	assert_int_equal(poll(&p, 1, int(patience)), 1);
}

static void test_hang_abort_and_reset(void **)
{
	ring_bench b(kind.faulty);
	channel *const other = b.open_other();
	fault f;
	char text[400] = "";

	/* One channel hangs: the other is not affected. */
	assert_int_equal(b.ch->ops->abort(b.ch), -EAGAIN);
	assert_int_equal(b.inject("hang@1"), 0);
	const u64 seq = b.post(copy(0, 4096, 64, 9));
	b.post(fill(8192, 8, 1, 0x77));
	b.ch->ops->describe(b.ch, text, sizeof(text));
	assert_non_null(strstr(text, "posted 2"));
	b.until_struck();
	assert_int_equal(b.ch->ops->abort(b.ch), 0);
	assert_true(read_fault(b.ch, &f));
	assert_int_equal(f.reason, fault_reason::reset);
	assert_int_equal(f.seq, seq);
	assert_int_equal(f.cookie, 9);
	const request one = fill(64, 8, 1, 0x12);
	if (other) {
		assert_int_equal(other->ops->post(other, &one, 1), 1);
		other->ops->doorbell(other);
	}
	assert_int_equal(b.ch->ops->resume(b.ch), 0);
	assert_true(b.await(b.ch->posted));
	assert_int_equal(b.bytes[8192], 0x77);
	/* The device hangs: posted requests are lost. */
	assert_int_equal(b.inject("hang@1/device"), 0);
	b.post(copy(0, 4096, 64));
	b.post(wait_word(0, 99));
	b.until_struck();
	assert_int_equal(b.eng->reset(), 0);
	for (channel *c : {b.ch, other}) {
		if (!c)
			continue;
		assert_int_equal(c->ops->restart(c), 0);
		assert_int_equal(completed(c), c->posted);
		assert_false(halted(c));
	}
	b.run(fill(8, 8, 1, 0x31));
	b.run({.op = opcode::write, .dst = host + 16, .a = 5});
	assert_int_equal(b.bytes[8], 0x31);
	if (other)
		other->ops->close(other);
}

static void test_reset_in_a_wait(void **)
{
	ring_bench b;

	b.post(wait_word(0, 1));
	assert_int_equal(b.eng->reset(), 0);
	assert_int_equal(b.ch->ops->restart(b.ch), 0);
	assert_int_equal(completed(b.ch), b.ch->posted);
	b.run({.op = opcode::write, .dst = host, .a = 5});
}

/* Stop and resume are refused until restart. */
static void test_no_stop_or_resume_during_a_reset(void **)
{
	ring_bench b;

	auto *const frozen = static_cast<ring_channel *>(b.ch);
	/* Another channel is not frozen in time: this one goes on, also with what was posted meanwhile. */
	assert_int_equal(frozen->freeze(), 0);
	const u64 meanwhile = b.post(fill(16, 8, 1, 0x33));
	frozen->thaw();
	assert_true(b.await(meanwhile));
	assert_int_equal(frozen->freeze(), 0);
	assert_int_equal(b.ch->ops->stop(b.ch), -EBUSY);
	assert_int_equal(b.eng->reset(), 0);
	assert_int_equal(b.ch->ops->restart(b.ch), 0);
	assert_int_equal(b.ch->ops->stop(b.ch), 0);
	b.post(fill(0, 8, 1, 0x11));
	assert_int_equal(frozen->freeze(), 0);
	assert_int_equal(b.ch->ops->resume(b.ch), -EBUSY);
	assert_int_equal(b.eng->reset(), 0);
	assert_int_equal(b.ch->ops->resume(b.ch), -EBUSY);
	assert_int_equal(b.ch->ops->restart(b.ch), 0);
	b.run(fill(8, 8, 1, 0x22));
	assert_int_equal(b.bytes[0], 0);
	assert_int_equal(b.bytes[8], 0x22);
}

/* Invalid progress numbers of the device cause no endless loop and do not overrun the ring. */
static void test_invalid_progress_numbers(void **)
{
	ring_bench b(kind.faulty, {.ring_size = 8});
	auto *r = const_cast<completion_record *>(b.ch->record);
	const request list[32] = {};

	assert_int_equal(b.inject("hang@1"), 0);
	const u64 seq = b.post(copy(0, 4096, 64));
	b.until_struck();
	for (u64 value : {seq + (u64(1) << 40), seq - (u64(1) << 40)}) {
		store_release(&r->completed, value);
		/* The progress thread reads it. */
		b.ch->ops->arm(b.ch, irq_waiter, value);
		pollfd p = {b.ch->irq_fd[irq_waiter], POLLIN, 0};
		assert_int_equal(poll(&p, 1, int(patience)), 1);
		assert_int_equal(read(p.fd, &value, 8), 8);
		assert_true(b.ch->ops->post(b.ch, list, 32) <= 8);
		assert_true(b.ch->post_limit - b.ch->posted <= 8);
	}
	assert_int_equal(b.eng->reset(), 0);
	assert_int_equal(b.ch->ops->restart(b.ch), 0);
	b.run(fill(8, 8, 1, 0x22));
	assert_int_equal(b.bytes[8], 0x22);
}

static void test_lost_device(void **)
{
	ring_bench b(kind.faulty);
	const deadline until = deadline::in_ms(patience);

	assert_int_equal(b.inject("vanish@1"), 0);
	b.post(copy(0, 4096, 64));
	while (!b.eng->lost()) {
		assert_false(until.passed());
		sched_yield();
	}
	assert_int_equal(completed(b.ch), 0);
}

/* After give_up the memory belongs to the caller: neither the device nor the driver writes it. */
static void test_given_up(void **)
{
	ring_bench b;

	b.post(wait_word(0, 1));
	b.post({.op = opcode::write, .dst = host + 8, .a = 5});
	assert_int_equal(b.eng->give_up(), 0);
	store_release(reinterpret_cast<u64 *>(b.bytes), u64(1));
	b.until_halted();
	assert_int_equal(reinterpret_cast<u64 *>(b.bytes)[1], 0);
}

static void test_channel_arguments(void **)
{
	ring_bench b;
	channel *ch;

	assert_int_equal(b.eng->channel_open(0, {}, &ch), -EBUSY);
	assert_int_equal(b.eng->channel_open(kind.channels, {}, &ch), -EINVAL);
	assert_int_equal(b.eng->channel_open(1, {.ring_size = 100}, &ch), -EINVAL);
	assert_int_equal(b.eng->channel_open(1, {.ring_size = 32768}, &ch), -EINVAL);
}

static void test_closes_while_busy(void **)
{
	ring_bench b;

	for (unsigned i = 0; i < 10; i++) {
		std::vector<request> list(50, copy(2 * MiB, 0, MiB));

		list[20] = wait_word(0, 1);
		assert_int_equal(b.ch->ops->post(b.ch, list.data(), 50), 50);
		b.ch->ops->doorbell(b.ch);
		b.ch->ops->close(b.ch);
		b.ch = nullptr;
		assert_int_equal(b.eng->channel_open(0, {.first_seq = i * 1000}, &b.ch), 0);
		assert_int_equal(completed(b.ch), i * 1000);
	}
	b.run(copy(0, 64, 8));
}

void check_limits(const char *spec, u64 max_len, u32 channels, u32 engines)
{
	ring_bench b(spec);
	const engine_limits &l = b.eng->limits();

	assert_string_equal(b.eng->driver_name(), kind.driver);
	assert_int_equal(l.max_len, max_len);
	assert_int_equal(l.channels, channels);
	assert_int_equal(l.engines, engines);
	assert_int_equal(l.memory_size, 0);
	assert_int_equal(l.caps, 0);
	assert_int_equal(l.ops, kind.ops);
	b.run(copy(0, 4096, 64));
}

void check_stop_inside_a_request(const char *spec)
{
	ring_bench b(spec);
	fault f;

	for (unsigned i = 0; i < 3; i++) {
		memset(b.bytes, int(i + 1), 64);
		assert_int_equal(b.inject("slow@1/300000"), 0);
		const u64 seq = b.post(copy(4096, 0, 64));
		b.post(copy(8192, 0, 64));
		b.until_struck();
		assert_int_equal(b.ch->ops->stop(b.ch), 0);
		assert_true(read_fault(b.ch, &f));
		assert_int_equal(f.reason, fault_reason::stopped);
		assert_int_equal(completed(b.ch), seq);
		assert_memory_equal(b.bytes + 4096, b.bytes, 64);
		memset(b.bytes, 0xff, 64);
		assert_int_equal(b.ch->ops->resume(b.ch), 0);
		assert_true(b.await(b.ch->posted));
		assert_int_equal(b.bytes[4096], i + 1);
		assert_int_equal(b.bytes[8192], 0xff);
	}
}

void check_stop_of_a_halted_channel(const char *spec)
{
	ring_bench b(spec);
	fault f;

	assert_int_equal(b.inject("drop-record@1+fail@1"), 0);
	const u64 seq = b.post(copy(0, 4096, 64, 7));
	b.until_struck("drop-record@1 seen 1 struck 1");
	assert_int_equal(b.ch->ops->stop(b.ch), 0);
	assert_true(read_fault(b.ch, &f));
	assert_int_equal(f.reason, fault_reason::transfer);
	assert_int_equal(f.seq, seq);
	assert_int_equal(f.cookie, 7);
	assert_int_equal(b.ch->ops->resume(b.ch), 0);
	b.run(copy(0, 4096, 64));
}

void check_device_errors(std::initializer_list<device_error> cases)
{
	ring_bench b(kind.faulty);

	for (const device_error &c : cases) {
		assert_int_equal(b.inject(c.rule), 0);
		const fault f = b.run_fault(copy(0, 4096, 64, 5));
		assert_int_equal(f.reason, c.reason);
		assert_int_equal(f.address, c.address);
		assert_int_equal(f.cookie, 5);
		b.run(copy(0, 4096, 64));
	}
}

void check_relaxed_ordering_is_off()
{
	ring_bench b;
	unsigned at = 0;
	u16 control = 0;

	assert_int_equal(vfio::config_capability(b.eng->transport(), 0x10, &at), 0);
	assert_int_not_equal(at, 0);
	assert_int_equal(vfio::config_read16(b.eng->transport(), at + 8, &control), 0);
	assert_int_equal(control & 0x10, 0);
	assert_int_equal(vfio::config_capability(b.eng->transport(), 0x15, &at), 0);
	assert_int_equal(at, 0);
}

void check_ids(std::initializer_list<u16> ids, std::initializer_list<u16> others)
{
	for (u16 id : ids) {
		const driver *d = find_driver(kind.vendor, id);

		assert_non_null(d);
		assert_string_equal(d->name, kind.driver);
	}
	for (u16 id : others)
		assert_null(find_driver(kind.vendor, id));
}

int ring_main(const char *name, std::span<const CMUnitTest> own)
{
	std::vector<CMUnitTest> tests = {
		cmocka_unit_test(test_random_ops_against_memory),
		cmocka_unit_test(test_fill_widths),
		cmocka_unit_test(test_indirect_wait_reduce_timestamp),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_cancel_and_order),
		cmocka_unit_test(test_last_use),
		cmocka_unit_test(test_faults_in_a_row),
		cmocka_unit_test(test_stop_and_resume),
		cmocka_unit_test(test_full_ring_takes_no_more),
		cmocka_unit_test(test_long_lists),
		cmocka_unit_test(test_lost_interrupts),
		cmocka_unit_test(test_service_interrupts),
		cmocka_unit_test(test_hang_abort_and_reset),
		cmocka_unit_test(test_reset_in_a_wait),
		cmocka_unit_test(test_no_stop_or_resume_during_a_reset),
		cmocka_unit_test(test_invalid_progress_numbers),
		cmocka_unit_test(test_lost_device),
		cmocka_unit_test(test_given_up),
		cmocka_unit_test(test_channel_arguments),
		cmocka_unit_test(test_closes_while_busy),
	};

	for (auto more : {more_cases(), own})
		tests.insert(tests.end(), more.begin(), more.end());
	return _cmocka_run_group_tests(name, tests.data(), tests.size(), nullptr, nullptr);
}

} // namespace usdma::test
