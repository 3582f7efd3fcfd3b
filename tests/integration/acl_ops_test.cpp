/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data of each kind of copy: rectangles, address cells, descriptors, staged
 * copies, batches, words, and copies between two devices.  Memory next to the
 * destination must not change.
 */
#include "acl/acl.h"
#include "tests/support/test.h"

#include <algorithm>
#include <cstring>
#include <unistd.h>
#include <vector>

#define GOOD(call)                                                                                                     \
	do {                                                                                                           \
		const aclError err_ = (call);                                                                          \
		if (err_) {                                                                                            \
			const char *text_ = aclGetRecentErrMsg();                                                      \
			print_error("%s: %d %s\n", #call, err_, text_ ? text_ : "");                                   \
		}                                                                                                      \
		assert_int_equal(err_, 0);                                                                             \
	} while (0)

namespace {

using bytes = std::vector<unsigned char>;

constexpr size_t size = 1 << 20;

char *device_memory(size_t n)
{
	void *p;

	GOOD(aclrtMalloc(&p, n, ACL_MEM_MALLOC_HUGE_FIRST));
	return static_cast<char *>(p);
}

/* Two buffers of each kind of memory, filled with random bytes, and a stream. */
struct bench {
	std::mt19937_64 gen;
	aclrtStream stream = nullptr, opener = nullptr;
	char *dev[2], *pinned[2], *pageable[2];
	char *gate = nullptr;

	explicit bench(std::uint64_t n) : gen(usdma::test::rng(n))
	{
		void *p;

		GOOD(aclrtSetDevice(0));
		GOOD(aclrtCreateStream(&stream));
		GOOD(aclrtCreateStream(&opener));
		gate = device_memory(64);
		for (int i = 0; i < 2; i++) {
			dev[i] = device_memory(size);
			GOOD(aclrtMallocHost(&p, size));
			pinned[i] = static_cast<char *>(p);
			pageable[i] = static_cast<char *>(malloc(size));
			for (char *to : {dev[i], pinned[i], pageable[i]})
				put(to, random(size));
		}
	}
	~bench()
	{
		GOOD(aclrtDestroyStream(stream));
		GOOD(aclrtDestroyStream(opener));
		GOOD(aclrtFree(gate));
		for (int i = 0; i < 2; i++) {
			GOOD(aclrtFree(dev[i]));
			GOOD(aclrtFreeHost(pinned[i]));
			free(pageable[i]);
		}
		GOOD(aclrtResetDevice(0));
	}
	bench(const bench &) = delete;
	bench &operator=(const bench &) = delete;

	bytes random(size_t n)
	{
		bytes b(n);

		usdma::test::fill_random(b.data(), n, gen);
		return b;
	}
	size_t pick(size_t from, size_t to) { return from + gen() % (to - from + 1); }
	static void put(void *to, const bytes &b)
	{
		GOOD(aclrtMemcpy(to, b.size(), b.data(), b.size(), ACL_MEMCPY_DEFAULT));
	}
	static bytes get(const void *from, size_t n = size)
	{
		bytes b(n);

		GOOD(aclrtMemcpy(b.data(), n, from, n, ACL_MEMCPY_DEFAULT));
		return b;
	}
	void close()
	{
		GOOD(aclrtMemset(gate, 8, 0, 8));
		GOOD(aclrtValueWait(gate, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
	}
	void open()
	{
		GOOD(aclrtValueWrite(gate, 1, 0, opener));
		GOOD(aclrtSynchronizeStream(stream));
	}
};

/* The memory at dst equals want. */
void expect(const void *dst, const bytes &want)
{
	const bytes got = bench::get(dst, want.size());

	assert_memory_equal(got.data(), want.data(), want.size());
}

} // namespace

/* ---- rectangles ------------------------------------------------------------------------------------- */

struct rectangle {
	size_t dpitch, spitch, width, height;
};

static void copy_rect(bench &b, char *dst, const char *src, const rectangle &r, aclrtMemcpyKind kind, bool async)
{
	bytes want = bench::get(dst);
	const bytes from = bench::get(src);

	for (size_t row = 0; row < r.height; row++)
		memcpy(&want[row * r.dpitch], &from[row * r.spitch], r.width);
	if (async) {
		GOOD(aclrtMemcpy2dAsync(dst, r.dpitch, src, r.spitch, r.width, r.height, kind, b.stream));
		GOOD(aclrtSynchronizeStream(b.stream));
	} else {
		GOOD(aclrtMemcpy2d(dst, r.dpitch, src, r.spitch, r.width, r.height, kind));
	}
	expect(dst, want);
}

static void test_rectangles(void **)
{
	bench b(1);
	struct {
		char *dst, *src;
		aclrtMemcpyKind kind;
	} const directions[] = {
		{b.dev[0], b.pinned[0], ACL_MEMCPY_HOST_TO_DEVICE},
		{b.dev[0], b.pageable[0], ACL_MEMCPY_HOST_TO_DEVICE},
		{b.pinned[0], b.dev[0], ACL_MEMCPY_DEVICE_TO_HOST},
		{b.pageable[0], b.dev[0], ACL_MEMCPY_DEVICE_TO_HOST},
		{b.dev[1], b.dev[0], ACL_MEMCPY_DEVICE_TO_DEVICE},
	};

	for (const auto &d : directions) {
		for (int round = 0; round < 12; round++) {
			rectangle r{};

			r.height = round ? b.pick(1, 200) : 1;
			r.width = round % 3 ? b.pick(1, 3000) : b.pick(1, 16);
			r.dpitch = r.width + (round % 4 ? b.pick(0, 2000) : 0); /* sometimes without padding */
			r.spitch = r.width + (round % 5 ? b.pick(0, 2000) : 0);
			const bool between_devices = d.kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
			copy_rect(b, d.dst, d.src, r, round % 2 ? d.kind : ACL_MEMCPY_DEFAULT,
				  between_devices || round % 4 >= 2);
		}
	}
}

/* ---- cells and descriptors -------------------------------------------------------------------------- */

/* The address cells are read when the copy is executed, not when it is submitted. */
static void test_cells(void **)
{
	bench b(2);
	char *cells = device_memory(64);
	const char *bases[2] = {b.dev[0], b.dev[1]};

	for (int round = 0; round < 24; round++) {
		const size_t count = b.pick(1, round % 2 ? 64 : 400000);
		const size_t to = b.pick(0, size - count), from = b.pick(0, size - count);
		bytes want = bench::get(b.dev[1]);
		const bytes source = bench::get(b.dev[0]);

		memcpy(&want[to], &source[from], count);
		GOOD(aclrtMemset(cells, 64, 0, 64));
		b.close();
		GOOD(aclrtMemcpyAsyncWithOffset(reinterpret_cast<void **>(cells + 8), size, to,
						const_cast<const void **>(reinterpret_cast<void **>(cells)), count,
						from, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, b.stream));
		GOOD(aclrtMemcpy(cells, 16, bases, 16, ACL_MEMCPY_HOST_TO_DEVICE));
		b.open();
		expect(b.dev[1], want);
		expect(b.dev[0], source);
	}
	GOOD(aclrtFree(cells));
}

static void describe(void *desc, char *src, char *dst, size_t count)
{
	GOOD(aclrtSetMemcpyDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, src, dst, count, nullptr));
}

/* One descriptor for many copies: rewritten by the host between copies, then by the stream itself. */
static void test_descriptor(void **)
{
	bench b(3);
	char *desc = device_memory(256);

	for (int round = 0; round < 8; round++) {
		bytes want = bench::get(b.dev[1]);
		const bytes source = bench::get(b.dev[0]);

		for (int i = 0; i < 3; i++) {
			const size_t count = b.pick(1, 100000), at = b.pick(0, size - count);

			describe(desc, b.dev[0] + at, b.dev[1] + at, count);
			GOOD(aclrtMemcpyAsyncWithDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, b.stream));
			memcpy(&want[at], &source[at], count);
			GOOD(aclrtSynchronizeStream(b.stream));
		}
		expect(b.dev[1], want);
		GOOD(aclrtMemset(b.dev[1], size, 0x77, size));
		want.assign(size, 0x77);
		b.close();
		for (int i = 0; i < 3; i++) {
			describe(desc + 64 + 64 * i, b.dev[0] + 1000 * i, b.dev[1] + 2000 * i, 999);
			GOOD(aclrtMemcpyAsync(desc, 32, desc + 64 + 64 * i, 32, ACL_MEMCPY_DEVICE_TO_DEVICE, b.stream));
			GOOD(aclrtMemcpyAsyncWithDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, b.stream));
			memcpy(&want[size_t(2000 * i)], &source[size_t(1000 * i)], 999);
		}
		b.open();
		expect(b.dev[1], want);
		bench::put(b.dev[0], b.random(size));
	}
	GOOD(aclrtFree(desc));
}

/* ---- through a buffer of the library ---------------------------------------------------------------- */

/* The caller may overwrite the source when the call returns, although the copy has not begun. */
static void test_buffered(void **)
{
	bench b(4);

	for (char *src : {b.pinned[0], b.pageable[0]}) {
		for (size_t count : {size_t(1), size_t(63), size_t(4096), size_t(100001)}) {
			const bytes data = b.random(count);
			bytes want = bench::get(b.dev[0]);

			memcpy(&want[5], data.data(), count);
			memcpy(src, data.data(), count);
			b.close();
			GOOD(aclrtMemcpyAsync(b.dev[0] + 5, count, src, count, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE,
					      b.stream));
			memset(src, 0, count);
			b.open();
			expect(b.dev[0], want);
		}
		/* More than the library stages at a time. */
		const bytes all = b.random(size);
		memcpy(src, all.data(), size);
		GOOD(aclrtMemcpyAsync(b.dev[0], size, src, size, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, b.stream));
		memset(src, 0, size);
		GOOD(aclrtSynchronizeStream(b.stream));
		expect(b.dev[0], all);
	}
}

/* ---- batches ---------------------------------------------------------------------------------------- */

/* Items of all sizes in one call: to and from the device, pinned and pageable. */
struct mixed_batch {
	std::vector<void *> dst, src;
	std::vector<size_t> len, index;
	std::vector<aclrtMemcpyBatchAttr> attr;
	struct side {
		char *mem;
		bytes want;
	};
	std::vector<side> sides;

	explicit mixed_batch(bench &b, size_t n)
	{
		constexpr size_t cell = 2048;

		for (char *m : {b.dev[0], b.pinned[0], b.pageable[0], b.dev[1], b.pinned[1], b.pageable[1]})
			sides.push_back({m, bench::get(m)});
		for (size_t i = 0; i < n; i++) {
			/* 0 is read only and 3 is written only, so that order does not matter. */
			const bool up = i % 2;
			const size_t host = up ? 1 + b.pick(0, 1) : 4 + b.pick(0, 1), at = i * cell,
				     len1 = b.pick(1, cell);
			side &to = sides[up ? 3 : host], &from = sides[up ? host : 0];

			memcpy(&to.want[at], bench::get(from.mem + at, len1).data(), len1);
			dst.push_back(to.mem + at);
			src.push_back(from.mem + at);
			len.push_back(len1);
			index.push_back(i);
			attr.push_back({});
			attr[i].dstLoc = {0, up ? ACL_MEM_LOCATION_TYPE_DEVICE : ACL_MEM_LOCATION_TYPE_HOST};
			attr[i].srcLoc = {0, up ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE};
		}
	}
	void check() const
	{
		for (const side &s : sides)
			expect(s.mem, s.want);
	}
};

static void test_batches(void **)
{
	bench b(5);

	for (int form = 0; form < 4; form++)
		for (size_t n : {1, 31, 32, 33, 200}) {
			size_t bad = 7;
			mixed_batch m(b, n);
			auto args = [&](auto call, auto... more) {
				return call(m.dst.data(), m.len.data(), m.src.data(), m.len.data(), n, m.attr.data(),
					    m.index.data(), n, more...);
			};

			GOOD(form == 0 ? args(aclrtMemcpyBatch, &bad) :
			     form == 1 ? args(aclrtMemcpyBatchV2) :
			     form == 2 ? args(aclrtMemcpyBatchAsync, &bad, b.stream) :
					 args(aclrtMemcpyBatchAsyncV2, b.stream));
			GOOD(aclrtSynchronizeStream(b.stream));
			if (form % 2 == 0)
				assert_int_equal(bad, SIZE_MAX);
			m.check();
		}
}

/* ---- words ------------------------------------------------------------------------------------------ */

static void test_memset_words(void **)
{
	bench b(6);

	for (char *mem : {b.dev[0], b.pinned[0]})
		for (int async = 0; async < 2; async++)
			for (size_t n : {size_t(1), size_t(3), size_t(1001), size / 4 - 1}) {
				const std::uint32_t word = std::uint32_t(b.gen());
				bytes want = bench::get(mem);

				for (size_t i = 0; i < n; i++)
					memcpy(&want[4 + 4 * i], &word, 4);
				GOOD(async ? aclrtMemsetD32Async(mem + 4, size - 4, word, n, b.stream) :
					     aclrtMemsetD32(mem + 4, size - 4, word, n));
				GOOD(aclrtSynchronizeStream(b.stream));
				expect(mem, want);
			}
	assert_int_equal(aclrtMemsetD32(b.dev[0] + 2, size - 4, 1, 1), 100000);
	assert_int_equal(aclrtMemsetD32(b.dev[0], 7, 1, 2), 100000);
	assert_int_equal(aclrtMemsetD32Async(b.pageable[0], size, 1, 2, b.stream), 100000);
}

/* ---- two devices ------------------------------------------------------------------------------------ */

static void enable_peer(int32_t me, int32_t peer)
{
	int32_t can = 0;

	GOOD(aclrtDeviceCanAccessPeer(&can, me, peer));
	assert_int_equal(can, 1);
	GOOD(aclrtSetDevice(me));
	GOOD(aclrtDeviceEnablePeerAccess(peer, 0));
}

/* Copies between devices need access in both directions, copies with the host none; events are for their device. */
static void test_two_devices_apart(void **)
{
	static constexpr aclError refused = ACL_ERROR_RT_DRV_INTERNAL_ERROR;
	static constexpr auto d2d = ACL_MEMCPY_DEVICE_TO_DEVICE;
	bench b(8);
	aclrtStream other;
	aclrtEvent event;
	int32_t status;
	char *remote;

	const auto expect_all = [&](aclError want, aclrtStream s) {
		assert_int_equal(aclrtMemcpy(remote, 64, b.dev[0], 64, d2d), want);
		assert_int_equal(aclrtMemcpyAsync(remote, 64, b.dev[0], 64, d2d, s), want);
		assert_int_equal(aclrtMemcpyAsync(b.dev[0], 64, remote, 64, ACL_MEMCPY_DEFAULT, s), want);
		assert_int_equal(aclrtMemcpy2dAsync(remote, 64, b.dev[0], 64, 8, 2, d2d, s), want);
		GOOD(aclrtMemcpy(remote, 64, b.pinned[0], 64, ACL_MEMCPY_HOST_TO_DEVICE));
		GOOD(aclrtSynchronizeStream(s));
	};
	GOOD(aclrtCreateEvent(&event));
	GOOD(aclrtSetDevice(1));
	remote = device_memory(size);
	GOOD(aclrtCreateStream(&other));
	expect_all(refused, other);
	GOOD(aclrtDeviceEnablePeerAccess(0, 0));
	expect_all(refused, other);
	assert_int_equal(aclrtRecordEvent(event, other), 107000);
	GOOD(aclrtSetDevice(0));
	expect_all(refused, b.stream);
	assert_int_equal(
		aclrtReduceAsync(remote, b.dev[0], 64, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT8, b.stream, nullptr),
		507899);
	GOOD(aclrtRecordEvent(event, b.stream));
	GOOD(aclrtDeviceEnablePeerAccess(1, 0));
	expect_all(0, b.stream);
	GOOD(aclrtDeviceEnablePeerAccess(1, 0)); /* counts */
	GOOD(aclrtDeviceDisablePeerAccess(1));
	expect_all(0, b.stream);
	GOOD(aclrtDeviceDisablePeerAccess(1));
	expect_all(refused, b.stream);
	assert_int_equal(aclrtDeviceDisablePeerAccess(1), 107000);
	GOOD(aclrtSetDevice(1));
	GOOD(aclrtStreamWaitEvent(other, event));
	GOOD(aclrtSynchronizeStream(other));
	GOOD(aclrtDeviceDisablePeerAccess(0));
	GOOD(aclrtDestroyStream(other));
	GOOD(aclrtFree(remote));
	GOOD(aclrtDeviceEnablePeerAccess(0, 0));
	GOOD(aclrtResetDevice(1)); /* leaves the access */
	GOOD(aclrtDevicePeerAccessStatus(1, 0, &status));
	assert_int_equal(status, 1);
	GOOD(aclrtSetDevice(1));
	GOOD(aclrtDeviceDisablePeerAccess(0));
	GOOD(aclrtResetDevice(1));
	GOOD(aclrtSetDevice(0));
	GOOD(aclrtDestroyEvent(event));
}

/* A stream of each device copies in both directions, and from the host into the other device's memory. */
static void test_two_devices(void **)
{
	bench b(7);
	aclrtStream other;
	char *remote;

	enable_peer(0, 1);
	enable_peer(1, 0);
	remote = device_memory(size);
	GOOD(aclrtCreateStream(&other));
	for (size_t len : {size_t(1), size_t(4097), size})
		for (int on = 0; on < 2; on++) {
			aclrtStream s = on ? other : b.stream;

			GOOD(aclrtSetDevice(on));
			bench::put(b.dev[0], b.random(size));
			bytes want = bench::get(remote);
			const bytes local = bench::get(b.dev[0]);
			memcpy(want.data(), local.data(), len);
			GOOD(aclrtMemcpyAsync(remote, len, b.dev[0], len, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
			GOOD(aclrtMemcpyAsync(b.dev[1], len, remote, len, ACL_MEMCPY_DEFAULT, s));
			GOOD(aclrtMemcpyAsync(b.pinned[0], len, remote, len, ACL_MEMCPY_DEVICE_TO_HOST, s));
			GOOD(aclrtSynchronizeStream(s));
			expect(remote, want);
			assert_memory_equal(bench::get(b.dev[1], len).data(), local.data(), len);
			assert_memory_equal(b.pinned[0], local.data(), len);
			want = b.random(size);
			memcpy(b.pinned[1], want.data(), size);
			GOOD(aclrtMemcpyAsync(remote, size, b.pinned[1], size, ACL_MEMCPY_HOST_TO_DEVICE, s));
			GOOD(aclrtSynchronizeStream(s));
			expect(remote, want);
			GOOD(aclrtMemcpy(b.dev[1], size, remote, len, ACL_MEMCPY_DEVICE_TO_DEVICE));
			assert_memory_equal(bench::get(b.dev[1], len).data(), want.data(), len);
			GOOD(aclrtMemcpy(remote, size, b.dev[0], len, ACL_MEMCPY_DEVICE_TO_DEVICE));
			memcpy(want.data(), local.data(), len);
			expect(remote, want);
		}
	GOOD(aclrtSetDevice(1));
	GOOD(aclrtDestroyStream(other));
	GOOD(aclrtFree(remote));
	GOOD(aclrtResetDeviceForce(1));
	GOOD(aclrtSetDevice(0));
}

/* ---- several mappings in one reservation ---------------------------------------------------------------- */

static bool readable(const void *p)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	const bool is = write(fds[1], p, 1) == 1;
	close(fds[0]);
	close(fds[1]);
	return is;
}

/* Every other call of what lies on both sides of an edge, between two mappings of a device. */
static void use_across(bench &b, char *edge)
{
	const size_t words = b.pick(2, 2000), before = 4 * b.pick(1, words - 1), len = 4 * words, margin = 64;
	char *const at = edge - before;
	const bytes next = b.random(len + 2 * margin);
	std::uint32_t word = std::uint32_t(b.gen());
	aclrtMemcpyBatchAttr attr{{0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_HOST}, {}};
	void *dst = at, *src = b.pinned[0];
	size_t n = len, first = 0, bad;

	for (int call = 0; call < 8; call++) {
		bytes want = next, data = b.random(len);

		bench::put(at - margin, next);
		bench::put(b.pinned[0], data);
		if (call < 2)
			std::fill(&want[margin], &want[margin + len], char(word));
		else if (call < 4)
			for (size_t i = 0; i < words; i++)
				memcpy(&want[margin + 4 * i], &word, 4);
		else
			std::copy(data.begin(), data.end(), &want[margin]);
		GOOD(call == 0 ? aclrtMemset(at, len, int(word & 0xff), len) :
		     call == 1 ? aclrtMemsetAsync(at, len, int(word & 0xff), len, b.stream) :
		     call == 2 ? aclrtMemsetD32(at, len, word, words) :
		     call == 3 ? aclrtMemsetD32Async(at, len, word, words, b.stream) :
		     call == 4 ? aclrtMemcpy2d(at, 4, src, 4, 4, words, ACL_MEMCPY_HOST_TO_DEVICE) :
		     call == 5 ? aclrtMemcpy2dAsync(at, 4, src, 4, 4, words, ACL_MEMCPY_HOST_TO_DEVICE, b.stream) :
		     call == 6 ? aclrtMemcpyBatch(&dst, &n, &src, &n, 1, &attr, &first, 1, &bad) :
				 aclrtMemcpyBatchAsync(&dst, &n, &src, &n, 1, &attr, &first, 1, &bad, b.stream));
		GOOD(aclrtSynchronizeStream(b.stream));
		expect(at - margin, want);
	}
	GOOD(aclrtMemset(b.dev[0], len, 0, len));
	GOOD(aclrtReduceAsync(b.dev[0], at, len, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32, b.stream, nullptr));
	GOOD(aclrtSynchronizeStream(b.stream));
	expect(b.dev[0], bench::get(at, len));
}

/* As allocators make them that grow: copies cross from one to the next; device, device, host. */
static void test_neighbouring_mappings(void **)
{
	static constexpr size_t part = 2 << 20, parts = 3;
	bench b(9);
	aclrtDrvMemHandle h[parts];
	void *p;

	GOOD(aclrtReserveMemAddress(&p, parts * part, 0, nullptr, 1));
	char *const va = static_cast<char *>(p);
	for (size_t i = 0; i < parts; i++) {
		aclrtPhysicalMemProp prop{};

		prop.memAttr = i == 2 ? ACL_DDR_MEM_NORMAL : ACL_HBM_MEM_HUGE;
		prop.location.type = i == 2 ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE;
		GOOD(aclrtMallocPhysical(&h[i], part, &prop, 0));
		GOOD(aclrtMapMem(va + i * part, part, 0, h[i], 0));
	}
	for (char *other : {b.dev[0], b.pinned[0], b.pageable[0]})
		for (size_t edge : {part, 2 * part}) {
			const size_t before = b.pick(1, 9000), len = before + b.pick(1, 9000);
			char *const at = va + edge - before;
			bytes want = b.random(len);

			bench::put(other, want);
			GOOD(aclrtMemcpyAsync(at, len, other, len, ACL_MEMCPY_DEFAULT, b.stream));
			GOOD(aclrtSynchronizeStream(b.stream));
			expect(at, want);
			want = b.random(len);
			bench::put(at, want);
			GOOD(aclrtMemcpyAsync(other, len, at, len, ACL_MEMCPY_DEFAULT, b.stream));
			GOOD(aclrtSynchronizeStream(b.stream));
			expect(other, want);
		}
	for (int i = 0; i < 20; i++)
		use_across(b, va + part);
	assert_int_equal(aclrtMemcpy(b.dev[0], size, va + parts * part - 8, 16, ACL_MEMCPY_DEFAULT), 107000);
	assert_int_equal(aclrtMemset(va + part - 8, 2 * part + 16, 0, 2 * part + 16), 107000);
	assert_true(readable(va + 2 * part));
	for (size_t i = 0; i < parts; i++) {
		GOOD(aclrtUnmapMem(va + i * part));
		assert_false(readable(va + i * part));
		GOOD(aclrtFreePhysical(h[i]));
	}
	GOOD(aclrtReleaseMemAddress(va));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_rectangles),
		cmocka_unit_test(test_cells),
		cmocka_unit_test(test_descriptor),
		cmocka_unit_test(test_buffered),
		cmocka_unit_test(test_batches),
		cmocka_unit_test(test_memset_words),
		cmocka_unit_test(test_two_devices_apart),
		cmocka_unit_test(test_two_devices),
		cmocka_unit_test(test_neighbouring_mappings),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
