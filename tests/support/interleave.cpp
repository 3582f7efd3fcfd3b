/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/support/interleave.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

namespace usdma::interleave {

world *world::current;

namespace {

constexpr unsigned T = world::max_threads, C = world::max_cells, P = world::max_plain, M = world::max_mutexes;
constexpr unsigned max_buffered = 12, max_messages = 12;
constexpr u8 no_thread = 0xff;

jmp_buf stopped; /* the code reached its next step */

[[noreturn]] void too_small(const char *what)
{
	fprintf(stderr, "interleave: not enough space for %s\n", what);
	abort();
}

/* Bytes without gaps: states are compared and hashed as such. */
struct view {
	u8 seen[C];  /* the oldest message of a cell that may still be read */
	u8 clock[T]; /* how many releases of each thread happened before */
};

struct message {
	u8 value, carries; /* carries: a release store; an acquire that reads it joins the view */
	view of;
};

struct tso_memory {
	u8 cells[C + P];
	u8 held[M];
	u8 buffered[T];
	struct {
		u8 cell, value;
	} buffer[T][max_buffered];
};

struct views_memory {
	view threads[T];
	u8 fenced[C]; /* the view that full barriers share */
	u8 messages[C];
	message cells[C][max_messages];
	struct {
		u8 held;
		view of;
	} mutexes[M];
	struct {
		u8 value, writer, write_clock, read_clock[T];
	} plains[P];
};

struct state {
	u32 position[T];
	u8 holder, entered;
	u8 spare[2];
	union {
		tso_memory tso;
		views_memory views;
	};
};

struct fingerprint {
	u64 a, b;
	bool operator==(const fingerprint &) const = default;
};

struct fingerprint_hash {
	size_t operator()(const fingerprint &f) const { return f.a; }
};

/* 128 bits: a collision among millions of states is not expected. */
fingerprint fingerprint_of(const state &s, size_t size)
{
	fingerprint f = {0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f};
	const char *at = reinterpret_cast<const char *>(&s);

	for (size_t i = 0; i < size; i += 4) {
		u32 w;

		memcpy(&w, at + i, 4);
		f.a = (f.a ^ w) * 0xff51afd7ed558ccd;
		f.a ^= f.a >> 32;
		f.b = (f.b + w) * 0xc4ceb9fe1a85ec53;
		f.b ^= f.b >> 29;
	}
	return f;
}

} // namespace

/* ---- a thread's code ----------------------------------------------------------------------------------- */

struct world::positions {
	std::vector<position> all;
	std::unordered_map<u64, u32> next;
	std::unordered_map<u64, u32> marks; /* the first position of a thread at a mark, or at its end: used for all */
};

world::world(model m, unsigned threads) : model_(m), threads_(threads), positions_(new positions)
{
	for (unsigned i = 0; i < max_cells; i++)
		same_[i] = u8(i);
	current = this;
}

world::~world()
{
	current = nullptr;
}

u8 world::add(act kind, u64 value)
{
	const unsigned which = kind == act::load ? 0 : kind == act::plain_load ? 1 : 2;
	static constexpr unsigned limits[] = {max_cells, max_plain, max_mutexes};
	std::vector<u8> &of = initial_[which];

	if (of.size() == limits[which])
		too_small("cells");
	of.push_back(value_index(value));
	return which ? u8(of.size() - 1) : same_[of.size() - 1];
}

u8 world::value_index(u64 value)
{
	const auto at = std::find(values_.begin(), values_.end(), value);

	if (at != values_.end())
		return u8(at - values_.begin());
	if (values_.size() == 255)
		too_small("values");
	values_.push_back(value);
	return u8(values_.size() - 1);
}

void world::stop(const step &s)
{
	next_ = s;
	// NOLINTNEXTLINE(cert-err52-cpp): the code under test needs no destructors (interleave.h)
	longjmp(stopped, 1);
}

void world::give_up(const char *text)
{
	stop({act::failed, 0, 0, false, text});
}

u64 world::perform(act what, u8 cell, u64 value, bool strong)
{
	if (what == act::load && skip_) {
		skip_ = false;
		return last_load_;
	}
	if (lost_release && what == act::store && strong && !value)
		return 0;
	if (at_ == results_->size()) {
		const bool weak = what == act::store ? no_release : no_acquire && what != act::exchange;

		stop({what, cell, value_index(value), strong && !weak, nullptr});
	}
	const u64 got = values_[(*results_)[at_++]];
	if (what == act::load)
		last_load_ = got;
	return got;
}

void world::run_body()
{
	(*body_)(self_);
	next_ = {};
}

step world::run_to(unsigned thread, const std::vector<u8> &results)
{
	self_ = thread;
	results_ = &results;
	at_ = 0;
	skip_ = false;
	// NOLINTNEXTLINE(cert-err52-cpp): see stop()
	if (!setjmp(stopped))
		run_body();
	return next_;
}

u32 world::position_after(unsigned thread, u32 parent, u8 result)
{
	auto &all = positions_->all;
	const u64 key = u64(parent) << 8 | result;
	const auto found = positions_->next.find(key);

	if (found != positions_->next.end())
		return found->second;
	std::vector<u8> results = {result};
	for (u32 at = parent; at >= threads_; at = all[at].parent)
		results.push_back(all[at].result);
	std::reverse(results.begin(), results.end());
	const step next = run_to(thread, results);
	u32 at = u32(all.size());
	if (next.what == act::mark || next.what == act::end)
		at = positions_->marks.try_emplace(u64(thread) << 32 | u64(next.what) << 8 | next.value, at)
			     .first->second;
	if (at == all.size())
		all.push_back({parent, result, next});
	positions_->next.emplace(key, at);
	return at;
}

void fence_all()
{
	world *w = world::current;
	u64 left = ((1u << w->threads()) - 1) & ~(1u << w->self());

	fence();
	while (left)
		left &= ~(u64(1) << w->perform(act::fence_some, 0, left));
	fence();
}

/* ---- the search ---------------------------------------------------------------------------------------- */

class search {
public:
	explicit search(world &w)
		: w_(w),
		  size_(offsetof(state, tso) + (w.model_ == model::tso ? sizeof(tso_memory) : sizeof(views_memory)))
	{
	}
	result run();

private:
	const step &next(const state &s, unsigned t) const { return w_.positions_->all[s.position[t]].next; }
	bool visit(const state &s);
	bool take_step(const state &s, unsigned t, bool &more);
	bool advance(state &s, unsigned t, u8 result);
	bool drain(const state &s, unsigned t);
	bool is_plain(const state &s, unsigned t) const;
	bool plain_store_leaves(const state &s, unsigned t) const;
	bool ended(const state &s) const;
	bool fail(const std::string &what);
	void add_to_trail(unsigned t, const step &st, u8 result);
	bool enter_or_leave(state &s, unsigned t, const step &st);

	bool tso_step(const state &s, unsigned t, const step &st, bool &more);
	static u8 tso_read(const tso_memory &m, unsigned t, u8 cell);
	static void tso_drain(tso_memory *m, unsigned t);

	bool views_step(const state &s, unsigned t, const step &st, bool &more);
	bool views_load(const state &s, unsigned t, const step &st, bool &more);
	bool views_plain(state &s, unsigned t, const step &st);
	void views_store(views_memory *m, unsigned t, const step &st);
	void views_fence(views_memory *m, unsigned t);
	void views_trim(state *s);
	static void join(view *to, const view &from);

	world &w_;
	const size_t size_; /* of a state, by its model */
	result r_;
	std::vector<std::string> trail_;
	std::unordered_set<fingerprint, fingerprint_hash> visited_;
};

result world::explore(const std::function<void(unsigned)> &body)
{
	body_ = &body;
	for (unsigned t = 0; t < threads_; t++)
		positions_->all.push_back({0, 0, run_to(t, {})});
	return search(*this).run();
}

result search::run()
{
	state s;

	memset(static_cast<void *>(&s), 0, sizeof(s));
	s.holder = no_thread;
	for (unsigned t = 0; t < w_.threads_; t++)
		s.position[t] = t;
	const auto &cells = w_.initial_[0], &plains = w_.initial_[1];
	if (w_.model_ == model::tso) {
		std::copy(cells.begin(), cells.end(), s.tso.cells);
		std::copy(plains.begin(), plains.end(), s.tso.cells + C);
	} else {
		for (size_t i = 0; i < cells.size(); i++) {
			s.views.messages[i] = 1;
			s.views.cells[i][0].value = cells[i];
		}
		for (size_t i = 0; i < plains.size(); i++)
			s.views.plains[i].value = plains[i];
	}
	visit(s);
	r_.states = visited_.size();
	return std::move(r_);
}

bool search::fail(const std::string &what)
{
	r_.failure = what;
	r_.trace = trail_;
	return false;
}

/* Adds a step that is about to be taken to the trail. */
void search::add_to_trail(unsigned t, const step &st, u8 result)
{
	static const char *const names[] = {"end",         "failed",   "load",   "store", "exchange", "await",
					    "lock",        "try_lock", "unlock", "fence", "fence of", "plain load",
					    "plain store", "enter",    "leave",  "mark"};
	const bool stores = st.what == act::store || st.what == act::plain_store || st.what == act::exchange ||
			    st.what == act::mark;
	char line[128];

	snprintf(line, sizeof(line), "thread %u: %s %u: %#llx", t, names[unsigned(st.what)], st.cell,
		 static_cast<unsigned long long>(w_.values_[stores ? st.value : result]));
	trail_.push_back(line);
}

bool search::ended(const state &s) const
{
	for (unsigned t = 0; t < w_.threads_; t++)
		if (next(s, t).what != act::end)
			return false;
	return true;
}

/*
 * A plain access is of one thread only, or there is a race, which the model "views" finds: other threads do not see
 * when it happens, so it is taken at once, before all other steps.
 */
bool search::is_plain(const state &s, unsigned t) const
{
	const act what = next(s, t).what;

	if (w_.model_ == model::tso && s.tso.buffered[t] == max_buffered)
		return false;
	return what == act::plain_load || what == act::plain_store || what == act::mark;
}

bool search::plain_store_leaves(const state &s, unsigned t) const
{
	return w_.model_ == model::tso && s.tso.buffered[t] && s.tso.buffer[t][0].cell >= C;
}

/* False: a failure was found, and the search ends. */
bool search::visit(const state &s)
{
	bool more = false;

	if (!visited_.insert(fingerprint_of(s, size_)).second)
		return true;
	for (unsigned t = 0; t < w_.threads_; t++) {
		if (plain_store_leaves(s, t))
			return drain(s, t);
		if (is_plain(s, t))
			return take_step(s, t, more);
	}
	for (unsigned t = 0; t < w_.threads_; t++) {
		if (w_.model_ == model::tso && s.tso.buffered[t]) {
			more = true;
			if (!drain(s, t))
				return false;
		}
		if (!take_step(s, t, more))
			return false;
	}
	if (more)
		return true;
	if (!ended(s))
		return fail("deadlock");
	r_.ends++;
	return true;
}

bool search::drain(const state &s, unsigned t)
{
	state after = s;
	char line[64];

	snprintf(line, sizeof(line), "thread %u: its store to %u leaves the buffer", t, s.tso.buffer[t][0].cell);
	trail_.push_back(line);
	tso_drain(&after.tso, t);
	const bool passed = visit(after);
	trail_.pop_back();
	return passed;
}

/* Continues from s, the state after the step, with the step's result. */
bool search::advance(state &s, unsigned t, u8 result)
{
	add_to_trail(t, next(s, t), result);
	s.position[t] = w_.position_after(t, s.position[t], result);
	if (w_.model_ == model::views)
		views_trim(&s);
	const bool passed = visit(s);
	trail_.pop_back();
	return passed;
}

bool search::enter_or_leave(state &s, unsigned t, const step &st)
{
	if (st.what == act::leave) {
		s.holder = no_thread;
		return advance(s, t, 0);
	}
	if (s.holder != no_thread) {
		add_to_trail(t, st, 0);
		return fail("two hold it at once");
	}
	s.holder = u8(t);
	return advance(s, t, w_.value_index(s.entered++));
}

/* Takes a thread's next step with each of its effects, if it can be taken now: then more becomes true. */
bool search::take_step(const state &s, unsigned t, bool &more)
{
	const step st = next(s, t);

	if (st.what == act::end)
		return true;
	if (st.what == act::failed)
		return fail(st.text);
	if (st.what == act::enter || st.what == act::leave) {
		state after = s;

		more = true;
		return enter_or_leave(after, t, st);
	}
	return w_.model_ == model::tso ? tso_step(s, t, st, more) : views_step(s, t, st, more);
}

/* ---- x86 ----------------------------------------------------------------------------------------------- */

u8 search::tso_read(const tso_memory &m, unsigned t, u8 cell)
{
	for (unsigned i = m.buffered[t]; i--;)
		if (m.buffer[t][i].cell == cell)
			return m.buffer[t][i].value;
	return m.cells[cell];
}

void search::tso_drain(tso_memory *m, unsigned t)
{
	auto *b = m->buffer[t];

	m->cells[b[0].cell] = b[0].value;
	std::copy(b + 1, b + max_buffered, b);
	b[max_buffered - 1] = {};
	m->buffered[t]--;
}

bool search::tso_step(const state &s, unsigned t, const step &st, bool &more)
{
	const u8 cell = u8(st.cell + (st.what == act::plain_load || st.what == act::plain_store ? C : 0));
	const bool locked = st.what == act::exchange || st.what == act::lock || st.what == act::try_lock ||
			    st.what == act::unlock || st.what == act::fence;
	state after = s;
	tso_memory &m = after.tso;
	u8 got = 0;

	if (locked && m.buffered[t])
		return true;
	switch (st.what) {
	case act::load:
	case act::plain_load:
		got = tso_read(m, t, cell);
		break;
	case act::await:
		if (tso_read(m, t, cell) != st.value)
			return true;
		got = st.value;
		break;
	case act::store:
	case act::plain_store:
		if (m.buffered[t] == max_buffered)
			return true;
		m.buffer[t][m.buffered[t]++] = {cell, st.value};
		break;
	case act::exchange:
		got = m.cells[cell];
		m.cells[cell] = st.value;
		break;
	case act::lock:
	case act::try_lock:
		if (m.held[st.cell] && st.what == act::lock)
			return true;
		got = w_.value_index(!m.held[st.cell]);
		m.held[st.cell] = 1;
		break;
	case act::unlock:
		m.held[st.cell] = 0;
		break;
	case act::fence_some:
		more = true;
		for (unsigned o = 0; o < w_.threads_; o++) {
			if (!(w_.values_[st.value] >> o & 1))
				continue;
			state then = s;
			while (then.tso.buffered[o])
				tso_drain(&then.tso, o);
			if (!advance(then, t, w_.value_index(o)))
				return false;
		}
		return true;
	default:
		break;
	}
	more = true;
	return advance(after, t, got);
}

/* ---- C++: what each thread has seen -------------------------------------------------------------------- */

void search::join(view *to, const view &from)
{
	for (unsigned c = 0; c < C; c++)
		to->seen[c] = std::max(to->seen[c], from.seen[c]);
	for (unsigned t = 0; t < T; t++)
		to->clock[t] = std::max(to->clock[t], from.clock[t]);
}

/* Removes messages that no thread can read any more: more states are equal, and there are fewer messages. */
void search::views_trim(state *s)
{
	views_memory &m = s->views;

	for (unsigned c = 0; c < w_.initial_[0].size(); c++) {
		u8 low = u8(m.messages[c] - 1);

		for (unsigned t = 0; t < w_.threads_; t++)
			if (next(*s, t).what == act::end)
				m.threads[t].seen[c] = u8(m.messages[c] - 1);
			else
				low = std::min(low, m.threads[t].seen[c]);
		if (!low)
			continue;
		const auto lower = [&](u8 *seen) { *seen = *seen > low ? u8(*seen - low) : 0; };
		std::copy(m.cells[c] + low, m.cells[c] + m.messages[c], m.cells[c]);
		memset(static_cast<void *>(m.cells[c] + m.messages[c] - low), 0, low * sizeof(message));
		m.messages[c] = u8(m.messages[c] - low);
		lower(&m.fenced[c]);
		for (view &v : m.threads)
			lower(&v.seen[c]);
		for (auto &x : m.mutexes)
			lower(&x.of.seen[c]);
		for (auto &all : m.cells)
			for (message &x : all)
				lower(&x.of.seen[c]);
	}
}

void search::views_fence(views_memory *m, unsigned t)
{
	for (unsigned c = 0; c < C; c++)
		m->fenced[c] = m->threads[t].seen[c] = std::max(m->fenced[c], m->threads[t].seen[c]);
}

void search::views_store(views_memory *m, unsigned t, const step &st)
{
	view &mine = m->threads[t];
	u8 &count = m->messages[st.cell];

	if (count == max_messages)
		too_small("messages");
	mine.seen[st.cell] = count;
	message &x = m->cells[st.cell][count++];
	x.value = st.value;
	if (!st.strong)
		return;
	x.carries = 1;
	mine.clock[t]++;
	x.of = mine;
}

bool search::views_load(const state &s, unsigned t, const step &st, bool &more)
{
	for (unsigned i = s.views.threads[t].seen[st.cell]; i < s.views.messages[st.cell]; i++) {
		const message &x = s.views.cells[st.cell][i];
		state after = s;
		view &mine = after.views.threads[t];

		if (st.what == act::await && x.value != st.value)
			continue;
		more = true;
		mine.seen[st.cell] = u8(i);
		if (st.strong && x.carries)
			join(&mine, x.of);
		if (!advance(after, t, x.value))
			return false;
	}
	return true;
}

/* Each of two accesses, one a store, must have happened before the other. */
bool search::views_plain(state &s, unsigned t, const step &st)
{
	auto &x = s.views.plains[st.cell];
	const view &mine = s.views.threads[t];
	bool race = x.writer != t && x.write_clock > mine.clock[x.writer];

	if (st.what == act::plain_store)
		for (unsigned o = 0; o < T; o++)
			race |= o != t && x.read_clock[o] > mine.clock[o];
	if (race) {
		add_to_trail(t, st, x.value);
		return fail("a data race");
	}
	if (st.what == act::plain_load) {
		x.read_clock[t] = u8(mine.clock[t] + 1);
		return advance(s, t, x.value);
	}
	x.value = st.value;
	x.writer = u8(t);
	x.write_clock = u8(mine.clock[t] + 1);
	memset(x.read_clock, 0, sizeof(x.read_clock));
	return advance(s, t, 0);
}

bool search::views_step(const state &s, unsigned t, const step &st, bool &more)
{
	state after = s;
	views_memory &m = after.views;
	view &mine = m.threads[t];
	u8 got = 0;

	if (st.what == act::load || st.what == act::await)
		return views_load(s, t, st, more);
	if (st.what == act::lock && m.mutexes[st.cell].held)
		return true;
	more = true;
	switch (st.what) {
	case act::plain_load:
	case act::plain_store:
		return views_plain(after, t, st);
	case act::store:
		views_store(&m, t, st);
		break;
	case act::exchange: {
		const message &x = m.cells[st.cell][m.messages[st.cell] - 1];

		got = x.value;
		if (x.carries)
			join(&mine, x.of);
		views_store(&m, t, st);
		if (!w_.bare_exchange)
			views_fence(&m, t);
		break;
	}
	case act::lock:
	case act::try_lock:
		got = w_.value_index(!m.mutexes[st.cell].held);
		if (m.mutexes[st.cell].held)
			break;
		m.mutexes[st.cell].held = 1;
		join(&mine, m.mutexes[st.cell].of);
		break;
	case act::unlock:
		m.mutexes[st.cell].held = 0;
		mine.clock[t]++;
		m.mutexes[st.cell].of = mine;
		break;
	case act::fence:
		views_fence(&m, t);
		break;
	case act::fence_some:
		for (unsigned o = 0; o < w_.threads_; o++) {
			if (!(w_.values_[st.value] >> o & 1))
				continue;
			state then = s;
			views_fence(&then.views, o);
			if (!advance(then, t, w_.value_index(o)))
				return false;
		}
		return true;
	default:
		break;
	}
	return advance(after, t, got);
}

} // namespace usdma::interleave
