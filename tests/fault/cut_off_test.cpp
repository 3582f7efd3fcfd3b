/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library gives up the embedded device while its engine copies: once memory is taken back from the library, the
 * engine touches it no more.
 */
#include "tests/support/test.h"
#include "usdma/usdma.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

static constexpr size_t size = 32 << 20;
static constexpr unsigned copies = 32;
alignas(4096) static unsigned char page[4096];

/* The program's own memory, all of which the engine writes for some 100 ms. */
struct rig {
	usdma_device *dev = nullptr;
	usdma_stream *s = nullptr;
	void *mem = nullptr;
	unsigned char *own;

	rig()
	{
		void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1,
			       0);

		assert_true(p != MAP_FAILED);
		own = static_cast<unsigned char *>(p);
		assert_int_equal(usdma_open_index(0, &dev), 0);
		assert_int_equal(usdma_stream_create(dev, nullptr, &s), 0);
		assert_int_equal(usdma_device_alloc(dev, size, &mem), 0);
		assert_int_equal(usdma_host_register(own, size, 0), 0);
		for (unsigned i = 0; i < copies; i++)
			assert_int_equal(usdma_copy(s, own, mem, size), 0);
	}

	/* An answer that makes no sense ends the link: to the question for one page more. */
	void cut()
	{
		assert_int_equal(usdma_device_inject(dev, "reply@1/garbage"), 0);
		usdma_host_register(page, sizeof(page), 0);
		for (int done = 0; done != -ENODEV; done = usdma_stream_query(s))
			assert_int_equal(done, 0);
		usdma_host_unregister(own);
	}

	void end()
	{
		usdma_stream_destroy(s);
		usdma_close(dev);
	}

	~rig() { munmap(own, size); }
};

static void nobody_writes(void **)
{
	rig r;

	r.cut();
	memset(r.own, 0x5a, size);
	r.end();
	assert_int_equal(std::count(r.own, r.own + size, 0x5a), size);
}

int main()
{
	const CMUnitTest tests[] = {cmocka_unit_test(nobody_writes)};

	setenv("USDMA_DEVICES", "sim:mem=64M:engines=1:channels=4:faults=", 1);
	setenv("USDMA_LOG", "none", 1);
	return cmocka_run_group_tests_name("cut off", tests, nullptr, nullptr);
}
