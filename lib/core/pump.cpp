/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pump moves gated streams on and makes the calls that were asked for.  Any
 * thread that waits runs it; a thread of its own runs it when nobody does, and
 * sleeps on the engines' service interrupts in between.
 */
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/base/thread.h"
#include "lib/core/task.h"
#include "lib/core/wait.h"

#include <algorithm>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace usdma::core {

namespace {

struct watch {
	stream *s; /* a reference */
	u64 seq;
	bool tells; /* the device interrupts by itself: nothing is armed */
	void (*deliver)(void *arg, call_token *done);
	void *arg;
};

struct pump_state {
	std::mutex run_lock;  /* one pass at a time, so that calls keep their order */
	std::mutex look_lock; /* lanes of listed streams are looked at outside of a pass; a lane's lock is taken with it held */
	std::mutex sleep_lock; /* the thread has descriptors of lanes; run_lock and look_lock are taken with it held */
	std::mutex list_lock; /* the lists; taken with a lane's lock held */
	std::vector<stream *> gated; /* each with a reference */
	std::vector<watch> watches;
	u64 watched_ns = 0;   /* under run_lock */
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
/* Between looks for devices that stand still. */
constexpr u64 watch_every = 20 * ns_per_ms;
constexpr u64 pump_spin = 20 * ns_per_us;

/* ---- a pass ----------------------------------------------------------------------------------------- */

std::vector<stream *> snapshot()
{
	std::lock_guard guard(pump->list_lock);

	for (stream *s : pump->gated)
		__atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
	return pump->gated;
}

/* Takes a stream off the list once its queue is empty. */
void remove_if_idle(stream *s)
{
	bool gone = false;

	s->ln->lock.lock();
	pump->list_lock.lock();
	if (!s->gated) {
		auto at = std::find(pump->gated.begin(), pump->gated.end(), s);

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
	if (dma::halted(w.s->ln->ch))
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

/*
 * The ready ones leave the list only after they were looked at, so that it never seems empty.  Only a
 * pass takes any out, and one pass runs at a time: those looked at stay in front.
 */
std::vector<watch> take_ready()
{
	std::vector<watch> all, ready, rest;

	pump->list_lock.lock();
	all = pump->watches;
	pump->list_lock.unlock();
	pump->looks++;
	for (const watch &w : all)
		(watch_due(w) ? ready : rest).push_back(w);
	if (ready.empty())
		return ready;
	std::lock_guard guard(pump->list_lock);
	rest.insert(rest.end(), pump->watches.begin() + long(all.size()), pump->watches.end());
	pump->watches.swap(rest);
	return ready;
}

void deliver_watch(const watch &w)
{
	w.deliver(w.arg, nullptr);
	/* Release: a blocking call that sees none left comes after this one. */
	__atomic_sub_fetch(&w.s->watched, 1, __ATOMIC_RELEASE);
	stream_unref(w.s);
}

/*
 * What is gated may wait for a ring of any device that stands still while nobody waits for it.  With
 * run_lock held no device closes: pump_forget takes it first.
 */
void watch_devices()
{
	const u64 now = now_ns();

	if (now - pump->watched_ns < watch_every)
		return;
	pump->watched_ns = now;
	device_each([](device *dev, void *) { device_watch(dev); }, nullptr);
}

bool nothing_to_do()
{
	std::lock_guard guard(pump->list_lock);

	return pump->gated.empty() && pump->watches.empty();
}

bool pass()
{
	bool moved = false;

	if (!nothing_to_do())
		watch_devices();
	/* Before the streams: their blocking calls wait for these. */
	for (const watch &w : take_ready()) {
		deliver_watch(w);
		moved = true;
	}
	for (stream *s : snapshot()) {
		moved |= stream_advance(s);
		remove_if_idle(s);
		stream_unref(s);
	}
	return moved;
}

/* ---- sleeping --------------------------------------------------------------------------------------- */

void listen(lane *l, std::vector<pollfd> *fds)
{
	const int fd = l->ch->irq_fd[dma::irq_service];

	for (const pollfd &p : *fds)
		if (p.fd == fd)
			return;
	if (fd >= 0)
		fds->push_back({fd, POLLIN, 0});
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

	if (!s->gated || s->queue->empty())
		return {nullptr, 0};
	const task &t = s->queue->front();
	if (!t.until.is_never())
		*look = std::min(*look, t.until.left_ns());
	if (t.kind == task_kind::gate_event) {
		const bool placed = load_acquire(&t.rec->at) == record::in_ring;

		return placed ? interest{t.rec->ln, t.rec->seq} : interest{nullptr, 0};
	}
	if (t.kind == task_kind::request || t.kind == task_kind::record)
		return {s->ln, s->ln->ch->posted - s->ln->ch->ring_size / 2};
	if (!lane_done(s->ln, s->last))
		return {s->ln, s->last};
	if (t.kind == task_kind::gate_check)
		*look = std::min(*look, word_look);
	return {nullptr, 0};
}

/* The least number of each lane: one interrupt slot has one number; no_arm is above all. */
void add_interest(std::vector<interest> *all, interest i)
{
	if (!i.ln)
		return;
	for (interest &o : *all)
		if (o.ln == i.ln) {
			o.seq = std::min(o.seq, i.seq);
			return;
		}
	all->push_back(i);
}

u64 arm_all(std::vector<pollfd> *fds)
{
	std::lock_guard looking(pump->look_lock);
	std::vector<interest> all;
	u64 look = any_look;

	for (stream *s : snapshot()) {
		add_interest(&all, interest_of(s, &look));
		stream_unref(s);
	}
	pump->list_lock.lock();
	for (const watch &w : pump->watches)
		add_interest(&all, {w.s->ln, w.tells ? no_arm : w.seq});
	pump->list_lock.unlock();
	for (const interest &i : all) {
		listen(i.ln, fds);
		if (i.seq != no_arm)
			arm(i.ln, i.seq);
	}
	return look;
}

void drain(const std::vector<pollfd> &fds)
{
	u64 count;

	for (const pollfd &p : fds) {
		if (!(p.revents & POLLIN))
			continue;
		if (p.fd != pump->wake_fd)
			__atomic_fetch_add(&pump->interrupts, 1, __ATOMIC_RELAXED);
		if (read(p.fd, &count, sizeof(count)) < 0)
			log_debug("reading an eventfd failed");
	}
}

void sleep_on(std::vector<pollfd> &fds, u64 ns)
{
	const timespec ts = {time_t(ns / ns_per_s), long(ns % ns_per_s)};

	fds.push_back({pump->wake_fd, POLLIN, 0});
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

void arm_and_sleep()
{
	std::lock_guard sleeping(pump->sleep_lock);
	std::vector<pollfd> fds;

	/* Full barrier: whoever adds something after this sees asleep; what was added before is seen below. */
	store_fence(&pump->asleep, 1u);
	const u64 look = arm_all(&fds);
	if (!run_after_others() && !__atomic_load_n(&pump->closing, __ATOMIC_SEQ_CST))
		sleep_on(fds, nothing_to_do() ? ~u64(0) : look);
	store_relaxed(&pump->asleep, 0u);
}

void *thread_main(void *)
{
	for (;;) {
		if (!pump_run() && !run_for(nothing_to_do() ? 0 : pump_spin)) {
			if (load_relaxed(&pump->closing))
				sched_yield();
			arm_and_sleep();
		}
	}
}

/* With list_lock held. */
int start()
{
	pthread_t thread;
	int err;

	if (pump->started)
		return 0;
	if (pump->wake_fd < 0)
		pump->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (pump->wake_fd < 0)
		return fail_errno("eventfd for the library's background thread");
	err = thread_start(&thread, "usdma-pump", thread_main, nullptr);
	if (err)
		return err;
	pthread_detach(thread);
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
	if (std::find(pump->gated.begin(), pump->gated.end(), s) == pump->gated.end()) {
		__atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
		pump->gated.push_back(s);
	}
	return 0;
}

int pump_watch(stream *s, bool tells, void (*deliver)(void *arg, call_token *done), void *arg)
{
	std::lock_guard guard(pump->list_lock);
	const int err = start();

	if (err)
		return err;
	__atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&s->watched, 1, __ATOMIC_RELAXED);
	pump->watches.push_back({s, s->last, tells, deliver, arg});
	return 0;
}

void pump_forget(device *dev)
{
	std::lock_guard run(pump->run_lock); /* no pass is looking at its lanes */
	std::vector<watch> gone;
	std::vector<stream *> ended;

	pump->list_lock.lock();
	/* Streams that ended with work in their queues stay listed until a pass sees them: too late for their lanes. */
	for (stream *s : pump->gated)
		if (s->dev == dev)
			ended.push_back(s);
	std::erase_if(pump->gated, [dev](const stream *s) { return s->dev == dev; });
	for (size_t i = 0; i < pump->watches.size();)
		if (pump->watches[i].s->dev == dev) {
			gone.push_back(pump->watches[i]);
			pump->watches.erase(pump->watches.begin() + long(i));
		} else {
			i++;
		}
	pump->list_lock.unlock();
	for (const watch &w : gone)
		deliver_watch(w);
	for (stream *s : ended)
		stream_unref(s);
}

/* What waits for something in this device's rings finds it reached, and does not look there again. */
static void settle_waits(const device *dev)
{
	std::lock_guard run(pump->run_lock); /* no pass is looking there just now */

	for (stream *s : snapshot()) {
		s->ln->lock.lock();
		if (s->gated)
			for (task &t : *s->queue)
				if (t.kind == task_kind::gate_event)
					record_settle(t.rec, dev);
		s->ln->lock.unlock();
		stream_unref(s);
	}
}

void pump_settle(device *dev)
{
	settle_waits(dev);
	/* Who found its streams on the list before has looked by now. */
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

	for (stream *s : snapshot()) {
		s->ln->lock.lock();
		if (s->gated && !s->queue->empty() && s->queue->front().number <= epoch)
			done = false;
		s->ln->lock.unlock();
		stream_unref(s);
	}
	return done;
}

} // namespace usdma::core
