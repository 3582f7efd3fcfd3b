/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work with memory of other machines in the order of a stream. A group, of one call, has two owners: the gate in its
 * stream, and a thread, one for the process, which does the work and frees it:
 *
 *	gate                                          thread
 *	is reached: sets reached                →     may access the memory of the program
 *	opens                                   ←     has the result, sets ended
 *	is dropped: sets left                   →     cancels the work
 *
 * The later of the two frees it. What was posted of work that is cancelled goes on without it, and later work on the
 * same memory waits for that.
 */
#include "driver/base/barrier.h"
#include "driver/base/futex_lock.h"
#include "driver/base/thread.h"
#include "lib/core/config/race.h"
#include "lib/core/stream/task.h"
#include "lib/share/remote_copy.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>

namespace usdma::core {

namespace {

struct remote_group {
	remote_group *next = nullptr;
	stream *s;                            /* with a reference, until ended */
	u32 reached = 0, left = 0, ended = 0; /* atomic, as the next one */
	u32 owners = 2;
	std::unique_ptr<copy_item[]> items;
	helper_pulse pulse; /* the thread's */
	transfer t;

	remote_group(stream *to, const remote_work &w) : s(to), t(to->dev, w, deadline::never()) {}
};

struct remote_thread {
	std::mutex lock;
	bool started = false;
	u32 kicks = 0; /* futex: something was added */
	remote_group *fresh = nullptr, **fresh_end = &fresh;
};

constinit no_destructor<remote_thread> worker;

/* ---- the thread -------------------------------------------------------------------------------------------- */

void take_fresh(remote_group **end)
{
	std::lock_guard guard(worker->lock);

	*end = std::exchange(worker->fresh, nullptr);
	worker->fresh_end = &worker->fresh;
}

void group_put(remote_group *g)
{
	if (fetch_sub_acq_rel(&g->owners, 1u) == 1)
		delete g;
}

/* From here on the memory of the program is not accessed. */
void group_ended(remote_group *g)
{
	stream *const s = g->s;

	stream_outside_leave(s);
	store_release(&g->ended, 1u);
	stream_unref(s);
	group_put(g);
	progress_kick();
}

/* True: something was done. */
bool step_group(remote_group *g)
{
	const race_entered scope; /* by the call */

	if (load_acquire(&g->left)) {
		g->t.cancelled = true;
		transfer_leave(&g->t);
	} else if (const int err = helper_is_over(g->t.by) ? helper_check(g->t.by, &g->pulse) : 0) {
		g->t.fails(err, g->t.item, g->t.at);
		transfer_leave(&g->t);
	} else if (!load_acquire(&g->reached) || !transfer_step(&g->t)) {
		return false;
	}
	return true;
}

/* Steps each, and takes those that are over out of the list. */
bool step_groups(remote_group **all)
{
	bool moved = false;

	for (remote_group **at = all; remote_group *g = *at;) {
		moved |= step_group(g);
		if (!transfer_is_over(g->t)) {
			at = &g->next;
			continue;
		}
		*at = g->next;
		group_ended(g);
	}
	return moved;
}

/*
 * Those of a helper that has ended were over at once, so all are of the same one. What is rung for is not missed: the
 * number was read before the groups were stepped.
 */
void rest(remote_group *all, u32 rings)
{
	helper *const by = all->t.by;

	if (helper_rings(by) == rings)
		helper_wait(by, rings, &all->pulse, deadline::never());
}

void *remote_main(void *)
{
	remote_group *all = nullptr;

	for (;;) {
		const u32 kicks = load_acquire(&worker->kicks);
		remote_group **end = &all;

		while (*end)
			end = &(*end)->next;
		take_fresh(end);
		const u32 rings = all ? helper_rings(all->t.by) : 0;
		if (step_groups(&all))
			continue;
		if (all)
			rest(all, rings);
		else
			futex_wait_until(&worker->kicks, kicks, ~u64(0));
	}
}

int start_thread()
{
	std::lock_guard guard(worker->lock);
	pthread_t thread;
	const int err = worker->started ? 0 : thread_start(&thread, "usdma-remote", remote_main, nullptr);

	worker->started |= !err;
	return err;
}

/* The thread sleeps on one of the two. */
void add_group(remote_group *g)
{
	helper *const by = g->t.by;

	helper_ref(by);
	{
		std::lock_guard guard(worker->lock);

		*worker->fresh_end = g;
		worker->fresh_end = &g->next;
	}
	fetch_add_seq_cst(&worker->kicks, 1u);
	futex_wake(&worker->kicks, 1);
	helper_ring(by);
	helper_put(by);
}

/* ---- the gate ---------------------------------------------------------------------------------------------- */

/* Under the lock of the stream's hardware queue, when its earlier work has ended. */
int gate_check(void *arg)
{
	auto *const g = static_cast<remote_group *>(arg);

	if (!load_relaxed(&g->reached)) {
		store_release(&g->reached, 1u);
		helper_ring(g->t.by);
	}
	if (!load_acquire(&g->ended))
		return 0;
	if (g->t.err)
		stream_note_remote_error(g->s, -g->t.err, g->t.failed_item, g->t.failed_at);
	return 1;
}

void gate_release(void *arg)
{
	auto *const g = static_cast<remote_group *>(arg);

	store_release(&g->left, 1u);
	helper_ring(g->t.by);
	group_put(g);
}

bool gate_uses(const void *arg, const memory_use &use)
{
	const transfer &t = static_cast<const remote_group *>(arg)->t;
	const u64 at = reinterpret_cast<u64>(use.mem);
	const auto meets = [&](const void *p, u64 n) {
		return reinterpret_cast<u64>(p) < at + use.dma.size && at < reinterpret_cast<u64>(p) + n;
	};

	for (u64 i = 0; i < t.w.n; i++) {
		const copy_item c = t.item_at(i);

		if (meets(c.dst, c.len) || (c.src && meets(c.src, c.len)))
			return true;
	}
	return false;
}

/* Each item's source, then its destination. */
race_use use_of(const void *arg, size_t i)
{
	const copy_item c = static_cast<const transfer *>(arg)->item_at(i / 2);

	return i % 2 ? race_use{c.dst, c.len, true} : race_use{c.src, c.src ? c.len : 0, false};
}

int make_group(stream *s, const remote_work &w, std::unique_ptr<remote_group> *out)
{
	std::unique_ptr<remote_group> g(new (std::nothrow) remote_group(s, w));

	if (g && w.items) {
		g->items.reset(new (std::nothrow) copy_item[w.n]);
		if (g->items)
			std::copy(w.items, w.items + w.n, g->items.get());
		g->t.w.items = g->items.get();
	}
	if (!g || (w.items && !g->items))
		return no_memory("work with another machine");
	if (const int err = transfer_begin(&g->t))
		return err;
	*out = std::move(g);
	return 0;
}

} // namespace

int remote_submit_work(stream *s, const remote_work &w, op_numbers *numbers)
{
	std::unique_ptr<remote_group> g;
	int err = start_thread();

	if (!err)
		err = make_group(s, w, &g);
	if (err)
		return err;
	fetch_add_relaxed(&s->refs, 1);
	stream_outside_enter(s);
	if (s->order && !stream_refuses(s))
		race().access(
			{.by = s->order, .what = "copy", .batch = w.n > 1, .n = 2 * w.n, .use = use_of, .arg = &g->t});
	err = stream_wait_check(s, gate_check, gate_release, g.get(), deadline::never(), &seen_nothing,
				changed_by_library, gate_uses, numbers);
	if (!err) {
		add_group(g.release());
		return 0;
	}
	const saved_error why;
	stream_outside_leave(s);
	stream_unref(s);
	return why.again(err);
}

} // namespace usdma::core
