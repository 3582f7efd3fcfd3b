/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In the virtual machine: the edu engine on the kernel's VFIO, below streams.
 * USDMA_DEVICES names the device.  tests/vm/guests/cases.py then searches the
 * guest's log for the IOMMU's fault at the unmapped address.
 */
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/engines/edu/edu.h"
#include "driver/dma/registry.h"
#include "tests/support/test.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <poll.h>
#include <sstream>

using namespace usdma;
using dma::fault_reason;
using dma::opcode;
using dma::space;

static constexpr u64 base = 0x100000000000, where = 0x2000000000, size = 64 * KiB;
/* Never mapped; the IOMMU's message contains this address. */
static constexpr u64 unmapped = 0x666000000;

static const char *device()
{
	const char *spec = getenv("USDMA_DEVICES");

	assert_non_null(spec);
	return spec;
}

struct rig {
	rig()
	{
		void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1,
			       0);

		assert_ptr_not_equal(p, MAP_FAILED);
		memory = mapping(p, size);
		if (dma::open(device(), &eng) < 0) {
			print_message("# %s\n", error_text());
			assert_true(false);
		}
		assert_int_equal(eng->set_memory_base(base), 0);
		assert_int_equal(eng->map({.iova = where, .size = size, .vaddr = p}), 0);
		assert_int_equal(eng->channel_open(0, {}, &ch), 0);
	}
	~rig() { ch->ops->close(ch); }
	bool run(const dma::request &r)
	{
		assert_int_equal(ch->ops->post(ch, &r, 1), 1);
		ch->ops->doorbell(ch);
		for (;;) {
			ch->ops->arm(ch, dma::irq_waiter, ch->posted);
			if (dma::completed(ch) >= ch->posted)
				return true;
			if (dma::halted(ch))
				return false;
			pollfd p = {ch->irq_fd[dma::irq_waiter], POLLIN, 0};
			u64 n;
			assert_int_equal(poll(&p, 1, 20000), 1);
			assert_int_equal(read(p.fd, &n, 8), 8);
		}
	}
	const edu::engine_counters &count() const { return static_cast<edu::edu_engine &>(*eng).counters(); }

	std::unique_ptr<dma::engine> eng;
	mapping memory;
	dma::channel *ch = nullptr;
};

static constexpr u8 in = dma::spaces(space::host, space::device), out = dma::spaces(space::device, space::host);

static void test_round_trip(void **)
{
	rig r;
	auto gen = test::rng(1);
	u8 *p = r.memory.data();

	test::fill_random(p, 3500, gen);
	assert_true(r.run({.op = opcode::copy, .spaces = in, .src = where, .dst = base + 8, .len = 3500}));
	assert_true(r.run({.op = opcode::copy, .spaces = out, .src = base + 8, .dst = where + 8192, .len = 3500}));
	assert_memory_equal(p, p + 8192, 3500);
	assert_int_equal(p[8192 + 3500], 0);
}

/* A second open is refused, although the kernel would allow it. */
static void test_opens_once(void **)
{
	std::unique_ptr<dma::engine> second;

	{
		rig r;

		assert_int_equal(dma::open(device(), &second), -EBUSY);
		assert_non_null(strstr(error_text(), "open in this process already"));
		r.memory.data()[0] = 7;
		assert_true(r.run({.op = opcode::copy, .spaces = in, .src = where, .dst = base, .len = 64}));
	}
	rig again;
	assert_true(again.run({.op = opcode::copy, .spaces = in, .src = where, .dst = base, .len = 64}));
}

/* Interrupts that the kernel counted on the device's line: "vfio-msi[0](0000:01:00.0)". */
static u64 kernel_interrupts()
{
	std::ifstream in_("/proc/interrupts");
	u64 sum = 0;

	for (std::string line; std::getline(in_, line);) {
		if (line.find("vfio-msi") == line.npos || line.find(device()) == line.npos)
			continue;
		std::istringstream words(line.substr(line.find(':') + 1));
		for (u64 n; words >> n;)
			sum += n;
	}
	return sum;
}

static void test_interrupts_are_counted(void **)
{
	rig r;
	const u64 before = kernel_interrupts(), transfers = load_relaxed(&r.count().transfers);

	for (unsigned i = 0; i < 5; i++)
		assert_true(r.run({.op = opcode::copy, .spaces = in, .src = where, .dst = base, .len = 64}));
	assert_int_equal(load_relaxed(&r.count().transfers) - transfers, 5);
	assert_int_equal(kernel_interrupts() - before, 5);
	assert_true(load_relaxed(&r.count().interrupts) > 0);
}

static void test_unmapped_address_is_an_error(void **)
{
	rig r;
	dma::fault f;

	assert_false(r.run({.op = opcode::copy, .spaces = out, .src = base, .dst = unmapped, .len = 64, .cookie = 5}));
	assert_true(dma::read_fault(r.ch, &f));
	assert_int_equal(f.reason, fault_reason::dst_unmapped);
	assert_int_equal(f.address, unmapped);
	assert_int_equal(f.cookie, 5);
	assert_int_equal(r.ch->ops->resume(r.ch), 0);
	assert_true(r.run({.op = opcode::nop}));
}

/* Below all checks: the device writes to an unmapped address. The IOMMU blocks it, and no memory changes. */
static void test_iommu_blocks_unmapped_write(void **)
{
	rig r;
	std::unique_ptr<vfio::device> dev;
	std::vector<u8> before(r.memory.data(), r.memory.data() + size);
	edu::edu_dma raw(r.eng->transport());

	assert_int_equal(raw.start(), 0);
	assert_int_equal(raw.to_host(0, unmapped, 64), 0); /* edu does not report the failure */
	assert_memory_equal(before.data(), r.memory.data(), size);
}

static void test_reset_between_transfers(void **)
{
	rig r;

	for (unsigned i = 0; i < 2; i++) {
		assert_true(r.run({.op = opcode::fill, .spaces = in, .arg = 8, .dst = base, .len = 512, .a = i}));
		assert_int_equal(r.eng->reset(), 0);
		assert_int_equal(r.ch->ops->restart(r.ch), 0);
		assert_true(r.run({.op = opcode::copy, .spaces = in, .src = where, .dst = base, .len = 64}));
	}
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_opens_once),
		cmocka_unit_test(test_interrupts_are_counted),
		cmocka_unit_test(test_unmapped_address_is_an_error),
		cmocka_unit_test(test_iommu_blocks_unmapped_write),
		cmocka_unit_test(test_reset_between_transfers),
	};

	return cmocka_run_group_tests_name("edu-kernel", tests, nullptr, nullptr);
}
