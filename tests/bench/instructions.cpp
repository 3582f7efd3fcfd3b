/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls whose instructions tests/bench/instructions counts: bench-instructions
 * WHAT N makes the call N times within measured(), which callgrind counts alone.
 * A burst fits the ring, so that no call waits; the copied data is checked.
 */
#include "acl/acl.h"
#include "usdma/usdma.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static constexpr unsigned burst = 100, size = 64;

static void need(long err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %ld %s\n", what, err, usdma_error_text());
	exit(1);
}

struct rig {
	usdma_device *dev;
	usdma_stream *s;
	usdma_event *e;
	aclrtStream as;
	unsigned char *host, *back;
	void *mem;
	std::vector<usdma_copy_item> items;
	std::vector<void *> dst, src;
	std::vector<size_t> len;
	aclrtMemcpyBatchAttr attr = {{0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_HOST}, {}};
	size_t first = 0, wrong = 0;

	rig();
};

rig::rig()
{
	need(aclInit(nullptr), "aclInit");
	need(aclrtSetDevice(0), "aclrtSetDevice");
	need(aclrtCreateStream(&as), "aclrtCreateStream");
	need(usdma_open("0", &dev), "usdma_open");
	need(usdma_stream_create(dev, nullptr, &s), "usdma_stream_create");
	need(usdma_event_create(dev, 0, &e), "usdma_event_create");
	need(usdma_host_alloc(dev, burst * size, reinterpret_cast<void **>(&host)), "usdma_host_alloc");
	need(usdma_host_alloc(dev, burst * size, reinterpret_cast<void **>(&back)), "usdma_host_alloc");
	/*
	 * A thread's cache of regions selects the slot by bits 46 and 21 of the address.  Normally host and device
	 * memory differ in bit 46, but valgrind maps host memory at lower addresses: make bit 21 differ.
	 */
	need(usdma_device_alloc(dev, 8 << 20, &mem), "usdma_device_alloc");
	while (((uintptr_t(mem) ^ uintptr_t(host)) >> 21 & 1) == 0 || (uintptr_t(mem) & 0x1fffff) > (1 << 20))
		mem = static_cast<char *>(mem) + (1 << 20);
	for (unsigned i = 0; i < burst; i++) {
		memset(host + i * size, int(i + 1), size);
		items.push_back({static_cast<char *>(mem) + i * size, host + i * size, size});
		dst.push_back(items.back().dst);
		src.push_back(host + i * size);
		len.push_back(size);
	}
}

/* One burst of calls; only the calls to measure may be in here. */
extern "C" __attribute__((noinline)) long measured(rig &r, const char *what)
{
	long err = 0;

	switch (*what) {
	case 'c': /* copy */
		for (const usdma_copy_item &i : r.items)
			err |= usdma_copy(r.s, i.dst, i.src, i.len);
		break;
	case 'b': /* batch */
		err |= usdma_copy_batch(r.s, r.items.data(), r.items.size(), nullptr);
		break;
	case 'q': /* query */
		for (unsigned i = 0; i < burst; i++)
			err |= usdma_stream_query(r.s) - 1;
		break;
	case 'e': /* event query */
		for (unsigned i = 0; i < burst; i++)
			err |= usdma_event_query(r.e) - 1;
		break;
	case 'A': /* ACL copy */
		for (const usdma_copy_item &i : r.items)
			err |= aclrtMemcpyAsync(i.dst, i.len, i.src, i.len, ACL_MEMCPY_HOST_TO_DEVICE, r.as);
		break;
	case 'B': /* ACL batch */
		err |= aclrtMemcpyBatchAsync(r.dst.data(), r.len.data(), r.src.data(), r.len.data(), r.len.size(),
					     &r.attr, &r.first, 1, &r.wrong, r.as);
		break;
	case 'Q': { /* ACL query */
		aclrtStreamStatus status;

		for (unsigned i = 0; i < burst; i++)
			err |= aclrtStreamQuery(r.as, &status);
		break;
	}
	}
	return err;
}

static void wait_all(rig &r)
{
	need(usdma_stream_sync(r.s, -1), "usdma_stream_sync");
	need(aclrtSynchronizeStream(r.as), "aclrtSynchronizeStream");
}

static void compare(rig &r)
{
	need(usdma_copy(r.s, r.back, r.mem, burst * size), "usdma_copy");
	wait_all(r);
	need(memcmp(r.host, r.back, burst * size), "what was copied");
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: bench-instructions copy|batch|query|event|ACL|BATCH|QUERY BURSTS\n");
		return 2;
	}
	rig r;
	const bool copies = strchr("cbAB", *argv[1]);
	need(usdma_event_record(r.e, r.s), "usdma_event_record");
	wait_all(r);
	for (int n = atoi(argv[2]); n > 0; n--) {
		need(measured(r, argv[1]), argv[1]);
		wait_all(r);
	}
	if (copies)
		compare(r);
	return 0;
}
