/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/engine.h"

#include "driver/base/clock.h"
#include "driver/base/cpu.h"
#include "driver/base/fd.h"
#include "driver/base/futex_lock.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/base/thread.h"
#include "driver/sim/signal_fd.h"
#include "driver/vfio/device.h"

#include <csignal>
#include <cstdio>
#include <cstring>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace usdma::sim {

using namespace sdma;

/* Idle passes between two looks at the clock and at the tail doorbells. */
static constexpr u32 passes_per_look = 64;
/* … and those that follow one another at once. */
static constexpr u32 eager_passes = 512;
/*
 * A look at the doorbell takes its line from the client, which then waits for it with the
 * next store: not while the next descriptor is probably on its way.
 */
static constexpr u64 doorbell_pause_ns = 20 * ns_per_us;
/* A sleeping engine that watches a word for a WAIT looks again after pauses from … to … */
static constexpr u64 nap_min_ns = 20 * ns_per_us, nap_max_ns = ns_per_ms;
static constexpr u64 command_ms = 4000;
static constexpr u64 rekick_ns = 20 * ns_per_ms;

engine::engine(machine &m, unsigned index)
	: m_(m), reader_(m.space.needs_fences()), deaths_(load_acquire(&bus_deaths)),
	  special_(m.wrong || m.cfg.latency_us || m.cfg.rate), spin_ns_(m.cfg.spin_us * ns_per_us), index_(index)
{
}

int engine::ready()
{
	if (!try_reserve(active_, m_.cfg.channels))
		return no_memory("an engine's list of channels");
	return m_.space.add_reader(&reader_);
}

engine::~engine()
{
	stop();
}

/* ---- from the server thread ---------------------------------------------------------------------- */

static int place_thread(pthread_t thread, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	const int err = pthread_setaffinity_np(thread, sizeof(set), &set);
	return err ? fail(err, "sim: cpus: this process may not run on CPU %d, or there is none such (error %d)", cpu,
			  err) :
		     0;
}

/*
 * A thread that pins itself to one CPU before it opens the device would have
 * its engine there too, where the two can only take turns.  The process, which
 * is its first thread, may have others; where it has none, all stays.
 */
static void leave_the_only_cpu(pthread_t thread)
{
	cpu_set_t mine, others;

	if (pthread_getaffinity_np(thread, sizeof(mine), &mine) || CPU_COUNT(&mine) != 1 ||
	    sched_getaffinity(getpid(), sizeof(others), &others))
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &mine))
			CPU_CLR(cpu, &others);
	if (CPU_COUNT(&others))
		pthread_setaffinity_np(thread, sizeof(others), &others);
}

static void engine_name(char (&name)[16], unsigned index)
{
	snprintf(name, sizeof(name), "sdma-engine%u", index % 100);
}

/*
 * Edges: a write wakes although what was written before was never read.  So the
 * engine neither reads nor writes what the client may have filled, emptied or made
 * to block.
 */
int engine::make_wake()
{
	epoll_event e = {};

	wake_.reset(keep_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
	bell_.reset(keep_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
	sleeps_.reset(keep_fd(epoll_create1(EPOLL_CLOEXEC)));
	e.events = EPOLLIN | EPOLLET;
	if (!wake_.valid() || !bell_.valid() || !sleeps_.valid() ||
	    epoll_ctl(sleeps_.get(), EPOLL_CTL_ADD, wake_.get(), &e) ||
	    epoll_ctl(sleeps_.get(), EPOLL_CTL_ADD, bell_.get(), &e))
		return fail_errno("sim: cannot make an engine's eventfds");
	return 0;
}

int engine::start()
{
	char name[16];
	int err = make_wake();

	engine_name(name, index_);
	if (!err)
		err = thread_start(&thread_, name, thread_main, this, interrupting_allowed() ? SIGUSR1 : 0);
	if (err)
		return err;
	running_ = true;
	reader_.belongs_to(thread_);
	const auto &cpus = m_.cfg.cpus;
	if (!cpus.empty())
		return place_thread(thread_, cpus[index_ % cpus.size()]);
	leave_the_only_cpu(thread_);
	return 0;
}

void engine::stop()
{
	if (!running_)
		return;
	store_release(&quit_, 1u);
	while (!load_acquire(&ended_)) {
		kick();
		futex_wait_until(&ended_, 0, now_ns() + rekick_ns);
		if (!load_acquire(&ended_))
			interrupt_thread(thread_);
	}
	reader_.thread_ends();
	pthread_join(thread_, nullptr);
	running_ = false;
}

void engine::kick()
{
	eventfd_add(wake_.get());
}

int engine::carry_out(const order &o)
{
	const deadline until = deadline::in_ms(command_ms);

	if (load_acquire(&cmd_pending_))
		return fail(EBUSY, "sim: engine %u still has a command before it", index_);
	cmd_ = o;
	store_release(&cmd_pending_, 1u);
	kick();
	while (load_acquire(&cmd_pending_)) {
		if (until.passed())
			return fail(ETIMEDOUT, "sim: engine %u does not take command %u of channel %u", index_, o.cmd,
				    o.channel ? o.channel->index : ~0u);
		futex_wait_until(&cmd_pending_, 1, now_ns() + rekick_ns);
		if (load_acquire(&cmd_pending_))
			interrupt_thread(thread_);
	}
	return 0;
}

int engine::command(hw_channel *ch, u32 cmd)
{
	return carry_out({ch, cmd, 0, ch->regs});
}

int engine::raise_for(u32 vector)
{
	return carry_out({nullptr, 0, vector, {}});
}

/* ---- the thread ---------------------------------------------------------------------------------- */

void *engine::thread_main(void *arg)
{
	auto *u = static_cast<engine *>(arg);

	char name[16];

	/* thread_start() needs /proc for that, which usdma-sim has given up. */
	engine_name(name, u->index_);
	thread_name(name);
	u->run();
	return nullptr;
}

/* A descriptor that accesses memory that is gone jumps back here (page_guard). */
void engine::run()
{
	reader_.enter();
	page_guard_enter(&guard_);
	if (sigsetjmp(guard_.resume, 0))
		fault_in_page();
	while (!load_relaxed(&quit_)) {
		bool busy = false;

		begin_pass();
		for (size_t i = 0; i < active_.size(); i++)
			busy |= run_channel(*active_[i]);
		if (busy) {
			idle_passes_ = 0;
			napping_ = false;
			nap_ns_ = nap_min_ns;
		} else {
			idle();
		}
	}
	page_guard_leave(&guard_);
	reader_.leave();
	store_release(&ended_, 1u);
	futex_wake(&ended_, 1);
}

void engine::begin_pass()
{
	reader_.pass();
	/* First: a command may touch the record. */
	if (unlikely(m_.space.generation() != generation_))
		revalidate();
	if (unlikely(load_acquire(&cmd_pending_)))
		serve_command();
}

/* Between the slices of something long.  False: the channel no longer runs, give up. */
bool engine::checkpoint(hw_channel &ch)
{
	if (unlikely(load_acquire(&bus_deaths) != deaths_)) {
		note_death(ch.src);
		note_death(ch.dst);
	}
	begin_pass();
	if (unlikely(ch.state != chan_state_running || load_relaxed(&quit_)))
		return false;
	if (ch.next - 1 != ch.written)
		publish(ch);
	store_relaxed(&ch.status->record.heartbeat, ++ch.heartbeat);
	if (unlikely(ch.far != nullptr))
		step_far(ch);
	step_others(ch);
	return ch.state == chan_state_running;
}

/* What those have in flight goes on while this one copies, however long. */
void engine::step_others(const hw_channel &ch)
{
	for (size_t i = 0; i < active_.size();) {
		hw_channel *const other = active_[i];

		if (other != &ch && other->far)
			other->has_record() ? step_far(*other) : wind_up(*other);
		i += i < active_.size() && active_[i] == other;
	}
}

void engine::unlist(hw_channel &ch)
{
	for (hw_channel *&at : active_)
		if (at == &ch) {
			store_relaxed(&ch.listed, false);
			at = active_.back();
			active_.pop_back();
			return;
		}
}

/* The address space changed: forget what was found in it, and see whether rings and records are still there. */
void engine::revalidate()
{
	generation_ = m_.space.generation();
	for (size_t i = 0; i < active_.size();) {
		hw_channel &ch = *active_[i];

		ch.src = ch.dst = window();
		if (ch.has_record() && !resolve_control(ch))
			lose_ring(ch, "is no longer mapped");
		i += i < active_.size() && active_[i] == &ch;
	}
}

void engine::lose_ring(hw_channel &ch, const char *why)
{
	log_warn_limited("sim: channel %u: its ring or status block %s", ch.index, why);
	store_release(&ch.state, u32(chan_state_error));
	wind_up(ch);
}

bool engine::resolve_control(hw_channel &ch)
{
	const u64 ring_size = (u64(ch.mask) + 1) * sizeof(descriptor);

	if (ch.far)
		return far_ring::reaches(m_.space, ch.ring_iova, ring_size, vfio::dma_read) &&
		       far_ring::reaches(m_.space, ch.record_iova, sizeof(status_block),
					 vfio::dma_read | vfio::dma_write);
	if (!ch.ring_memory.resolve(m_.space, ch.ring_iova, ring_size, vfio::dma_read) ||
	    !ch.record_memory.resolve(m_.space, ch.record_iova, sizeof(status_block), vfio::dma_read | vfio::dma_write))
		return false;
	ch.ring = reinterpret_cast<const descriptor *>(ch.ring_memory.data());
	ch.slots = ch.mask;
	ch.status = reinterpret_cast<status_block *>(ch.record_memory.data());
	return true;
}

/* The ring, or the status block, lies where only the client reaches it. */
bool engine::resolve_far(hw_channel &ch)
{
	ch.far = far_ring::make(m_.remote, wake_.get(), ch.ring_iova, ch.record_iova, ch.mask + 1);
	if (!ch.far || !resolve_control(ch))
		return false;
	ch.ring_memory.drop();
	ch.record_memory.drop();
	ch.far->start_behind(ch.written);
	ch.ring = ch.far->ring();
	ch.slots = ch.far->slots() - 1;
	ch.status = ch.far->status();
	return true;
}

void engine::idle()
{
	if (!idle_passes_)
		publish_cpu();
	if (!napping_ && !active_.empty()) {
		/* A pause is long on some CPUs: not where the next descriptor is probably on its way. */
		if (idle_passes_ > eager_passes)
			cpu_relax();
		if (++idle_passes_ % passes_per_look)
			return;
		const u64 now = now_ns();

		if (idle_passes_ == passes_per_look)
			idle_since_ = now;
		if (now - idle_since_ > doorbell_pause_ns)
			for (hw_channel *ch : active_)
				check_tail(*ch);
		if (now - idle_since_ < spin_ns_)
			return;
	}
	sleep();
}

/* A waiter on the same CPU then sleeps instead of spinning while the engine cannot run. */
void engine::publish_cpu()
{
	const u32 cpu = this_cpu();

	if (likely(cpu == cpu_))
		return;
	cpu_ = cpu;
	for (hw_channel *ch : active_)
		store_relaxed(&ch->status->cpu, cpu);
}

/* True unless there is something to run, to raise or to obey. */
bool engine::nothing_to_do()
{
	for (hw_channel *ch : active_) {
		const u64 tail = load_acquire(reinterpret_cast<u64 *>(ch->doorbell + doorbell_tail));

		if (ch->far && ch->far->restless(ch->next, ch->runs() ? tail : ch->next - 1))
			return false;
		for (unsigned slot = 0; slot < dma::irq_slots; slot++) {
			const u64 arm = load_acquire(
				reinterpret_cast<u64 *>(ch->doorbell + doorbell_arm + slot * cache_line));

			if (arm != arm_none && arm != ch->fired[slot] && ch->has_record() && ch->has_met(arm))
				return false;
		}
		if (!ch->runs() || (ch->far && !ch->far->state_told()))
			continue;
		if (load_acquire(&ch->ring[ch->next & ch->slots].tag) == u32(ch->next))
			return false;
		if (s64(tail - ch->next) >= 0 && !(ch->far && ch->far->lacks(ch->next, tail)))
			return false;
	}
	return !load_acquire(&cmd_pending_) && !load_acquire(&quit_);
}

/* How long the engine may sleep without being woken: WAITs to look at, interrupts held back. */
u64 engine::sleep_limit()
{
	u64 limit = ~u64(0);

	for (const hw_channel *ch : active_) {
		if (const u64 until = ch->far ? ch->far->limit() : ~u64(0); until != ~u64(0)) {
			const u64 now = now_ns(), left = until > now ? until - now : 1;

			limit = left < limit ? left : limit;
		}
		if (ch->state != chan_state_running)
			continue;
		if (ch->waiting && nap_ns_ < limit)
			limit = nap_ns_;
		if (ch->irq_count && ch->irq_due) {
			const u64 now = now_ns(), left = ch->irq_due > now ? ch->irq_due - now : 1;

			limit = left < limit ? left : limit;
		}
	}
	return limit;
}

/* True: somebody woke us.  The edges are taken either way. */
bool engine::wait_wake(u64 limit_ns)
{
	epoll_event edges[2];

	if (limit_ns != ~u64(0)) {
		const timespec t = {time_t(limit_ns / ns_per_s), long(limit_ns % ns_per_s)};
		pollfd p = {sleeps_.get(), POLLIN, 0};

		if (ppoll(&p, 1, &t, nullptr) != 1)
			return false;
	}
	return epoll_wait(sleeps_.get(), edges, 2, limit_ns == ~u64(0) ? -1 : 0) != 0;
}

void engine::sleep()
{
	/* "I sleep" before the last look at the rings; the client: ring before its look at "asleep". */
	for (hw_channel *ch : active_)
		store_fence(&ch->status->asleep, 1u);
	/* hw_cap_sleep_ordered: the client leaves its barrier to us. */
	if (m_.in_client)
		barrier_or_wait();
	for (hw_channel *ch : active_)
		check_tail(*ch);
	napping_ = false;
	if (nothing_to_do()) {
		const u64 limit = sleep_limit();

		reader_.leave();
		napping_ = !wait_wake(limit);
		reader_.enter();
	}
	/* Before the records are touched again: they may have been unmapped meanwhile. */
	begin_pass();
	for (hw_channel *ch : active_)
		store_relaxed(&ch->status->asleep, 0u);
	publish_cpu();
	idle_passes_ = 0;
	nap_ns_ = napping_ ? (nap_ns_ * 2 < nap_max_ns ? nap_ns_ * 2 : nap_max_ns) : nap_min_ns;
}

/* ---- commands ------------------------------------------------------------------------------------ */

void engine::serve_command()
{
	hw_channel *const ch = cmd_.channel;

	if (!ch)
		m_.irqs.raise(cmd_.vector);
	else if (cmd_.cmd == chan_cmd_enable)
		enable(*ch, cmd_.regs);
	else if (cmd_.cmd == chan_cmd_disable)
		disable(*ch);
	else if (cmd_.cmd == chan_cmd_resume)
		resume(*ch);
	else if (cmd_.cmd == chan_cmd_stop)
		obey_stop(*ch);
	napping_ = false;
	idle_passes_ = 0;
	/* Release: whatever the command did comes before its end. */
	store_release(&cmd_pending_, 0u);
	futex_wake(&cmd_pending_, 1);
}

const char *setup_error(const channel_regs &r)
{
	if (r.ring_order < model_min_order || r.ring_order > model_max_order)
		return "the ring's order is out of range";
	if (r.ring_base % sizeof(descriptor) || r.record % 64)
		return "the ring or the status block is not aligned to 64 bytes";
	return nullptr;
}

static void start_registers(hw_channel &ch, const channel_regs &r)
{
	auto *tail = reinterpret_cast<u64 *>(ch.doorbell + doorbell_tail);

	ch.mask = (1u << r.ring_order) - 1;
	ch.ring_iova = r.ring_base;
	ch.record_iova = r.record;
	ch.next = r.first_seq + 1;
	ch.written = r.first_seq;
	ch.known = r.first_seq;
	ch.irq_max = r.coalesce & 0xffff;
	ch.irq_hold_ns = (r.coalesce >> 16) * ns_per_us;
	ch.irq_count = 0;
	ch.irq_due = 0;
	ch.heartbeat = 0;
	store_relaxed(&ch.waiting, false);
	ch.hung = ch.part.valid = ch.stop_due = false;
	ch.src = ch.dst = window();
	store_relaxed(&ch.head, r.first_seq);
	store_relaxed(tail, r.first_seq);
	for (unsigned slot = 0; slot < dma::irq_slots; slot++) {
		ch.vectors[slot] = r.vectors >> (16 * slot) & 0xffff;
		ch.fired[slot] = arm_none;
		store_relaxed(reinterpret_cast<u64 *>(ch.doorbell + doorbell_arm + slot * cache_line), arm_none);
	}
}

static void start_record(hw_channel &ch, u32 cpu)
{
	dma::completion_record &r = ch.status->record;

	store_relaxed(&ch.status->asleep, 0u);
	store_relaxed(&ch.status->cpu, cpu);
	store_relaxed(&r.reason, 0u);
	store_relaxed(&r.fault_seq, u64(0));
	store_relaxed(&r.fault_address, u64(0));
	store_relaxed(&r.fault_cookie, u64(0));
	store_relaxed(&r.heartbeat, u64(0));
	store_relaxed(&r.state, u32(dma::state_running));
	store_release(&r.completed, ch.written);
}

void engine::enable(hw_channel &ch, const channel_regs &regs)
{
	if ((ch.state != chan_state_off && ch.state != chan_state_error) || ch.listed || asking_ == &ch ||
	    setup_error(regs))
		return;
	start_registers(ch, regs);
	if (!resolve_control(ch) && !resolve_far(ch)) {
		log_warn_limited(
			"sim: channel %u: its ring or status block is not wholly mapped with the rights it needs",
			ch.index);
		ch.forget_memory();
		store_release(&ch.state, u32(chan_state_error));
		return;
	}
	start_record(ch, cpu_);
	if (ch.far)
		ch.far->send_all();
	push_reserved(active_, &ch);
	store_relaxed(&ch.listed, true);
	store_release(&ch.state, u32(chan_state_running));
}

void engine::disable(hw_channel &ch)
{
	if (ch.state == chan_state_stopping)
		return;
	store_release(&ch.state, u32(chan_state_stopping));
	if (m_.wrong)
		m_.wrong->channel_off(ch.index);
	wind_up(ch);
}

/*
 * What the client was asked for cannot be taken back: it may be moving the bytes just
 * now.  So the channel is off, or forgets a ring that it has lost, when the client has
 * answered, and nobody waits for that in the server's thread, which takes the answer.
 * True: it has happened.
 */
bool engine::wind_up(hw_channel &ch)
{
	if ((asking_ == &ch && ch.state == chan_state_stopping) || (ch.far && !ch.far->wind_up()))
		return false;
	if (ch.far && ch.far->interrupt_due)
		raise(ch.vectors[dma::irq_service]);
	unlist(ch);
	ch.forget_memory();
	if (ch.state == chan_state_stopping)
		store_release(&ch.state, u32(chan_state_off));
	return true;
}

/* The record must not say so while the client is moving bytes for the descriptor. */
void engine::obey_stop(hw_channel &ch)
{
	if (ch.state != chan_state_running)
		return;
	if (asking_ == &ch)
		ch.stop_due = true;
	else
		halt(ch, dma::fault_reason::stopped, 0, 0);
}

void engine::resume(hw_channel &ch)
{
	/* One that has not come to its end yet is as if it had not been asked for. */
	ch.stop_due = false;
	if (ch.state != chan_state_halted)
		return;
	dma::completion_record &r = ch.status->record; /* there is none before the channel was enabled */

	/* A stop failed nothing: the same descriptor runs again. */
	if (ch.reason != dma::fault_reason::stopped)
		ch.next++;
	ch.written = ch.next - 1;
	store_relaxed(&ch.waiting, false);
	/* The halt took the interrupts asked for: the same numbers now ask for the ends of their requests. */
	for (u64 &seq : ch.fired)
		seq = arm_none;
	store_relaxed(&r.reason, 0u);
	store_release(&r.completed, ch.written);
	if (ch.far) {
		/* What was fetched may have been rewritten since. */
		ch.far->start_behind(ch.written);
		ch.far->note_state();
	}
	/* After completed: who sees it run again also sees that the failed one is behind it. */
	store_release(&r.state, u32(dma::state_running));
	store_release(&ch.state, u32(chan_state_running));
}

bool engine::bell_rung() const
{
	pollfd p = {bell_.get(), POLLIN, 0};

	return poll(&p, 1, 0) == 1;
}

} // namespace usdma::sim
