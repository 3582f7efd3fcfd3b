/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies between the memories of two devices (USDMA_DEVICES names both). */
#include "lib/core/copy/copy.h"
#include "lib/core/memory/retire.h"
#include "lib/core/stream/event.h"
#include "tests/support/core.h"

#include <cstring>
#include <thread>
#include <vector>

using namespace usdma;
using namespace usdma::core;
using usdma::test::ptr;
using usdma::test::soon;

static device *dev[2];
static const u64 size = test::sized(3 * MiB, 16 * KiB) + 192;

static int open_both(void **)
{
	for (unsigned i = 0; i < 2; i++) {
		const int err = device_get(i, &dev[i]);

		if (err) {
			print_error("device %u: %s\n", i, error_text());
			return err;
		}
	}
	return 0;
}

static int close_both(void **)
{
	device_put(dev[0]);
	device_put(dev[1]);
	return 0;
}

struct memories {
	u64 d[2];
	u8 *h;

	memories()
	{
		for (unsigned i = 0; i < 2; i++)
			ok(device_alloc(dev[i], size, page_policy::huge_first, &d[i]));
		ok(host_alloc(size, -1, reinterpret_cast<void **>(&h)));
	}
	~memories()
	{
		for (u64 a : d)
			ok(device_free(a));
		ok(host_free(h));
	}
};

/* A stream of one device waits for an event of the other. */
static void wait_for_event_of_peer(void **)
{
	auto gen = test::rng(3);
	memories m;
	stream *a, *b;
	event *e;

	ok(stream_create(dev[0], {}, &a));
	ok(stream_create(dev[1], {}, &b));
	ok(event_create(dev[0], event_timing, &e));
	for (int round = 0; round < 20; round++) {
		std::vector<u8> out(size);

		test::fill_random(m.h, size, gen);
		ok(copy_async(a, ptr(m.d[0]), m.h, size));
		ok(event_record(e, a));
		ok(stream_wait_event(b, e, deadline::never()));
		ok(copy_async(b, ptr(m.d[1]), ptr(m.d[0]), size));
		ok(stream_sync(b, soon()));
		ok(copy_sync(dev[1], out.data(), ptr(m.d[1]), size, soon()));
		assert_memory_equal(m.h, out.data(), size);
	}
	ok(event_destroy(e));
	ok(stream_destroy(a));
	ok(stream_destroy(b));
}

static void peer_memory_bounds(void **)
{
	memories m;
	stream *s;

	ok(stream_create(dev[0], {}, &s));
	assert_int_equal(copy_async(s, ptr(m.d[0]), ptr(m.d[1] + size - 64), 4096 * 1024), -EFAULT);
	assert_int_equal(stream_sync(s, soon()), 0);
	ok(stream_destroy(s));
}

/* Two that have copied with each other: each close unmaps memory of the other device, and none is taken for lost. */
static void peers_are_closed_at_once(void **)
{
	for (unsigned round = 0; round < test::sized(20, 1); round++) {
		stream *s;
		{
			const memories m;

			ok(stream_create(dev[0], {}, &s));
			ok(copy_async(s, ptr(m.d[0]), ptr(m.d[1]), size));
			ok(stream_sync(s, soon()));
			ok(stream_destroy(s));
		}
		std::thread other([] { device_put(dev[1]); });
		device_put(dev[0]);
		other.join();
		assert_int_equal(retired_get().devices, 0);
		ok(open_both(nullptr));
	}
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(wait_for_event_of_peer),
		cmocka_unit_test(peer_memory_bounds),
		cmocka_unit_test(peers_are_closed_at_once),
	};

	return cmocka_run_group_tests_name("core peers", tests, open_both, close_both);
}
