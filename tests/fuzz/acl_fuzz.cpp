/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random programs of ACL calls with random arguments: live, destroyed and made-up
 * handles, addresses of each kind of memory and none, any kind, flag and limit.
 * Only the number of bytes is limited by the block of the address: to access more
 * would be the caller's error.  No call crashes, and each returns success or an
 * error that arguments can cause.
 */
#include "tests/fuzz/fuzz.h"

#include "acl/acl.h"

#include <algorithm>
#include <vector>

using namespace usdma;
using namespace usdma::fuzz;

static constexpr size_t block = 16 * KiB;
static constexpr int32_t wait_ms = 1000;

/* An address and the number of bytes from there to the end of its block. */
struct target {
	char *at;
	size_t capacity;
};

struct world {
	world()
	{
		setenv("USDMA_DEVICES",
		       "sim:mem=32M:engines=1:channels=4:spin=10,sim:mem=32M:engines=1:channels=4:spin=10", 1);
		setenv("USDMA_LOG", "none", 1);
		must_hold(!aclInit(nullptr) && !aclrtSetDevice(0));
		for (char *&p : device)
			must_hold(!aclrtMalloc(reinterpret_cast<void **>(&p), block, ACL_MEM_MALLOC_NORMAL_ONLY));
		for (char *&p : pinned)
			must_hold(!aclrtMallocHost(reinterpret_cast<void **>(&p), block));
		for (char *&p : heap)
			p = static_cast<char *>(aligned_alloc(4096, block));
		must_hold(!aclrtCreateStream(&dead_stream) && !aclrtDestroyStream(dead_stream));
		must_hold(!aclrtCreateEvent(&dead_event) && !aclrtDestroyEvent(dead_event));
	}
	char *device[2], *pinned[2], *heap[2];
	aclrtStream dead_stream;
	aclrtEvent dead_event;
};

static world &common()
{
	static world w;

	return w;
}

/* One program and the objects that it creates. */
struct program {
	explicit program(input &from) : in(from) {}
	~program()
	{
		aclrtSynchronizeDeviceWithTimeout(wait_ms);
		for (aclrtEvent e : events)
			aclrtDestroyEvent(e);
		for (aclrtStream s : streams)
			aclrtDestroyStreamForce(s);
		for (void *p : blocks)
			aclrtFree(p);
	}
	program(const program &) = delete;
	program &operator=(const program &) = delete;

	target any_target()
	{
		world &w = common();
		const u8 which = in.get<u8>();
		const size_t off = in.get<u8>() * (which & 0x80 ? 61 : 64);
		char *const bases[] = {w.device[0], w.device[1], w.pinned[0], w.pinned[1], w.heap[0], w.heap[1]};

		if ((which & 15) == 15)
			return {nullptr, block};
		return {bases[(which & 15) % 6] + off, block - off};
	}
	aclrtStream stream()
	{
		const u8 which = in.get<u8>();

		if (which < 0x60 || streams.empty())
			return which == 1 ? reinterpret_cast<aclrtStream>(0x1238) :
			       which == 2 ? common().dead_stream :
					    nullptr;
		return streams[which % streams.size()];
	}
	aclrtEvent event()
	{
		const u8 which = in.get<u8>();

		if (which < 0x20 || events.empty())
			return which == 1 ? reinterpret_cast<aclrtEvent>(0x1238) :
			       which == 2 ? common().dead_event :
					    nullptr;
		return events[which % events.size()];
	}
	size_t count(size_t capacity) { return std::min<size_t>(in.get<u16>(), capacity); }
	size_t limit()
	{
		const u16 v = in.get<u16>();

		return v == 0xffff ? ~size_t(0) : v;
	}
	aclrtMemcpyKind kind() { return aclrtMemcpyKind(int(in.get<u8>() % 12) - 1); }

	input &in;
	std::vector<aclrtStream> streams;
	std::vector<aclrtEvent> events;
	std::vector<void *> blocks;
};

static aclError copy(program &p)
{
	const bool async = p.in.get<u8>() & 1;
	const target d = p.any_target(), s = p.any_target();
	const size_t n = p.count(std::min(d.capacity, s.capacity)), max = p.limit();
	const aclrtMemcpyKind k = p.kind();

	return async ? aclrtMemcpyAsync(d.at, max, s.at, n, k, p.stream()) : aclrtMemcpy(d.at, max, s.at, n, k);
}

static aclError copy_2d(program &p)
{
	const bool async = p.in.get<u8>() & 1;
	const target d = p.any_target(), s = p.any_target();
	const size_t capacity = std::min(d.capacity, s.capacity), height = p.in.get<u8>() & 31;
	size_t pitch = p.in.get<u8>(), width = p.in.get<u8>();

	/* The call must stay within the blocks. */
	if (std::max(pitch, width) * (height + 1) > capacity)
		pitch = width = capacity / (height + 1);
	const aclrtMemcpyKind k = p.kind();
	return async ? aclrtMemcpy2dAsync(d.at, pitch, s.at, pitch, width, height, k, p.stream()) :
		       aclrtMemcpy2d(d.at, pitch, s.at, pitch, width, height, k);
}

static aclError batch(program &p)
{
	constexpr size_t max_items = 8;
	const size_t n = p.in.get<u8>() % (max_items + 1), attrs = p.in.get<u8>() % 4;
	void *dsts[max_items], *srcs[max_items];
	size_t maxs[max_items], sizes[max_items], index[4], failed = 0;
	aclrtMemcpyBatchAttr a[4];

	memset(a, 0, sizeof(a));
	for (size_t i = 0; i < n; i++) {
		const target d = p.any_target(), s = p.any_target();

		dsts[i] = d.at;
		srcs[i] = s.at;
		sizes[i] = p.count(std::min(d.capacity, s.capacity));
		maxs[i] = p.limit();
	}
	for (size_t i = 0; i < attrs; i++) {
		index[i] = i ? p.in.get<u8>() % 12 : 0;
		a[i].dstLoc.type = aclrtMemLocationType(p.in.get<u8>() % 6);
		a[i].srcLoc.type = aclrtMemLocationType(p.in.get<u8>() % 6);
		a[i].dstLoc.id = p.in.get<u8>() % 4;
		a[i].srcLoc.id = p.in.get<u8>() % 4;
	}
	if (p.in.get<u8>() & 1)
		return aclrtMemcpyBatchAsync(dsts, maxs, srcs, sizes, n, a, index, attrs, &failed, p.stream());
	return aclrtMemcpyBatch(dsts, maxs, srcs, sizes, n, a, index, attrs, &failed);
}

static aclError set(program &p)
{
	const bool async = p.in.get<u8>() & 1;
	const target d = p.any_target();
	const size_t n = p.count(d.capacity), max = p.limit();
	const int32_t value = p.in.get<u8>();

	return async ? aclrtMemsetAsync(d.at, max, value, n, p.stream()) : aclrtMemset(d.at, max, value, n);
}

static aclError allocate(program &p)
{
	void *mem = nullptr;
	const u8 how = p.in.get<u8>();
	const size_t sizes[] = {0, 1, p.in.get<u16>(), size_t(1) << 40, ~size_t(0), ~size_t(0) - 31};
	const aclError err = aclrtMalloc(how & 0x80 ? nullptr : &mem, sizes[how % 6],
					 aclrtMemMallocPolicy(p.in.get<u16>()));

	if (!err)
		p.blocks.push_back(mem);
	return err;
}

static aclError release(program &p)
{
	if (p.in.get<u8>() & 1 || p.blocks.empty()) {
		/* Not the start of a block, or of another kind. */
		char *const wrong[] = {common().heap[0], common().pinned[0] + 64, nullptr, common().device[0] + 4096};
		const u8 which = p.in.get<u8>() % 4;

		return which & 1 ? aclrtFreeHost(wrong[which]) : aclrtFree(wrong[which]);
	}
	void *mem = p.blocks.back();
	p.blocks.pop_back();
	return aclrtFree(mem);
}

static aclError streams(program &p)
{
	const u8 how = p.in.get<u8>();
	aclrtStream s = nullptr;
	aclError err;

	switch (how & 7) {
	case 0:
	case 1:
		if (p.streams.size() >= 6)
			return 0;
		err = aclrtCreateStreamWithConfig(how & 0x80 ? nullptr : &s, p.in.get<u8>(), p.in.get<u8>());
		if (!err)
			p.streams.push_back(s);
		return err;
	case 2:
		return aclrtSynchronizeStreamWithTimeout(p.stream(), how & 0x80 ? 0 : wait_ms);
	case 3:
		return aclrtStreamAbort(p.stream());
	case 4:
		return aclrtSetStreamFailureMode(p.stream(), p.in.get<u8>() % 4);
	case 5: {
		aclrtStreamStatus status;
		return aclrtStreamQuery(p.stream(), how & 0x80 ? nullptr : &status);
	}
	default:
		if (p.streams.empty())
			return aclrtDestroyStream(common().dead_stream);
		s = p.streams.back();
		p.streams.pop_back();
		return how & 0x80 ? aclrtDestroyStreamForce(s) : aclrtDestroyStream(s);
	}
}

static aclError events(program &p)
{
	const u8 how = p.in.get<u8>();
	aclrtEventRecordedStatus status;
	aclrtEvent e = nullptr;
	aclError err;
	float ms;

	switch (how & 7) {
	case 0:
	case 1:
		if (p.events.size() >= 6)
			return 0;
		err = aclrtCreateEventExWithFlag(how & 0x80 ? nullptr : &e, p.in.get<u8>() & 31);
		if (!err)
			p.events.push_back(e);
		return err;
	case 2:
		e = p.event();
		return aclrtRecordEvent(e, p.stream());
	case 3:
		return aclrtQueryEventStatus(p.event(), how & 0x80 ? nullptr : &status);
	case 4:
		e = p.event();
		return aclrtEventElapsedTime(how & 0x80 ? nullptr : &ms, e, p.event());
	case 5:
		return aclrtSynchronizeEventWithTimeout(p.event(), wait_ms);
	default:
		if (p.events.empty())
			return aclrtDestroyEvent(common().dead_event);
		e = p.events.back();
		p.events.pop_back();
		return aclrtDestroyEvent(e);
	}
}

static aclError query(program &p)
{
	const u8 how = p.in.get<u8>();
	const target a = p.any_target();
	aclrtPtrAttributes attr;
	size_t size = 0, total = 0;
	void *base = nullptr;
	int32_t can = 0;

	switch (how & 3) {
	case 0:
		return aclrtPointerGetAttributes(a.at, how & 0x80 ? nullptr : &attr);
	case 1:
		return aclrtMemGetAddressRange(a.at, &base, how & 0x80 ? nullptr : &size);
	case 2:
		return aclrtGetMemInfo(aclrtMemAttr(p.in.get<u8>() % 16), &size, &total);
	default:
		return aclrtDeviceCanAccessPeer(how & 0x80 ? nullptr : &can, p.in.get<u8>() % 4 - 1,
						p.in.get<u8>() % 4 - 1);
	}
}

/* 1…: invalid arguments; 2…: insufficient resources; 507000: an event that was never recorded. */
static bool is_expected(aclError e, aclError (*call)(program &))
{
	return e == 0 || (e >= 100000 && e < 300000) || (e == 507000 && call == events);
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static aclError (*const calls[])(program &) = {copy,     copy,    copy_2d, batch,  set,
						       allocate, release, streams, events, query};
	input in(data, size);

	if (size > 4096)
		return 0;
	common();
	program p(in);
	while (!in.empty()) {
		const u8 which = in.get<u8>() % std::size(calls);
		const aclError e = calls[which](p);

		if (!is_expected(e, calls[which]))
			fprintf(stderr, "call %u: %d: %s\n", which, e, aclGetRecentErrMsg());
		must_hold(is_expected(e, calls[which]));
	}
	return 0;
}
