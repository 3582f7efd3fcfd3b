/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/check/tsan_edges.h"

#include "driver/base/tsan.h"

#include <csignal>

extern "C" {
[[gnu::weak]] void *__tsan_create_fiber(unsigned flags);
[[gnu::weak]] void *__tsan_get_current_fiber(void);
[[gnu::weak]] void __tsan_switch_to_fiber(void *fiber, unsigned flags);
[[gnu::weak]] void __tsan_set_fiber_name(void *fiber, const char *name);
[[gnu::weak]] void __tsan_acquire(void *at);
[[gnu::weak]] void __tsan_release(void *at);
[[gnu::weak]] void __tsan_func_entry(void *caller);
[[gnu::weak]] void __tsan_func_exit(void);
[[gnu::weak]] void __tsan_read_range_pc(void *at, unsigned long len, void *pc);
[[gnu::weak]] void __tsan_write_range_pc(void *at, unsigned long len, void *pc);
}

namespace usdma::core {

static constexpr unsigned without_order = 1; /* of __tsan_switch_to_fiber() */

bool tsan_edges::available()
{
	return beside_tsan() && __tsan_create_fiber; /* the newest one */
}

void *tsan_edges::fiber(context_id c)
{
	void *&f = fibers_[1 + (c - 1) % (max_fibers - 1)];

	if (f)
		return f;
	f = __tsan_create_fiber(0);
	__tsan_set_fiber_name(f, "usdma stream");
	return f;
}

/* No signal handler of the program runs as the fiber. */
template <class F> void tsan_edges::run(context_id c, const F &f)
{
	sigset_t all, before;

	if (!c)
		return f();
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	void *const to = fiber(c), *const self = __tsan_get_current_fiber();
	__tsan_switch_to_fiber(to, without_order);
	f();
	__tsan_switch_to_fiber(self, without_order);
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/* A report names the frames that were entered, and the instruction. A thread's own are there already. */
void tsan_edges::access(context_id c, u64 address, u64 len, bool writes, void *const *stack, size_t depth)
{
	size_t n = 0;

	while (n < depth && stack[n])
		n++;
	run(c, [&] {
		for (size_t i = n; c && i > 1; i--)
			__tsan_func_entry(stack[i - 1]);
		(writes ? __tsan_write_range_pc : __tsan_read_range_pc)(reinterpret_cast<void *>(address), len,
									n ? stack[0] : nullptr);
		for (size_t i = n; c && i > 1; i--)
			__tsan_func_exit();
	});
}

void tsan_edges::give(context_id c, const void *at)
{
	run(c, [&] { __tsan_release(const_cast<void *>(at)); });
}

void tsan_edges::take(context_id c, const void *at)
{
	run(c, [&] { __tsan_acquire(const_cast<void *>(at)); });
}

void tsan_edges::submitted(context_id c)
{
	give(0, fiber(c));
	take(c, fiber(c));
}

void tsan_edges::waited(context_id c)
{
	give(c, fiber(c));
	take(0, fiber(c));
}

/* The library waits for what still uses it, or the program was in error, and that is reported. */
void tsan_edges::memory_removed()
{
	for (context_id c = 1; c < max_fibers; c++)
		if (fibers_[c])
			give(c, this);
	give(0, this);
	take(0, this);
}

} // namespace usdma::core
