/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/check/race_state.h"

#include "driver/base/log.h"
#include "lib/core/base/fork.h"
#include "lib/core/base/slab.h"
#include "lib/core/check/race_batch.h"
#include "lib/core/config/config.h"

#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace usdma::core {

static int thread_number()
{
	static __thread int number;

	return number ? number : number = gettid();
}

static u32 *frames_of_thread()
{
	static __thread u32 frames;

	return &frames;
}

/* Never freed: threads may still run at exit. */
static constinit no_destructor<std::mutex> making;
static race_state *race_made; /* atomic */

race_state *race_get()
{
	race_state *r = load_acquire(&race_made);

	if (r)
		return r;
	std::lock_guard guard(*making);
	if (!race_made)
		store_release(&race_made, try_unique<race_state>().release());
	return race_made;
}

/* Something, which may have been a write. */
void race_state::lost()
{
	no_memory++;
	order.writes_unseen();
}

void race_no_memory()
{
	within_race([](race_state &r) { r.lost(); });
}

race_state::race_state()
{
	if (beside)
		order.forward(&edges, [](void *arg, context_id c, std::span<const stream_access> ranges, u32 number) {
			static_cast<race_state *>(arg)->forward(c, ranges, number);
		});
}

/* What libtsan knows, too: the host's memory. */
void race_state::forward(context_id c, std::span<const stream_access> ranges, u32 number)
{
	const race_operation *const op = operations.find(number);
	const call_stacks::frames *const stack = op ? stacks.native.at(op->stack) : nullptr;

	for (const stream_access &a : ranges) {
		u64 begin;
		const block *const b = a.where.begin >> 62 ? nullptr : block_at(a.where.begin, &begin);

		if (b && a.where.end <= b->end && b->host)
			edges.access(c, b->address + (a.where.begin - begin), a.where.end - a.where.begin, a.writes,
				     stack ? stack->data() : nullptr, stack ? stack->size() : 0);
	}
}

/* 0: not one of the host's memory. */
u64 race_state::word_at(u64 key)
{
	u64 begin;
	const block *const b = beside && !(key >> 62) ? block_at(key, &begin) : nullptr;

	return b && b->host ? b->address + (key - begin) : 0;
}

/* ---- findings --------------------------------------------------------------------------------------- */

race_location race_state::location_of(byte_range r)
{
	u64 begin;
	const block *const b = block_at(r.begin, &begin);

	if (!b)
		return {};
	return {b->what, b->address, b->end - begin, r.begin - begin, r.end - r.begin, b->stack, b->frames};
}

void race_state::found(const access_conflict &c)
{
	const race_operation *first = operations.find(c.first.operation), *second = operations.find(c.second.operation);
	race_finding f = {};

	if (second && !strcmp(second->what, "free"))
		f.kind = race_kind::free_in_use;
	if (c.unwritten)
		f.kind = race_kind::unwritten;
	f.first_writes = c.first_writes;
	f.second_writes = c.second_writes;
	f.first = first ? *first : race_operation();
	f.second = second ? *second : race_operation();
	f.where = location_of(c.where);
	race_report(f, stacks);
}

/* Noticed by the call that waited. */
void race_state::changed(const source_change &c)
{
	const race_operation *first = operations.find(c.operation);
	race_finding f = {};

	f.kind = race_kind::source_changed;
	f.second_writes = true;
	f.first = first ? *first : race_operation();
	f.second = *operations.find(operation("store by the CPU", host));
	f.where = location_of(c.where);
	race_report(f, stacks);
}

/* The oldest that the access is in conflict with. A store is not reported again when its change is noticed. */
void race_state::name_operation(page_fault *p)
{
	const u32 last = p->operation;
	bool found = false;

	guards.each_at(p->address, [&](const race_guards::guard &g) {
		if (!p->writes && !g.writes)
			return;
		if (p->writes)
			sources.drop(g.operation);
		if (found && s32(g.operation - p->operation) >= 0)
			return;
		found = true;
		p->operation = g.operation;
		p->operation_writes = g.writes;
	});
	if (p->writes)
		sources.drop(last);
}

/* By the program, on pages that an operation uses. */
void race_state::report_faults()
{
	for (page_fault p; page_fault_take(&p);) {
		name_operation(&p);
		const race_operation *first = operations.find(p.operation);
		const char *const what = p.writes ? "store by the CPU" : "load by the CPU";
		race_finding f = {};

		f.first_writes = p.operation_writes;
		f.second_writes = p.writes;
		f.first = first ? *first : race_operation();
		f.second = {what, 0, stacks.native.number_of(p.stack), contexts[host], p.thread, 0};
		f.where = location_of({p.key, p.key + 1});
		race_report(f, stacks);
	}
}

/* What the host waited for has ended. */
void race_state::host_knows()
{
	sources.verify(order, host);
	guards.verify(order, host);
}

/* ---- memory ----------------------------------------------------------------------------------------- */

void race_block_add(const race_block &b)
{
	within_race([&](race_state &r) {
		/* Memory of the host now, which was a view of another device's. */
		if (b.host)
			std::erase_if(r.aliases,
				      [&](const auto &a) { return a.first < b.key + b.size && b.key < a.second.end; });
		r.order.forget({b.key, b.key + b.size});
		r.words.forget({b.key, b.key + b.size});
		if (!b.written && config_get().checks.unwritten)
			r.order.allocated({b.key, b.key + b.size});
		r.recent[b.host].is = nullptr;
		if (unlikely(r.beside) && b.host)
			r.edges.memory_added();
		r.blocks.insert_or_assign(b.key, race_state::block{b.key + b.size, b.address, b.what,
								   r.stacks.native.here(thread_number()),
								   *frames_of_thread(), b.host, b.unguarded});
	});
}

void race_block_remove(u64 key, u64 size, u64 address)
{
	within_race([&](race_state &r) {
		const auto it = r.blocks.find(key);

		if (unlikely(r.beside) && !(key >> 62))
			r.edges.memory_removed();
		if (config_get().checks.guard && !(key >> 62))
			r.guards.forget({address, key, size});
		/* The same memory is mapped at two addresses, and the other one remains. */
		if (it != r.blocks.end() && it->second.address != address)
			return;
		r.recent[0].is = r.recent[1].is = nullptr;
		r.blocks.erase(key);
		r.sources.forget({key, key + size});
		r.order.forget({key, key + size});
		r.words.forget({key, key + size});
	});
}

void race_written(u64 key, u64 size)
{
	within_race([&](race_state &r) { r.order.written({key, key + size}); });
}

void race_writes_anywhere()
{
	within_race([&](race_state &r) { r.order.writes_unseen(); });
}

void race_block_free(u64 key)
{
	within_race([&](race_state &r) {
		const auto it = r.blocks.find(key);

		if (it == r.blocks.end())
			return;
		r.order.access(r.host, {key, it->second.end}, true, r.operation("free", r.host));
	});
}

void race_alias(u64 from, u64 to, u64 size)
{
	within_race([&](race_state &r) { r.aliases.insert_or_assign(from, race_state::alias{from + size, to}); });
}

u64 race_state::key_of(u64 key) const
{
	if (likely(aliases.empty()))
		return key;
	auto it = aliases.upper_bound(key);
	return it == aliases.begin() || (--it)->second.end <= key ? key : key - it->first + it->second.to;
}

/* nullptr: not the program's memory. */
const race_state::block *race_state::block_at(u64 key, u64 *begin)
{
	auto &cached = recent[!(key >> 62)];

	if (unlikely(!cached.is || key < cached.begin || key >= cached.is->end)) {
		auto it = blocks.upper_bound(key);

		if (it == blocks.begin() || (--it)->second.end <= key)
			return nullptr;
		cached = {it->first, &it->second};
	}
	*begin = cached.begin;
	return cached.is;
}

/* ---- operations ------------------------------------------------------------------------------------- */

u32 race_state::operation(const char *what, context_id by)
{
	return operations.add(
		{what, 0, stacks.native.here(thread_number()), contexts[by], thread_number(), *frames_of_thread()});
}

void race_state::submit(context_id s, const char *what, std::span<const stream_access> ranges)
{
	std::vector<stream_access> &all = scratch;
	u64 unused;

	all.clear();
	for (const stream_access &a : ranges) {
		const u64 begin = key_of(a.where.begin);

		if (block_at(begin, &unused))
			all.push_back({{begin, begin + (a.where.end - a.where.begin)}, a.writes});
	}
	if (all.empty())
		return;
	for (const stream_access &a : all)
		if (a.writes)
			words.forget(a.where);
	const u32 number = operation(what, s);
	if (s != host) {
		const u64 time = order.submit(s, host, all, number);

		/*
		 * Those that the call itself waits for do not change; a host function that has yet to run may change
		 * any.
		 */
		if (contexts[s].internal || !calls.empty() || !tokens.empty())
			return;
		add_sources(s, time, all, number);
		if (unlikely(config_get().checks.guard) && time)
			add_guards(s, time, all, number);
		return;
	}
	for (const stream_access &a : all)
		order.access(host, a.where, a.writes, number);
	if (unlikely(beside))
		forward(host, all, number);
}

/* Host memory that is read: its address is the program's. */
void race_state::add_sources(context_id s, u64 time, std::span<const stream_access> ranges, u32 number)
{
	for (const stream_access &a : ranges) {
		u64 begin;
		const block *const b = a.writes || a.where.begin >> 62 ? nullptr : block_at(a.where.begin, &begin);

		if (b && a.where.end <= b->end && b->host)
			sources.add(order, host, s, time, a, b->address + (a.where.begin - begin), number);
	}
}

void race_state::add_guards(context_id s, u64 time, std::span<const stream_access> ranges, u32 number)
{
	for (const stream_access &a : ranges) {
		u64 begin;
		const block *const b = a.where.begin >> 62 ? nullptr : block_at(a.where.begin, &begin);

		if (b && a.where.end <= b->end && b->host && !b->unguarded)
			guards.add(s, time,
				   {b->address + (a.where.begin - begin), a.where.begin, a.where.end - a.where.begin},
				   a.writes, number);
	}
}

/* The addresses of both sides of an item are in one call's report. */
void race_state::batch(context_id s, const char *what, std::span<const stream_access> items)
{
	std::vector<item_access> all;
	race_finding f = {};
	u64 unused;

	for (size_t i = 0; i < items.size(); i++) {
		const u64 begin = key_of(items[i].where.begin);

		if (block_at(begin, &unused))
			all.push_back({{{begin, begin + (items[i].where.end - items[i].where.begin)}, items[i].writes},
				       i / 2});
	}
	const auto o = find_overlap(all);
	if (!o)
		return;
	f.kind = race_kind::batch;
	f.first_writes = o->first.what.writes;
	f.second_writes = o->second.what.writes;
	f.first = f.second = *operations.find(operation(what, s));
	f.first_item = o->first.item;
	f.second_item = o->second.item;
	f.where = location_of(o->where);
	race_report(f, stacks);
}

context_id race_stream_add(u32 number, bool internal)
{
	context_id id = 0;

	within_race([&](race_state &r) {
		id = r.order.add_stream();
		if (id == ~0u)
			return;
		if (r.contexts.size() <= id && !try_resize(r.contexts, id + 1)) {
			r.order.remove(id);
			r.lost();
			id = ~0u;
			return;
		}
		r.contexts[id] = {number, false, internal};
	});
	return id == ~0u ? 0 : id;
}

void race_stream_remove(context_id s)
{
	within_race([&](race_state &r) {
		r.order.remove(s);
		r.guards.remove(s);
	});
}

static __thread int by_library;

void race_by_library(int change)
{
	by_library += change;
}

void race_submit(context_id s, const char *what, std::span<const stream_access> ranges)
{
	if (!by_library)
		within_race([&](race_state &r) { r.submit(s ? s : r.host, what, ranges); });
}

void race_batch(context_id s, const char *what, std::span<const stream_access> items)
{
	within_race([&](race_state &r) { r.batch(s, what, items); });
}

void race_breaks(const char *broken, const char *fix)
{
	within_race([&](race_state &r) {
		race_finding f = {};

		f.kind = race_kind::rule;
		f.second = *r.operations.find(r.operation("copy", r.host));
		f.rule = broken;
		f.rule_fix = fix;
		race_report(f, r.stacks);
	});
}

u64 race_stream_mark(context_id s)
{
	u64 mark = 0;

	within_race([&](race_state &r) { mark = r.order.mark(s); });
	return mark;
}

void race_stream_waited(context_id s, u64 mark)
{
	within_race([&](race_state &r) {
		/* Signals of files, which have no thread, were dropped or are due. */
		if (mark == race_everything)
			std::erase_if(r.calls,
				      [s](const auto &c) { return !c.first.second && c.second.front().by == s; });
		r.order.waited_for_stream(r.host, s, mark);
		r.host_knows();
	});
}

void race_unseen_wait(context_id s)
{
	within_race([&](race_state &r) { r.order.submit_wait(s, r.host, std::make_shared<order_signal>()); });
}

/* ---- frames of an interpreter ----------------------------------------------------------------------- */

u32 race_frames(const std::string &lines, u32 number)
{
	if (!lines.empty())
		within_race([&](race_state &r) { number = r.stacks.texts.number_of(lines); });
	return std::exchange(*frames_of_thread(), number);
}

/* ---- the end ---------------------------------------------------------------------------------------- */

static race_dropped dropped_by(const race_state &r)
{
	const history::counts c = r.order.result();

	return {c.accesses.ranges_forgotten,
		c.accesses.readers_forgotten,
		c.queued_forgotten,
		r.sources.forgotten(),
		pages_unguarded(),
		c.unwritten_forgotten,
		0,
		r.stacks.native.forgotten(),
		c.no_memory + c.accesses.no_memory + r.no_memory};
}

/*
 * At exit: a summary, and the status that says that something was found. Here, as the library has no other part in
 * the exit status: after the program's own handlers and destructors, and what it printed is written first.
 */
[[gnu::destructor]] static void race_end()
{
	race_state *const r = load_acquire(&race_made);

	if (!r || forked())
		return;
	/* A thread that has the lock at exit may never return it. */
	if (r->lock.try_lock()) {
		if (!fits([&] {
			    r->report_faults();
			    race_report_end(dropped_by(*r));
		    }))
			log_warn("check: no memory for the summary");
		r->lock.unlock();
	}
	const int status = int(config_get().checks.exit);
	if (!race_reports() || !status)
		return;
	/* Not all: a thread that reads one has its lock. */
	fflush(stdout);
	fflush(stderr);
	_exit(status);
}

} // namespace usdma::core
