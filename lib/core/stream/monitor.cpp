/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hardware queues whose completion interrupt rings of the program wait for, and those of streams that stop others when
 * they fail. The progress thread is not on their path, but handles what the program makes no call for: a halt; of the
 * former a loss and an interrupt that is lost, too.
 */
#include "driver/base/grow.h"
#include "lib/core/queue/fault.h"
#include "lib/core/queue/ring_signal.h"
#include "lib/core/stream/listen.h"
#include "lib/core/stream/task.h"

#include <algorithm>

namespace usdma::core {

namespace {

struct monitor_state {
	std::mutex lock; /* nests inside a hardware queue's */
	std::vector<hw_queue *> all;
	u32 count = 0;   /* atomic: a pass without any takes no lock */
	u32 signals = 0; /* atomic: those that rings wait for, which are checked every 50 ms */
};
constinit no_destructor<monitor_state> monitor;

/* A number that is not reached: of a halt only. */
constexpr u64 for_a_halt = u64(1) << 62;

/* Only a pass removes entries. */
hw_queue *monitored_at(size_t i)
{
	std::lock_guard guard(monitor->lock);

	return i < monitor->all.size() ? monitor->all[i] : nullptr;
}

/* With its lock held. */
void count_them()
{
	const auto is_for_rings = [](const hw_queue *l) { return load_relaxed(&l->monitored); };

	store_release(&monitor->signals, u32(std::count_if(monitor->all.begin(), monitor->all.end(), is_for_rings)));
	store_release(&monitor->count, u32(monitor->all.size()));
}

void remove_unmonitored()
{
	std::lock_guard guard(monitor->lock);

	std::erase_if(monitor->all, [](const hw_queue *l) {
		return !load_relaxed(&l->monitored) && !load_relaxed(&l->stops_others);
	});
	count_them();
}

int add(hw_queue *l, bool hw_queue::*why)
{
	if (const int err = progress_start())
		return err;
	std::lock_guard guard(monitor->lock);

	if (std::find(monitor->all.begin(), monitor->all.end(), l) == monitor->all.end() && !try_push(monitor->all, l))
		return no_memory("the list of monitored queues");
	store_release(&(l->*why), true);
	count_them();
	return 0;
}

} // namespace

int monitor_add(hw_queue *l)
{
	return add(l, &hw_queue::monitored);
}

int monitor_halts(hw_queue *l)
{
	const int err = add(l, &hw_queue::stops_others);

	if (!err)
		progress_kick();
	return err;
}

bool monitor_any()
{
	return load_acquire(&monitor->signals);
}

bool monitor_run()
{
	bool late = false, idle = false;

	if (likely(!load_acquire(&monitor->count)))
		return false;
	for (size_t i = 0; hw_queue *l = monitored_at(i); i++) {
		if (dma::halted(l->ch))
			hwq_check_fault(l);
		if (!load_acquire(&l->monitored))
			continue;
		const signal_state s = signal_check(l);
		late |= s == signal_state::late;
		idle |= s == signal_state::idle;
	}
	if (idle)
		remove_unmonitored();
	return late;
}

hw_queue *monitor_interest(size_t i, u64 interrupts, u64 *seq)
{
	hw_queue *const l = monitored_at(i);

	if (l)
		*seq = l->halt_armed == interrupts + 1 ? ~u64(0) : load_relaxed(&l->ch->posted) + for_a_halt;
	return l;
}

void monitor_note_arm(hw_queue *l, u64 seq, u64 interrupts)
{
	l->halt_armed = seq - load_relaxed(&l->ch->posted) >= for_a_halt / 2 ? interrupts + 1 : 0;
}

void monitor_forget(const device *dev)
{
	std::lock_guard guard(monitor->lock);

	std::erase_if(monitor->all, [&](const hw_queue *l) { return l->dev == dev; });
	count_them();
}

} // namespace usdma::core
