/* SPDX-License-Identifier: BSD-3-Clause */
/* Every fault reason: a failed descriptor writes nothing, and other channels are not affected. */
#include "tests/support/sanitizer.h"
#include "tests/unit/sim/rig.h"

#include "driver/sim/bus_error.h"

#include <algorithm>
#include <fstream>
#include <iterator>

TEST_TSAN_SUPPRESSIONS(TEST_UNORDERED_COPIES)

using namespace usdma;
using namespace usdma::test;

static constexpr u64 iova = 0x10000000, size = 64 * KiB;

struct bench {
	explicit bench(reach how = reach::file) : r(rig::small(), how), ch(r, 0)
	{
		rw = r.make(iova, size);
		ro = r.make(iova + size, size, vfio::dma_read);
		wo = r.make(iova + 2 * size, size, vfio::dma_write);
	}
	~bench()
	{
		r.drop(rw);
		r.drop(ro);
		r.drop(wo);
	}
	void expect(const descriptor &d, fault_reason want, u64 address)
	{
		/* The record retains the address after run has resumed. */
		assert_int_equal(ch.run(d), want);
		if (want != fault_reason::none)
			assert_int_equal(ch.status->record.fault_address, address);
	}

	rig r;
	chan ch;
	host_area rw, ro, wo;
};

/* The number of mappings of this process. */
static size_t mappings()
{
	std::ifstream in("/proc/self/maps");

	return size_t(std::count(std::istreambuf_iterator<char>(in), {}, '\n'));
}

static descriptor with(opcode op, descriptor d)
{
	d.op = u8(op);
	return d;
}

static descriptor host_to_host(u64 src, u64 dst, u64 len)
{
	return make_copy(space::host, src, space::host, dst, len);
}

static void test_addresses(void **)
{
	static constexpr u64 end = iova + 3 * size;
	bench b;
	const u64 mem_end = mem_base + b.r.mem_size;

	b.expect(host_to_host(end, iova, 64), fault_reason::src_unmapped, end);
	b.expect(host_to_host(iova, end, 64), fault_reason::dst_unmapped, end);
	b.expect(host_to_host(iova - 1, iova + 4096, 64), fault_reason::src_unmapped, iova - 1);
	b.expect(host_to_host(~u64(0) - 3, iova, 64), fault_reason::src_unmapped, ~u64(0) - 3);
	b.expect(host_to_host(iova, ~u64(0) - 3, 4 * MiB), fault_reason::src_denied, iova + 2 * size);
	b.expect(host_to_host(iova + 2 * size, iova, 64), fault_reason::src_denied, iova + 2 * size);
	b.expect(host_to_host(iova, iova + size, 64), fault_reason::dst_denied, iova + size);
	/* The fault address is the first invalid byte, not the start of the range. */
	b.expect(host_to_host(iova + 2 * size - 32, iova, 64), fault_reason::src_denied, iova + 2 * size);
	b.expect(host_to_host(iova + 64, iova + size - 32, 64), fault_reason::dst_denied, iova + size);
	b.expect(make_copy(space::device, mem_base - 1, space::host, iova, 8), fault_reason::src_unmapped,
		 mem_base - 1);
	b.expect(make_copy(space::device, mem_end - 4, space::host, iova, 8), fault_reason::src_unmapped, mem_end);
	b.expect(make_copy(space::host, iova, space::device, mem_end - 4, 8), fault_reason::dst_unmapped, mem_end);
	b.expect(make_copy(space::host, iova, space::device, mem_end - 4, 4), fault_reason::none, 0);
}

/* If a later byte is out of bounds, nothing is written at all. */
static void test_checked_before_touched(void **)
{
	bench b;

	memset(b.rw.data, 0x11, size);
	memset(b.r.mem(), 0x22, b.r.mem_size);
	b.expect(make_copy(space::device, mem_base, space::host, iova + 4096, size), fault_reason::dst_denied,
		 iova + size);
	descriptor fill = with(opcode::fill, make_copy(space::host, 0, space::host, iova + 8, 2 * size));
	fill.arg = 8;
	b.expect(fill, fault_reason::dst_denied, iova + size);
	for (u64 i = 0; i < size; i++)
		assert_int_equal(b.rw.data[i], 0x11);
}

static void test_arguments(void **)
{
	bench b;
	descriptor d = host_to_host(iova, iova + 4096, 0);

	b.expect(d, fault_reason::bad_length, 0);
	d.len = 4 * GiB + 1;
	b.expect(d, fault_reason::bad_length, 0);
	d.len = 64;
	b.expect(with(opcode::op_count, d), fault_reason::bad_op, 0);
	b.expect(with(opcode(255), d), fault_reason::bad_op, 0);
	d.reserved = 1;
	b.expect(d, fault_reason::bad_op, 0);
	d.reserved = 0;
	d.flags = 16;
	b.expect(d, fault_reason::bad_op, 0);
	d.flags = 0;
	d.spaces = 2;
	b.expect(d, fault_reason::bad_op, 0);
	d.spaces = 0x20;
	b.expect(d, fault_reason::bad_op, 0);
}

/* The doorbell covers a descriptor that was never written. */
static void test_bad_tag(void **)
{
	bench b;

	b.ch.posted++;
	b.ch.ring_doorbell();
	assert_true(b.ch.halted());
	assert_int_equal(b.ch.status->record.reason, u32(fault_reason::bad_tag));
	assert_int_equal(b.ch.status->record.fault_seq, 1);
	b.ch.command(sdma::chan_cmd_resume);
	b.expect(host_to_host(iova, iova + 4096, 64), fault_reason::none, 0);
}

/* One channel fails repeatedly while others, on the same engine and on another, copy. */
static void test_other_channels(void **)
{
	bench b;
	chan same(b.r, 2), other(b.r, 1);

	for (unsigned i = 0; i < 50; i++) {
		same.put_ready(host_to_host(iova, iova + 4096, 64));
		other.put_ready(host_to_host(iova, iova + 8192, 64));
		b.expect(host_to_host(0, iova, 64), fault_reason::src_unmapped, 0);
	}
	assert_true(same.done(50));
	assert_true(other.done(50));
	assert_int_equal(same.status->record.state, dma::state_running);
}

/* Faults injected by the test: a fault, a hang, lost interrupts and a refused mapping. */
struct injected_faults final : sim::faults {
	fault_reason descriptor(u32, u64 seq, u64, u64 *address) override
	{
		*address = 0x1234;
		return seq == 2 ? fault_reason::injected : fault_reason::none;
	}
	bool hang(u32, u64 seq) override { return seq == 4 && load_acquire(&hung); }
	bool drop_interrupt(u32) override { return true; }
	int refuse_map(u64 at, u64) override { return at == 0x5000 ? ENOMEM : 0; }

	u32 hung = 1;
};

static void test_injected_faults(void **)
{
	injected_faults f;
	rig r(rig::small(), reach::file, &f);
	chan ch(r, 0);
	vfio::dma_area refused;
	u64 page[1024];

	assert_int_equal(ch.run({}), fault_reason::none);
	assert_int_equal(ch.run({}), fault_reason::injected);
	assert_int_equal(ch.status->record.fault_address, 0x1234);
	assert_int_equal(ch.run({}), fault_reason::none);
	ch.put_ready({});
	assert_int_equal(ch.state(), sdma::chan_state_running);
	assert_int_equal(ch.completed(), 3);
	store_release(&f.hung, 0u);
	assert_true(ch.done(4));
	refused.iova = 0x5000;
	refused.size = 4096;
	refused.vaddr = reinterpret_cast<void *>(align_down(u64(page) + 4095, u64(4096)));
	assert_int_equal(r.dev->dma_map(refused), -ENOMEM);
}

/* Access rights are also checked for memory that is reached by messages. */
static void test_remote_access_rights(void **)
{
	bench b(reach::messages);

	b.expect(host_to_host(iova, iova + 4096, 512), fault_reason::none, 0);
	b.expect(host_to_host(iova + size, iova + 2 * size, 512), fault_reason::none, 0);
	b.expect(host_to_host(iova + 2 * size, iova, 512), fault_reason::src_denied, iova + 2 * size);
}

static void truncate_ring(chan &ch)
{
	const deadline until = deadline::in_ms(wait_ms);

	assert_int_equal(ftruncate(ch.area.fd.get(), 0), 0);
	ch.r.write32(sdma::chan_ctrl(ch.index) + sdma::chan_wake, 1);
	while (ch.state() != sdma::chan_state_error && !until.passed())
		sched_yield();
	assert_int_equal(ch.state(), sdma::chan_state_error);
}

/* If a client truncates its file, accesses to that file fail until it is mapped again; nothing else fails. */
static void test_truncated_file(void **)
{
	bench b(reach::file);
	chan other(b.r, 1);

	assert_int_equal(sim::guard_bus_errors(), 0);
	assert_int_equal(ftruncate(b.rw.fd.get(), 4096), 0);
	b.expect(make_copy(space::host, iova + 8192, space::device, mem_base, 4096), fault_reason::transfer, mem_base);
	b.expect(make_copy(space::device, mem_base, space::host, iova + 8192, 64), fault_reason::transfer, iova + 8192);
	/* A device behind the model reads the file as it is at the time. */
	if (b.r.behind)
		return;
	/* Accesses fail at any offset, also after the file has grown again. */
	assert_int_equal(ftruncate(b.rw.fd.get(), size), 0);
	b.expect(make_copy(space::host, iova + 8192, space::device, mem_base, 4096), fault_reason::transfer,
		 iova + 8192);
	b.expect(make_copy(space::host, iova, space::device, mem_base, 64), fault_reason::transfer, iova);
	b.expect(with(opcode::write, make_copy(space::host, 0, space::host, iova + 4096, 0)), fault_reason::transfer,
		 iova + 4096);
	assert_int_equal(other.run(make_copy(space::device, mem_base, space::device, mem_base + 8192, 64)),
			 fault_reason::none);
	b.expect(make_copy(space::host, iova + size, space::device, mem_base, 64), fault_reason::none, 0);
	/* A truncated ring puts its channel in error. */
	if (!b.r.remote_rings)
		truncate_ring(other);
	b.expect(make_copy(space::device, mem_base, space::host, iova + 2 * size, 64), fault_reason::none, 0);
	/* Mapped again, it works. */
	assert_int_equal(b.r.dev->dma_unmap(iova, size), 0);
	vfio::dma_area again;
	again.iova = iova;
	again.size = size;
	again.vaddr = b.rw.data;
	again.fd = b.rw.fd.get();
	assert_int_equal(b.r.dev->dma_map(again), 0);
	b.expect(make_copy(space::host, iova + 8192, space::device, mem_base, 4096), fault_reason::none, 0);
}

/* A descriptor over a truncated area and an intact one fails; one in the intact area does not. */
static void test_partly_truncated_range(void **)
{
	static constexpr u64 half = 256 * KiB, at = u64(1) << 36; /* a slice */
	bench b(reach::file);
	host_area truncated = b.r.make(at, half), intact = b.r.make(at + half, half);
	descriptor rows = with(opcode::copy_2d, make_copy(space::host, at + half - 4096, space::device, mem_base, 64));

	assert_int_equal(sim::guard_bus_errors(), 0);
	rows.height = 4;
	rows.a = rows.b = 4096;
	assert_int_equal(b.ch.run(rows), fault_reason::none);
	assert_int_equal(ftruncate(truncated.fd.get(), 0), 0);
	assert_int_equal(b.ch.run(make_copy(space::host, at, space::device, mem_base, 2 * half)),
			 fault_reason::transfer);
	assert_int_equal(b.ch.run(make_copy(space::host, at + half, space::device, mem_base, half)),
			 fault_reason::none);
	assert_int_equal(b.ch.run(rows), fault_reason::transfer);
	b.r.drop(truncated);
	truncated = b.r.make(at, half);
	assert_int_equal(b.ch.run(rows), fault_reason::none);
	assert_int_equal(ftruncate(truncated.fd.get(), 0), 0);
	assert_int_equal(b.ch.run(rows), fault_reason::transfer);
	b.r.drop(truncated);
	b.r.drop(intact);
}

/* One descriptor over very many truncated pages: the server replaces the mapping once, not for each page. */
static void test_many_truncated_pages(void **)
{
	static constexpr u64 large = 256 * MiB;
	bench b(reach::file);
	host_area a = b.r.make(u64(1) << 36, large);
	descriptor d = with(opcode::copy_2d, make_copy(space::host, u64(1) << 36, space::device, mem_base, 1));

	assert_int_equal(sim::guard_bus_errors(), 0);
	memset(b.r.mem(), 0x3c, 4096);
	d.height = u32(large / 8192);
	d.a = 8192;
	d.b = 16;
	const size_t before = mappings();
	assert_int_equal(ftruncate(a.fd.get(), 0), 0);
	assert_int_equal(b.ch.run(d), fault_reason::transfer);
	assert_int_equal(b.ch.run(d), fault_reason::transfer);
	assert_in_range(mappings(), 0, before + 8);
	/* Other mappings of this process are unchanged. */
	b.expect(host_to_host(iova, iova + 4096, 64), fault_reason::none, 0);
	for (unsigned i = 1; i < 16; i++)
		assert_int_equal(b.r.mem()[i], 0x3c);
	b.r.drop(a);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_checked_before_touched),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_bad_tag),
		cmocka_unit_test(test_other_channels),
		cmocka_unit_test(test_injected_faults),
		cmocka_unit_test(test_remote_access_rights),
		cmocka_unit_test(test_truncated_file),
		cmocka_unit_test(test_partly_truncated_range),
		cmocka_unit_test(test_many_truncated_pages),
	};

	return cmocka_run_group_tests_name("sim_faults", tests, nullptr, nullptr);
}
