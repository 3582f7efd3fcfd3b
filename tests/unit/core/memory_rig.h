/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the memory tests: devices attached to an empty memory registry, and stubs of streams and forks whose
 * state the test sets.
 */
#pragma once

#include "tests/support/test.h"

#include "lib/core/memory/internal.h"
#include "lib/core/stream/stream.h"
#include "tests/unit/core/fake_engine.h"

#include <atomic>
#include <sys/mman.h>

namespace usdma::test {

/* The stubs: the test sets the epochs of gated work, and whether this process is a fork. */
extern std::atomic<u64> epoch_now, epoch_done;
/* How often the stubs were called for gated work, and for a device during a wait. */
extern std::atomic<u64> gated_queries, waits;
void open_gates(u64 up_to);
extern bool is_fork;
/* Clears device memory; null: it is not cleared. */
extern int (*on_zero)(core::device *dev, u64 dma, u64 len);

inline constexpr u64 own_memory = 64 * MiB;

/* A device that is attached during the lifetime of this object, and must have no mapping at its end. */
struct attached : fake {
	bool is_attached = false;

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
/* Set-up of each test: fails where a failed one has left devices on its stack attached. */
int nothing_attached(void **);
/* Teardown of each test: the memory registry must be empty, except for one retained arena. */
int nothing_left(void **);
/* Call before the tests: settings that do not depend on the machine. */
void plain_settings();

} // namespace usdma::test

#define unit(f) cmocka_unit_test_setup_teardown(f, usdma::test::nothing_attached, usdma::test::nothing_left)
