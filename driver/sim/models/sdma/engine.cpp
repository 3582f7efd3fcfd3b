/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/models/sdma/engine.h"
#include "driver/base/await_fds.h"
#include "driver/sim/models/sdma/timing.h"

#include "driver/base/eventfd.h"
#include "driver/base/clock.h"
#include "driver/base/cpu.h"
#include "driver/base/cpus.h"
#include "driver/base/fd.h"
#include "driver/base/futex_lock.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/base/thread.h"
#include "driver/sim/signal_fd.h"
#include "driver/vfio/device.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace usdma::sim {

using namespace sdma;

/* Idle passes between two reads of the clock and of the tail doorbells. */
static constexpr u32 passes_per_poll = 64;
/* Idle passes between which an engine lets others run, where CPUs are few and another engine is in a WAIT. */
static constexpr u32 passes_per_yield = 8;
/* A sched_yield() that took longer has run another program; for how long it is not tried again. */
static constexpr u64 long_yield_ns = 300 * ns_per_us, busy_ns = 50 * ns_per_ms;
/* Of this process, in a WAIT: who is to end it may wait for the CPU of an engine that polls. */
static u32 waiting_engines;
/* Of this process, asleep while a device behind their model works; so many for each CPU do not lengthen their naps. */
static u32 polling_engines;
static constexpr u32 polling_per_cpu = 2;
/* Idle passes before the engine relaxes the CPU between them. */
static constexpr u32 eager_passes = 512;
/*
 * Reading the doorbell takes its cache line from the client, which then stalls at its next store: not while the
 * next descriptor is probably about to arrive.
 */
static constexpr u64 doorbell_pause_ns = 20 * ns_per_us;
/* Sleep intervals of an engine that has a WAIT to poll; the last one is for heartbeats only.
 */
static constexpr u64 nap_min_ns = 20 * ns_per_us, nap_max_ns = 200 * ns_per_us, reported_nap_ns = 50 * ns_per_ms;
static constexpr u64 command_ms = 4000;
static constexpr u64 rekick_ns = 20 * ns_per_ms;

engine::engine(machine &m, unsigned index)
	: m_(m), reader_(m.space.needs_fences()), deaths_(load_acquire(&bus_deaths)),
	  special_(m.wrong || m.cfg.latency_us || m.cfg.rate || m.order),
	  always_(m.cfg.timing == timing_kind::plain ? u8(0) : u8(dma::flag_complete)),
	  spin_ns_(m.cfg.spin_us * ns_per_us), cpus_(u32(usable_cpus())), stream_(stream_unordered(m.tuning)),
	  index_(index)
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

static int pin_thread(pthread_t thread, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	const int err = pthread_setaffinity_np(thread, sizeof(set), &set);
	return err ? fail(err, "sim: cpus: CPU %d does not exist, or this process may not use it (error %d)", cpu,
			  err) :
		     0;
}

static void engine_name(char (&name)[16], unsigned index)
{
	snprintf(name, sizeof(name), "sdma-engine%u", index % 100);
}

/*
 * Edge-triggered: a write wakes the engine though earlier ones were never read. So the engine neither reads nor
 * writes a descriptor that the client may have filled, emptied or made blocking.
 */
int engine::make_wake()
{
	epoll_event e = {};

	wake_.reset(eventfd_make());
	bell_.reset(eventfd_make());
	sleeps_.reset(fd_above_stdio(epoll_create1(EPOLL_CLOEXEC)));
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
		err = thread_.start(name, thread_main, this);
	if (err)
		return err;
	const auto &cpus = m_.cfg.cpus;
	if (!cpus.empty())
		return pin_thread(thread_.handle(), cpus[index_ % cpus.size()]);
	leave_the_only_cpu(thread_.handle());
	return 0;
}

void engine::stop()
{
	thread_.stop(wake_.get());
}

void engine::kick()
{
	eventfd_add(wake_.get());
}

void engine::note_store()
{
	if (load_relaxed(&asleep_in_wait_))
		kick();
}

/* An engine that is about to sleep sets its flag and polls once more: one of the two sees the other's store. */
void engine::report_store()
{
	barrier_full();
	for (const auto &u : m_.engines)
		u->note_store();
}

int engine::carry_out(const order &o)
{
	const deadline until = deadline::in_ms(command_ms);

	if (load_acquire(&cmd_pending_))
		return fail(EBUSY, "sim: engine %u has a pending command", index_);
	cmd_ = o;
	store_release(&cmd_pending_, 1u);
	kick();
	while (load_acquire(&cmd_pending_)) {
		if (until.passed())
			return fail(ETIMEDOUT, "sim: engine %u does not execute command %u of channel %u", index_,
				    o.cmd, o.channel ? o.channel->index : ~0u);
		futex_wait_until(&cmd_pending_, 1, now_ns() + rekick_ns);
		if (load_acquire(&cmd_pending_))
			thread_.interrupt();
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

	/* So that short naps are short; without it they are 50 us longer. usdma-sim sets it before it confines itself.
	 */
	if (u->m_.in_client) {
		prctl(PR_SET_TIMERSLACK, 1000);
		thread_short_slice();
	}
	/* thread_start() needs /proc to set the name, which usdma-sim has given up. */
	engine_name(name, u->index_);
	thread_name(name);
	u->run();
	return nullptr;
}

/* An access to memory that is no longer mapped returns here (page_guard). */
void engine::run()
{
	reader_.enter();
	page_guard_enter(&guard_);
	if (sigsetjmp(guard_.resume, 0))
		fault_in_page();
	while (!thread_.quits()) {
		bool busy = false;

		begin_poll();
		for (size_t i = 0; i < active_.size(); i++)
			busy |= run_channel(*active_[i]);
		if (busy) {
			idle_polls_ = 0;
			napping_ = false;
			nap_ns_ = nap_min_ns;
		} else {
			idle();
		}
	}
	note_waits(false);
	page_guard_leave(&guard_);
	reader_.leave();
	thread_.ended();
}

void engine::begin_poll()
{
	order_copies();
	reader_.pass();
	/* Before commands, as these may access the record. */
	if (unlikely(m_.space.generation() != generation_))
		revalidate();
	if (unlikely(load_acquire(&cmd_pending_)))
		serve_command();
}

/* Called between slices of a long operation. False: the channel no longer runs, abort. */
bool engine::checkpoint(hw_channel &ch)
{
	if (unlikely(load_acquire(&bus_deaths) != deaths_)) {
		note_death(ch.src);
		note_death(ch.dst);
	}
	begin_poll();
	if (unlikely(ch.state != chan_state_running || thread_.quits()))
		return false;
	if (ch.next - 1 != ch.written)
		publish(ch);
	store_relaxed(&ch.record->heartbeat, ++ch.heartbeat);
	if (unlikely(ch.remote != nullptr))
		step_remote(ch);
	step_others(ch);
	return ch.state == chan_state_running;
}

/* Advances the remote accesses of other channels while this one copies. */
void engine::step_others(const hw_channel &ch)
{
	for (size_t i = 0; i < active_.size();) {
		hw_channel *const other = active_[i];

		if (other != &ch && other->remote)
			other->has_record() ? step_remote(*other) : wind_up(*other);
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

/* The address space changed: drops cached windows, and checks that rings and records are still mapped. */
void engine::revalidate()
{
	generation_ = m_.space.generation();
	for (size_t i = 0; i < active_.size();) {
		hw_channel &ch = *active_[i];

		ch.src = ch.dst = window();
		if (ch.has_record() && !resolve_control(ch))
			lose_ring(ch, "is no longer mapped");
		else if (!ch.has_record() && ch.device && !resolve_control(ch))
			drop_record(ch);
		i += i < active_.size() && active_[i] == &ch;
	}
}

void engine::lose_ring(hw_channel &ch, const char *why)
{
	log_warn_limited("sim: channel %u: its ring or status block %s", ch.index, why);
	store_release(&ch.state, u32(chan_state_error));
	if (ch.device && !ch.remote)
		drop_record(ch);
	wind_up(ch);
}

/* w caches the area that was found last. nullptr: not mapped with these rights, dead, or reached by messages only. */
static u8 *control_at(const dma_space &space, u64 iova, u32 rights, window *w)
{
	if (iova - w->base >= w->size && !space.find(iova, w))
		return nullptr;
	return w->host && (w->prot & rights) == rights && !is_dead(w->piece) ? w->host + (iova - w->base) : nullptr;
}

static bool set_status_found(hw_channel &ch, u8 *line0, u8 *line1)
{
	if (line0 && line1)
		set_status(ch, line0, line1);
	return line0 && line1;
}

/* In a pass: looks up ring and status block again. */
bool engine::resolve_control(hw_channel &ch)
{
	static constexpr u32 rw = vfio::dma_read | vfio::dma_write;
	const u64 ring_size = (u64(ch.mask) + 1) * sizeof(descriptor);

	if (ch.remote)
		return remote_ring::reaches(m_.space, ch.ring_iova, ring_size, vfio::dma_read) &&
		       remote_ring::reaches(m_.space, ch.record_iova, sizeof(status_block), rw);
	const u64 skip = ch.ring_iova % area_page;
	window w;

	for (u64 at = 0; at < skip + ring_size; at += area_page) {
		u8 *const host = control_at(m_.space, ch.ring_iova - skip + at, vfio::dma_read, &w);

		if (!host)
			return false;
		ch.ring_pages[at / area_page] = host;
	}
	ch.ring_skip = skip;
	ch.slots = ch.mask;
	return set_status_found(ch, control_at(m_.space, ch.record_iova, rw, &w),
				control_at(m_.space, ch.record_iova + cache_line, rw, &w));
}

/* The ring or the status block is accessible only by messages to the client. */
bool engine::resolve_remote(hw_channel &ch)
{
	ch.remote = remote_ring::make(m_.remote, wake_.get(), ch.ring_iova, ch.record_iova, ch.mask + 1);
	if (!ch.remote || !resolve_control(ch))
		return false;
	ch.remote->restart_after(ch.written);
	ch.ring_pages[0] = ch.remote->ring();
	ch.ring_skip = 0;
	ch.slots = ch.remote->slots() - 1;
	u8 *const status = reinterpret_cast<u8 *>(ch.remote->status());
	set_status(ch, status, status + cache_line);
	return true;
}

bool engine::any_waits() const
{
	return std::any_of(active_.begin(), active_.end(), [](const hw_channel *ch) { return ch->waiting; });
}

void engine::note_waits(bool now)
{
	if (now == waits_)
		return;
	waits_ = now;
	fetch_add_relaxed(&waiting_engines, now ? 1 : ~u32(0));
}

/*
 * An engine or a thread that waits for this CPU may have to end a WAIT. If it was another program that ran, each
 * sched_yield() costs that program's whole slice: then the engine sleeps for a time, as a wake-up is sooner.
 */
void engine::let_others_run()
{
	note_waits(any_waits());
	if (!load_relaxed(&waiting_engines))
		return;
	const u64 before = now_ns();

	sched_yield();
	const u64 after = now_ns();
	if (after - before > long_yield_ns)
		busy_until_ = after + busy_ns;
}

/* Others have taken the CPU lately. */
bool engine::cpu_is_busy()
{
	if (now_ns() >= busy_until_)
		busy_until_ = 0;
	return busy_until_;
}

void engine::idle()
{
	if (!idle_polls_)
		publish_cpu();
	if (!napping_ && !active_.empty() && !(busy_until_ && cpu_is_busy())) {
		/* A pause is long on some CPUs: not while the next descriptor is probably about to arrive. */
		if (idle_polls_ > eager_passes)
			cpu_relax();
		if (++idle_polls_ % passes_per_yield == 0 && cpus_ <= 2)
			let_others_run();
		if (idle_polls_ % passes_per_poll)
			return;
		const u64 now = now_ns();

		if (idle_polls_ == passes_per_poll)
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
		store_relaxed(ch->cpu, cpu);
}

/* True: nothing to run, to raise or to execute. */
bool engine::nothing_to_do()
{
	for (hw_channel *ch : active_) {
		const u64 tail = load_acquire(reinterpret_cast<u64 *>(ch->doorbell + doorbell_tail));

		if (ch->remote && ch->remote->has_work(ch->next, ch->runs() ? tail : ch->next - 1))
			return false;
		if (ch->device && has_news(*ch))
			return false;
		for (unsigned slot = 0; slot < dma::irq_slots; slot++) {
			const u64 arm = load_acquire(
				reinterpret_cast<u64 *>(ch->doorbell + doorbell_arm + slot * cache_line));

			if (arm != arm_none && arm != ch->fired[slot] && ch->has_record() && ch->is_due(slot, arm))
				return false;
		}
		if (!ch->runs() || ch->hold.held || ch->is_on_device() || (ch->remote && !ch->remote->state_is_sent()))
			continue;
		if (load_acquire(&ch->slot(ch->next)->tag) == u32(ch->next))
			return false;
		if (s64(tail - ch->next) >= 0 && !(ch->remote && ch->remote->lacks(ch->next, tail)))
			return false;
	}
	return !load_acquire(&cmd_pending_) && !thread_.quits();
}

/* However many engines poll the device, they leave the CPUs to what they wait for. */
u64 engine::polling_share() const
{
	return std::max(load_relaxed(&polling_engines) / (polling_per_cpu * cpus_), 1u);
}

/* Longest sleep without a wake-up: WAITs are polled, coalesced interrupts become due. */
u64 engine::sleep_limit()
{
	u64 limit = ~u64(0);

	for (const hw_channel *ch : active_) {
		if (const u64 until = ch->remote ? ch->remote->limit() : ~u64(0); until != ~u64(0)) {
			const u64 now = now_ns(), left = until > now ? until - now : 1;

			limit = left < limit ? left : limit;
		}
		if (ch->is_on_device())
			limit = std::min(limit, nap_ns_ * polling_share());
		if (ch->state != chan_state_running)
			continue;
		if (const u64 nap = ch->wait_is_reported ? reported_nap_ns : nap_ns_; ch->waiting && nap < limit)
			limit = nap;
		if (ch->hold.held && timing::nap_ns < limit)
			limit = timing::nap_ns;
		if (ch->irq_count && ch->irq_due) {
			const u64 now = now_ns(), left = ch->irq_due > now ? ch->irq_due - now : 1;

			limit = left < limit ? left : limit;
		}
	}
	return limit;
}

/* True: woken by an eventfd; consumes the edges. */
bool engine::wait_wake(u64 limit_ns)
{
	epoll_event edges[2];

	if (limit_ns != ~u64(0)) {
		pollfd p = {sleeps_.get(), POLLIN, 0};

		if (await_fds_ns(&p, 1, limit_ns) != 1)
			return false;
	}
	return epoll_wait(sleeps_.get(), edges, 2, limit_ns == ~u64(0) ? -1 : 0) != 0;
}

/* True: something ran. Polled with the flags set, so that what is stored later is reported. */
bool engine::waits_hold()
{
	bool busy = false;

	if (!any_waits())
		return false;
	store_fence(&asleep_in_wait_, 1u);
	for (size_t i = 0; i < active_.size(); i++)
		busy |= active_[i]->waiting && run_channel(*active_[i]);
	return busy;
}

/* Nothing else becomes due by time. */
bool engine::only_waits() const
{
	return std::all_of(active_.begin(), active_.end(), [](const hw_channel *ch) {
		return ch->state == chan_state_running && !ch->remote && !ch->hold.held && !ch->irq_count &&
		       !ch->is_on_device();
	});
}

/* In proportion to the time for which the WAIT has been polled. */
void engine::nap()
{
	const u32 polls = std::any_of(active_.begin(), active_.end(),
				      [](const hw_channel *ch) { return ch->is_on_device(); });

	fetch_add_relaxed(&polling_engines, polls);
	const u64 limit = sleep_limit();

	reader_.leave();
	beat_due_ = napping_ = !wait_wake(limit);
	reader_.enter();
	fetch_add_relaxed(&polling_engines, 0 - polls);
	nap_ns_ = std::min(nap_ns_ + nap_ns_ / 8, nap_max_ns);
}

void engine::sleep()
{
	/* Also if it has lost the channels that were in one. */
	note_waits(any_waits());
	/* Sets asleep before the last check of the rings; the client posts before it reads asleep. */
	for (hw_channel *ch : active_)
		store_fence(ch->asleep, u32(dma::asleep_once));
	/* hw_cap_sleep_ordered: the engine issues the barrier for the client. */
	if (m_.in_client)
		barrier_or_wait();
	for (hw_channel *ch : active_) {
		check_tail(*ch);
		if (ch->device)
			ch->device->rest();
	}
	do {
		napping_ = false;
		if (waits_hold() || !nothing_to_do())
			break;
		nap();
		/* Before the records are accessed: they may have been unmapped meanwhile. */
		begin_poll();
		/* WAITs are polled with the flags set: that needs no barrier. */
	} while (napping_ && any_waits() && only_waits());
	beat_due_ = napping_;
	store_relaxed(&asleep_in_wait_, 0u);
	for (hw_channel *ch : active_)
		store_relaxed(ch->asleep, 0u);
	publish_cpu();
	idle_polls_ = 0;
	if (!napping_)
		nap_ns_ = nap_min_ns;
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
		handle_stop(*ch);
	napping_ = false;
	idle_polls_ = 0;
	/* Release: orders the effects of the command before its completion. */
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
	ch.posted = r.first_seq;
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
		ch.vectors[slot] = slot == dma::irq_completion ? r.completion : r.vectors >> (16 * slot) & 0xffff;
		ch.fired[slot] = arm_none;
		store_relaxed(reinterpret_cast<u64 *>(ch.doorbell + doorbell_arm + slot * cache_line), arm_none);
	}
}

static void start_record(hw_channel &ch, u32 cpu)
{
	dma::completion_record &r = *ch.record;

	store_relaxed(ch.asleep, 0u);
	store_relaxed(ch.cpu, cpu);
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
	if ((ch.state != chan_state_off && ch.state != chan_state_error) || ch.listed || access_channel_ == &ch ||
	    setup_error(regs))
		return;
	start_registers(ch, regs);
	if (m_.device && !attach_device(ch)) {
		store_release(&ch.state, u32(chan_state_error));
		return;
	}
	if (!resolve_control(ch) && !resolve_remote(ch)) {
		log_warn_limited(
			"sim: channel %u: its ring or status block is not wholly mapped with the rights it needs",
			ch.index);
		ch.forget_memory();
		store_release(&ch.state, u32(chan_state_error));
		return;
	}
	start_record(ch, cpu_);
	if (m_.order)
		m_.order->start(ch);
	if (ch.remote)
		ch.remote->send_all();
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
 * An access sent to the client cannot be withdrawn: the client may be moving the bytes. So the channel becomes
 * off, or drops a lost ring, after the reply. The server's thread must not wait for that, as it receives the
 * reply. True: done.
 */
bool engine::wind_up(hw_channel &ch)
{
	if ((access_channel_ == &ch && ch.state == chan_state_stopping) || (ch.device && !drain(ch)) ||
	    (ch.remote && !ch.remote->wind_up()))
		return false;
	if (ch.remote && ch.remote->interrupt_due)
		raise(ch.vectors[dma::irq_service]);
	unlist(ch);
	ch.forget_memory();
	if (ch.state == chan_state_stopping)
		store_release(&ch.state, u32(chan_state_off));
	return true;
}

/* The record must not report the stop while the client moves bytes for the descriptor. */
void engine::handle_stop(hw_channel &ch)
{
	if (ch.state != chan_state_running)
		return;
	if (access_channel_ == &ch || ch.is_on_device())
		ch.stop_due = true;
	else
		halt(ch, dma::fault_reason::stopped, 0, 0);
}

void engine::resume(hw_channel &ch)
{
	/* Cancels a stop that has not taken effect yet. */
	ch.stop_due = false;
	if (ch.state != chan_state_halted)
		return;
	dma::completion_record &r = *ch.record; /* valid once the channel was enabled */

	/* After a stop the same descriptor runs again, after a fault the next. */
	if (ch.reason != dma::fault_reason::stopped)
		ch.next++;
	ch.written = ch.next - 1;
	store_relaxed(&ch.waiting, false);
	if (m_.order)
		m_.order->start(ch);
	/* The halt has fired these armed interrupts: rearm them for the completion of their requests. */
	ch.fired[dma::irq_waiter] = ch.fired[dma::irq_service] = arm_none;
	store_relaxed(&r.reason, 0u);
	store_release(&r.completed, ch.written);
	if (ch.remote) {
		/* Fetched descriptors may have been rewritten since. */
		ch.remote->restart_after(ch.written);
		ch.remote->note_state();
	}
	/* After completed: a reader that sees the running state also sees the failed descriptor as completed. */
	store_release(&r.state, u32(dma::state_running));
	store_release(&ch.state, u32(chan_state_running));
}

bool engine::bell_rung() const
{
	pollfd p = {bell_.get(), POLLIN, 0};

	return await_fds(&p, 1, 0) == 1;
}

} // namespace usdma::sim
