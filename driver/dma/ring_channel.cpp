/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/dma/ring_channel.h"

#include "driver/base/await_fds.h"
#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/eventfd.h"
#include "driver/base/grow.h"
#include "driver/base/thread.h"
#include "driver/base/wakes.h"

#include <algorithm>
#include <poll.h>

namespace usdma::dma {

static constexpr u64 no_arm = ~u64(0);
/* Without a waiter the interrupt is rearmed only after this time, so that a busy channel raises few; faults need it. */
static constexpr u64 rearm_ns = ns_per_ms;
/* While requests are pending, in case an interrupt is lost; without any. */
static constexpr int recheck_ms = 50, poll_no_irq_ms = 1;

static const channel_ops *table(bool stores);

ring_channel::ring_channel(engine &e, host_memory &host, u32 index_) : channel(), host_(host)
{
	eng = &e;
	index = index_;
	asleep = &never_asleep_;
	asleep_ordered = true;
	collects = true;
	for (u64 &a : arm_)
		store_relaxed(&a, no_arm);
}

int ring_channel::begin(const channel_config &cfg, int vector, bool stores)
{
	if (!try_resize(slots_, ring_size))
		return no_memory("a channel's ring");
	ops = table(stores);
	cfg_ = cfg;
	vector_ = vector;
	posted = tail_ = issued_ = served_ = flagged_ = cfg.first_seq;
	post_limit = cfg.first_seq + ring_size;
	set_completed(cfg.first_seq, 0);
	control_.reset(eventfd_make());
	for (unsigned i : {irq_waiter, irq_service}) {
		irq_[i].reset(eventfd_make_for_ring());
		irq_fd[i] = irq_[i].get();
	}
	irq_fd[irq_completion] = -1;
	if (!control_.valid() || !irq_[0].valid() || !irq_[1].valid())
		return fail_errno("no eventfd for a channel");
	int err = start_hardware();
	if (!err)
		err = thread_start(&thread_, "usdma-ring", thread_main, this);
	started_ = !err;
	store_release(&begun_, started_);
	return err;
}

void ring_channel::end_thread()
{
	if (!started_)
		return;
	{
		std::lock_guard g(lock_);

		quit_ = true;
		store_seq_cst(&stop_, 1u);
	}
	wake_thread();
	pthread_join(thread_, nullptr);
	started_ = false;
}

int ring_channel::end(bool is_off)
{
	end_thread();
	return iova_ && !is_off ? reset() : 0;
}

/* ---- requests ---------------------------------------------------------------------------------------- */

unsigned ring_channel::post(const request *r, unsigned n)
{
	/* Acquire in completed(): the hardware has read a slot before it counts it as completed. */
	if (post_limit - posted < n)
		/* The device may store anything. */
		post_limit = posted + u64(std::clamp<s64>(s64(completed(this) + ring_size - posted), 0, ring_size));
	n = unsigned(std::min<u64>(n, post_limit - posted));
	std::lock_guard g(lock_);

	for (unsigned i = 0; i < n; i++) {
		slot(posted + 1 + i) = r[i];
		if (r[i].flags & flag_interrupt)
			flagged_ = posted + 1 + i;
	}
	store_relaxed(&posted, posted + n);
	return n;
}

/* Under the owner's lock nothing changes a slot. */
bool ring_channel::last_use(const iova_range &where, u64 *seq) const
{
	return find_last_use(this, where, seq,
			     [this](u64 at) -> const request & { return slots_[at & (ring_size - 1)]; });
}

/* Hands requests to the hardware, up to one that the thread must run. */
void ring_channel::issue()
{
	const u64 before = hw_;

	while (!is_halted_ && !frozen_ && !soft_ && issued_ != tail_) {
		const request &r = slot(issued_ + 1);

		soft_ = !in_hardware(r);
		if (!soft_)
			build(++hw_, r);
		issued_ += !soft_;
	}
	if (hw_ == before)
		return;
	/* Before the device can report them, and after they were built, which clears earlier reports. */
	store_release(&handed_, hw_);
	ring(hw_);
}

/* What was posted. True: the thread is to be woken, without the lock. */
bool ring_channel::hand_over()
{
	tail_ = posted;
	issue();
	const bool wake = deep_ || (soft_ && !soft_running_);
	deep_ = false;
	return wake;
}

void ring_channel::doorbell()
{
	bool wake;
	{
		std::lock_guard g(lock_);

		/* Before the slots are rung, so that it is there when they end. */
		if (s64(flagged_ - tail_) > 0 && !exchange_seq_cst(&armed_, 1u))
			rearm(false);
		wake = hand_over();
	}
	if (wake)
		wake_thread();
}

void ring_channel::submit_copy(u32 spaces, u64 src, u64 dst, u64 len, u64 cookie)
{
	lock_.lock();
	set_copy(&slot(posted + 1), u8(spaces), src, dst, len, cookie);
	store_relaxed(&posted, posted + 1);
	const bool wake = hand_over();
	lock_.unlock_light();
	if (unlikely(wake))
		wake_thread();
}

/* ---- interrupts ------------------------------------------------------------------------------------ */

void ring_channel::wake_thread()
{
	eventfd_signal(control_.get());
}

void ring_channel::raise(unsigned slot)
{
	eventfd_signal(irq_[slot].get());
}

void ring_channel::arm(unsigned slot, u64 seq)
{
	/* Sequentially consistent: orders the arm before the read of armed_, and the caller's of the record. */
	store_seq_cst(&arm_[slot], seq);
	if (!exchange_seq_cst(&armed_, 1u))
		rearm(true);
	barrier_full();
}

/* Before it is armed for the first time. */
int ring_channel::completion_fd()
{
	std::lock_guard g(lock_);

	if (!irq_[irq_completion].valid())
		irq_[irq_completion].reset(eventfd_make_for_ring());
	store_release(&irq_fd[irq_completion], irq_[irq_completion].get());
	return irq_[irq_completion].get();
}

bool ring_channel::withdraw(u64 seq)
{
	return cmpxchg_seq_cst(&arm_[irq_completion], &seq, no_arm);
}

void ring_channel::raise_due(bool all)
{
	const u64 done = completed(this);

	for (unsigned slot = 0; slot < irq_slots; slot++) {
		u64 want = load_seq_cst(&arm_[slot]);

		if (want == no_arm || ((!all || slot == irq_completion) && s64(done - want) < 0))
			continue;
		if (cmpxchg_seq_cst(&arm_[slot], &want, no_arm))
			raise(slot);
	}
}

/* At most one service interrupt per coalesce_count completions or coalesce_us. */
void ring_channel::serve()
{
	const u64 done = completed(this);

	/* A device that stores nonsense: the loop would not end. */
	if (s64(done - issued_) > 0)
		return;
	for (; s64(done - served_) > 0; served_++) {
		const u64 seq = served_ + 1;
		/* A slot that was posted again has lost the flag. */
		const bool flagged = posted - seq >= ring_size || slot(seq).flags & flag_interrupt;

		if (flagged && s64(flagged_ - seq) >= 0 && !held_++)
			held_since_ = now_ns();
	}
	if (!held_ || (held_ < cfg_.coalesce_count && now_ns() - held_since_ < cfg_.coalesce_us * ns_per_us))
		return;
	held_ = 0;
	raise(irq_service);
}

/* Someone waits for a completion. */
bool ring_channel::expects_interrupt() const
{
	const u64 done = completed(this);

	return std::any_of(arm_, arm_ + irq_slots, [](const u64 &a) { return load_seq_cst(&a) != no_arm; }) ||
	       s64(flagged_ - done) > 0 || (soft_ && issued_ != done);
}

/* A request runs, or has completed since raise_due() and serve(), as another thread has found. */
bool ring_channel::is_behind() const
{
	const u64 done = completed(this);

	return issued_ != done || served_ != done || std::any_of(arm_, arm_ + irq_slots, [done](const u64 &a) {
		       const u64 want = load_seq_cst(&a);

		       return want != no_arm && s64(done - want) >= 0;
	       });
}

/* What ended before the rearm raised no interrupt, and is seen after it. */
void ring_channel::rearm_if_due()
{
	if (vector_ < 0 || is_halted_ || load_seq_cst(&armed_))
		return;
	if (!expects_interrupt() && now_ns() < rearm_at_)
		return;
	store_seq_cst(&armed_, 1u);
	rearm(true);
	check_halt();
	raise_due(false);
	serve();
}

/* ---- the thread ------------------------------------------------------------------------------------ */

void *ring_channel::thread_main(void *arg)
{
	thread_short_slice();
	static_cast<ring_channel *>(arg)->run();
	return nullptr;
}

/* How long to sleep: for ever only when no request came for a while, so that few of them have to wake the thread. */
int ring_channel::poll_ms()
{
	if (soft_is_next())
		return 0;
	if (held_ || (vector_ >= 0 && !is_halted_ && !load_seq_cst(&armed_)))
		return 1;
	if (vector_ < 0 && is_behind())
		return poll_no_irq_ms;
	const bool busy = vector_ >= 0 && (issued_ != completed(this) || expects_interrupt());
	const bool idle = !busy && seen_ == tail_;
	/* Without an interrupt nothing else wakes it for the next request. */
	deep_ = idle || vector_ < 0;
	seen_ = tail_;
	return idle ? -1 : recheck_ms;
}

/* The least number whose completion will have an interrupt. */
u64 ring_channel::awaited() const
{
	const u64 done = completed(this);
	u64 least = no_arm;

	for (const u64 &a : arm_)
		if (const u64 want = load_seq_cst(&a); s64(want - done) > 0)
			least = std::min(least, want);
	return vector_ < 0 || is_halted_ || !load_seq_cst(&armed_) ? no_arm : least;
}

/* It has completed, and no one has raised the interrupt of who waits for it. */
bool ring_channel::is_due(u64 want) const
{
	return want != no_arm && s64(completed(this) - want) >= 0 &&
	       std::any_of(arm_, arm_ + irq_slots, [want](const u64 &a) { return load_seq_cst(&a) == want; });
}

bool ring_channel::sleep(guard &g)
{
	pollfd p[2] = {{control_.get(), POLLIN, 0}, {vector_, POLLIN, 0}};
	const int ms = poll_ms();
	const u64 want = awaited();

	g.unlock();
	if (await_fds(p, 2, ms) == 0 && ms == recheck_ms && is_due(want))
		wake_missed(vector_);
	eventfd_clear(control_.get());
	const bool raised = vector_ >= 0 && eventfd_clear(vector_);
	g.lock();
	if (!raised)
		return false;
	rearm_at_ = now_ns() + rearm_ns;
	disarm();
	store_seq_cst(&armed_, 0u);
	return true;
}

void ring_channel::run()
{
	guard g(lock_);

	while (!quit_) {
		const bool raised = sleep(g);

		advance(g, raised);
	}
}

void ring_channel::advance(guard &g, bool raised)
{
	do {
		if (frozen_ || quit_)
			return;
		check_halt();
		recheck(raised);
		if (load_seq_cst(&stop_) && !is_halted_)
			handle_stop();
		if (!is_halted_)
			proceed();
		raise_due(false);
		serve();
		rearm_if_due();
	} while (soft_is_next() && run_soft(g));
}

/* ---- the table ----------------------------------------------------------------------------------- */

struct ring_table {
	static ring_channel *to(channel *ch) { return static_cast<ring_channel *>(ch); }
	static unsigned post(channel *ch, const request *r, unsigned n) { return to(ch)->post(r, n); }
	static void doorbell(channel *ch) { to(ch)->doorbell(); }
	static void submit_copy(channel *ch, u32 spaces, u64 src, u64 dst, u64 len, u64 cookie)
	{
		to(ch)->submit_copy(spaces, src, dst, len, cookie);
	}
	static void wake(channel *) {} /* never reported as asleep */
	static void arm(channel *ch, unsigned slot, u64 seq) { to(ch)->arm(slot, seq); }
	static int completion_fd(channel *ch) { return to(ch)->completion_fd(); }
	static bool withdraw(channel *ch, u64 seq) { return to(ch)->withdraw(seq); }
	static unsigned cancel(channel *ch, u64 cookie) { return to(ch)->cancel(cookie); }
	static int resume(channel *ch) { return to(ch)->resume(); }
	static int stop(channel *ch) { return to(ch)->stop(); }
	static int abort(channel *ch) { return to(ch)->abort(); }
	static int restart(channel *ch) { return to(ch)->restart(); }
	static void collect(const channel *ch) { to(const_cast<channel *>(ch))->collect(); }
	static bool in_wait(const channel *ch)
	{
		return load_relaxed(&static_cast<const ring_channel *>(ch)->waiting_);
	}
	static void describe(const channel *ch, char *buf, size_t size)
	{
		to(const_cast<channel *>(ch))->describe(buf, size);
	}
	static bool last_use(const channel *ch, const iova_range &where, u64 *seq)
	{
		return static_cast<const ring_channel *>(ch)->last_use(where, seq);
	}
	static void close(channel *ch) { to(ch)->close(); }
};

static constexpr channel_ops ops_with(decltype(channel_ops::submit_copy) submit_copy)
{
	return {
		.post = ring_table::post,
		.doorbell = ring_table::doorbell,
		.submit_copy = submit_copy,
		.wake = ring_table::wake,
		.arm = ring_table::arm,
		.withdraw = ring_table::withdraw,
		.completion_fd = ring_table::completion_fd,
		.cancel = ring_table::cancel,
		.resume = ring_table::resume,
		.stop = ring_table::stop,
		.abort = ring_table::abort,
		.restart = ring_table::restart,
		.begun = nullptr,
		.in_wait = ring_table::in_wait,
		.collect = ring_table::collect,
		.describe = ring_table::describe,
		.last_use = ring_table::last_use,
		.close = ring_table::close,
	};
}

/* submit_copy() must not send a message to a server. */
static const channel_ops *table(bool stores)
{
	static constexpr channel_ops by_messages = ops_with(nullptr), by_stores = ops_with(ring_table::submit_copy);

	return stores ? &by_stores : &by_messages;
}

} // namespace usdma::dma
