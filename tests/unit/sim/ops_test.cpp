/* SPDX-License-Identifier: BSD-3-Clause */
/* Every operation with random addresses and lengths, on each kind of host memory, against a simple reference. */
#include "tests/unit/sim/rig.h"

#include <algorithm>

using namespace usdma;
using namespace usdma::test;

static constexpr u64 iova = 0x10000000, host_size = 2 * MiB, dev_size = 2 * MiB;

/*
 * Host memory in two adjacent mappings, so that many accesses cross the border; host and dev have the expected
 * contents.
 */
struct world {
	explicit world(reach how, u64 stream) : r(rig::small(), how), gen(rng(stream)), ch(r, 0)
	{
		low = r.make(iova, host_size / 2);
		high = r.make(iova + host_size / 2, host_size / 2);
		host.resize(host_size);
		dev.resize(dev_size);
		fill_random(host.data(), host.size(), gen);
		fill_random(dev.data(), dev.size(), gen);
		memcpy(low.data, host.data(), host_size / 2);
		memcpy(high.data, host.data() + host_size / 2, host_size / 2);
		memcpy(r.mem(), dev.data(), dev_size);
	}
	~world()
	{
		r.drop(low);
		r.drop(high);
	}

	std::vector<u8> &expect(space s) { return s == space::host ? host : dev; }
	u64 address(space s, u64 off) { return (s == space::host ? iova : mem_base) + off; }
	u64 pick(u64 below) { return std::uniform_int_distribution<u64>(0, below - 1)(gen); }
	space any_space() { return pick(2) ? space::host : space::device; }
	u64 any_len(u64 most) { return 1 + pick(pick(4) ? std::min<u64>(most, 300) : most); }
	/* Aligned to `align`; often across the border of the two mappings. */
	u64 any_offset(u64 len, u64 align = 1)
	{
		u64 off = pick(host_size - len);

		if (!pick(3) && len < host_size / 2)
			off = host_size / 2 - pick(len + 1);
		return std::min(off, host_size - len) / align * align;
	}
	void check()
	{
		assert_memory_equal(low.data, host.data(), host_size / 2);
		assert_memory_equal(high.data, host.data() + host_size / 2, host_size / 2);
		assert_memory_equal(r.mem(), dev.data(), dev_size);
	}

	rig r;
	std::mt19937_64 gen;
	chan ch;
	host_area low, high;
	std::vector<u8> host, dev;
};

static bool overlap(u64 a, u64 b, u64 len)
{
	return a < b + len && b < a + len;
}

static void one_copy(world &w)
{
	const space from = w.any_space(), to = w.any_space();
	const u64 len = w.any_len(600 * KiB), src = w.any_offset(len);
	u64 dst = w.any_offset(len);

	while (from == to && overlap(src, dst, len))
		dst = w.any_offset(len);
	assert_int_equal(w.ch.run(make_copy(from, w.address(from, src), to, w.address(to, dst), len)),
			 fault_reason::none);
	memcpy(&w.expect(to)[dst], &w.expect(from)[src], len);
}

static void one_2d(world &w)
{
	const u64 width = w.any_len(3000), height = 1 + w.pick(20);
	const u64 sp = width + w.pick(200), dp = width + w.pick(200), range = std::max(sp, dp) * height;
	const space from = w.any_space(), to = from == space::host ? space::device : space::host;
	const u64 src = w.any_offset(range), dst = w.any_offset(range);
	descriptor d = make_copy(from, w.address(from, src), to, w.address(to, dst), width);

	d.op = u8(opcode::copy_2d);
	d.height = u32(height);
	d.a = sp;
	d.b = dp;
	assert_int_equal(w.ch.run(d), fault_reason::none);
	for (u64 row = 0; row < height; row++)
		memcpy(&w.expect(to)[dst + row * dp], &w.expect(from)[src + row * sp], width);
}

static void one_fill(world &w)
{
	static constexpr u8 widths[] = {1, 4, 8};
	const u8 width = widths[w.pick(3)];
	const u64 len = w.any_len(500 * KiB / width) * width, dst = w.any_offset(len), pattern = w.gen();
	const space to = w.any_space();
	descriptor d = {};

	d.op = u8(opcode::fill);
	d.arg = width;
	d.spaces = dma::spaces(space::host, to);
	d.dst = w.address(to, dst);
	d.len = len;
	d.a = pattern;
	assert_int_equal(w.ch.run(d), fault_reason::none);
	for (u64 i = 0; i < len; i++)
		w.expect(to)[dst + i] = u8(pattern >> (i % width * 8));
}

static void put_device(world &w, u64 off, const void *p, u64 len)
{
	memcpy(w.r.mem() + off, p, len);
	memcpy(&w.dev[off], p, len);
}

static void one_indirect(world &w)
{
	const u64 len = w.any_len(300 * KiB), half = dev_size / 2;
	const u64 src = 4096 + w.pick(half - 4096 - len), dst = half + w.pick(half - len);
	const sdma::indirect_block b = {{0, 0}, 0, u32(len), mem_base + src, mem_base + dst};
	descriptor d = {};

	d.op = u8(opcode::copy_indirect);
	d.spaces = dma::spaces(space::device, space::device);
	if (w.pick(2)) {
		put_device(w, 64, &b, sizeof(b));
		d.src = mem_base + 64;
	} else {
		const u64 cells[2] = {mem_base + src - 1000, mem_base + dst - 77};

		put_device(w, 128, cells, sizeof(cells));
		d.arg = u8(dma::indirect_mode::cells);
		d.src = mem_base + 128;
		d.dst = mem_base + 136;
		d.a = 1000;
		d.b = 77;
		d.len = len;
	}
	assert_int_equal(w.ch.run(d), fault_reason::none);
	memmove(&w.dev[dst], &w.dev[src], len);
}

static void one_write(world &w)
{
	const space to = w.any_space();
	const u64 dst = w.any_offset(8, 8), v = w.gen();
	descriptor d = {};

	d.op = u8(opcode::write);
	d.spaces = dma::spaces(space::host, to);
	d.dst = w.address(to, dst);
	d.a = v;
	assert_int_equal(w.ch.run(d), fault_reason::none);
	memcpy(&w.expect(to)[dst], &v, 8);
}

static void one_reduce(world &w)
{
	const u64 len = w.any_len(20000) * 4, src = w.any_offset(len, 4), dst = w.any_offset(len, 4);
	const space from = w.any_space(), to = from == space::host ? space::device : space::host;
	descriptor d = make_copy(from, w.address(from, src), to, w.address(to, dst), len);

	d.op = u8(opcode::reduce);
	d.arg = dma::reduce_arg(dma::element::u32, dma::reduce_op::sum);
	assert_int_equal(w.ch.run(d), fault_reason::none);
	for (u64 i = 0; i < len; i += 4) {
		u32 a, b;

		memcpy(&a, &w.expect(to)[dst + i], 4);
		memcpy(&b, &w.expect(from)[src + i], 4);
		a += b;
		memcpy(&w.expect(to)[dst + i], &a, 4);
	}
}

static void all_ops(reach how, u64 stream)
{
	static constexpr void (*ops[])(world &) = {one_copy, one_2d, one_fill, one_indirect, one_write, one_reduce};
	world w(how, stream);
	const unsigned rounds = (w.r.how == reach::messages ? 60 : 200) * scale();

	for (unsigned i = 0; i < rounds; i++) {
		ops[w.pick(std::size(ops))](w);
		if (i % 20 == 0)
			w.check();
	}
	w.check();
}

static void test_ops_shared(void **)
{
	all_ops(reach::shared, 1);
}

static void test_ops_file(void **)
{
	all_ops(reach::file, 2);
}

static void test_ops_messages(void **)
{
	all_ops(reach::messages, 3);
}

static void test_timestamp(void **)
{
	world w(reach::file, 4);
	descriptor d = {};
	u64 t;

	d.op = u8(opcode::timestamp);
	d.spaces = dma::spaces(space::host, space::device);
	d.dst = mem_base + 8;
	const u64 before = now_ns();
	assert_int_equal(w.ch.run(d), fault_reason::none);
	memcpy(&t, w.r.mem() + 8, 8);
	assert_in_range(t, before, now_ns());
}

/* Many copies in flight on a ring that wraps often, with sequence numbers from just below 2^32. */
static void test_pipeline(void **)
{
	rig r;
	chan ch(r, 3, 4, 0xfffffff0);
	host_area a = r.make(iova, MiB);
	auto gen = rng(5);
	const unsigned total = 20000;

	fill_random(a.data, MiB, gen);
	for (unsigned n = 0; n < total; n++) {
		while (ch.posted - ch.completed() >= ch.size)
			ch.wake();
		descriptor d = make_copy(space::host, iova + n % 8192 * 64, space::device, mem_base + n % 8192 * 64,
					 64);
		d.flags = n % 7 ? 0 : dma::flag_complete | dma::flag_fence;
		ch.put_ready(d);
	}
	assert_true(ch.done(ch.posted));
	assert_memory_equal(r.mem(), a.data, 8192 * 64);
	assert_int_equal(ch.completed(), 0xfffffff0 + u64(total));
	r.drop(a);
}

static void test_all_channels(void **)
{
	rig r;
	host_area a = r.make(iova, MiB);
	std::vector<std::unique_ptr<chan>> chs;
	auto gen = rng(6);

	fill_random(a.data, MiB, gen);
	for (u32 i = 0; i < 8; i++)
		chs.push_back(std::make_unique<chan>(r, i));
	for (unsigned round = 0; round < 32; round++)
		for (u32 i = 0; i < 8; i++) {
			const u64 off = i * 128 * KiB + round * 4096;

			chs[i]->put_ready(make_copy(space::host, iova + off, space::device, mem_base + off, 4096));
		}
	for (auto &c : chs)
		assert_true(c->done(c->posted));
	assert_memory_equal(r.mem(), a.data, MiB);
	chs.clear();
	r.drop(a);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_ops_shared), cmocka_unit_test(test_ops_file), cmocka_unit_test(test_ops_messages),
		cmocka_unit_test(test_timestamp),  cmocka_unit_test(test_pipeline), cmocka_unit_test(test_all_channels),
	};

	return cmocka_run_group_tests_name("sim_ops", tests, nullptr, nullptr);
}
