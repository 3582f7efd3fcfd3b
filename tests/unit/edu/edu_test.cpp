/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/dma/registry.h"
#include "driver/engines/edu/edu.h"
#include "tests/support/test.h"
#include "tests/unit/edu/fake_edu.h"

#include <cstring>
#include <poll.h>

using namespace usdma;
using dma::fault_reason;
using dma::opcode;
using dma::space;
using test::fake_edu;

static constexpr u64 base = 0x100000000000, host = 0x40000000000, host_bytes = 1 * MiB;
static constexpr u64 mem = edu::memory_given;
static constexpr u8 to_dev = dma::spaces(space::host, space::device), to_host = dma::spaces(space::device, space::host);
static constexpr u8 in_dev = dma::spaces(space::device, space::device), in_host = 0;

/* An engine over a fake, 1 MiB of mapped memory, and one channel. */
struct bench {
	explicit bench(test::edu_behavior h = {}, dma::channel_config cfg = {})
	{
		auto own = std::make_unique<fake_edu>(h);

		dev = own.get();
		std::unique_ptr<vfio::device> d = std::move(own);
		assert_int_equal(dma::find_driver(edu::pci_vendor, edu::pci_device)->probe(d, &eng), 0);
		assert_int_equal(eng->set_memory_base(base), 0);
		buf.resize(host_bytes + 4096);
		bytes = reinterpret_cast<u8 *>(align_up(reinterpret_cast<uintptr_t>(buf.data()), uintptr_t(4096)));
		assert_int_equal(eng->map({.iova = host, .size = host_bytes, .vaddr = bytes}), 0);
		open(cfg);
	}
	~bench() { ch->ops->close(ch); }
	void open(const dma::channel_config &cfg) { assert_int_equal(eng->channel_open(0, cfg, &ch), 0); }
	u64 post(const dma::request &r)
	{
		assert_int_equal(ch->ops->post(ch, &r, 1), 1);
		ch->ops->doorbell(ch);
		return ch->posted;
	}
	/* As the wait of lib/core does: arm, read again, sleep. True: done; false: halted. */
	bool await(u64 seq)
	{
		const deadline until = deadline::in_ms(30000);

		for (;;) {
			ch->ops->arm(ch, dma::irq_waiter, seq);
			if (s64(dma::completed(ch) - seq) >= 0)
				return true;
			if (dma::halted(ch))
				return false;
			pollfd p = {ch->irq_fd[dma::irq_waiter], POLLIN, 0};
			u64 n;
			assert_int_equal(poll(&p, 1, until.left_ms(30000)), 1); /* else: no interrupt */
			assert_int_equal(read(p.fd, &n, 8), 8);
		}
	}
	void run(const dma::request &r) { assert_true(await(post(r))); }
	dma::fault run_fault(const dma::request &r)
	{
		dma::fault f;
		const u64 seq = post(r);

		assert_false(await(seq));
		assert_true(dma::read_fault(ch, &f));
		assert_int_equal(f.seq, seq);
		assert_int_equal(dma::completed(ch), seq - 1);
		assert_int_equal(ch->ops->resume(ch), 0);
		assert_int_equal(dma::completed(ch), seq);
		assert_false(dma::halted(ch));
		return f;
	}
	void put(u64 at, const void *p, u64 len)
	{
		memcpy(bytes, p, len);
		run({.op = opcode::copy, .spaces = to_dev, .src = host, .dst = base + at, .len = len});
	}
	std::vector<u8> get(u64 at, u64 len)
	{
		run({.op = opcode::copy, .spaces = to_host, .src = base + at, .dst = host + 65536, .len = len});
		return {bytes + 65536, bytes + 65536 + len};
	}

	fake_edu *dev;
	std::unique_ptr<dma::engine> eng;
	std::vector<u8> buf;
	u8 *bytes;
	dma::channel *ch = nullptr;
};

static std::vector<u8> noise(u64 len, u64 stream)
{
	auto gen = test::rng(stream);
	std::vector<u8> v(len);

	test::fill_random(v.data(), len, gen);
	return v;
}

static void test_copy_to_device_and_back(void **)
{
	bench b;
	const auto data = noise(mem, 1);

	b.put(0, data.data(), mem);
	assert_true(b.get(0, mem) == data);
	assert_true(b.get(17, 100) == std::vector<u8>(data.begin() + 17, data.begin() + 117));
	assert_int_equal(b.eng->set_memory_base(3), -EINVAL);
	assert_int_equal(b.dev->unmapped_accesses, 0);
	assert_int_equal(b.dev->bad_accesses, 0);
	assert_int_equal(b.dev->refused_writes, 0);
}

/* A server in another process accesses the memory of a client by its file. */
static void test_own_memory_is_in_files(void **)
{
	test::edu_behavior behavior;
	std::unique_ptr<dma::engine> eng;

	behavior.files = true;
	std::unique_ptr<vfio::device> dev = std::make_unique<fake_edu>(behavior);
	fake_edu *const fake = static_cast<fake_edu *>(dev.get());

	assert_int_equal(dma::find_driver(edu::pci_vendor, edu::pci_device)->probe(dev, &eng), 0);
	assert_int_equal(fake->unmapped_accesses, 0);
}

/* All data in the device, also that of host copies, is cleared when the device is closed. */
static void test_close_clears_memory(void **)
{
	auto own = std::make_unique<fake_edu>();
	std::unique_ptr<vfio::device> dev = std::move(own);
	auto eng = std::make_unique<edu::edu_engine>(std::move(dev));
	const auto data = noise(host_bytes, 9);
	dma::channel *ch;

	assert_int_equal(eng->start(), 0);
	assert_int_equal(eng->set_memory_base(base), 0);
	const std::unique_ptr<u8, void (*)(void *)> bytes(static_cast<u8 *>(aligned_alloc(4096, host_bytes)),
							  [](void *p) { free(p); });
	memcpy(bytes.get(), data.data(), host_bytes);
	assert_int_equal(eng->map({.iova = host, .size = host_bytes, .vaddr = bytes.get()}), 0);
	assert_int_equal(eng->channel_open(0, {}, &ch), 0);
	const dma::request work[] = {
		{.op = opcode::copy, .spaces = to_dev, .src = host, .dst = base, .len = mem},
		{.op = opcode::copy, .src = host, .dst = host + host_bytes / 2, .len = host_bytes / 2}};
	assert_int_equal(ch->ops->post(ch, work, 2), 2);
	ch->ops->doorbell(ch);
	const deadline until = deadline::in_ms(30000);
	while (dma::completed(ch) != ch->posted && !until.passed())
		sched_yield();
	assert_int_equal(dma::completed(ch), ch->posted);
	auto &fake = static_cast<fake_edu &>(eng->transport());
	assert_true(fake.nonzero_bytes() > mem / 2);
	ch->ops->close(ch);
	dev = eng->release();
	assert_int_equal(fake.nonzero_bytes(), 0);
	assert_int_equal(fake.unmapped_accesses, 0);
}

static void test_random_ops_against_a_model(void **)
{
	bench b;
	auto gen = test::rng(2);
	std::vector<u8> dev(mem), hst = noise(host_bytes, 3);

	b.put(0, dev.data(), mem);
	memcpy(b.bytes, hst.data(), host_bytes);
	for (unsigned i = 0; i < 300 * test::scale(); i++) {
		const u64 len = 1 + gen() % 600, d = gen() % (mem - len), e = gen() % (mem - len);
		const u64 x = gen() % (host_bytes - len), y = gen() % (host_bytes - len);

		switch (gen() % 8) {
		case 0:
			b.run({.op = opcode::copy, .spaces = to_dev, .src = host + x, .dst = base + d, .len = len});
			memcpy(&dev[d], &hst[x], len);
			break;
		case 1:
			b.run({.op = opcode::copy, .spaces = to_host, .src = base + d, .dst = host + x, .len = len});
			memcpy(&hst[x], &dev[d], len);
			break;
		case 2:
			b.run({.op = opcode::copy, .spaces = in_dev, .src = base + d, .dst = base + e, .len = len});
			memmove(&dev[e], &dev[d], len);
			break;
		case 3:
			if (x < y + len && y < x + len)
				break; /* the result of overlapping copies is undefined */
			b.run({.op = opcode::copy, .spaces = in_host, .src = host + x, .dst = host + y, .len = len});
			memmove(&hst[y], &hst[x], len);
			break;
		case 4:
			b.run({.op = opcode::fill, .spaces = to_dev, .arg = 1, .dst = base + d, .len = len, .a = i});
			memset(&dev[d], int(i & 0xff), len);
			break;
		case 5: {
			const u64 at = d & ~u64(7), word = gen();

			b.run({.op = opcode::write, .spaces = to_dev, .dst = base + at, .a = word});
			memcpy(&dev[at], &word, 8);
			b.run({.op = opcode::wait,
			       .spaces = to_host,
			       .arg = u8(dma::compare::eq),
			       .src = base + at,
			       .a = word});
			break;
		}
		case 6:
			b.run({.op = opcode::reduce,
			       .spaces = to_dev,
			       .arg = dma::reduce_arg(dma::element::u8, dma::reduce_op::sum),
			       .src = host + x,
			       .dst = base + d,
			       .len = len});
			for (u64 k = 0; k < len; k++)
				dev[d + k] = u8(dev[d + k] + hst[x + k]);
			break;
		case 7:
			b.run({.op = opcode::copy_2d,
			       .spaces = to_host,
			       .height = 3,
			       .src = base + d / 2,
			       .dst = host + x / 2,
			       .len = 5,
			       .a = 60,
			       .b = 64});
			for (u64 row = 0; row < 3; row++)
				memcpy(&hst[x / 2 + row * 64], &dev[d / 2 + row * 60], 5);
			break;
		}
	}
	assert_memory_equal(b.bytes, hst.data(), host_bytes);
	assert_true(b.get(0, mem) == dev);
	assert_int_equal(b.dev->unmapped_accesses, 0);
}

/* Copied by the device, in pieces of its internal buffer. */
static void test_host_to_host(void **)
{
	bench b;
	const auto data = noise(10000, 9), device_data = noise(mem, 10);

	b.put(0, device_data.data(), mem);
	memcpy(b.bytes, data.data(), 10000);
	const u64 before = b.dev->transfers;
	b.run({.op = opcode::copy, .spaces = in_host, .src = host, .dst = host + 65536, .len = 10000});
	assert_memory_equal(b.bytes + 65536, data.data(), 10000);
	assert_int_equal(b.dev->transfers - before, 2 * ((10000 + 503) / 504));
	assert_true(b.get(0, mem) == device_data);
}

struct bad_case {
	dma::request r;
	fault_reason reason;
	u64 address;
};

static void test_faults(void **)
{
	bench b;
	std::vector<u8> ro(8192);
	u8 *page = reinterpret_cast<u8 *>(align_up(reinterpret_cast<uintptr_t>(ro.data()), uintptr_t(4096)));
	const u64 end = host + host_bytes, locked = 0x50000000000;
	const bad_case cases[] = {
		{{.op = opcode(200)}, fault_reason::bad_op, 0},
		{{.op = opcode::copy, .flags = 0x80, .src = host, .dst = host, .len = 1}, fault_reason::bad_op, 0},
		{{.op = opcode::copy, .spaces = 0x22, .src = host, .dst = host, .len = 1}, fault_reason::bad_op, 0},
		{{.op = opcode::copy, .spaces = to_dev, .src = host, .dst = base, .len = 0},
		 fault_reason::bad_length,
		 0},
		{{.op = opcode::copy, .spaces = to_dev, .src = 0x1000, .dst = base, .len = 8},
		 fault_reason::src_unmapped,
		 0x1000},
		{{.op = opcode::copy, .spaces = to_dev, .src = end - 4, .dst = base, .len = 8},
		 fault_reason::src_unmapped,
		 end},
		{{.op = opcode::copy, .spaces = to_host, .src = base, .dst = end - 4, .len = 8},
		 fault_reason::dst_unmapped,
		 end},
		{{.op = opcode::copy, .spaces = to_dev, .src = host, .dst = base + mem - 4, .len = 8},
		 fault_reason::dst_unmapped,
		 base + mem},
		{{.op = opcode::copy, .spaces = to_host, .src = base - 1, .dst = host, .len = 8},
		 fault_reason::src_unmapped,
		 base - 1},
		{{.op = opcode::copy, .spaces = to_dev, .src = ~u64(0) - 3, .dst = base, .len = 8},
		 fault_reason::src_unmapped,
		 ~u64(0) - 3},
		{{.op = opcode::copy, .spaces = to_host, .src = base, .dst = locked + 8, .len = 8},
		 fault_reason::dst_denied,
		 locked + 8},
	};

	assert_int_equal(b.eng->map({.iova = locked, .size = 4096, .vaddr = page, .prot = vfio::dma_read}), 0);
	const u64 before = b.dev->transfers;
	for (size_t i = 0; i < std::size(cases); i++) {
		dma::request r = cases[i].r;

		r.cookie = 1000 + i;
		const dma::fault f = b.run_fault(r);
		assert_int_equal(f.reason, cases[i].reason);
		assert_int_equal(f.address, cases[i].address);
		assert_int_equal(f.cookie, 1000 + i);
	}
	assert_int_equal(b.dev->transfers, before); /* none of them reached the device */
	assert_int_equal(b.dev->unmapped_accesses, 0);
	assert_int_equal(b.eng->unmap(locked, 4096), 0);
}

static void test_unmapped_memory_is_a_fault(void **)
{
	bench b;

	assert_int_equal(b.eng->unmap(host, host_bytes), 0);
	const dma::fault f = b.run_fault({.op = opcode::copy, .spaces = to_host, .src = base, .dst = host, .len = 64});
	assert_int_equal(f.reason, fault_reason::dst_unmapped);
	assert_int_equal(b.dev->unmapped_accesses, 0);
}

/* Each row is one transfer, which cannot be stopped. */
static void test_stop_between_rows(void **)
{
	bench b;
	dma::fault f;

	const u64 seq = b.post({.op = opcode::copy_2d,
				.height = 60000,
				.src = host,
				.dst = host + host_bytes / 2,
				.len = 1,
				.a = 2,
				.b = 2});
	while (b.dev->transfers < 4)
		sched_yield();
	assert_int_equal(b.ch->ops->stop(b.ch), 0);
	assert_true(dma::read_fault(b.ch, &f));
	assert_int_equal(f.reason, fault_reason::stopped);
	assert_int_equal(f.seq, seq);
}

static void test_lost_and_missing_interrupts(void **)
{
	test::edu_behavior h[2];

	h[0].silent = true;
	h[1].no_msi = true;
	for (const auto &behavior : h) {
		bench b(behavior);
		const auto data = noise(300, 6);

		b.put(0, data.data(), 300);
		assert_true(b.get(0, 300) == data);
		assert_int_equal(load_relaxed(&static_cast<edu::edu_engine &>(*b.eng).counters().interrupts), 0);
	}
	bench b;
	const auto data = noise(300, 7);
	b.put(0, data.data(), 300);
	assert_true(load_relaxed(&static_cast<edu::edu_engine &>(*b.eng).counters().interrupts) > 0);
}

static int probe_with(test::edu_behavior h)
{
	std::unique_ptr<vfio::device> d = std::make_unique<fake_edu>(h);
	auto *dev = static_cast<fake_edu *>(d.get());
	std::unique_ptr<dma::engine> eng;
	const int rc = dma::find_driver(edu::pci_vendor, edu::pci_device)->probe(d, &eng);

	if (rc) {
		/* The device is returned idle, with nothing mapped. */
		assert_ptr_equal(d.get(), dev);
		assert_false(dev->master());
		assert_int_equal(dev->mappings(), 0);
	}
	return rc;
}

static void test_probe_refuses(void **)
{
	test::edu_behavior narrow, other, small;

	narrow.mask = (1 << 28) - 1;
	assert_int_equal(probe_with(narrow), -ERANGE);
	assert_non_null(strstr(error_text(), "dma_mask"));
	narrow.mask = 0xffffffff;
	assert_int_equal(probe_with(narrow), -EIO);
	other.id = 0x12345678;
	assert_int_equal(probe_with(other), -ENODEV);
	small.top = (u64(1) << 39) - 1; /* as VT-d with 39 bits */
	assert_int_equal(probe_with(small), 0);
}

static void test_lost_device(void **)
{
	bench b;

	b.dev->lost_ = true;
	const dma::fault f = b.run_fault({.op = opcode::copy, .spaces = to_dev, .src = host, .dst = base, .len = 64});
	assert_int_equal(f.reason, fault_reason::lost);
	b.dev->lost_ = false; /* for the close */
}

static void test_hang_is_a_fault_until_reset(void **)
{
	test::edu_behavior h;

	h.top = edu::default_mask; /* nothing to probe: the device hangs from the start */
	h.hangs = true;
	bench b(h);
	const auto data = noise(100, 8);
	const dma::fault f = b.run_fault({.op = opcode::copy, .spaces = to_dev, .src = host, .dst = base, .len = 64});

	assert_int_equal(f.reason, fault_reason::transfer);
	assert_false(b.dev->master());
	assert_int_equal(b.eng->reset(), 0);
	assert_int_equal(b.ch->ops->restart(b.ch), 0);
	b.put(0, data.data(), 100);
	assert_true(b.get(0, 100) == data);
}

/* After give_up during a copy the memory belongs to the caller: no byte of it is written. */
static void test_give_up_during_copy(void **)
{
	bench b;
	dma::fault f;

	b.post({.op = opcode::copy,
		.spaces = in_host,
		.src = host,
		.dst = host + host_bytes / 2,
		.len = host_bytes / 2});
	while (b.dev->transfers < 4)
		sched_yield();
	assert_int_equal(b.eng->give_up(), 0);
	const std::vector<u8> at_give_up(b.bytes, b.bytes + host_bytes);
	assert_false(b.dev->master());
	assert_false(b.await(b.ch->posted));
	assert_true(dma::read_fault(b.ch, &f));
	assert_int_equal(f.reason, fault_reason::lost);
	assert_memory_equal(b.bytes, at_give_up.data(), host_bytes);
	/* No transfer starts after that. */
	const u64 transfers = b.dev->transfers;
	assert_int_equal(b.ch->ops->resume(b.ch), 0);
	assert_false(b.await(b.post({.op = opcode::copy, .spaces = to_host, .src = base, .dst = host, .len = 64})));
	assert_int_equal(b.dev->transfers, transfers);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_copy_to_device_and_back),
		cmocka_unit_test(test_own_memory_is_in_files),
		cmocka_unit_test(test_close_clears_memory),
		cmocka_unit_test(test_random_ops_against_a_model),
		cmocka_unit_test(test_host_to_host),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_unmapped_memory_is_a_fault),
		cmocka_unit_test(test_stop_between_rows),
		cmocka_unit_test(test_lost_and_missing_interrupts),
		cmocka_unit_test(test_probe_refuses),
		cmocka_unit_test(test_lost_device),
		cmocka_unit_test(test_hang_is_a_fault_until_reset),
		cmocka_unit_test(test_give_up_during_copy),
	};

	return cmocka_run_group_tests_name("edu", tests, nullptr, nullptr);
}
