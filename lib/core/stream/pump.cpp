/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pump moves gated streams on and makes the calls that were asked for.  Any
 * thread that waits runs it; a thread of its own runs it when nobody does, and
 * sleeps on the engines' service interrupts in between.
 */
#include "driver/base/eventfd.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/base/thread.h"
#include "lib/core/base/section.h"
#include "lib/core/stream/fault.h"
#include "lib/core/stream/recover.h"
#include "lib/core/stream/task.h"
#include "lib/core/channel/wait.h"

#include <algorithm>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace usdma::core {

/* Made with the call, so that nothing is wanting when its turn comes. */
struct watch {
	stream *s = nullptr; /* a reference */
	u64 seq = 0;
	bool tells = false; /* the device interrupts by itself: nothing is armed */
	bool due = false;   /* a pass's */
	void (*deliver)(void *arg, call_token *done) = nullptr;
	void *arg = nullptr;
	watch *next = nullptr; /* atomic: a pass walks along while others append */
};

namespace {

/* A stream's place on the list; numbers grow. */
struct listed {
	u64 number;
	stream *s; /* a reference */
};

struct pump_state {
	std::mutex run_lock;  /* one pass at a time, so that calls keep their order */
	std::mutex look_lock; /* lanes of listed streams are looked at outside of a pass; a lane's lock is taken with it held */
	std::mutex sleep_lock; /* the thread has descriptors of lanes; run_lock and look_lock are taken with it held */
	std::mutex list_lock; /* the lists; taken with a lane's lock held */
	std::vector<listed> gated;
	u64 last_number = 0;
	watch *watches = nullptr, **watches_end = &watches; /* only a pass takes any out */
	bool started = false;
	int wake_fd = -1;     /* eventfd */
	u32 asleep = 0;       /* the thread sleeps, or is about to */
	u32 closing = 0;      /* devices that are going: the thread is not to sleep now */
	u32 progress = 0;     /* futex: grows with each pass that moved something */
	u32 watchers = 0;     /* that sleep on progress */
	u64 interrupts = 0;   /* that woke the thread */
	u32 looks = 0;        /* through the watches; under run_lock */
};

constinit immortal<pump_state> pump;

/* Between looks at words that nobody tells us of, and at everything. */
constexpr u64 word_look = 200 * ns_per_us, any_look = 50 * ns_per_ms;
constexpr u64 pump_spin = 20 * ns_per_us;

/* ---- a pass ----------------------------------------------------------------------------------------- */

/* Visits those that are on the list as it begins, each with a reference, without holding its lock. */
class gated_streams {
public:
	gated_streams()
	{
		std::lock_guard guard(pump->list_lock);

		last_ = pump->last_number;
	}
	stream *next()
	{
		std::lock_guard guard(pump->list_lock);
		const auto &all = pump->gated;
		const auto it = std::upper_bound(all.begin(), all.end(), at_, [](u64 n, const listed &l) { return n < l.number; });

		if (it == all.end() || it->number > last_)
			return nullptr;
		at_ = it->number;
		__atomic_add_fetch(&it->s->refs, 1, __ATOMIC_RELAXED);
		return it->s;
	}

private:
	u64 at_ = 0, last_ = 0;
};

auto place_of(const stream *s)
{
	return std::find_if(pump->gated.begin(), pump->gated.end(), [s](const listed &l) { return l.s == s; });
}

/* Takes a stream off the list once its queue is empty. */
void remove_if_idle(stream *s)
{
	bool gone = false;

	s->ln->lock.lock();
	pump->list_lock.lock();
	if (!s->gated) {
		const auto at = place_of(s);

		gone = at != pump->gated.end();
		if (gone)
			pump->gated.erase(at);
	}
	pump->list_lock.unlock();
	s->ln->lock.unlock();
	if (gone)
		stream_unref(s);
}

bool watch_ready(const watch &w)
{
	if (lane_halted(w.s->ln))
		lane_check_fault(w.s->ln);
	return lane_done(w.s->ln, w.seq) || w.s->dev->lost();
}

/* A stream's calls are made in their order: behind one that has to wait the others wait as well, though they may be ready by now. */
bool watch_due(const watch &w)
{
	if (w.s->held_back == pump->looks)
		return false;
	if (watch_ready(w))
		return true;
	w.s->held_back = pump->looks;
	return false;
}

/* Takes those that are due out of the list; with its lock held. */
watch *take_due()
{
	watch *taken = nullptr, **end = &taken;
	watch **at = &pump->watches;

	while (watch *w = *at) {
		if (!w->due) {
			at = &w->next;
			continue;
		}
		store_relaxed(at, w->next);
		*end = w;
		end = &w->next;
	}
	pump->watches_end = at;
	*end = nullptr;
	return taken;
}

/*
 * The ready ones leave the list only after they were looked at, so that it never seems empty.  Only a
 * pass takes any out, and one pass runs at a time: those looked at stay.
 */
watch *take_ready()
{
	bool any = false;
	watch *w;

	pump->list_lock.lock();
	w = pump->watches;
	pump->list_lock.unlock();
	pump->looks++;
	/* Acquire: what was appended is whole. */
	for (; w; w = load_acquire(&w->next))
		any |= w->due = watch_due(*w);
	if (!any)
		return nullptr;
	std::lock_guard guard(pump->list_lock);
	return take_due();
}

/* Makes the calls, in their order. */
void deliver_all(watch *w)
{
	while (w) {
		watch *const next = w->next;

		w->deliver(w->arg, nullptr);
		/* Release: a blocking call that sees none left comes after this one. */
		__atomic_sub_fetch(&w->s->watched, 1, __ATOMIC_RELEASE);
		stream_unref(w->s);
		delete w;
		w = next;
	}
}

bool nothing_to_do()
{
	std::lock_guard guard(pump->list_lock);

	return pump->gated.empty() && !pump->watches;
}

bool pass()
{
	bool moved = false;

	/* What is gated may wait for a ring of any device that halted or hangs while nobody waits for it. */
	if (!nothing_to_do())
		watch_all();
	/* Before the streams: their blocking calls wait for these. */
	if (watch *ready = take_ready()) {
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

/* False: no memory to listen to it. */
bool listen(lane *l, std::vector<pollfd> *fds)
{
	const int fd = l->ch->irq_fd[dma::irq_service];

	for (const pollfd &p : *fds)
		if (p.fd == fd)
			return true;
	return fd < 0 || try_push(*fds, pollfd{fd, POLLIN, 0});
}

void arm(lane *l, u64 seq)
{
	std::lock_guard guard(l->lock);

	l->ch->ops->arm(l->ch, dma::irq_service, seq);
}

struct interest {
	lane *ln;
	u64 seq; /* no_arm: the device tells without */
};
constexpr u64 no_arm = ~u64(0);

/* What the first task of a stream waits for; *look: how long to sleep at most. */
interest interest_of(stream *s, u64 *look)
{
	std::lock_guard guard(s->ln->lock);

	if (!s->queue)
		return {nullptr, 0};
	const task &t = s->queue->t;
	if (!t.until.is_never())
		*look = std::min(*look, t.until.left_ns());
	if (t.kind == task_kind::gate_event) {
		const read_section in;
		lane *l = in ? record_lane(t.rec) : nullptr;

		return {l, l ? t.rec->seq : 0};
	}
	if (t.kind == task_kind::request || t.kind == task_kind::record)
		return {s->ln, s->ln->ch->posted - s->ln->ch->ring_size / 2};
	if (!lane_done(s->ln, s->last))
		return {s->ln, s->last};
	if (t.kind == task_kind::gate_check)
		*look = std::min(*look, word_look);
	return {nullptr, 0};
}

/* The least number of each lane: one interrupt slot has one number; no_arm is above all. False: no memory. */
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

/* The pump's alone: kept, so that sleeping needs memory only while lanes become more. */
struct sleep_lists {
	std::vector<interest> lanes;
	std::vector<pollfd> fds;
};

u64 arm_all(sleep_lists *to)
{
	std::lock_guard looking(pump->look_lock);
	u64 look = any_look;
	bool all = true;

	to->lanes.clear();
	for (gated_streams some; stream *s = some.next();) {
		all &= add_interest(&to->lanes, interest_of(s, &look));
		stream_unref(s);
	}
	pump->list_lock.lock();
	for (const watch *w = pump->watches; w; w = w->next)
		all &= add_interest(&to->lanes, {w->s->ln, w->tells ? no_arm : w->seq});
	pump->list_lock.unlock();
	for (const interest &i : to->lanes) {
		all &= listen(i.ln, &to->fds);
		if (i.seq != no_arm)
			arm(i.ln, i.seq);
	}
	/* Without memory to listen to all of them it looks. */
	return all ? look : std::min(look, word_look);
}

void drain(const std::vector<pollfd> &fds)
{
	for (const pollfd &p : fds) {
		if (!(p.revents & POLLIN))
			continue;
		if (p.fd != pump->wake_fd)
			__atomic_fetch_add(&pump->interrupts, 1, __ATOMIC_RELAXED);
		eventfd_clear(p.fd);
	}
}

void sleep_on(std::vector<pollfd> &fds, u64 ns)
{
	const timespec ts = {time_t(ns / ns_per_s), long(ns % ns_per_s)};

	if (ppoll(fds.data(), fds.size(), ns == ~u64(0) ? nullptr : &ts, nullptr) > 0)
		drain(fds);
}

/* A pass that found something is told to those who wait for it. */
bool tell(bool moved)
{
	if (!moved)
		return false;
	__atomic_add_fetch(&pump->progress, 1, __ATOMIC_SEQ_CST);
	if (load_relaxed(&pump->watchers))
		futex_wake(&pump->progress, 1 << 30);
	return true;
}

/* Also after a pass of another thread, which may have looked before something ended. */
bool run_after_others()
{
	pump->run_lock.lock();
	const bool moved = pass();
	pump->run_lock.unlock();
	return tell(moved);
}

bool run_for(u64 ns)
{
	const u64 end = now_ns() + ns;

	do {
		if (pump_run())
			return true;
		cpu_relax();
	} while (now_ns() < end);
	return false;
}

void arm_and_sleep(sleep_lists *to)
{
	std::lock_guard sleeping(pump->sleep_lock);

	to->fds.clear();
	const bool wakes = try_push(to->fds, pollfd{pump->wake_fd, POLLIN, 0});
	/* Full barrier: whoever adds something after this sees asleep; what was added before is seen below. */
	store_fence(&pump->asleep, 1u);
	const u64 look = arm_all(to);
	if (!run_after_others() && !__atomic_load_n(&pump->closing, __ATOMIC_SEQ_CST))
		sleep_on(to->fds, !wakes ? word_look : nothing_to_do() ? ~u64(0) : look);
	store_relaxed(&pump->asleep, 0u);
}

void *thread_main(void *)
{
	sleep_lists lists;

	thread_name("usdma-pump");
	for (;;) {
		if (!pump_run() && !run_for(nothing_to_do() ? 0 : pump_spin)) {
			if (load_relaxed(&pump->closing))
				sched_yield();
			arm_and_sleep(&lists);
		}
	}
}

/* With list_lock held. */
int start()
{
	if (pump->started)
		return 0;
	if (pump->wake_fd < 0)
		pump->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (pump->wake_fd < 0)
		return fail_errno("eventfd for the library's background thread");
	if (const int err = thread_start_detached("usdma-pump", thread_main, nullptr))
		return err;
	pump->started = true;
	return 0;
}

} // namespace

bool pump_run()
{
	bool moved;

	if (!pump->run_lock.try_lock())
		return false;
	moved = pass();
	pump->run_lock.unlock();
	return tell(moved);
}

u64 pump_interrupts()
{
	return load_relaxed(&pump->interrupts);
}

u32 pump_progress()
{
	return load_acquire(&pump->progress);
}

void pump_wait_progress(u32 seen, u64 abs_ns)
{
	__atomic_add_fetch(&pump->watchers, 1, __ATOMIC_SEQ_CST);
	futex_wait_until(&pump->progress, seen, abs_ns);
	__atomic_sub_fetch(&pump->watchers, 1, __ATOMIC_RELAXED);
}

void pump_kick()
{
	const u64 one = 1;

	if (__atomic_load_n(&pump->asleep, __ATOMIC_SEQ_CST) && write(pump->wake_fd, &one, sizeof(one)) < 0)
		log_debug("waking the pump failed");
}

int pump_add(stream *s)
{
	std::lock_guard guard(pump->list_lock);
	const int err = start();

	if (err)
		return err;
	if (place_of(s) != pump->gated.end())
		return 0;
	if (!try_push(pump->gated, listed{pump->last_number + 1, s}))
		return no_memory("the list of streams behind gates");
	pump->last_number++;
	__atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
	return 0;
}

void watch_forgo::operator()(watch *w) const
{
	delete w;
}

std::unique_ptr<watch, watch_forgo> pump_place()
{
	return std::unique_ptr<watch, watch_forgo>(new (std::nothrow) watch);
}

int pump_watch(stream *s, bool tells, task &t)
{
	std::lock_guard guard(pump->list_lock);
	const int err = start();

	if (err)
		return err;
	watch *w = t.place.release();

	__atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&s->watched, 1, __ATOMIC_RELAXED);
	w->s = s;
	w->seq = s->last;
	w->tells = tells;
	w->deliver = t.deliver;
	w->arg = t.arg;
	/* Release: who walks along sees it whole. */
	store_release(pump->watches_end, w);
	pump->watches_end = &w->next;
	return 0;
}

/* With list_lock held: the first of the device's; it leaves the list. */
static stream *take_gated(const device *dev)
{
	const auto at = std::find_if(pump->gated.begin(), pump->gated.end(), [dev](const listed &l) { return l.s->dev == dev; });
	stream *s = nullptr;

	if (at != pump->gated.end()) {
		s = at->s;
		pump->gated.erase(at);
	}
	return s;
}

void pump_forget(device *dev)
{
	std::lock_guard run(pump->run_lock); /* no pass is looking at its lanes */

	pump->list_lock.lock();
	for (watch *w = pump->watches; w; w = w->next)
		w->due = w->s->dev == dev;
	watch *gone = take_due();
	pump->list_lock.unlock();
	deliver_all(gone);
	/* Streams that ended with work in their queues stay listed until a pass sees them: too late for their lanes. */
	for (;;) {
		pump->list_lock.lock();
		stream *s = take_gated(dev);
		pump->list_lock.unlock();
		if (!s)
			break;
		stream_unref(s);
	}
}

void pump_settle()
{
	/* Who found its streams on the list, or a record on its lanes, before has looked by now. */
	pump->run_lock.lock();
	pump->run_lock.unlock();
	pump->look_lock.lock();
	pump->look_lock.unlock();
	/*
	 * And the thread does not sleep on its descriptors any more, whose numbers will be others'.  It sets
	 * asleep, then looks at closing; we do it the other way round: one of the two sees the other.
	 */
	__atomic_add_fetch(&pump->closing, 1, __ATOMIC_SEQ_CST);
	pump_kick();
	pump->sleep_lock.lock();
	pump->sleep_lock.unlock();
	__atomic_sub_fetch(&pump->closing, 1, __ATOMIC_RELAXED);
}

bool queue_done(u64 epoch)
{
	std::lock_guard looking(pump->look_lock);
	bool done = true;

	for (gated_streams all; stream *s = all.next();) {
		s->ln->lock.lock();
		if (s->queue && s->queue->t.number <= epoch)
			done = false;
		s->ln->lock.unlock();
		stream_unref(s);
	}
	return done;
}

} // namespace usdma::core
