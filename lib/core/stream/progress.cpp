/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress thread moves gated streams on and makes the calls that were asked for.  Any
 * thread that waits runs it; a thread of its own runs it when nobody does, and
 * sleeps on the engines' service interrupts in between.
 */
#include "driver/base/eventfd.h"
#include "driver/base/fd.h"
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
#include <utility>

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

struct progress_state {
	std::mutex run_lock;   /* one pass at a time, so that calls keep their order */
	std::mutex look_lock;  /* hardware queues of listed streams are looked at outside of a pass; a hardware queue's
				  lock is taken  with it held */
	std::mutex sleep_lock; /* the thread has descriptors of hardware queues; run_lock and look_lock are taken with
				  it held */
	std::mutex list_lock;  /* the lists; taken with a hardware queue's lock held */
	std::vector<listed> gated;
	u64 last_number = 0;
	watch *watches = nullptr, **watches_end = &watches; /* only a pass takes any out */
	bool started = false;
	int wake_fd = -1;   /* eventfd */
	u32 asleep = 0;     /* the thread sleeps, or is about to */
	u32 closing = 0;    /* devices that are going: the thread is not to sleep now */
	u32 count = 0;      /* futex: grows with each pass that moved something */
	u32 watchers = 0;   /* that sleep on progress */
	u64 interrupts = 0; /* that woke the thread */
	u32 looks = 0;      /* through the watches; under run_lock */
};

constinit immortal<progress_state> progress;

/* Between looks at words that nobody tells us of, and at everything. */
constexpr u64 word_look = 200 * ns_per_us, any_look = 50 * ns_per_ms;
constexpr u64 progress_spin = 20 * ns_per_us;

/* ---- a pass ----------------------------------------------------------------------------------------- */

/* With list_lock held: the first on the list with a larger number than this. */
auto first_behind(u64 number)
{
	return std::upper_bound(progress->gated.begin(), progress->gated.end(), number,
				[](u64 n, const listed &l) { return n < l.number; });
}

/* Visits those that are on the list as it begins, each with a reference, without holding its lock. */
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
		__atomic_add_fetch(&it->s->refs, 1, __ATOMIC_RELAXED);
		return it->s;
	}

private:
	u64 at_ = 0, last_ = 0;
};

/* Takes a stream off the list once its queue is empty. */
void remove_if_idle(stream *s)
{
	s->ln->lock.lock();
	const bool gone = !s->gated && progress_remove(s);
	s->ln->lock.unlock();
	if (gone)
		stream_unref(s);
}

bool watch_ready(const watch &w)
{
	if (hwq_halted(w.s->ln))
		hwq_check_fault(w.s->ln);
	return hwq_done(w.s->ln, w.seq) || w.s->dev->lost();
}

/*
 * A stream's calls are made in their order: behind one that has to wait the others wait as well, though they
 * may be ready by now.
 */
bool watch_due(const watch &w)
{
	if (w.s->held_back == progress->looks)
		return false;
	if (watch_ready(w))
		return true;
	w.s->held_back = progress->looks;
	return false;
}

/* Takes those that are due out of the list; with its lock held. */
watch *take_due()
{
	watch *taken = nullptr, **end = &taken;
	watch **at = &progress->watches;

	while (watch *w = *at) {
		if (!w->due) {
			at = &w->next;
			continue;
		}
		store_relaxed(at, w->next);
		*end = w;
		end = &w->next;
	}
	progress->watches_end = at;
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

	progress->list_lock.lock();
	w = progress->watches;
	progress->list_lock.unlock();
	progress->looks++;
	/* Acquire: what was appended is whole. */
	for (; w; w = load_acquire(&w->next))
		any |= w->due = watch_due(*w);
	if (!any)
		return nullptr;
	std::lock_guard guard(progress->list_lock);
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
	std::lock_guard guard(progress->list_lock);

	return progress->gated.empty() && !progress->watches;
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
bool listen(hw_queue *l, std::vector<pollfd> *fds)
{
	const int fd = l->ch->irq_fd[dma::irq_service];

	for (const pollfd &p : *fds)
		if (p.fd == fd)
			return true;
	return fd < 0 || try_push(*fds, pollfd{fd, POLLIN, 0});
}

void arm(hw_queue *l, u64 seq)
{
	std::lock_guard guard(l->lock);

	l->ch->ops->arm(l->ch, dma::irq_service, seq);
}

struct interest {
	hw_queue *ln;
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
		hw_queue *l = in ? record_hw_queue(t.rec) : nullptr;

		return {l, l ? t.rec->seq : 0};
	}
	if (t.kind == task_kind::request || t.kind == task_kind::record)
		return {s->ln, s->ln->ch->posted - s->ln->ch->ring_size / 2};
	if (!hwq_done(s->ln, s->last))
		return {s->ln, s->last};
	if (t.kind == task_kind::gate_check)
		*look = std::min(*look, word_look);
	return {nullptr, 0};
}

/* The least number of each hardware queue: one interrupt slot has one number; no_arm is above all. False: no memory. */
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

/* The progress thread's alone: kept, so that sleeping needs memory only while hardware queues become more. */
struct sleep_lists {
	std::vector<interest> hw_queues;
	std::vector<pollfd> fds;
};

u64 arm_all(sleep_lists *to)
{
	std::lock_guard looking(progress->look_lock);
	u64 look = any_look;
	bool all = true;

	to->hw_queues.clear();
	for (gated_streams some; stream *s = some.next();) {
		all &= add_interest(&to->hw_queues, interest_of(s, &look));
		stream_unref(s);
	}
	progress->list_lock.lock();
	for (const watch *w = progress->watches; w; w = w->next)
		all &= add_interest(&to->hw_queues, {w->s->ln, w->tells ? no_arm : w->seq});
	progress->list_lock.unlock();
	for (const interest &i : to->hw_queues) {
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
		if (p.fd != progress->wake_fd)
			__atomic_fetch_add(&progress->interrupts, 1, __ATOMIC_RELAXED);
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
	__atomic_add_fetch(&progress->count, 1, __ATOMIC_SEQ_CST);
	if (load_relaxed(&progress->watchers))
		futex_wake(&progress->count, 1 << 30);
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

void arm_and_sleep(sleep_lists *to)
{
	std::lock_guard sleeping(progress->sleep_lock);

	to->fds.clear();
	const bool wakes = try_push(to->fds, pollfd{progress->wake_fd, POLLIN, 0});
	/* Full barrier: whoever adds something after this sees asleep; what was added before is seen below. */
	store_fence(&progress->asleep, 1u);
	const u64 look = arm_all(to);
	if (!progress_run_behind() && !__atomic_load_n(&progress->closing, __ATOMIC_SEQ_CST))
		sleep_on(to->fds, !wakes ? word_look : nothing_to_do() ? ~u64(0) : look);
	store_relaxed(&progress->asleep, 0u);
}

void *thread_main(void *)
{
	sleep_lists lists;

	thread_name("usdma-progress");
	for (;;) {
		if (!progress_run() && !run_for(nothing_to_do() ? 0 : progress_spin)) {
			if (load_relaxed(&progress->closing))
				sched_yield();
			arm_and_sleep(&lists);
		}
	}
}

/* With list_lock held. */
int start()
{
	if (progress->started)
		return 0;
	if (progress->wake_fd < 0)
		progress->wake_fd = keep_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (progress->wake_fd < 0)
		return fail_errno("eventfd for the library's background thread");
	if (const int err = thread_start_detached("usdma-progress", thread_main, nullptr))
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
	return tell(moved);
}

/* The other's pass may have looked before something ended. */
bool progress_run_behind()
{
	progress->run_lock.lock();
	const bool moved = pass();
	progress->run_lock.unlock();
	return tell(moved);
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
	__atomic_add_fetch(&progress->watchers, 1, __ATOMIC_SEQ_CST);
	futex_wait_until(&progress->count, seen, abs_ns);
	__atomic_sub_fetch(&progress->watchers, 1, __ATOMIC_RELAXED);
}

void progress_kick()
{
	const u64 one = 1;

	if (__atomic_load_n(&progress->asleep, __ATOMIC_SEQ_CST) && write(progress->wake_fd, &one, sizeof(one)) < 0)
		log_debug("waking the progress thread failed");
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
	__atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
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

void watch_forgo::operator()(watch *w) const
{
	delete w;
}

std::unique_ptr<watch, watch_forgo> progress_place()
{
	return std::unique_ptr<watch, watch_forgo>(new (std::nothrow) watch);
}

int progress_watch(stream *s, bool tells, task &t)
{
	std::lock_guard guard(progress->list_lock);
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
	store_release(progress->watches_end, w);
	progress->watches_end = &w->next;
	return 0;
}

void progress_forget(device *dev)
{
	std::lock_guard run(progress->run_lock); /* no pass is looking at its hardware queues */

	progress->list_lock.lock();
	for (watch *w = progress->watches; w; w = w->next)
		w->due = w->s->dev == dev;
	watch *gone = take_due();
	progress->list_lock.unlock();
	deliver_all(gone);
}

void progress_quiesce()
{
	/* Who found its streams on the list, or a record on its hardware queues, before has looked by now. */
	progress->run_lock.lock();
	progress->run_lock.unlock();
	progress->look_lock.lock();
	progress->look_lock.unlock();
	/*
	 * And the thread does not sleep on its descriptors any more, whose numbers will be others'.  It sets
	 * asleep, then looks at closing; we do it the other way round: one of the two sees the other.
	 */
	__atomic_add_fetch(&progress->closing, 1, __ATOMIC_SEQ_CST);
	progress_kick();
	progress->sleep_lock.lock();
	progress->sleep_lock.unlock();
	__atomic_sub_fetch(&progress->closing, 1, __ATOMIC_RELAXED);
}

bool queue_done(u64 epoch)
{
	std::lock_guard looking(progress->look_lock);
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
