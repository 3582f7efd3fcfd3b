/* SPDX-License-Identifier: BSD-3-Clause */
/* The sdma driver and the software model together: real threads, real transfers, real interrupts. */
#include "tests/support/test.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/dma/registry.h"

#include <cstring>
#include <memory>
#include <poll.h>
#include <random>
#include <sched.h>
#include <set>
#include <sys/mman.h>
#include <unistd.h>

using namespace usdma;
using namespace usdma::dma;

static constexpr u64 mem_base = 0x100000000000, host_iova = 4 * GiB, host_size = MiB;
static constexpr u64 patience_ns = 30 * ns_per_s;

/* An engine, a channel, and a mapped megabyte of host memory. */
struct rig {
	std::unique_ptr<engine> eng;
	channel *ch = nullptr;
	mapping host;

	explicit rig(u32 ring_size = 64, u64 first_seq = 0, const char *spec = "sim:mem=16M:engines=1:channels=4")
	{
		channel_config cfg;
		void *p = mmap(nullptr, host_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		vfio::dma_area area;

		assert_ptr_not_equal(p, MAP_FAILED);
		host = mapping(p, host_size);
		if (dma::open(spec, &eng) < 0)
			print_error("%s\n", error_text());
		assert_non_null(eng.get());
		assert_int_equal(eng->set_memory_base(mem_base), 0);
		area.iova = host_iova;
		area.size = host_size;
		area.vaddr = p;
		assert_int_equal(eng->map(area), 0);
		cfg.ring_size = ring_size;
		cfg.first_seq = first_seq;
		if (eng->channel_open(0, cfg, &ch) < 0)
			print_error("%s\n", error_text());
		assert_non_null(ch);
	}
	~rig()
	{
		if (ch)
			ch->ops->close(ch);
		eng->unmap(host_iova, host_size);
	}

	/* As lib/core submits: fill, doorbell, full barrier, check whether the engine sleeps. */
	void submit(const request *r, unsigned n)
	{
		const deadline until = deadline::in_ns(patience_ns);
		u32 fence = 0;

		for (unsigned done = 0; done < n;) {
			done += ch->ops->post(ch, r + done, n - done);
			ch->ops->doorbell(ch);
			store_fence(&fence, 1u);
			if (load_relaxed(ch->asleep))
				ch->ops->wake(ch);
			if (done < n)
				sched_yield();
			assert_false(until.passed());
		}
	}
	bool wait(u64 seq)
	{
		const deadline until = deadline::in_ns(patience_ns);

		while (s64(completed(ch) - seq) < 0 && !halted(ch)) {
			assert_false(until.passed());
			sched_yield();
		}
		return s64(completed(ch) - seq) >= 0;
	}
	void wait_halted()
	{
		const deadline until = deadline::in_ns(patience_ns);

		while (!halted(ch)) {
			assert_false(until.passed());
			sched_yield();
		}
	}
};

static request copy(bool to_device, u64 dst, u64 src, u64 len, u64 cookie = 0)
{
	request r;

	r.op = opcode::copy;
	r.spaces = to_device ? spaces(space::host, space::device) : spaces(space::device, space::host);
	r.src = src;
	r.dst = dst;
	r.len = len;
	r.cookie = cookie;
	return r;
}

static request bad_copy(u64 cookie)
{
	return copy(true, mem_base, host_iova + 2 * host_size, 64, cookie); /* source not mapped */
}

static request write_word(u64 dst, u64 value, u64 cookie = 0)
{
	request r;

	r.op = opcode::write;
	r.spaces = spaces(space::host, space::host);
	r.dst = dst;
	r.a = value;
	r.cookie = cookie;
	return r;
}

/* Waits until the word at src is value. */
static request wait_word(u64 src, u64 value, u64 cookie)
{
	request r;

	r.op = opcode::wait;
	r.spaces = spaces(space::host, space::host);
	r.arg = u8(compare::eq);
	r.src = src;
	r.a = value;
	r.cookie = cookie;
	return r;
}

static void limits(void **)
{
	rig t;
	const engine_limits &l = t.eng->limits();

	assert_int_equal(l.memory_size, 16 * MiB);
	assert_int_equal(l.channels, 4);
	assert_int_equal(l.engines, 1);
	assert_true(l.caps & cap_memory);
	assert_true(l.max_len >= MiB);
	assert_non_null(t.eng->memory());
}

static void copies(void **)
{
	rig t;
	auto gen = test::rng(1);
	const u64 half = host_size / 2;

	test::fill_random(t.host.data(), half, gen);
	const request r[] = {copy(true, mem_base + 4096, host_iova, half),
			     copy(false, host_iova + half, mem_base + 4096, half)};
	t.submit(r, 2);
	assert_true(t.wait(2));
	assert_memory_equal(t.host.data(), t.host.data() + half, half);
	assert_memory_equal(t.host.data(), t.eng->memory() + 4096, half);
}

/* A small ring wraps many times, with sequence numbers that cross 2^32, 2^33, 2^63 and 2^64. */
static void wraps(void **)
{
	auto gen = test::rng(2);

	for (u64 first : {u64(0), (u64(1) << 32) - 50, (u64(1) << 33) - 1, (u64(1) << 63) - 70, ~u64(0) - 5000}) {
		rig t(8, first);
		auto *words = reinterpret_cast<u64 *>(t.host.data());
		u64 sent = 0;

		while (sent < 2000) {
			request r[20];
			const unsigned n = 1 + unsigned(gen() % 20);

			for (unsigned i = 0; i < n; i++)
				r[i] = write_word(host_iova + ((sent + i) % 4096) * 8, sent + i + 1);
			t.submit(r, n);
			sent += n;
		}
		assert_int_equal(t.ch->posted, first + sent);
		assert_true(t.wait(first + sent));
		for (u64 i = 0; i < sent; i++)
			assert_int_equal(load_relaxed(&words[i]), i + 1);
	}
}

static void fault_cancel_resume(void **)
{
	rig t(64, (u64(1) << 32) - 3);
	auto *words = reinterpret_cast<u64 *>(t.host.data());
	const u64 first = t.ch->posted;
	const request r[] = {write_word(host_iova, 1, 1), bad_copy(7), write_word(host_iova + 8, 2, 2),
			     write_word(host_iova + 16, 3, 7), write_word(host_iova + 24, 4, 2)};
	fault f;

	t.submit(r, 5);
	assert_false(t.wait(first + 2));
	assert_true(read_fault(t.ch, &f));
	assert_int_equal(completed(t.ch), first + 1);
	assert_int_equal(f.seq, first + 2);
	assert_int_equal(f.reason, fault_reason::src_unmapped);
	assert_int_equal(f.address, host_iova + 2 * host_size);
	assert_int_equal(f.cookie, 7);
	assert_int_equal(t.ch->ops->cancel(t.ch, 7), 1);
	assert_int_equal(t.ch->ops->resume(t.ch), 0);
	assert_true(t.wait(first + 5));
	assert_int_equal(load_relaxed(&words[1]), 2);
	assert_int_equal(load_relaxed(&words[2]), 0); /* canceled */
	assert_int_equal(load_relaxed(&words[3]), 4);
}

/* Consecutive faults: resume returns although the next request has failed already. */
static void faults_in_a_row(void **)
{
	rig t;
	fault f;

	for (u64 i = 0; i < 20; i++) {
		const request r = bad_copy(i);

		t.submit(&r, 1);
	}
	for (u64 i = 0; i < 20; i++) {
		t.wait_halted();
		assert_true(read_fault(t.ch, &f));
		assert_int_equal(f.seq, i + 1);
		assert_int_equal(f.cookie, i);
		assert_int_equal(t.ch->ops->resume(t.ch), 0);
	}
	assert_true(t.wait(20));
}

static void stop_during_wait(void **)
{
	rig t;
	auto *words = reinterpret_cast<u64 *>(t.host.data());
	const request r[] = {write_word(host_iova + 8, 1, 1), wait_word(host_iova, 99, 5),
			     write_word(host_iova + 16, 2, 6)};
	fault f;

	t.submit(r, 3);
	assert_true(t.wait(1));
	assert_int_equal(t.ch->ops->stop(t.ch), 0);
	assert_true(read_fault(t.ch, &f));
	assert_int_equal(f.reason, fault_reason::stopped);
	assert_int_equal(f.seq, 2);
	assert_int_equal(t.ch->ops->cancel(t.ch, 5), 1); /* the one that was stopped */
	assert_int_equal(t.ch->ops->resume(t.ch), 0);
	assert_true(t.wait(3));
	assert_int_equal(load_relaxed(&words[2]), 2);
	/* Stopped but not canceled, it waits again after resume. */
	t.submit(&r[1], 1);
	assert_int_equal(t.ch->ops->stop(t.ch), 0);
	assert_int_equal(t.ch->ops->resume(t.ch), 0);
	assert_int_equal(completed(t.ch), 3);
	store_release(&words[0], u64(99));
	assert_true(t.wait(4));
}

/* Both kinds of indirection, read from host memory. */
static void indirect_from_host(void **)
{
	rig t;
	auto *cell = reinterpret_cast<u64 *>(t.host.data());
	request r[2];

	cell[0] = 0;
	cell[1] = u64(64) << 32; /* length: high word, low word */
	cell[2] = mem_base;
	cell[3] = mem_base + 4096;
	cell[4] = mem_base + 4096 - 8;
	cell[5] = mem_base + 8192 - 16;
	memset(t.eng->memory(), 0x5a, 64);
	for (request &q : r) {
		q.op = opcode::copy_indirect;
		q.spaces = spaces(space::host, space::host);
	}
	r[0].arg = u8(indirect_mode::descriptor);
	r[0].src = host_iova;
	r[1].arg = u8(indirect_mode::cells);
	r[1].src = host_iova + 32;
	r[1].dst = host_iova + 40;
	r[1].a = 8;
	r[1].b = 16;
	r[1].len = 64;
	t.submit(r, 2);
	assert_true(t.wait(2));
	assert_memory_equal(t.eng->memory(), t.eng->memory() + 4096, 64);
	assert_memory_equal(t.eng->memory(), t.eng->memory() + 8192, 64);
}

/* ---- interrupts and sleep ------------------------------------------------------------------------------- */

/* Waits for the eventfd and clears it; false: timeout. */
static bool signalled(int fd)
{
	pollfd p = {fd, POLLIN, 0};
	u64 count;

	return poll(&p, 1, int(patience_ns / ns_per_ms)) == 1 && read(fd, &count, sizeof(count)) == sizeof(count);
}

/* Each request waits until its interrupt is armed, so that the test always sleeps. */
static void armed_interrupts(void **)
{
	rig t;
	auto *word = reinterpret_cast<u64 *>(t.host.data());

	for (u64 i = 1; i <= 200; i++) {
		const unsigned slot = i % 2 ? irq_waiter : irq_service;
		const request r = wait_word(host_iova, i, 0);

		t.submit(&r, 1);
		t.ch->ops->arm(t.ch, slot, i);
		assert_true(completed(t.ch) < i);
		store_release(word, i);
		assert_true(signalled(t.ch->irq_fd[slot]));
		assert_true(completed(t.ch) >= i);
	}
}

static void interrupt_on_halt(void **)
{
	rig t;
	auto *word = reinterpret_cast<u64 *>(t.host.data());
	const request r[] = {wait_word(host_iova, 1, 1), bad_copy(2), wait_word(host_iova, 5, 3)};

	t.submit(r, 3);
	t.ch->ops->arm(t.ch, irq_waiter, 3);
	store_release(word, u64(1));
	assert_true(signalled(t.ch->irq_fd[irq_waiter]));
	assert_true(halted(t.ch));
	assert_int_equal(t.ch->ops->resume(t.ch), 0);
	/* Armed again with the same number, now for the completion. */
	t.ch->ops->arm(t.ch, irq_waiter, 3);
	assert_int_equal(completed(t.ch), 2);
	store_release(word, u64(5));
	do
		assert_true(signalled(t.ch->irq_fd[irq_waiter]));
	while (completed(t.ch) < 3);
}

static bool is_signalled(int fd)
{
	pollfd p = {fd, POLLIN, 0};

	return poll(&p, 1, 0) == 1;
}

/* Once for each number, also if it was complete when it was armed; not by a halt, nor again after a resume. */
static void completion_interrupt(void **)
{
	rig t(64, 0, "sim:mem=16M:engines=1:channels=4:spin=1");
	const int fd = t.ch->ops->completion_fd(t.ch);
	auto *word = reinterpret_cast<u64 *>(t.host.data());
	const request list[] = {wait_word(host_iova, 1, 1), bad_copy(2), wait_word(host_iova, 5, 3)};
	u64 seq = 0;

	for (u64 i = 1; i <= 300; i++) {
		const request r = write_word(host_iova + 64, i);

		t.submit(&r, 1);
		seq++;
		if (i % 3 == 0)
			assert_true(t.wait(seq));
		t.ch->ops->arm(t.ch, irq_completion, seq);
		if (completed(t.ch) >= seq)
			assert_false(t.ch->ops->withdraw(t.ch, seq));
		u64 count = 0;
		pollfd p = {fd, POLLIN, 0};
		assert_int_equal(poll(&p, 1, int(patience_ns / ns_per_ms)), 1);
		assert_true(completed(t.ch) >= seq);
		assert_int_equal(read(fd, &count, sizeof(count)), sizeof(count));
		assert_int_equal(count, 1);
	}
	t.submit(list, 3);
	t.ch->ops->arm(t.ch, irq_completion, seq + 3);
	t.ch->ops->arm(t.ch, irq_waiter, seq + 3);
	store_release(word, u64(1));
	assert_true(signalled(t.ch->irq_fd[irq_waiter]));
	t.wait_halted();
	assert_int_equal(t.ch->ops->resume(t.ch), 0);
	assert_int_equal(completed(t.ch), seq + 2);
	assert_false(is_signalled(fd));
	store_release(word, u64(5));
	assert_true(signalled(fd));
	assert_true(completed(t.ch) >= seq + 3);
	assert_int_equal(t.ch->ops->stop(t.ch), 0);
	assert_int_equal(t.ch->ops->resume(t.ch), 0);
	const request last = write_word(host_iova + 64, 1);
	t.submit(&last, 1);
	assert_true(t.wait(seq + 4));
	assert_false(is_signalled(fd));
}

/* Channels that are open have one each while there are any. */
static void completion_vectors(void **)
{
	rig t(64, 0, "sim:mem=16M:engines=1:channels=12");
	std::vector<channel *> all = {t.ch};
	std::set<int> fds = {t.ch->ops->completion_fd(t.ch)};

	for (u32 i = 1; i < 12; i++) {
		channel_config cfg;
		channel *ch;

		cfg.ring_size = 64;
		assert_int_equal(t.eng->channel_open(i, cfg, &ch), 0);
		all.push_back(ch);
		const int fd = ch->ops->completion_fd(ch);
		if (fd >= 0)
			assert_true(fds.insert(fd).second);
	}
	assert_int_equal(fds.size(), 8);
	assert_int_equal(all[11]->ops->completion_fd(all[11]), -1);
	const int freed = all[3]->irq_fd[irq_completion];
	channel_config cfg;
	cfg.ring_size = 64;
	all[3]->ops->close(all[3]);
	assert_int_equal(t.eng->channel_open(3, cfg, &all[3]), 0);
	assert_int_equal(all[3]->ops->completion_fd(all[3]), freed);
	for (u32 i = 1; i < 12; i++)
		all[i]->ops->close(all[i]);
}

static void wakes_from_sleep(void **)
{
	rig t(64, 0, "sim:mem=16M:engines=1:channels=4:spin=1");

	for (u64 i = 1; i <= 30; i++) {
		const deadline until = deadline::in_ns(patience_ns);
		const request r = write_word(host_iova, i);

		while (!load_acquire(t.ch->asleep)) {
			assert_false(until.passed());
			sched_yield();
		}
		t.submit(&r, 1);
		assert_true(t.wait(i));
	}
}

/* ---- close, loss, reset -------------------------------------------------------------------------------- */

static void closes_while_busy(void **)
{
	rig t;

	for (int i = 0; i < 20; i++) {
		std::vector<request> r(50, copy(true, mem_base, host_iova, host_size));
		channel_config cfg;

		t.submit(r.data(), 50);
		t.ch->ops->close(t.ch);
		t.ch = nullptr;
		cfg.ring_size = 64;
		cfg.first_seq = u64(i) * 1000;
		assert_int_equal(t.eng->channel_open(0, cfg, &t.ch), 0);
		assert_int_equal(completed(t.ch), cfg.first_seq);
	}
}

/* Memory is mapped at a random time while the device is removed and its model exits. */
static void map_during_removal(void **)
{
	std::mt19937_64 gen = usdma::test::rng();

	for (int round = 0; round < 200; round++) {
		rig t(64, 0, "sim:mem=16M:engines=1:channels=4:faults=");
		const request r = copy(true, mem_base, host_iova, 64);
		const vfio::dma_area area = {
			.iova = host_iova + 2 * host_size, .size = host_size, .vaddr = t.host.data()};

		assert_int_equal(t.eng->transport().inject("vanish@1"), 0);
		t.submit(&r, 1);
		for (const deadline until = deadline::in_ns(gen() % 300000); !until.passed();)
			sched_yield();
		const int err = t.eng->map(area);
		if (err)
			assert_int_equal(err, -ENODEV);
	}
}

static void resets(void **)
{
	rig t;
	const request forever = wait_word(host_iova, 1, 0), good = write_word(host_iova + 8, 7);
	channel_config cfg;

	t.submit(&forever, 1);
	assert_int_equal(t.eng->reset(), 0);
	t.ch->ops->close(t.ch);
	t.ch = nullptr;
	assert_int_equal(t.eng->channel_open(0, cfg, &t.ch), 0);
	const request r[] = {good, copy(true, mem_base, host_iova, 4096)};
	t.submit(r, 2);
	assert_true(t.wait(2)); /* the memory base is still set */
	assert_int_equal(t.eng->memory()[8], 7);
}

static void all_channels(void **)
{
	rig t(64, 0, "sim:mem=16M:engines=2:channels=16");
	std::vector<channel *> all = {t.ch};
	channel_config cfg;

	for (unsigned i = 1; i < 16; i++) {
		all.push_back(nullptr);
		assert_int_equal(t.eng->channel_open(i, cfg, &all[i]), 0);
	}
	for (u64 i = 0; i < 16; i++) {
		const request r = write_word(host_iova + 8 * i, i + 1);

		t.ch = all[i];
		t.submit(&r, 1);
	}
	for (u64 i = 0; i < 16; i++) {
		t.ch = all[i];
		assert_true(t.wait(1));
		assert_int_equal(load_relaxed(reinterpret_cast<u64 *>(t.host.data()) + i), i + 1);
		if (i)
			t.ch->ops->close(t.ch);
	}
	t.ch = all[0];
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(limits),
		cmocka_unit_test(copies),
		cmocka_unit_test(wraps),
		cmocka_unit_test(fault_cancel_resume),
		cmocka_unit_test(faults_in_a_row),
		cmocka_unit_test(stop_during_wait),
		cmocka_unit_test(indirect_from_host),
		cmocka_unit_test(armed_interrupts),
		cmocka_unit_test(interrupt_on_halt),
		cmocka_unit_test(completion_interrupt),
		cmocka_unit_test(completion_vectors),
		cmocka_unit_test(wakes_from_sleep),
		cmocka_unit_test(closes_while_busy),
		cmocka_unit_test(map_during_removal),
		cmocka_unit_test(resets),
		cmocka_unit_test(all_channels),
	};

	return cmocka_run_group_tests_name("sdma_embedded", tests, nullptr, nullptr);
}
