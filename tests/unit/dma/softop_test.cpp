/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each operation and each of its checks (docs/hardware.md), on two backends: one whose memory the CPU accesses
 * directly, in pieces, and one that is accessed only through buffers.
 */
#include "tests/support/test.h"

#include "driver/base/clock.h"
#include "driver/dma/softop.h"

#include <algorithm>
#include <cstring>
#include <vector>

using namespace usdma;
using namespace usdma::dma;
using softop::end;
using softop::result;

static constexpr u64 host = 0x10000, device = 0x800000, size = 32 * KiB;
static constexpr u64 read_only = host + size - 4 * KiB, write_only = host + size - 2 * KiB, host_end = host + size;
static constexpr u8 in_host = 0, to_device = spaces(space::host, space::device),
		    in_device = spaces(space::device, space::device);
static constexpr softop::bounds small = {16 * KiB, 1000, 3, 512};

/* Host memory whose last pages are read-only or write-only, and device memory; in pieces of 1 KiB. */
class bench final : public softop::backend {
public:
	explicit bench(bool touched)
		: backend(small), touched_(touched), memory_{std::vector<u8>(size), std::vector<u8>(size)}
	{
	}

	result fail(fault_reason why, u64 address) override
	{
		reason = why;
		at = address;
		return result::fault;
	}
	bool check(const end &e, u64 len) override { return checked_bytes += len, walk(e, len); }
	bool translate(const end &e, u64 len, softop::piece *out) override
	{
		if (!walk(e, 1))
			return false;
		const u64 here = std::min(len, KiB - e.addr % KiB);
		*out = {touched_ ? byte(e.space, e.addr) : nullptr, here};
		return true;
	}
	result get_piece(const end &src, void *buf, u64 len) override
	{
		memcpy(buf, byte(src.space, src.addr), len);
		return result::done;
	}
	result put_piece(const end &dst, const void *buf, u64 len, bool) override
	{
		if (puts_left && !--puts_left)
			return result::stopped;
		memcpy(byte(dst.space, dst.addr), buf, len);
		return result::done;
	}
	u8 *buffer(unsigned which) override { return no_memory ? nullptr : buffers_[which]; }
	bool step(u64 n, bool) override
	{
		moved += n;
		assert_true(n <= small.slice);
		return steps_left && --steps_left;
	}
	bool step_once(u64 n, bool last) override { return step(n, last) || (last && !stops_at_end); }
	void save_progress(u64 done) override { retained_bytes = done; }
	u64 saved_progress() override { return retained_bytes; }
	u64 wait_until(u32 limit_ms) override { return limit_ms ? 1 : ~u64(0); }
	result pause(u64) override
	{
		if (on_pause == result::done)
			store(host, wanted);
		return on_pause;
	}

	void scramble()
	{
		auto gen = test::rng(1);

		for (std::vector<u8> &m : memory_)
			test::fill_random(m.data(), m.size(), gen);
	}
	u8 *byte(dma::space s, u64 addr)
	{
		const bool own = s == space::device;

		return memory_[own].data() + (addr - (own ? device : host));
	}
	void store(u64 addr, u64 v) { memcpy(byte(addr >= device ? space::device : space::host, addr), &v, 8); }
	u64 load(u64 addr)
	{
		u64 v;

		memcpy(&v, byte(addr >= device ? space::device : space::host, addr), 8);
		return v;
	}
	void expect(const request &r, fault_reason why, u64 address)
	{
		const std::vector<u8> before[2] = {memory_[0], memory_[1]};

		reason = fault_reason::none;
		assert_int_equal(int(softop::run(*this, r)),
				 int(why == fault_reason::none ? result::done : result::fault));
		assert_int_equal(u32(reason), u32(why));
		if (why == fault_reason::none)
			return;
		assert_int_equal(at, address);
		assert_true(memory_[0] == before[0] && memory_[1] == before[1]);
	}
	void right(const request &r) { expect(r, fault_reason::none, 0); }

	fault_reason reason = fault_reason::none;
	u64 at = 0, moved = 0, retained_bytes = 0, checked_bytes = 0, wanted = 0;
	u32 steps_left = ~0u; /* pieces until a stop */
	u32 puts_left = 0;
	bool no_memory = false, stops_at_end = false;
	result on_pause = result::blocked;

private:
	bool lacks(const end &e, u64 addr)
	{
		const bool src = e.rights == softop::may_read;
		const u64 base = e.space == space::device ? device : host;

		if (addr - base >= size)
			fail(src ? fault_reason::src_unmapped : fault_reason::dst_unmapped, addr);
		else if (e.space == space::host && addr >= write_only && e.rights & softop::may_read)
			fail(src ? fault_reason::src_denied : fault_reason::dst_denied, addr);
		else if (e.space == space::host && addr >= read_only && addr < write_only &&
			 e.rights & softop::may_write)
			fail(src ? fault_reason::src_denied : fault_reason::dst_denied, addr);
		else
			return false;
		return true;
	}
	bool walk(const end &e, u64 len)
	{
		for (u64 i = 0; i < len; i++)
			if (lacks(e, e.addr + i))
				return false;
		return true;
	}

	bool touched_;
	std::vector<u8> memory_[2];
	alignas(8) u8 buffers_[2][small.buffer];
};

/* Runs a test on both kinds of backend. */
template <void (*body)(bench &)> static void both(void **)
{
	for (bool touched : {true, false}) {
		bench b(touched);

		b.scramble();
		body(b);
	}
}

/* ---- checks ---------------------------------------------------------------------------------------- */

static void check_any(bench &b)
{
	const request good = {.op = opcode::copy, .spaces = to_device, .src = host, .dst = device, .len = 8};
	request r = good;

	b.right(r);
	r.op = opcode::op_count;
	b.expect(r, fault_reason::bad_op, 0);
	r.op = opcode(255);
	b.expect(r, fault_reason::bad_op, 0);
	r = good;
	r.flags = 16;
	b.expect(r, fault_reason::bad_op, 0);
	r.flags = valid_flags;
	b.right(r);
	for (u8 bad : {0x02, 0x20, 0x80}) {
		r.spaces = bad;
		b.expect(r, fault_reason::bad_op, 0);
	}
	b.right({.op = opcode::nop, .arg = 0xff, .src = 1, .dst = 1, .len = ~u64(0)});
}

static void check_copy(bench &b)
{
	request r = {.op = opcode::copy, .spaces = to_device, .src = host, .dst = device, .len = 0};

	b.expect(r, fault_reason::bad_length, 0);
	r.len = small.max_len + 1;
	b.expect(r, fault_reason::bad_length, 0);
	r.len = small.max_len;
	b.right(r);
	r.len = 64;
	r.src = host - 1;
	b.expect(r, fault_reason::src_unmapped, host - 1);
	r.src = write_only - 32;
	b.expect(r, fault_reason::src_denied, write_only);
	r.src = read_only;
	b.right(r);
	r.dst = device + size - 32;
	b.expect(r, fault_reason::dst_unmapped, device + size);
	/* The source is checked first. */
	r.src = 0;
	b.expect(r, fault_reason::src_unmapped, 0);
	b.expect({.op = opcode::copy, .src = host, .dst = read_only - 32, .len = 64}, fault_reason::dst_denied,
		 read_only);
}

static void check_2d(bench &b)
{
	const request good = {.op = opcode::copy_2d,
			      .spaces = to_device,
			      .height = 4,
			      .src = host,
			      .dst = device,
			      .len = 64,
			      .a = 64,
			      .b = 100};
	request r = good;

	b.right(r);
	r.height = 0;
	b.expect(r, fault_reason::bad_length, 0);
	r = good;
	r.len = 0;
	b.expect(r, fault_reason::bad_length, 0);
	r.len = small.max_len / 4 + 1;
	r.a = r.b = r.len;
	b.expect(r, fault_reason::bad_length, 0);
	r = good;
	r.height = 1u << 31;
	r.len = u64(1) << 34;
	b.expect(r, fault_reason::bad_length, 0);
	r = good;
	r.a = 63;
	b.expect(r, fault_reason::bad_length, 0);
	r.height = 1; /* the pitch is not used */
	b.right(r);
	r = good;
	r.b = 63;
	b.expect(r, fault_reason::bad_length, 0);
	r.b = ~u64(0) / 2;
	b.expect(r, fault_reason::bad_length, 0);
	r = good;
	r.a = size;
	b.expect(r, fault_reason::src_denied, write_only);
	r = good;
	r.b = size / 3;
	b.expect(r, fault_reason::dst_unmapped, device + size);
}

static void check_fill(bench &b)
{
	request r = {.op = opcode::fill, .arg = 4, .dst = host, .len = 12};

	b.right(r);
	for (u8 width : {0, 2, 3, 16}) {
		r.arg = width;
		b.expect(r, fault_reason::bad_op, 0);
	}
	r.arg = 8;
	b.expect(r, fault_reason::bad_length, 0);
	r.len = 0;
	b.expect(r, fault_reason::bad_length, 0);
	r.len = small.max_len + 8;
	b.expect(r, fault_reason::bad_length, 0);
	r.len = 16;
	r.dst = read_only - 8;
	b.expect(r, fault_reason::dst_denied, read_only);
	r.dst = host_end;
	b.expect(r, fault_reason::dst_unmapped, host_end);
}

static void check_block(bench &b)
{
	request r = {.op = opcode::copy_indirect, .spaces = in_device, .arg = 4, .src = device};

	b.expect(r, fault_reason::bad_op, 0);
	r.arg = 0;
	r.src = device + 4;
	b.expect(r, fault_reason::unaligned, r.src);
	r.dst = 4; /* not used */
	r.src = device + size - 24;
	b.expect(r, fault_reason::src_unmapped, device + size);
	r.src = device + 64;
	indirect_block i = {{}, 0, 0, device + 4096, device + 8192};
	const auto says = [&](fault_reason why, u64 address) {
		memcpy(b.byte(space::device, r.src), &i, sizeof(i));
		b.expect(r, why, address);
	};

	says(fault_reason::bad_length, r.src);
	i.len = 64;
	says(fault_reason::none, 0);
	i.len_high = 1;
	says(fault_reason::bad_length, r.src);
	i.len_high = 0;
	i.src = host;
	says(fault_reason::src_unmapped, host);
	r.arg = indirect_host;
	says(fault_reason::dst_unmapped, device + 8192);
	i.dst = read_only;
	says(fault_reason::dst_denied, read_only);
	i.dst = host + 4096;
	says(fault_reason::none, 0);
}

static void check_cells(bench &b)
{
	const request good = {.op = opcode::copy_indirect,
			      .spaces = in_device,
			      .arg = 1,
			      .src = device,
			      .dst = device + 8,
			      .len = 64,
			      .a = 8,
			      .b = 16};
	request r = good;

	b.store(device, device + 4096);
	b.store(device + 8, device + 8192);
	b.right(r);
	r.src = device + 4;
	r.dst = device + 4;
	b.expect(r, fault_reason::unaligned, r.src);
	r.src = device;
	b.expect(r, fault_reason::unaligned, r.dst);
	r.dst = device + size;
	b.expect(r, fault_reason::src_unmapped, r.dst);
	r = good;
	r.len = small.max_len + 1;
	b.expect(r, fault_reason::bad_length, r.src);
	r = good;
	r.b = size;
	b.expect(r, fault_reason::dst_unmapped, device + 8192 + size);
	r = good;
	r.spaces = in_host;
	r.src = read_only;
	r.dst = write_only;
	b.expect(r, fault_reason::src_denied, write_only);
}

static void check_words(bench &b)
{
	for (opcode op : {opcode::write, opcode::timestamp}) {
		b.expect({.op = op, .dst = host + 4}, fault_reason::unaligned, host + 4);
		b.expect({.op = op, .dst = read_only}, fault_reason::dst_denied, read_only);
		b.expect({.op = op, .dst = host_end}, fault_reason::dst_unmapped, host_end);
		b.right({.op = op, .dst = write_only});
	}
	request r = {.op = opcode::wait, .arg = u8(compare::nor) + 1, .src = host + 4};
	b.expect(r, fault_reason::bad_op, 0);
	r.arg = u8(compare::eq);
	b.expect(r, fault_reason::unaligned, r.src);
	r.src = write_only;
	b.expect(r, fault_reason::src_denied, r.src);
	r.src = host_end;
	b.expect(r, fault_reason::src_unmapped, r.src);
	r.arg = u8(compare::eq) | 0x40;
	b.expect(r, fault_reason::bad_op, 0);
	/* It writes as well. */
	r.arg = u8(compare::eq) | wait_take;
	b.expect(r, fault_reason::dst_unmapped, r.src);
	r.src = read_only;
	b.expect(r, fault_reason::dst_denied, r.src);
}

static void check_reduce(bench &b)
{
	const request good = {.op = opcode::reduce,
			      .arg = reduce_arg(element::u32, reduce_op::sum),
			      .src = host,
			      .dst = host + 4096,
			      .len = 8};
	request r = good;

	b.right(r);
	for (u8 bad : {reduce_arg(element::count, reduce_op::sum), reduce_arg(element::u32, reduce_op(5))}) {
		r.arg = bad;
		b.expect(r, fault_reason::bad_op, 0);
	}
	for (u64 bad : {u64(0), u64(6), small.max_len + 4}) {
		r = good;
		r.len = bad;
		b.expect(r, fault_reason::bad_length, 0);
	}
	r = good;
	r.dst += 2;
	b.expect(r, fault_reason::unaligned, r.dst);
	r.src += 2;
	b.expect(r, fault_reason::unaligned, r.src);
	r = good;
	r.src = write_only;
	b.expect(r, fault_reason::src_denied, r.src);
	/* The destination is read and written. */
	for (u64 bad : {read_only, write_only}) {
		r = good;
		r.dst = bad;
		b.expect(r, fault_reason::dst_denied, bad);
	}
}

/* ---- operations ------------------------------------------------------------------------------------ */

static void does_copy(bench &b)
{
	const u64 src = host + 11, dst = device + 1021, len = 5000;

	b.right({.op = opcode::copy, .spaces = to_device, .src = src, .dst = dst, .len = len});
	assert_memory_equal(b.byte(space::host, src), b.byte(space::device, dst), len);
	assert_int_equal(b.moved, len);
}

static void does_2d(bench &b)
{
	const std::vector<u8> before(b.byte(space::device, device), b.byte(space::device, device) + size);
	const request r = {.op = opcode::copy_2d,
			   .spaces = to_device,
			   .height = 20,
			   .src = host + 3,
			   .dst = device + 5,
			   .len = 300,
			   .a = 700,
			   .b = 900};

	b.right(r);
	for (u64 i = 0; i < size; i++) {
		const u64 off = i - 5, row = off / r.b, in = off % r.b;
		const bool hit = i >= 5 && row < r.height && in < r.len;

		assert_int_equal(b.byte(space::device, device)[i],
				 hit ? b.byte(space::host, r.src)[row * r.a + in] : before[i]);
	}
	assert_int_equal(b.moved, 20 * 300);
}

static void does_fill(bench &b)
{
	const u64 a = 0x1122334455667788;

	for (u8 width : {1, 4, 8}) {
		const request r = {.op = opcode::fill, .arg = width, .dst = host + 3, .len = 9000, .a = a};
		const u8 guards[2] = {*b.byte(space::host, r.dst - 1), *b.byte(space::host, r.dst + r.len)};

		b.right(r);
		for (u64 i = 0; i < r.len; i++)
			assert_int_equal(*b.byte(space::host, r.dst + i), u8(a >> i % width * 8));
		assert_int_equal(*b.byte(space::host, r.dst - 1), guards[0]);
		assert_int_equal(*b.byte(space::host, r.dst + r.len), guards[1]);
	}
}

static void does_indirect(bench &b)
{
	const indirect_block i = {{}, 0, 3000, device + 4100, device + 12000};

	/* The block crosses the end of a piece. */
	memcpy(b.byte(space::host, host + KiB - 16), &i, sizeof(i));
	b.right({.op = opcode::copy_indirect, .src = host + KiB - 16});
	assert_memory_equal(b.byte(space::device, i.src), b.byte(space::device, i.dst), 3000);
	b.store(host, host + 100);
	b.store(device + 8, host + 8000);
	b.right({.op = opcode::copy_indirect,
		 .spaces = to_device,
		 .arg = u8(u8(indirect_mode::cells) | indirect_host),
		 .src = host,
		 .dst = device + 8,
		 .len = 2000,
		 .a = 28,
		 .b = 7});
	assert_memory_equal(b.byte(space::host, host + 128), b.byte(space::host, host + 8007), 2000);
}

static void does_words(bench &b)
{
	const u64 before = now_ns();

	b.right({.op = opcode::write, .spaces = to_device, .dst = device + 16, .a = 99});
	assert_int_equal(b.load(device + 16), 99);
	b.right({.op = opcode::timestamp, .dst = host + 8});
	assert_true(b.load(host + 8) >= before && b.load(host + 8) <= now_ns());
}

static void does_wait(bench &b)
{
	const request r = {.op = opcode::wait, .arg = u8(compare::eq), .src = host, .a = 7};

	b.store(host, 6);
	assert_int_equal(int(softop::run(b, r)), int(result::blocked));
	b.on_pause = result::stopped;
	assert_int_equal(int(softop::run(b, r)), int(result::stopped));
	b.on_pause = result::done;
	b.wanted = 7;
	b.right(r);
	assert_int_equal(b.load(host), 7);
	b.store(host, 6);
	b.expect({.op = opcode::wait, .arg = u8(compare::eq), .height = 1, .src = host, .a = 7}, fault_reason::timeout,
		 host);
	/* If the condition holds already, the limit is not checked. */
	b.right({.op = opcode::wait, .arg = u8(compare::geq), .height = 1, .src = host, .a = 5});
}

static void takes_the_word(bench &b)
{
	const request r = {.op = opcode::wait, .arg = u8(compare::eq) | wait_take | wait_reported, .src = host, .a = 7};

	b.store(host, 6);
	assert_int_equal(int(softop::run(b, r)), int(result::blocked));
	assert_int_equal(b.load(host), 6);
	b.store(host, 7);
	b.right(r);
	assert_int_equal(b.load(host), 0);
	assert_int_equal(int(softop::run(b, r)), int(result::blocked));
}

static u32 element_at(bench &b, u64 addr)
{
	u32 v;

	memcpy(&v, b.byte(space::host, addr), sizeof(v));
	return v;
}

static std::vector<u32> elements(bench &b, u64 addr, u64 len)
{
	std::vector<u32> v;

	for (u64 i = 0; i < len; i += 4)
		v.push_back(element_at(b, addr + i));
	return v;
}

static const request sum = {.op = opcode::reduce,
			    .arg = reduce_arg(element::u32, reduce_op::sum),
			    .src = host + 4,
			    .dst = host + 8200,
			    .len = 5000};

static void expect_sums(bench &b, const std::vector<u32> &add, const std::vector<u32> &old)
{
	for (u64 i = 0; i < add.size(); i++)
		assert_int_equal(element_at(b, sum.dst + i * 4), u32(add[i] + old[i]));
}

static void does_reduce(bench &b)
{
	const std::vector<u32> add = elements(b, sum.src, sum.len), old = elements(b, sum.dst, sum.len);

	b.right(sum);
	expect_sums(b, add, old);
	assert_int_equal(b.moved, sum.len);
}

/* ---- stopped ---------------------------------------------------------------------------------------- */

/* Stopped after each piece, also the last: each element is reduced once. */
static void reduces_once(bench &b)
{
	const std::vector<u32> add = elements(b, sum.src, sum.len), old = elements(b, sum.dst, sum.len);
	unsigned stops = 0;
	result got;

	b.stops_at_end = true;
	do {
		b.steps_left = 1;
		got = softop::run(b, sum);
	} while (got == result::stopped && ++stops < 100);
	assert_int_equal(int(got), int(result::done));
	assert_true(stops >= sum.len / small.buffer);
	assert_int_equal(b.retained_bytes, sum.len);
	expect_sums(b, add, old);
}

/* Stopped before a piece is stored from the buffer: the piece is reduced again. */
static void reduces_from_buffers_once(void **)
{
	bench b(false);
	std::vector<u32> add, old;

	b.scramble();
	add = elements(b, sum.src, sum.len);
	old = elements(b, sum.dst, sum.len);
	b.puts_left = 4;
	assert_int_equal(int(softop::run(b, sum)), int(result::stopped));
	assert_true(b.retained_bytes && b.retained_bytes < sum.len);
	b.right(sum);
	expect_sums(b, add, old);
}

static void stops_early(bench &b)
{
	const request work[] = {
		{.op = opcode::copy, .src = host, .dst = host + 8192, .len = 4000},
		{.op = opcode::copy_2d, .height = 40, .src = host, .dst = host + 8192, .len = 100, .a = 100, .b = 100},
		{.op = opcode::fill, .arg = 1, .dst = host, .len = 4000}};

	for (const request &r : work) {
		b.moved = 0;
		b.steps_left = 2;
		assert_int_equal(int(softop::run(b, r)), int(result::stopped));
		assert_true(b.moved && b.moved < 4000);
		b.steps_left = ~0u;
		b.right(r);
	}
	/* A stop after the last piece has no effect. */
	b.steps_left = 1;
	b.right({.op = opcode::fill, .arg = 1, .dst = host, .len = 64});
}

static void without_buffers(void **)
{
	bench b(false);

	b.no_memory = true;
	b.expect({.op = opcode::copy, .src = host, .dst = host + 8192, .len = 64}, fault_reason::transfer, host);
	b.expect(sum, fault_reason::transfer, sum.src);
}

static void has_names(void **)
{
	for (u8 i = 0; i < u8(opcode::op_count); i++)
		assert_non_null(softop::name(opcode(i)));
	assert_string_equal(softop::name(opcode::copy_indirect), "copy_indirect");
	assert_string_equal(softop::name(opcode::timestamp), "timestamp");
	assert_null(softop::name(opcode::op_count));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(both<check_any>),
		cmocka_unit_test(both<check_copy>),
		cmocka_unit_test(both<check_2d>),
		cmocka_unit_test(both<check_fill>),
		cmocka_unit_test(both<check_block>),
		cmocka_unit_test(both<check_cells>),
		cmocka_unit_test(both<check_words>),
		cmocka_unit_test(both<check_reduce>),
		cmocka_unit_test(both<does_copy>),
		cmocka_unit_test(both<does_2d>),
		cmocka_unit_test(both<does_fill>),
		cmocka_unit_test(both<does_indirect>),
		cmocka_unit_test(both<does_words>),
		cmocka_unit_test(both<does_wait>),
		cmocka_unit_test(both<takes_the_word>),
		cmocka_unit_test(both<does_reduce>),
		cmocka_unit_test(both<reduces_once>),
		cmocka_unit_test(both<stops_early>),
		cmocka_unit_test(reduces_from_buffers_once),
		cmocka_unit_test(without_buffers),
		cmocka_unit_test(has_names),
	};

	return cmocka_run_group_tests_name("softop", tests, nullptr, nullptr);
}
