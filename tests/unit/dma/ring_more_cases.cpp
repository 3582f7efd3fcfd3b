/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cases of any ring engine: order and errors among many requests, a transport that grants less than the device has
 * or is slow, readers of a record.
 */
#include "tests/unit/dma/forwarding_device.h"
#include "tests/unit/dma/ring_cases.h"

#include <numa.h>
#include <numaif.h>
#include <thread>

namespace usdma::test {

using namespace usdma::dma;

/* Each request waits for the one before, also across batches and the end of the ring. */
static void test_order(void **)
{
	ring_bench b(kind.plain, {.ring_size = 64, .first_seq = 50});

	for (unsigned round = 0; round < 20 * test::scale(); round++) {
		std::vector<request> list;

		b.bytes[0] = u8(round);
		for (u64 i = 0; i < 60; i++)
			list.push_back(copy((i + 1) * 4096, i * 4096, 4096));
		assert_int_equal(b.ch->ops->post(b.ch, list.data(), 60), 60);
		b.ch->ops->doorbell(b.ch);
		assert_true(b.await(b.ch->posted));
		assert_int_equal(b.bytes[60 * 4096], u8(round));
	}
}

/* Some of many in flight fail: each is reported with its own number, in order, and the others run once. */
static void test_errors_among_many(void **)
{
	ring_bench b(kind.plain, {.ring_size = 64, .first_seq = (u64(1) << 32) - 100});
	auto *words = reinterpret_cast<u64 *>(b.bytes);
	auto gen = test::rng(5);

	for (unsigned round = 0; round < 20 * test::scale(); round++) {
		const u64 bad = gen() & gen() & 0xffffffff, first = b.ch->posted + 1;
		request list[32];
		fault f;

		for (u64 i = 0; i < 32; i++) {
			words[i] = 0;
			words[512 + i] = round * 100 + i + 1;
			list[i] = copy(i * 8, bad >> i & 1 ? host_bytes : 4096 + i * 8, 8, i);
		}
		assert_int_equal(b.ch->ops->post(b.ch, list, 32), 32);
		b.ch->ops->doorbell(b.ch);
		for (u64 i = 0; i < 32; i++) {
			if (!(bad >> i & 1))
				continue;
			b.until_halted();
			assert_true(read_fault(b.ch, &f));
			assert_int_equal(f.seq, first + i);
			assert_int_equal(f.cookie, i);
			assert_int_equal(f.reason, fault_reason::src_unmapped);
			assert_int_equal(completed(b.ch), f.seq - 1);
			assert_int_equal(b.ch->ops->resume(b.ch), 0);
		}
		assert_true(b.await(b.ch->posted));
		for (u64 i = 0; i < 32; i++)
			assert_int_equal(words[i], bad >> i & 1 ? 0 : round * 100 + i + 1);
	}
}

/* A transport that grants few interrupts, or maps slowly, and is at a node. */
class poor_device final : public forwarding_device {
public:
	using forwarding_device::forwarding_device;
	int irq(unsigned i, vfio::irq_info *out) override
	{
		const int err = dev_->irq(i, out);

		out->count = most ? out->count : 0;
		return err;
	}
	int irq_set(unsigned i, unsigned n, std::span<const int> fds) override
	{
		if (fds.size() > most)
			return -ENOSPC;
		granted = fds.size();
		return dev_->irq_set(i, n, fds);
	}
	int dma_map(const vfio::dma_area &area) override
	{
		store_seq_cst(&maps, 1u);
		for (; load_seq_cst(&blocked); sched_yield())
			;
		return forwarding_device::dma_map(area);
	}
	int numa_node() const override { return 0; }
	bool is_leaving() const override { return leaving; }

	bool leaving = false;
	size_t most = 1000, granted = 0;
	u32 blocked = 0, maps = 0; /* atomic */
};

/* Without an interrupt the thread polls each millisecond, also for a request that comes to an idle channel. */
static void test_no_interrupts(void **)
{
	static constexpr unsigned rounds = 24;
	auto dev = std::make_unique<poor_device>(kind.faulty);
	unsigned slow = 0;

	dev->most = 0;
	ring_bench b(std::move(dev));
	assert_int_equal(b.inject("slow%1/1000"), 0);
	for (unsigned i = 0; i < rounds; i++) {
		/* The thread finds the channel idle; if it does not, the round tests less. */
		usleep(3000);
		const u64 from = now_ns();

		b.run(copy(i * 8, 4096, 8));
		/* Its recheck, which is for interrupts that are lost, comes after 50. */
		slow += now_ns() - from > 40 * ns_per_ms;
	}
	assert_in_range(slow, 0, rounds / 2);
}

/* Fewer vectors than the device has: they are for the first channels, and the others poll. */
static void test_fewer_vectors(void **)
{
	auto dev = std::make_unique<poor_device>(kind.plain);
	const poor_device *const d = dev.get();

	dev->most = 2;
	ring_bench b(std::move(dev));
	assert_int_equal(d->granted, 2);
	b.run(copy(0, 4096, 64));
	assert_int_equal(b.run_fault(copy(host_bytes, 0, 8)).reason, fault_reason::dst_unmapped);
}

/* An operation of the driver does not wait for memory that is being pinned. */
static void test_operations_during_a_map(void **)
{
	auto dev = std::make_unique<poor_device>(kind.plain);
	poor_device *const d = dev.get();
	ring_bench b(std::move(dev));
	mapping more(mmap(nullptr, MiB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), MiB);
	int err = -1;

	store_seq_cst(&d->maps, 0u);
	store_seq_cst(&d->blocked, 1u);
	std::thread pinning([&] { err = b.eng->map({.iova = host + GiB, .size = MiB, .vaddr = more.data()}); });
	for (const deadline until = deadline::in_ms(patience); !load_seq_cst(&d->maps); sched_yield())
		assert_false(until.passed());
	b.run({.op = opcode::write, .dst = host + 8, .a = 77});
	assert_int_equal(reinterpret_cast<u64 *>(b.bytes)[1], 77);
	store_seq_cst(&d->blocked, 0u);
	pinning.join();
	assert_int_equal(err, 0);
	b.run({.op = opcode::write, .dst = host + GiB, .a = 78});
	assert_int_equal(b.eng->unmap(host + GiB, MiB), 0);
	assert_int_equal(b.run_fault({.op = opcode::write, .dst = host + GiB}).reason, fault_reason::dst_unmapped);
	/* What the transport refuses to unmap stays. */
	assert_true(b.eng->unmap(host, MiB) < 0);
	b.run({.op = opcode::write, .dst = host + 8, .a = 79});
}

/* The device's node, if the machine has nodes at all. */
static void test_memory_is_at_the_device(void **)
{
	ring_bench b(std::make_unique<poor_device>(kind.plain));
	auto *const at = const_cast<completion_record *>(b.ch->record);
	unsigned long nodes[16] = {};
	int mode = -1;

	if (numa_available() < 0 || get_mempolicy(&mode, nodes, 1024, at, MPOL_F_ADDR) < 0) {
		print_message("# SKIP no policies of memory: %s\n", strerror(errno));
		return skip();
	}
	assert_true(mode == MPOL_BIND || mode == MPOL_PREFERRED);
	assert_int_equal(nodes[0], 1);
}

/* Reads a channel's record again and again. */
struct reader {
	ring_bench &b;
	u32 stop = 0, with_data = 1; /* atomic */
	u64 back = 0, early = 0;     /* how often the record went back, and came before its data */
	std::thread thread{[this] { run(); }};

	explicit reader(ring_bench &bench) : b(bench) {}
	~reader() { end(); }
	void end()
	{
		store_seq_cst(&stop, 1u);
		if (thread.joinable())
			thread.join();
	}
	void run()
	{
		for (u64 last = 0; !load_seq_cst(&stop);) {
			const u64 now = completed(b.ch);
			const u64 seen = load_acquire(reinterpret_cast<u64 *>(b.bytes) + now % 64);

			back += now < last;
			early += seen < now && load_seq_cst(&with_data);
			last = now;
		}
	}
};

/* A request whose end shows as its own number in word seq % 64, by the hardware or by the driver. */
static void post_number(ring_bench &b)
{
	const u64 seq = b.ch->posted + 1, word = 8 * (seq % 64);

	reinterpret_cast<u64 *>(b.bytes + 4096)[seq % 64] = seq;
	if (seq % 7)
		b.post(copy(word, 4096 + word, 8));
	else
		b.post({.op = opcode::write, .dst = host + word, .a = seq});
}

/*
 * Threads read the record while requests complete, and while the channel is stopped, fails, is aborted and reset. The
 * record does not go back, and does not come before the data.
 */
static void test_readers_of_the_record(void **)
{
	ring_bench b(kind.plain, {.ring_size = 64});
	reader one(b), two(b);
	auto gen = test::rng(9);

	for (unsigned i = 0; i < 3000 * test::scale(); i++) {
		post_number(b);
		if (b.ch->posted - completed(b.ch) == 64)
			assert_true(b.await(b.ch->posted - gen() % 60));
		if (gen() % 64)
			continue;
		assert_int_equal(b.ch->ops->stop(b.ch), 0);
		assert_int_equal(b.ch->ops->resume(b.ch), 0);
	}
	assert_true(b.await(b.ch->posted));
	store_seq_cst(&one.with_data, 0u);
	store_seq_cst(&two.with_data, 0u);
	for (unsigned i = 0; i < 100 * test::scale(); i++) {
		for (u64 n = gen() % 32; n; n--)
			post_number(b);
		if (i % 2) {
			b.post(copy(host_bytes, 0, 8));
			b.until_halted();
			assert_int_equal(b.ch->ops->resume(b.ch), 0);
		} else {
			assert_int_equal(b.eng->reset(), 0);
			assert_int_equal(b.ch->ops->restart(b.ch), 0);
		}
		assert_true(b.await(b.ch->posted));
	}
	one.end();
	two.end();
	assert_int_equal(one.back + two.back, 0);
	assert_int_equal(one.early + two.early, 0);
}

/* Another thread has turned bus mastering off for good while this one was about to turn it on. */
static void test_bus_master_of_a_device_that_leaves(void **)
{
	poor_device dev(kind.plain);
	u16 command = 0xffff;

	assert_int_equal(vfio::config_bus_master(dev, true), 0);
	assert_int_equal(vfio::config_bus_master(dev, false), 0);
	dev.leaving = true;
	assert_int_equal(vfio::config_bus_master(dev, true), -ENODEV);
	assert_int_equal(vfio::config_read16(dev, 4, &command), 0);
	assert_int_equal(command & 4, 0);
}

std::span<const CMUnitTest> more_cases()
{
	static const CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_errors_among_many),
		cmocka_unit_test(test_no_interrupts),
		cmocka_unit_test(test_fewer_vectors),
		cmocka_unit_test(test_operations_during_a_map),
		cmocka_unit_test(test_memory_is_at_the_device),
		cmocka_unit_test(test_readers_of_the_record),
		cmocka_unit_test(test_bus_master_of_a_device_that_leaves),
	};

	return tests;
}

} // namespace usdma::test
