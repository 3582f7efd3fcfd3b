/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/core/memory_rig.h"
#include "lib/core/memory/memory.h"

#include "lib/core/memory/retire.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <unistd.h>

namespace usdma::test {

std::atomic<u64> epoch_now{0}, epoch_done{0}, gated_queries{0}, waits{0};
bool is_fork;
int (*on_zero)(core::device *dev, u64 dma, u64 len);

void attached::attach(int want)
{
	assert_int_equal(core::memory_attach(&dev), want);
	is_attached = !want;
}

/* As device_close(): no one begins to use the hardware queues, and those who do have left. */
void attached::detach()
{
	core::memory_end(&dev);
	for (const auto &l : dev.hw_queues)
		if (l)
			l->calls.drain();
	core::memory_detach(&dev);
	core::memory_forget(&dev);
	is_attached = false;
}

attached::~attached()
{
	if (is_attached)
		detach();
	assert_int_equal(vfio().wrong, 0);
	if (!vfio().is_lost)
		assert_int_equal(vfio().count(), 0);
	assert_null(dev.heap);
}

void *pinned(u64 size, int node)
{
	void *p = nullptr;

	assert_int_equal(core::host_alloc_charged(size, node, &p, nullptr), 0);
	return p;
}

u64 on_device(fake &f, u64 size, core::page_policy policy)
{
	u64 addr = 0;

	assert_int_equal(core::device_alloc(&f.dev, size, policy, &addr), 0);
	return addr;
}

u8 *pages(size_t n, int prot)
{
	void *p = mmap(nullptr, n * os_page_size(), prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return static_cast<u8 *>(p);
}

int nothing_attached(void **)
{
	const auto &all = core::mem_state().attached;

	return std::any_of(std::begin(all), std::end(all), [](const core::device *dev) { return dev; }) ? -1 : 0;
}

/* Each block, registration and pool has one item, so that it can be freed later: those of what failed are freed, too.
 */
static bool items_are_left()
{
	const auto &m = core::mem_state();

	if (!m.spare.first && !m.held.first && !m.retained.first)
		return false;
	print_error("items of frees are left\n");
	return true;
}

/* All of the limit is free. */
static bool is_charged()
{
	const u64 limit = core::config_get().pin_limit;
	u32 flags;

	if (!limit || core::pin_charge(limit, &flags)) {
		print_error("%s\n", limit ? error_text() : "there is no limit");
		return true;
	}
	core::pin_discharge(limit, flags);
	return false;
}

int nothing_left(void **)
{
	const auto &m = core::mem_state();

	if (nothing_attached(nullptr))
		return -1;
	core::memory_reclaim();
	open_gates(epoch_now);
	return m.deferred_count || m.ranges.size() > 1 || m.over_pinned.size() || m.exports.size() ||
			       items_are_left() || is_charged() ?
		       -1 :
		       0;
}

void plain_settings()
{
	setenv("USDMA_CONFIG", "/dev/null", 1);
	setenv("USDMA_DEVICES", "sim", 1);
	setenv("USDMA_TEST_HOST_ARENA", "1M", 1);
	setenv("USDMA_POOL_SIZE", "4M", 1);
	setenv("USDMA_PIN_LIMIT", "1T", 1);
	for (const char *name : {"USDMA_HUGE_PAGES", "USDMA_NUMA_NODE", "USDMA_CLEAR_MEMORY"})
		unsetenv(name);
}

} // namespace usdma::test

namespace usdma::test {

using core::device;

static int open(unsigned, device **)
{
	return -ENODEV;
}

static int close(device *)
{
	return 0;
}

static u64 gated_last()
{
	gated_queries++;
	return epoch_now;
}

static u64 gated_posted(const device *)
{
	return std::min<u64>(epoch_now, epoch_done);
}

static bool gated_await(const core::memory_use &, deadline)
{
	return true;
}

static bool last_use(core::hw_queue *l, const dma::iova_range &where, u64 *seq, deadline)
{
	std::lock_guard guard(l->lock);

	if (!l->ch->ops->last_use(l->ch, where, seq))
		*seq = 0;
	return true;
}

void open_gates(u64 up_to)
{
	epoch_done = up_to;
	fetch_add_release(&core::gated_left, 1);
}

static int zero(device *dev, u64 dma, u64 len)
{
	return on_zero ? on_zero(dev, dma, len) : 0;
}

static int alive(device *dev)
{
	waits++;
	return load_relaxed(&dev->dead) ? -ENODEV : 0;
}

} // namespace usdma::test

namespace usdma::core {

constinit const device_upcalls device_up = {.open = test::open, .close = test::close};
constinit const memory_upcalls memory_up = {.gated_last = test::gated_last,
					    .gated_posted = test::gated_posted,
					    .gated_await = test::gated_await,
					    .last_use = test::last_use,
					    .zero = test::zero,
					    .alive = test::alive};

bool forked()
{
	return test::is_fork;
}

int fail_forked()
{
	return usdma::fail(EPERM, "fork");
}

bool is_other_process()
{
	return test::is_fork;
}

void *map_wiped(size_t size)
{
	void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? nullptr : p;
}

void install_fork_handlers() {}

} // namespace usdma::core
