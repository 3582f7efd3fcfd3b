/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/dma/striped.h"

#include "driver/base/error.h"
#include "driver/base/log.h"

#include <algorithm>
#include <new>

namespace usdma::dma {

/* Least length of a part. Parts begin at page boundaries of the destination: no two write one page. */
static constexpr u64 part_grain = 64 * KiB, part_align = 4 * KiB;
static constexpr u32 max_rings = 16;
/* Of WAITs and NOPs: no owner's, so that cancel() leaves them. */
static constexpr u64 sync_cookie = ~u64(0);

/* A copy that is spread: its sequence numbers. In ring 0 its part is followed by the WAITs for the others, in order. */
struct spread_copy {
	u64 first;           /* in ring 0: of the NOP for which the other parts wait; or of its part */
	u64 part[max_rings]; /* in each ring */
	u32 n;               /* parts */
	bool failed;         /* reported as failed */

	bool waits() const { return first != part[0]; }
	u64 first_in(u32 ring) const { return ring ? part[ring] - waits() : first; }
	u64 last_in(u32 ring) const { return ring ? part[ring] : part[0] + n - 1; }
};

struct striped : channel {
	static constexpr u64 max_copies = 64;

	channel *ring[max_rings] = {};
	u64 rung[max_rings] = {}; /* the doorbell's last value */
	u64 from = 0;             /* shortest copy that is spread */
	u64 head = 0, tail = 0;   /* free-running: copies that have not completed */
	u32 fault_ring = 0;       /* what read_fault() returned last: that request of this ring; */
	u64 fault_seq = 0;        /* 0: none that failed */
	spread_copy copies[max_copies];
	channel_ops table;

	spread_copy &at(u64 i) { return copies[i % max_copies]; }
	const spread_copy &at(u64 i) const { return copies[i % max_copies]; }
};

static striped *to_striped(channel *ch)
{
	return static_cast<striped *>(ch);
}

/* ---- posting ---------------------------------------------------------------------------------------- */

static u64 free_slots(const channel *ring)
{
	const u64 pending = ring->posted - completed(ring);

	return pending <= ring->ring_size ? ring->ring_size - pending : 0;
}

/* Each part may need a WAIT before it, and ring 0 a NOP and a WAIT for each other part. */
static bool has_slots(striped *c, u32 parts)
{
	while (c->head != c->tail && completed(c) >= c->at(c->head).last_in(0))
		c->head++;
	return c->tail - c->head < c->max_copies && free_slots(c->ring[0]) > parts &&
	       std::all_of(c->ring + 1, c->ring + parts, [](const channel *r) { return free_slots(r) >= 2; });
}

static request sync_request(opcode op)
{
	request q;

	q.op = op;
	q.cookie = sync_cookie;
	return q;
}

static request wait_for(const channel *ring, u64 seq)
{
	request q = sync_request(opcode::wait);

	q.arg = u8(compare::geq);
	q.spaces = spaces(space::host, space::host);
	q.src = ring->record_iova;
	q.len = sizeof(u64);
	q.a = seq;
	return q;
}

/* Offset of part k of n. */
static u64 part_begin(const request &r, u32 k, u32 n)
{
	const u64 at = (r.len + n - 1) / n * k;

	return !k || at >= r.len ? std::min(at, r.len) : align_up(r.dst + at, part_align) - r.dst;
}

static request part_of(const request &r, u32 k, u32 n)
{
	const u64 begin = part_begin(r, k, n);
	request q = r;

	q.src += begin;
	q.dst += begin;
	q.len = part_begin(r, k + 1, n) - begin;
	return q;
}

static void post_first(striped *c, spread_copy *s, const request &r)
{
	request q[max_rings + 1];
	unsigned n = 0;

	if (s->waits()) {
		q[n] = sync_request(opcode::nop);
		/* Completes at once, not together with the part that follows. */
		q[n++].flags = flag_complete;
	}
	q[n++] = part_of(r, 0, s->n);
	for (u32 k = 1; k < s->n; k++)
		q[n++] = wait_for(c->ring[k], s->part[k]);
	c->ring[0]->ops->post(c->ring[0], q, n);
}

static void post_part(striped *c, const spread_copy &s, u32 k, const request &r)
{
	request q[2] = {wait_for(c, s.first), part_of(r, k, s.n)};

	q[1].flags |= flag_complete;
	c->ring[k]->ops->post(c->ring[k], s.waits() ? q : q + 1, s.waits() ? 2 : 1);
}

/* False: nothing was posted. */
static bool post_spread(striped *c, const request &r)
{
	const u32 n = u32(std::min<u64>(r.len / part_grain, c->n_rings));

	if (r.flags & ~flag_cache || !has_slots(c, n))
		return false;
	spread_copy *s = &c->at(c->tail++);
	const u64 busy = completed(c) != c->ring[0]->posted;
	s->n = n;
	s->failed = false;
	s->first = c->ring[0]->posted + 1;
	for (u32 k = 0; k < n; k++)
		s->part[k] = c->ring[k]->posted + 1 + busy;
	post_first(c, s, r);
	for (u32 k = 1; k < n; k++)
		post_part(c, *s, k, r);
	return true;
}

static void take_numbers(striped *c)
{
	store_relaxed(&c->posted, c->ring[0]->posted);
	c->post_limit = c->ring[0]->post_limit;
}

static bool is_long(const striped *c, const request &r)
{
	return r.op == opcode::copy && r.len >= c->from;
}

static unsigned striped_post(channel *ch, const request *r, unsigned n)
{
	striped *c = to_striped(ch);
	channel *const own = c->ring[0];
	unsigned done = 0;

	if (std::none_of(r, r + n, [c](const request &q) { return is_long(c, q); }))
		done = own->ops->post(own, r, n);
	else
		while (done < n &&
		       ((is_long(c, r[done]) && post_spread(c, r[done])) || own->ops->post(own, &r[done], 1)))
			done++;
	take_numbers(c);
	return done;
}

/* Wakes each engine before the next doorbell: ring 0, which the caller wakes too, is not to begin last. */
static void striped_doorbell(channel *ch)
{
	striped *c = to_striped(ch);

	for (u32 k = 0; k < c->n_rings; k++) {
		channel *const r = c->ring[k];

		if (r->posted == c->rung[k])
			continue;
		c->rung[k] = r->posted;
		r->ops->doorbell(r);
		barrier_full();
		if (load_relaxed(r->asleep) && claim_wake(r))
			r->ops->wake(r);
	}
}

static void striped_submit_copy(channel *ch, u32 where, u64 src, u64 dst, u64 len, u64 cookie)
{
	striped *c = to_striped(ch);

	c->ring[0]->ops->submit_copy(c->ring[0], where, src, dst, len, cookie);
	take_numbers(c);
}

/* ---- halted rings ------------------------------------------------------------------------------------ */

/* What a request of a ring is: the owner's, a part, or a sync request, whose condition may be unmet. */
enum class role : u8 { request, part, sync, unmet };

static const spread_copy *find_copy(const striped *c, u32 ring, u64 seq)
{
	for (u64 i = c->head; i != c->tail; i++) {
		const spread_copy &s = c->at(i);

		if (ring < s.n && s.first_in(ring) <= seq && seq <= s.last_in(ring))
			return &s;
	}
	return nullptr;
}

/* *s: the copy that it belongs to; nullptr: none. */
static role role_of(const striped *c, u32 ring, u64 seq, const spread_copy **s)
{
	*s = find_copy(c, ring, seq);
	if (!*s)
		return role::request;
	if (seq == (*s)->part[ring])
		return role::part;
	/* The NOP has no condition. */
	if (!ring && seq < (*s)->part[0])
		return role::sync;
	const u64 other = ring ? 0 : seq - (*s)->part[0];
	return completed(c->ring[other]) >= (ring ? (*s)->first : (*s)->part[other]) ? role::sync : role::unmet;
}

static role next_role(const striped *c, u32 ring)
{
	const spread_copy *s;

	return role_of(c, ring, completed(c->ring[ring]) + 1, &s);
}

/*
 * The ring that has to make progress: ring 0, or the one whose part ring 0 waits for. If that has halted, another one
 * that still has something to run, which may hang.
 */
static channel *active_ring(const channel *ch)
{
	const auto *c = static_cast<const striped *>(ch);
	const u64 next = completed(c) + 1;
	const spread_copy *s;
	channel *const r = c->ring[role_of(c, 0, next, &s) == role::unmet ? next - s->part[0] : 0];

	for (u32 k = 0; halted(r) && k < c->n_rings; k++)
		if (!halted(c->ring[k]) && completed(c->ring[k]) != c->ring[k]->posted &&
		    next_role(c, k) != role::unmet)
			return c->ring[k];
	return r;
}

/* WAITs between parts are not the owner's. */
static bool striped_in_wait(const channel *ch)
{
	const auto *c = static_cast<const striped *>(ch);

	return next_role(c, 0) == role::request && c->ring[0]->ops->in_wait(c->ring[0]);
}

/* False: it goes on by itself: it is a sync request, once its condition is met, or its copy's failure was reported. */
static bool is_reported(striped *c, u32 ring, fault *f)
{
	channel *const r = c->ring[ring];
	const spread_copy *s;
	const role what = role_of(c, ring, f->seq, &s);

	if (what == role::request || (what == role::part && !s->failed)) {
		f->seq = s ? s->part[0] : f->seq;
		return true;
	}
	if (what == role::sync)
		log_warn("channel %u: a WAIT for parts of a copy failed: %s", r->index, fault_name(f->reason));
	f->cookie = sync_cookie;
	return what != role::unmet && r->ops->resume(r);
}

/* A failure before a stop, which may be of a part of the same copy. */
static bool striped_read_fault(channel *ch, fault *out)
{
	striped *c = to_striped(ch);
	bool stopped = false;
	fault f;

	c->fault_seq = 0;
	for (u32 k = 0; k < c->n_rings; k++) {
		if (!record_fault(c->ring[k]->record, &f))
			continue;
		const u64 seq = f.seq;
		if (f.reason != fault_reason::stopped && !is_reported(c, k, &f))
			continue;
		*out = f;
		if (f.reason != fault_reason::stopped) {
			c->fault_ring = k;
			c->fault_seq = seq;
			return true;
		}
		stopped = true;
	}
	return stopped;
}

/* The failure that was returned, or another part's of the same copy. What failed after that is returned next. */
static bool was_returned(striped *c, u32 ring, u64 seq, spread_copy *s)
{
	if (s && (s->failed || (c->fault_seq && c->fault_ring < s->n && s->part[c->fault_ring] == c->fault_seq))) {
		s->failed = true;
		return true;
	}
	return ring == c->fault_ring && seq == c->fault_seq;
}

/* Finds all rings to resume first: once one runs, the next copy may begin, and fail. */
static int striped_resume(channel *ch)
{
	striped *c = to_striped(ch);
	channel *halted_rings[max_rings];
	const spread_copy *s;
	int first = 0;
	u32 n = 0;
	fault f;

	for (u32 k = 0; k < c->n_rings; k++) {
		if (!record_fault(c->ring[k]->record, &f))
			continue;
		const role what = role_of(c, k, f.seq, &s);
		const bool of_owner = what == role::request || what == role::part;
		if (f.reason == fault_reason::stopped ||
		    (of_owner ? was_returned(c, k, f.seq, const_cast<spread_copy *>(s)) : what != role::unmet))
			halted_rings[n++] = c->ring[k];
	}
	for (u32 k = 0; k < n; k++) {
		const int err = halted_rings[k]->ops->resume(halted_rings[k]);

		first = first ? first : err;
	}
	return first;
}

/* If one does not stop, the others remain stopped: the owner's next check resumes them. */
static int striped_stop(channel *ch)
{
	int err = 0;

	for (u32 k = 0; k < ch->n_rings && !err; k++) {
		channel *const r = to_striped(ch)->ring[k];

		if (completed(r) != r->posted)
			err = r->ops->stop(r);
	}
	return err;
}

static unsigned striped_cancel(channel *ch, u64 cookie)
{
	unsigned count = 0;

	for (u32 k = 0; k < ch->n_rings; k++)
		count += to_striped(ch)->ring[k]->ops->cancel(to_striped(ch)->ring[k], cookie);
	return count;
}

static int striped_restart(channel *ch)
{
	striped *c = to_striped(ch);
	int err = 0;

	c->head = c->tail;
	for (u32 k = 0; k < c->n_rings && !err; k++)
		err = c->ring[k]->ops->restart(c->ring[k]);
	return err;
}

/* A copy counts as one request, but the watchdog must see each part that completes. */
static progress striped_progress(const channel *ch)
{
	progress p = read_progress(active_ring(ch));

	p.completed = 0;
	for (u32 k = 0; k < ch->n_rings; k++)
		p.completed += completed(ch->rings[k]);
	return p;
}

/* A part in another ring counts until its copy has completed in ring 0. */
static bool striped_last_use(const channel *ch, const iova_range &where, u64 *seq)
{
	const auto *c = static_cast<const striped *>(ch);
	bool found = false;
	u64 at;

	*seq = 0;
	for (u32 k = 0; k < c->n_rings; k++) {
		if (!c->ring[k]->ops->last_use(c->ring[k], where, &at))
			continue;
		const spread_copy *s = find_copy(c, k, at);
		*seq = std::max(*seq, s ? s->last_in(0) : k ? c->posted : at);
		found = true;
	}
	return found;
}

/* ---- the channel ------------------------------------------------------------------------------------- */

static void striped_close(channel *ch)
{
	striped *c = to_striped(ch);

	for (channel *r : c->ring)
		if (r)
			r->ops->close(r);
	delete c;
}

static constexpr channel_ops striped_ops = {
	.post = striped_post,
	.doorbell = striped_doorbell,
	.submit_copy = striped_submit_copy,
	.wake = [](channel *ch) { ch->rings[0]->ops->wake(to_striped(ch)->ring[0]); },
	.arm = [](channel *ch, unsigned slot, u64 seq) { ch->rings[0]->ops->arm(to_striped(ch)->ring[0], slot, seq); },
	.withdraw = [](channel *ch, u64 seq) { return ch->rings[0]->ops->withdraw(to_striped(ch)->ring[0], seq); },
	.completion_fd = [](channel *ch) { return ch->rings[0]->ops->completion_fd(to_striped(ch)->ring[0]); },
	.cancel = striped_cancel,
	.resume = striped_resume,
	.stop = striped_stop,
	.abort = [](channel *ch) { return ch->rings[0]->ops->abort(active_ring(ch)); },
	.restart = striped_restart,
	.begun = [](const channel *ch) { return ch->rings[0]->ops->begun(active_ring(ch)); },
	.in_wait = striped_in_wait,
	.read_fault = striped_read_fault,
	.read_progress = striped_progress,
	.describe = [](const channel *ch, char *buf,
		       size_t n) { ch->rings[0]->ops->describe(active_ring(ch), buf, n); },
	.last_use = striped_last_use,
	.close = striped_close,
};

/* Operations that a ring lacks are nullptr. */
template <class... F> static channel_ops ops_over(const channel_ops &ring, F... op)
{
	channel_ops ops = striped_ops;

	((ops.*op = ring.*op ? ops.*op : nullptr), ...);
	return ops;
}

/* A part waits for another ring's record: none is spread if an engine cannot read those. */
static void set_up(striped *c, unsigned index, u32 n, u64 from)
{
	using o = channel_ops;
	const bool apart = std::any_of(c->ring, c->ring + n, [](const channel *r) { return !r->record_iova; });

	/* What callers read of a channel is ring 0's. */
	static_cast<channel &>(*c) = *c->ring[0];
	c->table = ops_over(*c->ops, &o::submit_copy, &o::completion_fd, &o::abort, &o::restart, &o::begun, &o::in_wait,
			    &o::describe);
	c->ops = &c->table;
	c->index = index;
	c->rings = c->ring;
	c->n_rings = n;
	c->from = apart ? ~u64(0) : from;
	c->submit_max = c->from - 1;
	for (u32 k = 0; k < n; k++)
		c->rung[k] = c->ring[k]->posted;
}

u64 striped_from(u64 setting)
{
	return setting ? std::max(setting, 2 * part_grain) : 0;
}

static u32 rings_of(const engine_limits &lim, u64 setting)
{
	return setting && lim.ops & op_bit(opcode::wait) ? std::clamp(lim.engines, 1u, max_rings) : 1;
}

u32 striped_channels(const engine_limits &lim, u64 setting)
{
	return lim.channels / rings_of(lim, setting);
}

/* Channels of different queues begin at different engines, for copies that are not spread. */
static int open_rings(striped *c, engine *eng, unsigned index, const channel_config &cfg, u32 n)
{
	for (u32 k = 0; k < n; k++)
		if (const int err = eng->channel_open(index * n + (index + k) % n, cfg, &c->ring[k]))
			return err;
	return 0;
}

int striped_open(engine *eng, unsigned index, const channel_config &cfg, u64 setting, channel **out)
{
	const u32 n = rings_of(eng->limits(), setting);

	if (n == 1)
		return eng->channel_open(index, cfg, out);
	auto *c = new (std::nothrow) striped;
	if (!c)
		return no_memory("a channel of several rings");
	if (const int err = open_rings(c, eng, index, cfg, n)) {
		const saved_error why;

		striped_close(c);
		return why.again(err);
	}
	set_up(c, index, n, striped_from(setting));
	*out = c;
	return 0;
}

} // namespace usdma::dma
