/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cases of any ring engine: order and errors among many requests, a transport that grants less than the device has
 * or is slow, readers of a record.
 */
#include "tests/unit/dma/forwarding_device.h"
#include "tests/unit/dma/ring_cases.h"

#include "driver/dma/own_memory.h"

#include <algorithm>
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

/* One descriptor for one copy, and few more, in lists of any length (tests/bench/engines.cpp has each engine's). */
static void test_descriptors_of_a_copy(void **)
{
	ring_bench b(kind.faulty, {.ring_size = 64});
	auto gen = test::rng(9);
	std::string seen;
	u64 copies = 0;

	assert_int_equal(b.inject("fail@1000000000"), 0);
	for (unsigned round = 0; round < 30 * test::scale(); round++) {
		request list[60];
		const unsigned n = 1 + unsigned(gen() % 60);

		for (unsigned i = 0; i < n; i++)
			list[i] = copy(gen() % MiB, 2 * MiB + gen() % MiB, 1 + gen() % 5000);
		assert_int_equal(b.ch->ops->post(b.ch, list, n), n);
		b.ch->ops->doorbell(b.ch);
		assert_true(b.await(b.ch->posted));
		copies += n;
	}
	assert_int_equal(b.eng->transport().injected(&seen), 0);
	const u64 descriptors = strtoull(seen.c_str() + seen.find("seen ") + 5, nullptr, 10);
	assert_in_range(descriptors, copies, copies * 12 / 10);
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
	assert_int_equal(d->granted, std::min(kind.channels, 2u));
	b.run(copy(0, 4096, 64));
	assert_int_equal(b.run_fault(copy(host_bytes, 0, 8)).reason, fault_reason::dst_unmapped);
}

/* How many interrupts the device has raised since the last inject() of rules with `counting`. */
static constexpr const char *counting = "drop-irq@1000000";

static u64 raised(ring_bench &b)
{
	std::string report;
	unsigned long long seen = 0;

	assert_int_equal(b.eng->transport().injected(&report), 0);
	const char *const at = strstr(report.c_str(), counting);
	assert_non_null(at);
	assert_int_equal(sscanf(at, "drop-irq@1000000 seen %llu", &seen), 1);
	return seen;
}

/* The device raises an interrupt for each waiter that sleeps, and then again; a few may be missing: the thread polls.
 */
static void test_interrupts_for_waiters(void **)
{
	ring_bench b(kind.faulty);

	assert_int_equal(b.inject((std::string("slow%1/10000+") + counting).c_str()), 0);
	for (unsigned i = 0; i < 8; i++) {
		b.ch->ops->arm(b.ch, irq_waiter, b.ch->posted + 1);
		b.run(copy(0, 4096, 64));
	}
	assert_in_range(raised(b), 4, 9);
}

/* Who polls pays for no interrupt within a millisecond of the last one. */
static void test_no_interrupts_for_pollers(void **)
{
	ring_bench b(kind.faulty);
	pollfd p = {b.ch->irq_fd[irq_waiter], POLLIN, 0};
	u64 most = 1, n;

	assert_int_equal(b.inject(counting), 0);
	for (unsigned i = 0; i < 100; i++) {
		const u64 from = now_ns();

		b.ch->ops->arm(b.ch, irq_waiter, b.ch->posted + 1);
		b.post(copy(0, 4096, 64));
		assert_int_equal(poll(&p, 1, int(patience)), 1);
		assert_int_equal(read(p.fd, &n, 8), 8);
		const u64 seq = b.post(copy(0, 4096, 64));
		for (const deadline until = deadline::in_ms(patience); s64(completed(b.ch) - seq) < 0;)
			assert_false(until.passed());
		most += now_ns() - from < ns_per_ms ? 1 : 2;
	}
	assert_in_range(raised(b), 0, most);
}

/* Without a vector of its own a channel's interrupt stays off: its message might be that of another. */
static void test_no_interrupt_without_a_vector(void **)
{
	auto dev = std::make_unique<poor_device>(kind.faulty);

	dev->most = 0;
	ring_bench b(std::move(dev));
	assert_int_equal(b.inject(counting), 0);
	/* Each is seen, too, if it completes while the thread is about to sleep. */
	for (unsigned i = 0; i < 500; i++)
		b.run(copy(0, 4096, 64));
	assert_int_equal(b.run_fault(copy(host_bytes, 0, 8)).reason, fault_reason::dst_unmapped);
	b.run(copy(0, 4096, 64));
	assert_int_equal(raised(b), 0);
}

/* A device whose user is killed: it does not hear of it, but its mappings go. */
class orphaned_device final : public forwarding_device {
public:
	orphaned_device(std::unique_ptr<vfio::device> below, std::unique_ptr<vfio::device> *to)
		: forwarding_device(std::move(below)), to_(to)
	{
	}
	~orphaned_device() override { *to_ = std::move(dev_); }
	int region_read(unsigned i, u64 at, void *buf, size_t len) override
	{
		return load_seq_cst(&killed) ? -ENODEV : forwarding_device::region_read(i, at, buf, len);
	}
	int region_write(unsigned i, u64 at, const void *buf, size_t len) override
	{
		return load_seq_cst(&killed) ? -ENODEV : forwarding_device::region_write(i, at, buf, len);
	}
	int irq_set(unsigned i, unsigned n, std::span<const int> fds) override
	{
		return load_seq_cst(&killed) ? -ENODEV : forwarding_device::irq_set(i, n, fds);
	}
	bool lost() const override { return load_seq_cst(&killed); }

	u32 killed = 0; /* atomic */

private:
	std::unique_ptr<vfio::device> *to_;
};

/* Leaves a device with up to two channels that were used, the last of which hangs, has failed, or goes on in its ring.
 */
static std::unique_ptr<vfio::device> leave_used(unsigned how)
{
	static constexpr const char *rules[] = {"hang@1", "fail@1", ""};
	std::unique_ptr<vfio::device> dev;

	assert_int_equal(open_device(kind.faulty, &dev), 0);
	auto own = std::make_unique<orphaned_device>(std::move(dev), &dev);
	orphaned_device *const bus = own.get();
	{
		ring_bench b(std::move(own));
		channel *const first = b.ch, *const second = b.open_other();

		b.run(copy(0, 4096, 64));
		b.ch = second ? second : first;
		b.run(copy(0, 4096, 64));
		assert_int_equal(b.inject(rules[how]), 0);
		for (unsigned i = 0; i < 5; i++)
			b.post(copy(0, 4096, 64));
		if (how < 2)
			b.until_struck();
		store_seq_cst(&bus->killed, 1u);
		assert_int_equal(bus->dma_unmap(host, host_bytes), 0);
		if (second)
			first->ops->close(first);
	}
	assert_non_null(dev.get());
	return dev;
}

/* Whatever an earlier user has left: nothing of it runs, is reported as an error, or raises an interrupt. */
static void test_takes_over_any_device(void **)
{
	for (unsigned how = 0; how < 3; how++) {
		auto poor = std::make_unique<poor_device>(leave_used(how));

		poor->most = 0;
		ring_bench b(std::move(poor));
		/* Were it not reset, what hangs would go on. */
		assert_int_equal(b.inject(counting), 0);
		for (unsigned i = 0; i < 5; i++) {
			b.bytes[4096] = u8(i + 1);
			b.run(copy(0, 4096, 64));
			assert_int_equal(b.bytes[0], i + 1);
		}
		channel *const first = b.ch;
		if (channel *const second = b.open_other())
			b.ch = second;
		b.run(copy(64, 4096, 64));
		assert_int_equal(b.bytes[64], 5);
		assert_int_equal(raised(b), 0);
		if (b.ch != first)
			first->ops->close(first);
	}
}

/*
 * Each call of the transport fails in turn while the device and a channel are opened: that is the error of the open,
 * but for a few of which the channel works all the same. The device is as good as before.
 */
static void test_each_failure_of_an_open(void **)
{
	std::unique_ptr<vfio::device> dev;
	unsigned harmless = 0, left = 0;

	if (kind.probe != dma::probe)
		return; /* few calls are left */
	assert_int_equal(open_device(kind.plain, &dev), 0);
	for (unsigned n = 1; !left; n++) {
		std::unique_ptr<engine> eng;
		channel *ch = nullptr;

		left = n;
		int err = dma::probe(std::make_unique<failing_device>(std::move(dev), &dev, &left), &eng);
		if (!err)
			err = eng->channel_open(0, {}, &ch);
		const unsigned unused = std::exchange(left, 0);
		if (!err) {
			ring_bench b(std::move(eng), ch);

			b.bytes[4096] = u8(n);
			b.run(copy(0, 4096, 64));
			assert_int_equal(b.bytes[0], u8(n));
			assert_int_equal(b.eng->unmap(host, host_bytes), 0);
			harmless += !unused;
		} else {
			assert_string_not_equal(error_text(), "");
		}
		left = unused;
		eng.reset();
		assert_non_null(dev.get());
		assert_false(dev->lost());
	}
	assert_int_equal(harmless, kind.harmless);
}

/*
 * The same while a channel that hangs is aborted and resumed, or the device reset and the channel restarted: the step
 * that fails is repeated, as lib/core does or may do, and the channel works.
 */
static void test_each_failure_of_a_recovery(void **)
{
	std::unique_ptr<vfio::device> dev;
	unsigned left = 0, failed = 0;

	if (kind.probe != dma::probe)
		return;
	assert_int_equal(open_device(kind.faulty, &dev), 0);
	ring_bench b(std::make_unique<failing_device>(std::move(dev), &dev, &left));
	const auto repeat = [&](const auto &step) {
		int err = step();

		if (err < 0) {
			assert_int_equal(left, 0);
			assert_string_not_equal(error_text(), "");
			failed++;
			err = step();
		}
		assert_int_equal(err, 0);
	};
	for (const bool all : {false, true})
		for (unsigned n = 1, unused = 0; !unused; n += kind.stride) {
			assert_int_equal(b.inject(all ? "hang@1/device" : "hang@1"), 0);
			b.post(copy(8192, 0, 64));
			b.until_struck();
			left = n;
			repeat([&] { return all ? b.eng->reset() : b.ch->ops->abort(b.ch); });
			repeat([&] { return all ? b.ch->ops->restart(b.ch) : b.ch->ops->resume(b.ch); });
			unused = std::exchange(left, 0);
			assert_int_equal(b.inject(""), 0);
			b.bytes[4096] = u8(n);
			b.run(copy(0, 4096, 64));
			assert_int_equal(b.bytes[0], u8(n));
		}
	assert_in_range(failed, 4 / kind.stride + 1, 1000);
}

/* Memory at the limits of what the transport maps: a device's addresses are no shorter than that, or the driver copies.
 */
static void test_addresses_up_to_the_limit(void **)
{
	ring_bench b;
	vfio::address_limits l;
	mapping more(mmap(nullptr, 2 * MiB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 2 * MiB);

	unsigned mapped = 0;

	assert_int_equal(b.eng->transport().limits(&l), 0);
	for (u64 bit = 40; bit < 64; bit++) {
		const u64 high = (u64(1) << bit) + GiB;

		/* A vfio-user server has a limit, too, of which it says nothing. */
		if (!is_usable(l, high, MiB) || b.eng->map({.iova = high, .size = MiB, .vaddr = more.data()}) < 0)
			break;
		mapped++;
		more.data()[0] = u8(bit);
		b.run({.op = opcode::copy, .src = high, .dst = host + 8192, .len = 64});
		assert_int_equal(b.bytes[8192], bit);
		b.bytes[8192] = u8(bit + 1);
		b.run({.op = opcode::copy, .src = host + 8192, .dst = high + 64, .len = 64});
		assert_int_equal(more.data()[64], bit + 1);
		b.run({.op = opcode::fill, .arg = 1, .dst = high + 128, .len = 64, .a = bit});
		assert_int_equal(more.data()[128 + 63], bit);
		assert_int_equal(b.eng->unmap(high, MiB), 0);
	}
	assert_true(mapped > 8);
}

/* A stop that times out has no effect: posted requests run. */
static void test_stop_that_fails(void **)
{
	ring_bench b(kind.faulty);

	memset(b.bytes, 1, 64);
	assert_int_equal(b.inject("hang@1"), 0);
	b.post(copy(4096, 0, 64));
	b.post(copy(8192, 0, 64));
	b.until_struck();
	assert_int_equal(b.ch->ops->stop(b.ch), -ETIMEDOUT);
	assert_false(halted(b.ch));
	assert_int_equal(b.inject(""), 0);
	assert_true(b.await(b.ch->posted));
	assert_memory_equal(b.bytes + 4096, b.bytes, 64);
	assert_memory_equal(b.bytes + 8192, b.bytes, 64);
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

/* Copies whose arguments stay in registers. */
static void check_fast_path(ring_bench &b, mapped_device *dev)
{
	auto gen = test::rng(7);
	std::vector<u8> want(host_bytes);
	fault f;

	const auto pass_on = [&] { dev ? dev->forward() : void(sched_yield()); };
	const auto until_done = [&] {
		for (const deadline until = deadline::in_ms(patience); completed(b.ch) != b.ch->posted; pass_on())
			assert_false(until.passed() || halted(b.ch));
	};
	assert_non_null(b.ch->ops->submit_copy);
	test::fill_random(b.bytes, host_bytes, gen);
	memcpy(want.data(), b.bytes, host_bytes);
	for (unsigned i = 0; i < 200; i++) {
		const u64 len = 1 + gen() % 3000, x = gen() % (MiB - len), y = MiB + gen() % (MiB - len);

		if (b.ch->posted == b.ch->post_limit) {
			until_done();
			assert_int_equal(b.ch->ops->post(b.ch, std::data({request{}}), 1), 1);
			b.ch->ops->doorbell(b.ch);
		}
		if (i % 16 == 5)
			b.post({.op = opcode::write, .dst = host + 8 * i, .a = i});
		else
			b.ch->ops->submit_copy(b.ch, 0, host + x, host + y, len, 3);
		if (i % 16 == 5)
			memcpy(&want[8 * i], std::data({u64(i)}), 8);
		else
			memcpy(&want[y], &want[x], len);
		if (b.ch->posted == b.ch->post_limit)
			until_done();
	}
	until_done();
	assert_memory_equal(b.bytes, want.data(), host_bytes);
	b.ch->ops->submit_copy(b.ch, 0, host + host_bytes, host, 8, 77);
	for (const deadline until = deadline::in_ms(patience); !halted(b.ch); pass_on())
		assert_false(until.passed());
	assert_true(read_fault(b.ch, &f));
	assert_int_equal(f.cookie, 77);
	assert_int_equal(f.seq, b.ch->posted);
	assert_int_equal(f.reason, fault_reason::src_unmapped);
}

/* On a device whose doorbell is a store; others are not offered that. */
static void test_fast_path(void **)
{
	static constexpr channel_config cfg = {.ring_size = 16, .first_seq = (u64(1) << 32) - 9};
	std::unique_ptr<vfio::device> below;
	ring_bench plain(kind.plain, cfg);

	if (kind.probe != dma::probe)
		return check_fast_path(plain, nullptr);
	assert_null(plain.ch->ops->submit_copy);
	if (kind.doorbells.empty())
		return;
	assert_int_equal(open_device(kind.plain, &below), 0);
	auto own = std::make_unique<mapped_device>(std::move(below), kind.doorbells);
	mapped_device *const dev = own.get();
	ring_bench b(std::move(own), cfg);
	check_fast_path(b, dev);
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
		cmocka_unit_test(test_descriptors_of_a_copy),
		cmocka_unit_test(test_no_interrupts),
		cmocka_unit_test(test_fewer_vectors),
		cmocka_unit_test(test_interrupts_for_waiters),
		cmocka_unit_test(test_no_interrupts_for_pollers),
		cmocka_unit_test(test_no_interrupt_without_a_vector),
		cmocka_unit_test(test_takes_over_any_device),
		cmocka_unit_test(test_each_failure_of_an_open),
		cmocka_unit_test(test_each_failure_of_a_recovery),
		cmocka_unit_test(test_addresses_up_to_the_limit),
		cmocka_unit_test(test_stop_that_fails),
		cmocka_unit_test(test_fast_path),
		cmocka_unit_test(test_operations_during_a_map),
		cmocka_unit_test(test_memory_is_at_the_device),
		cmocka_unit_test(test_readers_of_the_record),
		cmocka_unit_test(test_bus_master_of_a_device_that_leaves),
	};

	return tests;
}

} // namespace usdma::test
