/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/backend.h"

#include "driver/base/await_fds.h"
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/base/thread.h"
#include "driver/dma/registry.h"

#include <algorithm>
#include <poll.h>

namespace usdma::sim {

/* Below are the drivers' own rings (own_memory.cpp). */
static constexpr u64 first_window = 4 * GiB, huge = 2 * MiB;
/* How often the monitor checks, with clients and without. */
static constexpr int check_ms = 50, idle_ms = 1000;
/* Without progress for as long the device is probed. */
static constexpr u64 probe_ns = 100 * ns_per_ms;
static constexpr u64 nap_min_ns = 10 * ns_per_us, nap_max_ns = ns_per_ms;
/* The mappings of a device are shared by as many: the most that usdma-sim serves. */
static constexpr u64 clients_served = 64;
/* Of a server: mapping may take long on a busy machine, and after this time the device is lost for all clients. */
static constexpr u64 reply_ms = 20000;
/* For unmap(), without progress: the monitor's two resets, and giving up, take less. */
static constexpr u64 most_hangs = 4;

/* ---- requests -------------------------------------------------------------------------------------- */

submitter::~submitter()
{
	std::lock_guard guard(on_.lock);

	on_.entries[index_] = {nullptr, on_.ch->posted};
	store_relaxed(&on_.used, on_.used - 1);
}

bool submitter::post(dma::request r, u64 *seq)
{
	std::lock_guard guard(on_.lock);

	r.cookie = index_;
	if (load_relaxed(&failed_) || on_.ch->ops->post(on_.ch, &r, 1) != 1)
		return false;
	*seq = on_.ch->posted;
	on_.entries[index_].last = *seq;
	posted_ = true;
	return true;
}

void submitter::announce()
{
	dma::channel *const ch = on_.ch;

	if (!posted_)
		return;
	posted_ = false;
	std::lock_guard guard(on_.lock);

	ch->ops->doorbell(ch);
	/* The post, then the load of asleep: the device stores asleep, then loads the ring. */
	barrier_full();
	if (load_relaxed(ch->asleep) && dma::claim_wake(ch))
		ch->ops->wake(ch);
}

/* One of all that poll reads the device's report, maybe from a register: the others take what it has found. */
u64 submitter::ended()
{
	if (unlikely(dma::halted(on_.ch)) && !exchange_acq_rel(&on_.reported, 1))
		eventfd_signal(on_.wake_fd);
	if (load_relaxed(&on_.polling) || exchange_acq_rel(&on_.polling, 1))
		return load_device(&on_.ch->record->completed);
	const u64 done = dma::completed(on_.ch);

	store_release(&on_.polling, 0u);
	return done;
}

bool submitter::is_queued(u64 seq) const
{
	return seq - load_device(&on_.ch->record->completed) != 1;
}

u64 submitter::progress() const
{
	const dma::progress p = dma::read_progress(on_.ch);

	return p.completed + p.heartbeat;
}

void submitter::note(const dma::fault &f)
{
	if (load_relaxed(&failed_))
		return;
	fault_ = f;
	store_release(&failed_, 1u);
}

dma::fault submitter::take_fault()
{
	std::lock_guard guard(on_.lock);

	store_relaxed(&failed_, 0u);
	return fault_;
}

/* Of one that was destroyed, the entry is free when its requests have ended: until then they have its cookie. */
static u32 free_entry(const backend_channel &c)
{
	const u64 done = dma::completed(c.ch);

	for (u32 i = 0; i < backend_channel::most_submitters; i++)
		if (!c.entries[i].who && s64(done - c.entries[i].last) >= 0)
			return i;
	return backend_channel::most_submitters;
}

static std::unique_ptr<submitter> attach_to(backend_channel &c)
{
	std::lock_guard guard(c.lock);
	const u32 i = free_entry(c);

	if (i == backend_channel::most_submitters)
		return nullptr;
	auto s = try_unique<submitter>(c, i);
	if (!s)
		return nullptr;
	c.entries[i].who = s.get();
	store_relaxed(&c.used, c.used + 1);
	return s;
}

std::unique_ptr<submitter> backend::attach()
{
	std::lock_guard guard(window_lock_);

	return attach_to(*std::min_element(channels_.get(), channels_.get() + count_,
					   [](const backend_channel &a, const backend_channel &b) {
						   return load_relaxed(&a.used) < load_relaxed(&b.used);
					   }));
}

/* ---- memory ---------------------------------------------------------------------------------------- */

/* The first address from at on, within what the device reaches and between the windows; 0: none. */
static u64 fit(const vfio::address_limits &l, const std::map<u64, u64> &windows, u64 at, u64 size)
{
	const u64 align = std::max(l.page_size, size >= huge ? huge : 1);

	for (const vfio::range &r : l.usable) {
		u64 start = align_up(std::max({r.start, at, first_window}), align);

		/* The one before may reach over it. */
		auto next = windows.upper_bound(start);
		if (next != windows.begin())
			--next;
		for (; next != windows.end() && (next->first < start || next->first - start < size); ++next)
			if (next->first + next->second > start)
				start = align_up(next->first + next->second, align);
		if (start >= at && start <= r.last && size - 1 <= r.last - start)
			return start;
	}
	return 0;
}

int backend::find_window(u64 size, u64 *iova)
{
	*iova = fit(limits_, windows_, next_window_, size);
	if (!*iova)
		*iova = fit(limits_, windows_, first_window, size);
	if (!*iova)
		return fail(ENOSPC, "%s: no %llu bytes of its address space are left", name(),
			    static_cast<unsigned long long>(size));
	u64 *const entry = try_emplace(windows_, *iova);
	if (!entry)
		return no_memory("the list of windows");
	*entry = size;
	next_window_ = *iova + size;
	return 0;
}

void backend::drop_window(u64 iova)
{
	std::lock_guard guard(window_lock_);

	windows_.erase(iova);
}

int backend::map(vfio::dma_area area, u64 *iova)
{
	{
		std::lock_guard guard(window_lock_);

		if (const int err = find_window(area.size, &area.iova))
			return err;
	}
	const int err = engine_->map(area);
	if (err) {
		drop_window(area.iova);
		return err;
	}
	*iova = area.iova;
	return 0;
}

static bool last_use(backend_channel &c, const dma::iova_range &where, u64 *seq)
{
	std::lock_guard guard(c.lock);

	return c.ch->ops->last_use(c.ch, where, seq);
}

/* False: no progress for too long, once for all that wait for the same request. */
bool backend::may_wait(backend_channel &c, u64 done, u64 *seen, deadline *until) const
{
	if (done != *seen) {
		*seen = done;
		*until = deadline::in_ns(most_hangs * load_relaxed(&hang_ns_) + 2 * idle_ms * ns_per_ms);
	}
	if (!until->passed())
		return load_relaxed(&c.stuck_at) != done;
	store_relaxed(&c.stuck_at, done);
	return false;
}

/* False: it may still be used. Nothing in the area is posted any more. */
bool backend::wait_unused(backend_channel &c, const dma::iova_range &where)
{
	deadline until = deadline::never();
	u64 nap = nap_min_ns, seen = backend_channel::nowhere, seq;

	if (!last_use(c, where, &seq))
		return true;
	for (u64 done; s64((done = dma::completed(c.ch)) - seq) < 0 && !load_acquire(&ended_);) {
		const timespec t = {0, long(nap)};

		if (!may_wait(c, done, &seen, &until))
			return false;
		nanosleep(&t, nullptr);
		nap = std::min(nap + nap / 2, nap_max_ns);
	}
	return true;
}

int backend::unmap(u64 iova, u64 size)
{
	for (u32 i = 0; i < count_; i++)
		if (!wait_unused(channels_[i], {iova, size}))
			return fail(ETIMEDOUT, "%s does not finish its work in memory that is unmapped", name());
	if (const int err = load_acquire(&ended_) ? 0 : engine_->unmap(iova, size))
		return err;
	drop_window(iova);
	return 0;
}

/* ---- clients --------------------------------------------------------------------------------------- */

int backend_client::enter(u32 user, u32 weight_of_user)
{
	return on_.parts.enter(user, weight_of_user, &share_);
}

backend_client::~backend_client()
{
	if (share_.of)
		on_.parts.leave(&share_);
}

u64 backend_client::next_bytes(bool idle) const
{
	const share_part most = on_.parts.part_of(share_);
	const u64 bytes = load_relaxed(&in_flight_bytes_), others = load_relaxed(&working_);
	u64 next = 0;

	if (load_relaxed(&in_flight_) < most.requests && bytes < most.bytes)
		next = most.bytes - bytes;
	else if (idle)
		next = request_bytes / std::max<u64>(others * load_relaxed(&share_.of->clients), 1);
	return next ? std::clamp(align_down(next, least_bytes), least_bytes, request_bytes) : 0;
}

void backend_client::note_work(bool begins)
{
	const u32 before = fetch_add_acq_rel(&working_, begins ? 1 : ~u32(0));

	if (before == (begins ? 0 : 1))
		on_.parts.update(&share_, &working_);
}

void backend_client::set_weight(u32 weight)
{
	on_.parts.set_weight(&share_, weight);
}

const char *backend_client::name() const
{
	return on_.name();
}

bool backend_client::runs(dma::opcode op) const
{
	return on_.runs(op);
}

u64 backend_client::max_len() const
{
	return on_.max_len();
}

u32 backend_client::most_areas() const
{
	return on_.most_areas();
}

std::unique_ptr<submitter> backend_client::attach()
{
	auto made = on_.attach();

	if (made)
		fetch_add_relaxed(&channels_, 1u);
	return made;
}

int backend_client::map(const vfio::dma_area &area, u64 *iova)
{
	if (const int err = on_.parts.reserve(&share_, area.size, on_.name()))
		return err;
	if (const int err = on_.map(area, iova)) {
		on_.parts.release(&share_, area.size);
		return err;
	}
	fetch_add_relaxed(&areas_, 1);
	fetch_add_relaxed(&mapped_, area.size);
	return 0;
}

int backend_client::unmap(u64 iova, u64 size)
{
	const int err = on_.unmap(iova, size);

	if (err)
		return err;
	on_.parts.release(&share_, size);
	fetch_add_relaxed(&areas_, ~u64(0));
	fetch_add_relaxed(&mapped_, 0 - size);
	return 0;
}

client_counts backend_client::counts() const
{
	return {load_relaxed(&copies_),    load_relaxed(&bytes_),           load_relaxed(&failed_),
		load_relaxed(&in_flight_), load_relaxed(&in_flight_bytes_), load_relaxed(&areas_),
		load_relaxed(&mapped_),    load_relaxed(&share_.weight),    load_relaxed(&channels_)};
}

/* ---- the monitor ----------------------------------------------------------------------------------- */

enum : u8 { tried_nothing, tried_channel, tried_device };

/* A number of the device's, which may be any. */
static submitter *owner_of(const backend_channel &c, u64 cookie)
{
	const u64 at = dma::cookie_owner(cookie);

	return at < backend_channel::most_submitters ? c.entries[at].who : nullptr;
}

/* With its lock. */
void backend::handle_fault(backend_channel &c)
{
	dma::fault f;

	store_release(&c.reported, 0u);
	if (c.stuck || !dma::read_fault(c.ch, &f))
		return;
	if (f.reason != dma::fault_reason::stopped) {
		fetch_add_relaxed(&faults_, 1);
		/* Nothing behind the failure may run before it is cancelled. */
		if (c.ch->ops->stop(c.ch))
			return;
		/* As the contract has it; the device may report any number. */
		f.seq = dma::completed(c.ch) + 1;
		if (submitter *const s = owner_of(c, f.cookie))
			s->note(f);
		c.ch->ops->cancel(c.ch, f.cookie);
	}
	c.stuck = c.ch->ops->resume(c.ch) != 0;
	if (c.stuck)
		log_error("channel %u of the device cannot be resumed: %s", c.ch->index, error_text());
}

/* With its lock: of each submitter the first request that has not ended fails; of a lost device, the next one, too. */
static void fail_all(backend_channel &c, dma::fault_reason reason)
{
	const dma::fault f = {dma::completed(c.ch) + 1, reason, 0, 0};

	for (backend_channel::entry &e : c.entries)
		if (e.who && (reason == dma::fault_reason::lost || s64(e.last - f.seq) >= 0))
			e.who->note(f);
}

/* What hangs appears as a fault. */
int backend::reset_channel(backend_channel &c)
{
	std::lock_guard guard(c.lock);

	if (c.stuck || !c.ch->ops->abort)
		return fail(EOPNOTSUPP, "the channel cannot be reset");
	const int err = c.ch->ops->abort(c.ch);
	fetch_add_relaxed(&channel_resets_, u64(!err));
	if (!err)
		handle_fault(c);
	return err ? err : c.stuck ? -EIO : 0;
}

/* With all locks: what is posted counts as ended from here on. */
int backend::restart_channels()
{
	int err = engine_->reset();

	fetch_add_relaxed(&device_resets_, u64(!err));

	for (u32 i = 0; i < count_ && !err; i++) {
		backend_channel &c = channels_[i];

		fail_all(c, dma::fault_reason::reset);
		err = c.ch->ops->restart ? c.ch->ops->restart(c.ch) : fail(EOPNOTSUPP, "it cannot go on after a reset");
		c.stuck = err;
	}
	return err;
}

int backend::reset_device()
{
	for (u32 i = 0; i < count_; i++)
		channels_[i].lock.lock();
	const int err = restart_channels();
	for (u32 i = 0; i < count_; i++)
		channels_[i].lock.unlock();
	return err;
}

/* A late sample adds little: what delayed this thread may have delayed a device of this machine, too. */
bool backend::is_hung(backend_channel &c, u64 now) const
{
	std::lock_guard guard(c.lock);
	const dma::progress p = dma::read_progress(c.ch);
	const bool moved = p.completed != c.completed || p.heartbeat != c.heartbeat || p.completed == c.ch->posted;

	c.still_ns = moved ? 0 : c.still_ns + std::min(now - c.sampled_ns, 2 * check_ms * ns_per_ms);
	c.sampled_ns = now;
	if (p.completed != c.tried_at)
		c.tried = tried_nothing;
	c.completed = p.completed;
	c.heartbeat = p.heartbeat;
	return c.still_ns > load_relaxed(&hang_ns_);
}

void backend::recover(backend_channel &c)
{
	int err = -EAGAIN;

	c.still_ns = 0;
	if (c.tried < tried_channel) {
		err = reset_channel(c);
		/* It has ended, or halted, meanwhile. */
		if (err == -EAGAIN && (dma::halted(c.ch) || dma::completed(c.ch) != c.completed))
			return;
		log_warn("channel %u of %s hangs: reset: %s", c.ch->index, name(), err ? error_text() : "done");
		c.tried = tried_channel;
	}
	if (err && c.tried < tried_device) {
		err = reset_device();
		log_warn("%s hangs: reset: %s", name(), err ? error_text() : "done");
		c.tried = tried_device;
	}
	c.tried_at = dma::completed(c.ch);
	if (err && engine_->give_up())
		log_error("%s may still write to memory: %s", name(), error_text());
	else if (err)
		store_release(&ended_, 1u);
}

/* False: the device is lost. */
bool backend::check(u64 now)
{
	for (u32 i = 0; i < count_ && !engine_->lost() && !load_relaxed(&ended_); i++) {
		backend_channel &c = channels_[i];
		{
			std::lock_guard guard(c.lock);

			handle_fault(c);
		}
		if (is_hung(c, now))
			recover(c);
		else if (c.still_ns > probe_ns)
			engine_->transport().answers();
	}
	return !engine_->lost() && !load_relaxed(&ended_);
}

static bool has_work(backend_channel &c)
{
	std::lock_guard guard(c.lock);

	return c.used || dma::completed(c.ch) != c.ch->posted;
}

/* Also for what clients that have ended have posted: it may hang. */
int backend::timeout() const
{
	return std::any_of(channels_.get(), channels_.get() + count_, has_work) ? check_ms : idle_ms;
}

void backend::monitor()
{
	pollfd p[3] = {{stop_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}, {engine_->transport().lost_fd(), POLLIN, 0}};

	do {
		await_fds(p, 3, timeout());
		if (p[0].revents)
			return;
		eventfd_clear(wake_.get());
	} while (check(now_ns()));
	/* Until it is certain that it accesses no memory, clients must not see the end of their connections. */
	while (!p[0].revents && engine_->quiesce())
		await_fds(p, 1, check_ms);
	if (p[0].revents)
		return;
	log_error("%s is lost", name());
	store_release(&ended_, 1u);
	for (u32 i = 0; i < count_; i++) {
		std::lock_guard guard(channels_[i].lock);

		fail_all(channels_[i], dma::fault_reason::lost);
	}
	eventfd_signal(lost_.get());
}

void *backend::monitor_main(void *arg)
{
	thread_name("usdma-monitor");
	static_cast<backend *>(arg)->monitor();
	return nullptr;
}

device_counts backend::counts()
{
	device_counts n = {count_,
			   0,
			   parts.mapped(),
			   load_relaxed(&faults_),
			   load_relaxed(&channel_resets_),
			   load_relaxed(&device_resets_)};

	for (u32 i = 0; i < count_; i++)
		n.submitters += load_relaxed(&channels_[i].used);
	return n;
}

/* ---- opening --------------------------------------------------------------------------------------- */

/* One for each engine of the device, where clients share by what they have in flight. */
int backend::open_channels()
{
	const dma::engine_limits &l = engine_->limits();
	const u32 most = std::min(l.channels, std::max(l.engines, 1u));

	channels_.reset(new (std::nothrow) backend_channel[most]);
	if (!channels_)
		return no_memory("the device's channels");
	for (int err = 0; count_ < most; count_++) {
		err = engine_->channel_open(count_, {}, &channels_[count_].ch);
		/* Others may have taken some, or it has no memory for more. */
		if (err)
			return count_ ? 0 : err;
	}
	return 0;
}

int backend::start()
{
	int err = engine_->transport().limits(&limits_);

	if (!err && limits_.page_size > 4096)
		err = fail(EOPNOTSUPP, "the IOMMU maps no less than %llu bytes, and clients map 4096",
			   static_cast<unsigned long long>(limits_.page_size));
	if (!err)
		err = open_channels();
	if (err)
		return err;
	parts.set_ring(u64(engine_->limits().ring_size) * count_);
	most_areas_ = limits_.max_mappings ?
			      u32(std::clamp(limits_.max_mappings / clients_served, u64(1), u64(~u32(0)))) :
			      ~u32(0);
	lost_.reset(eventfd_make());
	stop_.reset(eventfd_make());
	wake_.reset(eventfd_make());
	if (!lost_.valid() || !stop_.valid() || !wake_.valid())
		return fail_errno("an eventfd");
	for (u32 i = 0; i < count_; i++)
		channels_[i].wake_fd = wake_.get();
	err = thread_start(&monitor_, "usdma-monitor", monitor_main, this);
	monitored_ = !err;
	return err;
}

int backend::open(const std::string &device, u64 hang_ms, std::unique_ptr<backend> *out)
{
	/* Files of clients are shared with a device that another process serves: this one has a handler for SIGBUS. */
	const dma::open_options how = {.reply_ms = reply_ms, .trust = vfio::server_trust::yes};
	auto made = std::unique_ptr<backend>(new (std::nothrow) backend);

	if (!made)
		return no_memory("the device");
	made->set_hang_ms(hang_ms);
	int err = dma::open(device, &made->engine_, how);
	if (!err)
		err = made->start();
	if (err)
		return fail_in(err, "--backend %s", device.c_str());
	*out = std::move(made);
	return 0;
}

backend::~backend()
{
	if (monitored_) {
		eventfd_signal(stop_.get());
		pthread_join(monitor_, nullptr);
	}
	for (u32 i = 0; i < count_; i++)
		channels_[i].ch->ops->close(channels_[i].ch);
}

} // namespace usdma::sim
