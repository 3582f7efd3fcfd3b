/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of memory share: devices attached to an empty room, and streams and forks that say what a test
 * wants.
 */
#pragma once

#include "tests/support/test.h"

#include "lib/core/memory/internal.h"
#include "lib/core/stream/stream.h"
#include "tests/unit/core/fake_engine.h"

#include <atomic>
#include <sys/mman.h>

namespace usdma::test {

/* Streams and forks are other rooms'; here the test says how far their queues are. */
extern std::atomic<u64> epoch_now, epoch_done;
extern bool is_fork;
/* What clears device memory; null: nothing does. */
extern int (*on_zero)(core::device *dev, u64 dma, u64 len);

inline constexpr u64 own_memory = 64 * MiB;

/* A device that is attached for as long as this lives, and must be left without a mapping. */
struct attached : fake {
	bool in = false;

	explicit attached(unsigned slot, u64 memory = own_memory, bool isolated = false) : fake(slot, memory, isolated)
	{
		attach(0);
	}
	void attach(int want);
	void detach();
	~attached();
};

void *pinned(u64 size, int node = -1);
u64 on_device(fake &f, u64 size, core::page_policy policy = core::page_policy::huge_first);
/* Pageable memory. */
u8 *pages(size_t n, int prot = PROT_READ | PROT_WRITE);
/* Teardown of each test: it leaves the room empty, but for the one arena that is kept. */
int nothing_left(void **);
/* Before the tests: settings that do not depend on the machine. */
void plain_settings();

} // namespace usdma::test

#define unit(f) cmocka_unit_test_teardown(f, usdma::test::nothing_left)
