/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress: runs the queues of gated streams and delivers host calls. Any waiting thread makes a pass; the
 * progress thread does when there is no waiter, and sleeps on the engines' service interrupts in between.
 */
#include "driver/base/cpus.h"
#include "driver/base/eventfd.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/base/thread.h"
#include "driver/base/tsan.h"
#include "driver/base/wakes.h"
#include "lib/core/base/section.h"
#include "lib/core/memory/memory.h"
#include "lib/core/queue/fault.h"
#include "lib/core/queue/recover.h"
#include "lib/core/stream/listen.h"
#include "lib/core/stream/stopped.h"
#include "lib/core/stream/task.h"
#include "lib/core/queue/wait.h"

#include <algorithm>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <utility>

namespace usdma::core {

namespace {

/* Entry of the list, in ascending order of numbers. */
struct listed {
	u64 number;
	stream *s; /* a reference */
};

struct progress_state {
	std::mutex run_lock;   /* one pass at a time, so that calls keep their order */
	std::mutex scan_lock;  /* held to read hardware queues of listed streams outside of a pass; a hardware queue's
				  lock nests inside */
	std::mutex sleep_lock; /* held while the thread uses descriptors of hardware queues; run_lock and scan_lock nest
				  inside */
	std::mutex list_lock;  /* the lists; nests inside a hardware queue's lock */
	std::vector<listed> gated;
	u64 last_number = 0;
	call_slot *call_slots = nullptr, **call_slots_end = &call_slots; /* only a pass removes entries */
	bool started = false;
	int wake_fd = -1;   /* eventfd */
	u32 asleep = 0;     /* the thread sleeps, or is about to */
	u32 listens = 0;    /* … and then wakes rings that wait; atomic */
	u32 closing = 0;    /* number of closing devices: the thread must not sleep */
	u32 count = 0;      /* futex: incremented by each pass that made progress */
	u32 waiters = 0;    /* threads asleep on count */
	u32 spinners = 0;   /* threads that make one pass after the other; see spinning_waiter */
	u64 interrupts = 0; /* device interrupts that woke the thread */
	u32 scans = 0;      /* passes over call_slots; under run_lock */
	u32 late = 0;       /* the next pass is due in a millisecond; atomic */
	u64 tasks = 0;      /* ever queued; atomic */
};

constinit no_destructor<progress_state> progress;

/*
 * Words that may change without an interrupt or a kick are polled, at intervals that grow by an eighth while none
 * changes: in proportion to the time for which they have not. Longest sleep.
 */
constexpr u64 word_poll_min_ns = 10 * ns_per_us, word_poll_ns = 200 * ns_per_us, max_sleep_ns = 50 * ns_per_ms;
constexpr u64 progress_spin = 20 * ns_per_us;

/* ---- a pass ----------------------------------------------------------------------------------------- */

/* The first entry with a larger number; with list_lock held. */
auto first_behind(u64 number)
{
	return std::upper_bound(progress->gated.begin(), progress->gated.end(), number,
				[](u64 n, const listed &l) { return n < l.number; });
}

/* Iterates over the streams listed at its start, each with a reference, without holding the list's lock. */
class gated_streams {
public:
	gated_streams()
	{
		std::lock_guard guard(progress->list_lock);

		last_ = progress->last_number;
	}
	stream *next()
	{
		std::lock_guard guard(progress->list_lock);
		const auto it = first_behind(at_);

		if (it == progress->gated.end() || it->number > last_)
			return nullptr;
		at_ = it->number;
		fetch_add_relaxed(&it->s->refs, 1);
		return it->s;
	}

private:
	u64 at_ = 0, last_ = 0;
};

/* Unlists a stream with an empty queue. */
void remove_if_idle(stream *s)
{
	s->ln->lock.lock();
	const bool unlisted = !queue_waits(s) && progress_remove(s);
	s->ln->lock.unlock();
	if (unlisted)
		stream_unref(s);
}

bool call_slot_ready(const call_slot &w)
{
	if (dma::halted(w.s->ln->ch))
		hwq_check_fault(w.s->ln);
	if (!w.seq && stream_has_dropped_outside(w.s))
		return false;
	return hwq_done(w.s->ln, w.seq) || w.s->dev->lost();
}

/* A stream's calls are delivered in order: one that is not ready holds back the later ones. */
bool call_slot_due(const call_slot &w)
{
	if (w.s->held_back == progress->scans)
		return false;
	if (call_slot_ready(w))
		return true;
	w.s->held_back = progress->scans;
	return false;
}

/* Unlinks the calls that are due; with list_lock held. */
call_slot *take_due()
{
	call_slot *taken = nullptr, **end = &taken;
	call_slot **at = &progress->call_slots;

	while (call_slot *w = *at) {
		if (!w->due) {
			at = &w->next;
			continue;
		}
		store_relaxed(at, w->next);
		*end = w;
		end = &w->next;
	}
	progress->call_slots_end = at;
	*end = nullptr;
	return taken;
}

/*
 * Ready calls are unlinked after the scan, so that the list never appears empty. Only a pass removes entries
 * and one pass runs at a time, so entries stay valid during the scan.
 */
call_slot *take_ready()
{
	bool any = false;
	call_slot *w;

	progress->list_lock.lock();
	w = progress->call_slots;
	progress->list_lock.unlock();
	progress->scans++;
	/* Acquire: pairs with the append. */
	for (; w; w = load_acquire(&w->next))
		any |= w->due = call_slot_due(*w);
	if (!any)
		return nullptr;
	std::lock_guard guard(progress->list_lock);
	return take_due();
}

/* Delivers the calls in order. */
void deliver_all(call_slot *w)
{
	while (w) {
		call_slot *const next = w->next;

		/* A file's reader is unknown: the program counts as having read. */
		if (w->s->order && !w->by)
			race().call_event(race_event::call_starts, w->s, 0);
		stream_mark_end(w->mark);
		w->deliver(w->arg, nullptr);
		/* Release: a blocking call that reads 0 is delivered after this one. */
		fetch_sub_release(&w->s->pending_calls, 1);
		stream_unref(w->s);
		delete w;
		w = next;
	}
}

bool nothing_to_do()
{
	std::lock_guard guard(progress->list_lock);

	return progress->gated.empty() && !progress->call_slots && !monitor_any() && !hooks_any() &&
	       !load_relaxed(&progress->late);
}

bool pass()
{
	bool moved = false;

	/* A gate may depend on a halted or hung ring of any device that has no waiter. */
	if (!nothing_to_do())
		devices_poll();
	signals_retry();
	hooks_run();
	const bool left = stopped_leave_rings();
	store_relaxed(&progress->late, u32(monitor_run() || !left));
	/* Before the streams, whose blocking calls wait for these. */
	if (call_slot *ready = take_ready()) {
		deliver_all(ready);
		moved = true;
	}
	for (gated_streams all; stream *s = all.next();) {
		moved |= stream_advance(s);
		remove_if_idle(s);
		stream_unref(s);
	}
	return moved;
}

/* ---- sleeping --------------------------------------------------------------------------------------- */

struct interest {
	hw_queue *ln;
	u64 seq; /* no_arm: an interrupt is already requested */
};
constexpr u64 no_arm = ~u64(0);

/* How the thread may sleep. */
struct sleep_limits {
	u64 ns = max_sleep_ns;
	u8 words = 0;       /* bits of changed_by: how what is waited for may change */
	bool polls = false; /* a pass may find something for which no descriptor is raised */
};

/* What the first task of a stream waits for. */
interest interest_of(stream *s, sleep_limits *limits)
{
	std::lock_guard guard(s->ln->lock);

	if (!s->queue)
		return {nullptr, 0};
	const task &t = s->queue->t;
	if (!t.until.is_never())
		limits->ns = std::min(limits->ns, t.until.left_ns());
	if (t.kind == task_kind::gate_event) {
		const read_section in;
		hw_queue *l = in ? record_hw_queue(t.rec) : nullptr;

		return {l, l ? t.rec->seq : 0};
	}
	if (t.kind == task_kind::request || t.kind == task_kind::record) {
		/* Of half a ring, so that there are few. */
		limits->polls = true;
		return {s->ln, s->ln->ch->posted - s->ln->ch->ring_size / 2};
	}
	if (!hwq_done(s->ln, s->last))
		return {s->ln, s->last};
	if (t.kind == task_kind::gate_check)
		limits->words |= t.changed_by;
	return {nullptr, 0};
}

/* Keeps the least number of each hardware queue, as one can be armed; no_arm exceeds all. False: no memory. */
bool add_interest(std::vector<interest> *all, interest i)
{
	if (!i.ln)
		return true;
	for (interest &o : *all)
		if (o.ln == i.ln) {
			o.seq = std::min(o.seq, i.seq);
			return true;
		}
	return try_push(*all, i);
}

/* Used by the progress thread only; reused, so that memory is allocated only when hardware queues are added. */
struct sleep_lists {
	std::vector<interest> hw_queues;
	std::vector<pollfd> fds;
	u64 poll_ns = word_poll_min_ns;
	bool rings = false; /* some wait for what other devices write */
	bool deaf = false;  /* fds is not complete, as memory is missing */
	bool polls = false; /* as in sleep_limits */
};

/* A marked request interrupts by itself, but a device that holds its work runs only what is armed. */
interest interest_of_call(const call_slot *w)
{
	/* A call that was dropped waits for stream_outside_leave() only. */
	return {w->s->ln, !w->seq || (w->marked && w->s->dev->timing < check_timing::late) ? no_arm : w->seq};
}

u64 arm_all(sleep_lists *to)
{
	std::lock_guard scanning(progress->scan_lock);
	sleep_limits limits;
	bool all = true;

	limits.words = hooks_poll() ? changed_by_others : 0;
	to->rings = rings_wait();
	to->hw_queues.clear();
	for (gated_streams some; stream *s = some.next();) {
		all &= add_interest(&to->hw_queues, interest_of(s, &limits));
		stream_unref(s);
	}
	progress->list_lock.lock();
	for (const call_slot *w = progress->call_slots; w; w = w->next)
		all &= add_interest(&to->hw_queues, interest_of_call(w));
	progress->list_lock.unlock();
	const u64 interrupts = progress_interrupts();
	u64 seq;
	for (size_t i = 0; hw_queue *l = monitor_interest(i, interrupts, &seq); i++)
		all &= add_interest(&to->hw_queues, {l, seq});
	all &= signals_listen(&to->fds);
	if (limits.words & changed_by_device)
		devices_arm_held();
	if (limits.words & changed_by_device || to->rings)
		all &= listen_to_all(&to->fds);
	for (const interest &i : to->hw_queues) {
		all &= listen_to(i.ln, &to->fds);
		if (i.seq == no_arm)
			continue;
		monitor_note_arm(i.ln, i.seq, interrupts);
		hwq_arm_service(i.ln, i.seq);
	}
	to->polls = limits.polls || limits.words;
	if (load_relaxed(&progress->late))
		limits.ns = std::min(limits.ns, ns_per_ms);
	drop_doubles(&to->fds);
	/* Without memory to wait for all interrupts, poll. */
	to->deaf = !all;
	if (!all)
		return std::min(limits.ns, word_poll_ns);
	if (limits.words & changed_by_others && !load_seq_cst(&progress->spinners))
		limits.ns = std::min(limits.ns, to->poll_ns);
	return nothing_to_do() ? ~u64(0) : limits.ns;
}

/* True: the thread was kicked. */
bool drain(const std::vector<pollfd> &fds)
{
	bool kicked = false;

	for (const pollfd &p : fds) {
		if (!(p.revents & POLLIN))
			continue;
		kicked |= p.fd == progress->wake_fd;
		fetch_add_relaxed(&progress->interrupts, u64(p.fd != progress->wake_fd));
		eventfd_clear(p.fd);
	}
	return kicked;
}

/* False: the time is over. */
bool sleep_once(std::vector<pollfd> &fds, u64 ns, bool *kicked)
{
	const timespec ts = {time_t(ns / ns_per_s), long(ns % ns_per_s)};

	*kicked = false;
	if (ppoll(fds.data(), fds.size(), ns == ~u64(0) ? nullptr : &ts, nullptr) == 0)
		return false;
	*kicked = drain(fds);
	return true;
}

/* As long as there is nothing else to do, rings are woken without a pass. */
bool sleep_on(sleep_lists *to, u64 ns)
{
	static constexpr unsigned most_in_vain = 64;
	bool kicked;

	for (unsigned in_vain = 0;; in_vain++) {
		if (!sleep_once(to->fds, ns, &kicked)) {
			if (to->rings && to->deaf)
				rings_wake();
			return false;
		}
		if (to->rings && rings_wake())
			in_vain = 0;
		if (!to->rings || kicked || ns != ~u64(0) || in_vain > most_in_vain)
			return true;
	}
}

/* A pass has posted a WAIT, and the thread does not listen to the other devices. */
bool ring_is_unheard()
{
	return device_open_count() > 1 && !progress_listens() && rings_wait();
}

/* Wakes waiters after a pass that made progress. */
bool notify(bool moved)
{
	if (!moved)
		return false;
	fetch_add_seq_cst(&progress->count, 1);
	/* Not relaxed: it could be loaded before the count is stored, which only x86 prevents. */
	if (load_seq_cst(&progress->waiters))
		futex_wake(&progress->count, 1 << 30);
	/* What the streams wait for now may be something that the thread does not listen to. */
	if (!load_seq_cst(&progress->spinners) || ring_is_unheard())
		progress_kick();
	return true;
}

bool run_for(u64 ns)
{
	const u64 end = now_ns() + ns;

	do {
		if (progress_run())
			return true;
		cpu_relax();
	} while (now_ns() < end);
	return false;
}

/* The longest sleep is over: counts what a pass finds, if none of the descriptors is raised for it. */
void note_missed(std::vector<pollfd> &fds)
{
	const u64 late = load_relaxed(&wake_late_ns);
	const timespec ts = {time_t(late / ns_per_s), long(late % ns_per_s)};
	const u32 failures = devices_failures();

	if (progress_run_behind() && failures == devices_failures() && ppoll(fds.data(), fds.size(), &ts, nullptr) == 0)
		wake_count(&wake_counts::lost);
}

/* False: nothing has happened until a poll is due. */
bool arm_and_sleep(sleep_lists *to)
{
	std::lock_guard sleeping(progress->sleep_lock);
	bool woken = true;

	to->fds.clear();
	const bool wakes = try_push(to->fds, pollfd{progress->wake_fd, POLLIN, 0});
	/* Full barrier: work added later sees asleep set; work added earlier is seen below. */
	store_fence(&progress->asleep, 1u);
	const u64 sleep_ns = arm_all(to);
	store_fence(&progress->listens, u32(to->rings));
	if (progress_run_behind())
		to->poll_ns = word_poll_min_ns;
	else if (!load_seq_cst(&progress->closing))
		woken = sleep_on(to, wakes ? sleep_ns : word_poll_ns);
	/* Full barrier: who sees it set has posted a WAIT that the next rings_wait() sees. */
	store_fence(&progress->listens, 0u);
	if (!woken && sleep_ns == max_sleep_ns && !to->polls)
		note_missed(to->fds);
	store_relaxed(&progress->asleep, 0u);
	return woken;
}

/* Not while another thread does. */
u64 spin_ns()
{
	return nothing_to_do() || load_relaxed(&progress->spinners) ? 0 : progress_spin;
}

void *progress_main(void *)
{
	const tsan_ignored scope;
	sleep_lists lists;

	thread_name("usdma-progress");
	thread_short_slice();
	/* Of this thread, so that short sleeps are short; else polls are later. */
	prctl(PR_SET_TIMERSLACK, 1000);
	for (bool woken = true;;) {
		/* When a poll is due, arm_and_sleep() makes the pass. */
		if (woken && (progress_run() || run_for(spin_ns()))) {
			lists.poll_ns = word_poll_min_ns;
			continue;
		}
		if (load_relaxed(&progress->closing))
			sched_yield();
		woken = arm_and_sleep(&lists);
		if (!woken)
			lists.poll_ns = std::min(lists.poll_ns + lists.poll_ns / 8, word_poll_ns);
	}
}

/* With list_lock held. */
int start()
{
	if (progress->started)
		return 0;
	/* A thread of a child that shares the memory would end with the child. */
	if (is_other_process())
		return fail_forked();
	if (progress->wake_fd < 0)
		progress->wake_fd = eventfd_make();
	if (progress->wake_fd < 0)
		return fail_errno("eventfd for the library's background thread");
	if (const int err = thread_start_detached("usdma-progress", progress_main, nullptr))
		return err;
	progress->started = true;
	return 0;
}

} // namespace

bool progress_run()
{
	bool moved;

	if (!progress->run_lock.try_lock())
		return false;
	moved = pass();
	progress->run_lock.unlock();
	return notify(moved);
}

/* Another thread's pass may have checked before the work ended. */
bool progress_run_behind()
{
	progress->run_lock.lock();
	const bool moved = pass();
	progress->run_lock.unlock();
	return notify(moved);
}

int progress_start()
{
	std::lock_guard guard(progress->list_lock);

	return start();
}

bool progress_listens()
{
	return load_seq_cst(&progress->listens);
}

u64 progress_interrupts()
{
	return load_relaxed(&progress->interrupts);
}

u32 progress_count()
{
	return load_acquire(&progress->count);
}

void progress_wait(u32 seen, u64 abs_ns)
{
	fetch_add_seq_cst(&progress->waiters, 1);
	futex_wait_checked(&progress->count, seen, any_value, abs_ns, 20 * ns_per_ms);
	fetch_sub_relaxed(&progress->waiters, 1);
}

/* On fewer CPUs it would delay the engines and the progress thread, by which it is woken as well. */
static bool may_spin()
{
	static const bool may = usable_cpus() > 2;

	return may;
}

spinning_waiter::spinning_waiter(const hw_queue *l, wait_mode mode) : l_(l)
{
	if (!may_spin())
		return;
	if (mode == wait_mode::hybrid && !hwq_engine_is_here(l))
		until_ = now_ns() + config_get().spin_us * ns_per_us;
	else if (mode == wait_mode::poll)
		until_ = ~u64(0);
	if (until_)
		start();
}

void spinning_waiter::start()
{
	if (!std::exchange(counted_, true))
		fetch_add_seq_cst(&progress->spinners, 1);
}

/* The thread goes on where this one has stopped. */
void spinning_waiter::pause()
{
	if (!std::exchange(counted_, false))
		return;
	fetch_sub_seq_cst(&progress->spinners, 1);
	if (!nothing_to_do() || ring_is_unheard())
		progress_kick();
}

bool spinning_waiter::goes_on()
{
	if (until_ && now_ns() >= until_)
		until_ = 0;
	if (!until_) {
		pause();
		return false;
	}
	start();
	if (hwq_engine_is_here(l_))
		sched_yield();
	return true;
}

/* On arm64 the callers' store_release() is ordered before this load because it is seq_cst (STLR, then LDAR). */
void progress_kick()
{
	const u64 one = 1;

	if (load_seq_cst(&progress->asleep) && write(progress->wake_fd, &one, sizeof(one)) < 0)
		log_debug("waking the progress thread failed");
}

void progress_note()
{
	notify(true);
}

int progress_add(stream *s)
{
	std::lock_guard guard(progress->list_lock);
	const int err = start();

	if (err)
		return err;
	if (s->listed)
		return 0;
	if (!try_push(progress->gated, listed{progress->last_number + 1, s}))
		return no_memory("the list of streams behind gates");
	s->listed = ++progress->last_number;
	fetch_add_relaxed(&s->refs, 1);
	return 0;
}

bool progress_remove(stream *s)
{
	std::lock_guard guard(progress->list_lock);
	const u64 number = std::exchange(s->listed, 0);

	if (number)
		progress->gated.erase(first_behind(number - 1));
	return number != 0;
}

int progress_add_call(stream *s, u64 seq, bool marked, task &t)
{
	std::lock_guard guard(progress->list_lock);
	const int err = start();

	if (err)
		return err;
	call_slot *w = t.slot.release();

	fetch_add_relaxed(&s->refs, 1);
	fetch_add_relaxed(&s->pending_calls, 1);
	w->s = s;
	w->seq = seq;
	w->by = t.by;
	w->mark = t.mark;
	w->marked = marked;
	w->deliver = t.deliver;
	w->arg = t.arg;
	/* Release: an iterating pass sees it initialized. */
	store_release(progress->call_slots_end, w);
	progress->call_slots_end = &w->next;
	return 0;
}

void progress_forget(device *dev)
{
	std::lock_guard run(progress->run_lock); /* no pass uses its hardware queues */

	progress->list_lock.lock();
	for (call_slot *w = progress->call_slots; w; w = w->next)
		w->due = w->s->dev == dev;
	call_slot *due = take_due();
	progress->list_lock.unlock();
	deliver_all(due);
	monitor_forget(dev);
}

void progress_quiesce()
{
	/* Wait for passes that may still use its streams or hardware queues. */
	progress->run_lock.lock();
	progress->run_lock.unlock();
	progress->scan_lock.lock();
	progress->scan_lock.unlock();
	/*
	 * Wait until the thread does not sleep on the device's descriptors, whose numbers will be reused. It
	 * stores asleep, then loads closing; here the order is reversed: one of the two sees the other's store.
	 */
	fetch_add_seq_cst(&progress->closing, 1);
	progress_kick();
	progress->sleep_lock.lock();
	progress->sleep_lock.unlock();
	fetch_sub_relaxed(&progress->closing, 1);
}

u64 progress_number()
{
	return fetch_add_relaxed(&progress->tasks, 1) + 1;
}

u64 stream_gated_last()
{
	return load_acquire(&progress->tasks);
}

u64 stream_gated_posted(const device *dev)
{
	u64 posted = stream_gated_last();
	std::lock_guard guard(progress->list_lock);

	for (const listed &l : progress->gated)
		if (l.s->dev == dev)
			posted = std::min(posted, load_acquire(&l.s->front) - 1);
	return posted;
}

static bool uses(const task &t, const memory_use &use)
{
	return t.kind == task_kind::request ? dma::may_access(t.req, use.dma) : t.uses && t.uses(t.arg, use);
}

/* With scan_lock held: its hardware queue stays until progress_quiesce() has had that. */
static bool is_listed(const stream *s)
{
	std::lock_guard guard(progress->list_lock);

	return s->listed;
}

/* The number of the last task that uses the memory; 0: none. */
static u64 last_use(stream *s, const memory_use &use, deadline until)
{
	std::lock_guard scanning(progress->scan_lock);
	u64 last = 0;

	if (!is_listed(s))
		return 0;
	if (!s->ln->lock_until(until))
		return load_acquire(&s->front);
	for (const queued *q = s->queue; q; q = q->next)
		last = uses(q->t, use) ? q->t.number : last;
	s->ln->lock.unlock();
	return last;
}

bool stream_gated_await(const memory_use &use, deadline until)
{
	const timespec nap = {0, 50 * 1000};
	bool over = true;

	for (gated_streams all; stream *s = all.next();) {
		const u64 last = last_use(s, use, until);

		while (load_acquire(&s->front) <= last && !until.passed())
			nanosleep(&nap, nullptr);
		over &= load_acquire(&s->front) > last;
		stream_unref(s);
	}
	return over;
}

} // namespace usdma::core
