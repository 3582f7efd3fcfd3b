/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/check/history.h"

namespace usdma::core {

/* ---- contexts -------------------------------------------------------------------------------------- */

context_id history::add(bool stream)
{
	context_id id = context_id(contexts_.size());

	if (!free_.empty()) {
		id = free_.back();
		free_.pop_back();
	} else if (!try_push(contexts_) || !try_reserve(free_, contexts_.size())) {
		lost(&counts_.no_memory);
		return ~0u;
	}
	context *c = &contexts_[id];
	c->used = true;
	c->is_stream = stream;
	count(c->clock.raise(id, c->time));
	return id;
}

/* Until enough(the stream). Others go on after each wait: a later one may be for them. */
template <class F> void history::drain_by_force(context_id stream, const F &enough)
{
	const context *const s = get(stream);

	while (s && !s->queue.empty() && !enough(*s)) {
		drain(stream, true);
		drain_all();
	}
}

/* The next user of the number begins at a later time: its accesses differ from the old ones. */
void history::remove(context_id id)
{
	context *c = get(id);

	if (!c)
		return;
	drain_by_force(id, [](const context &) { return false; });
	const u64 time = c->time + 1, version = c->version + 1;
	*c = context();
	c->time = time;
	c->version = version;
	push_reserved(free_, id);
}

/* Before an access: those that know the context's present time did not see it. */
void history::tick(context *c, context_id id)
{
	if (!c->shared)
		return;
	c->shared = false;
	c->version++;
	count(c->clock.raise(id, ++c->time));
}

void history::join(context *to, const vector_clock &from)
{
	count(to->clock.join(from));
	to->version++;
}

/* What the thread did before happened before the stream's next operation. */
void history::begin(context *stream, context_id id, context *thread, context_id thread_id)
{
	if (unlikely(edges_))
		edges_->submitted(id);
	if (stream->from == thread_id && stream->from_version == thread->version)
		return;
	pass_on(thread, &stream->clock);
	stream->version++;
	stream->from = thread_id;
	stream->from_version = thread->version;
}

void history::pass_on(context *c, vector_clock *to)
{
	count(to->join(c->clock));
	c->shared = true;
}

/* All that was done so far, also by contexts that were removed since. */
void history::pass_all(vector_clock *to)
{
	for (context_id id = 0; id < contexts_.size(); id++) {
		count(to->raise(id, contexts_[id].time));
		contexts_[id].shared = true;
	}
}

void history::give_signal(context *c, context_id id, order_signal *s)
{
	pass_on(c, &s->clock_);
	s->given_ = true;
	s->blind_ = c->blind;
	if (likely(!edges_))
		return;
	edges_->give(id, s);
	if (s->word_)
		edges_->give(id, reinterpret_cast<const void *>(s->word_));
}

void history::take_signal(context *c, context_id id, const order_signal &s)
{
	join(c, s.clock_);
	c->blind = c->is_stream && (c->blind || s.blind_);
	if (likely(!edges_))
		return;
	edges_->take(id, &s);
	if (s.word_)
		edges_->take(id, reinterpret_cast<const void *>(s.word_));
}

/* ---- operations ------------------------------------------------------------------------------------ */

static bool overlaps(byte_range a, byte_range b)
{
	return a.begin < b.end && b.begin < a.end;
}

/* By another stream: it may have run, if the order was made by means unseen here. */
bool history::write_is_queued(byte_range r, context_id but) const
{
	for (context_id id = 0; queued_ && id < contexts_.size(); id++)
		for (const queued &q : contexts_[id].queue)
			for (const stream_access &a : q.accesses)
				if (id != but && a.writes && overlaps(a.where, r))
					return true;
	return false;
}

static bool trim(std::vector<stream_access> *all, byte_range r)
{
	for (size_t i = 0, n = all->size(); i < n; i++) {
		const stream_access a = (*all)[i];

		if (!overlaps(a.where, r))
			continue;
		(*all)[i].where.end = std::max(a.where.begin, r.begin);
		if (a.where.end > r.end && !try_push(*all, stream_access{{r.end, a.where.end}, a.writes}))
			return false;
	}
	std::erase_if(*all, [](const stream_access &a) { return a.where.begin >= a.where.end; });
	return true;
}

/* They were of memory whose address may be that of another block soon. */
void history::forget_queued(byte_range r)
{
	for (context &c : contexts_)
		for (queued &q : c.queue)
			if (!trim(&q.accesses, r)) {
				q.accesses.clear();
				lost(&counts_.no_memory);
			}
}

/* A second read of the same bytes is not reported again. */
void history::check_unwritten(const stream_access &a, const access_stamp &by)
{
	const byte_range r = a.writes ? byte_range() : unwritten_.first_in(a.where);

	unwritten_.remove(a.where);
	if (r.begin < r.end && !write_is_queued(r, by.context))
		found_(arg_, {r, false, false, {}, by, true});
}

/* All reads first: an operation that reads and writes the same bytes is not in conflict with itself. */
void history::run_access(context *c, context_id id, std::span<const stream_access> what, u32 operation)
{
	tick(c, id);
	const access_stamp by = {id, operation, c->time};
	for (const bool writes : {false, true})
		for (const stream_access &a : what) {
			if (a.writes != writes)
				continue;
			if (unlikely(unwritten_.ranges()))
				check_unwritten(a, by);
			if (writes)
				accesses_.write(a.where, by, c->clock, found_, arg_);
			else
				accesses_.read(a.where, by, c->clock, found_, arg_);
		}
	if (unlikely(edges_) && c->is_stream && !c->blind)
		forward_(arg_, id, what, operation);
}

/* True: the stream waits; the operation was queued, or dropped. */
bool history::enqueue(context *stream, context *thread, queued &&q)
{
	if (stream->queue.empty())
		return false;
	q.from = vector_clock();
	pass_on(thread, &q.from);
	if (queued_ >= max_queued || !try_push(stream->queue, std::move(q)))
		lost(&counts_.queued_forgotten);
	else
		queued_++;
	if (unlikely(edges_))
		edges_->give(0, &stream->queue.back());
	return true;
}

u64 history::submit(context_id stream, context_id thread, std::span<const stream_access> what, u32 operation)
{
	context *const s = get(stream), *const t = get(thread);

	if (!s || !t)
		return 0;
	if (likely(s->queue.empty())) {
		begin(s, stream, t, thread);
		run_access(s, stream, what, operation);
		return s->time;
	}
	queued q{queued::kind::access, {}, {}, operation, nullptr};
	if (!fits([&] { q.accesses.assign(what.begin(), what.end()); }))
		lost(&counts_.no_memory);
	enqueue(s, t, std::move(q));
	return 0;
}

void history::submit_signal(context_id stream, context_id thread, const signal_ref &signal)
{
	context *const s = get(stream), *const t = get(thread);

	if (!s || !t || enqueue(s, t, {queued::kind::give, {}, {}, 0, signal}))
		return;
	begin(s, stream, t, thread);
	give_signal(s, stream, signal.get());
	drain_all();
}

void history::submit_wait(context_id stream, context_id thread, const signal_ref &signal)
{
	context *const s = get(stream), *const t = get(thread);

	if (!s || !t || enqueue(s, t, {queued::kind::wait, {}, {}, 0, signal}))
		return;
	begin(s, stream, t, thread);
	if (signal->given_)
		return take_signal(s, stream, *signal);
	/* The first in the queue is what the stream waits for. */
	if (queued_ >= max_queued || !try_push(s->queue, queued{queued::kind::wait, {}, {}, 0, signal}))
		lost(&counts_.queued_forgotten);
	else
		queued_++;
}

/* The CPU's own store to a word has an order for libtsan if it is atomic. */
void history::join_unseen(context *stream, context_id id, u64 word)
{
	stream->blind |= !word;
	if (unlikely(edges_) && word)
		edges_->take(id, reinterpret_cast<const void *>(word));
	counts_.unseen_signals++;
	pass_all(&stream->clock);
	stream->version++;
}

/* Runs what no longer waits; force: passes the first wait, too. */
void history::drain(context_id stream, bool force)
{
	context *const s = get(stream);

	for (; s && !s->queue.empty(); force = false) {
		queued &q = s->queue.front();

		if (q.what == queued::kind::wait && !q.signal->given_ && !force)
			return;
		join(s, q.from);
		s->from = ~0u;
		if (unlikely(edges_))
			edges_->take(stream, &q);
		if (q.what == queued::kind::access)
			run_access(s, stream, q.accesses, q.operation);
		else if (q.what == queued::kind::wait && q.signal->given_)
			take_signal(s, stream, *q.signal);
		else if (q.what == queued::kind::wait)
			join_unseen(s, stream, q.signal->word_);
		if (q.what == queued::kind::give)
			give_signal(s, stream, q.signal.get());
		s->queue.pop_front();
		s->left++;
		queued_--;
	}
}

/* A signal was given: streams that waited for it may give others. */
void history::drain_all()
{
	for (size_t before = queued_ + 1; queued_ && queued_ < before;) {
		before = queued_;
		for (context_id id = 0; id < contexts_.size(); id++)
			if (!contexts_[id].queue.empty())
				drain(id, false);
	}
}

/* ---- threads --------------------------------------------------------------------------------------- */

void history::access(context_id thread, byte_range where, bool writes, u32 operation)
{
	context *const t = get(thread);
	const stream_access a = {where, writes};

	if (t)
		run_access(t, thread, {&a, 1}, operation);
}

void history::give(context_id thread, const signal_ref &signal)
{
	context *const t = get(thread);

	if (!t)
		return;
	give_signal(t, thread, signal.get());
	drain_all();
}

void history::give_unseen(const signal_ref &signal)
{
	counts_.unseen_signals++;
	pass_all(&signal->clock_);
	signal->given_ = true;
	drain_all();
}

void history::waited_for(context_id thread, const order_signal &signal)
{
	context *const t = get(thread);

	if (t)
		take_signal(t, thread, signal);
}

void history::reach(context_id stream, const order_signal &s)
{
	drain_by_force(stream, [&](const context &) { return s.given_; });
}

void history::waited_for_stream(context_id thread, context_id stream, u64 mark)
{
	context *const t = get(thread), *const s = get(stream);

	if (!t || !s)
		return;
	drain_by_force(stream, [&](const context &c) { return c.left >= mark; });
	pass_on(s, &t->clock);
	t->version++;
	if (unlikely(edges_))
		edges_->waited(stream);
}

} // namespace usdma::core
