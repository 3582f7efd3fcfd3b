/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares the happens-before history with a model: random programs of threads, streams and signals form a graph, in
 * which two accesses are ordered if there is a path between them. Reported accesses must be unordered, and each byte
 * with two unordered accesses must be reported.
 */
#include "tests/support/test.h"

#include "lib/core/check/history.h"

#include <bitset>
#include <cstring>
#include <set>

using namespace usdma;
using namespace usdma::core;
using namespace usdma::test;

static constexpr unsigned bytes = 48, threads = 3, streams = 5, max_nodes = 4096;
using byte_set = std::bitset<bytes>;

namespace {

/* An operation and its direct predecessors. */
struct node {
	std::vector<unsigned> before;
	std::vector<stream_access> what;
};

struct model_signal {
	signal_ref real = std::make_shared<order_signal>();
	int giver = -1; /* node */
};

struct item {
	unsigned node;
	int gives = -1, waits = -1; /* signals */
};

/* One random program; each step is passed to the history, too. */
class program {
public:
	explicit program(std::uint64_t stream) : gen_(rng(stream)), history_(found, this)
	{
		for (unsigned i = 0; i < threads; i++) {
			thread_ids_.push_back(history_.add_thread());
			thread_last_.push_back(add({}));
		}
		for (unsigned i = 0; i < streams; i++)
			stream_ids_.push_back(history_.add_stream());
	}

	/* Any operation; many are unordered. */
	void random_step();
	/* An access that waits for all conflicting ones, but omits one wait in skip; 0: omits none. */
	void ordered_step(unsigned skip);
	void finish();
	void compare();
	unsigned conflicts() const { return unsigned(reported_.size()); }

private:
	struct seen {
		unsigned first, second;
		byte_range where;
	};

	static void found(void *arg, const access_conflict &c)
	{
		static_cast<program *>(arg)->reported_.push_back({c.first.operation, c.second.operation, c.where});
	}
	unsigned pick(size_t n) { return unsigned(gen_() % n); }
	unsigned add(std::vector<unsigned> before)
	{
		assert_true(nodes_.size() < max_nodes);
		nodes_.push_back({std::move(before), {}});
		return unsigned(nodes_.size() - 1);
	}
	unsigned host(unsigned thread) { return thread_last_[thread] = add({thread_last_[thread]}); }
	unsigned push(unsigned stream, unsigned thread, item i)
	{
		i.node = add({host(thread)});
		if (!items_[stream].empty())
			nodes_[i.node].before.push_back(items_[stream].back().node);
		items_[stream].push_back(i);
		return i.node;
	}
	stream_access random_access(bool writes)
	{
		const u64 begin = pick(bytes - 1), end = begin + 1 + pick(std::min<u64>(8, bytes - begin));

		return {{begin, end}, writes};
	}
	bool is_blocked(unsigned stream) const { return at_[stream] < items_[stream].size(); }
	void advance();
	void submit(unsigned stream, unsigned thread, const std::vector<stream_access> &what);
	int signal_of(unsigned stream, unsigned thread);
	void wait(unsigned stream, unsigned thread, int signal);
	void give(unsigned thread, int signal);
	void host_access(unsigned thread, stream_access a);
	void host_wait(unsigned thread, unsigned stream);
	std::vector<std::bitset<max_nodes>> closure() const;

	std::mt19937_64 gen_;
	history history_;
	std::vector<context_id> thread_ids_, stream_ids_;
	std::vector<node> nodes_;
	std::vector<unsigned> thread_last_;
	std::vector<item> items_[streams];
	size_t at_[streams] = {};
	std::vector<model_signal> signals_;
	std::vector<seen> reported_;
	std::vector<int> last_[bytes]; /* signals of the accesses that the next one has to wait for */
	std::vector<int> writer_[bytes];
};

/* Completes waits whose signals were given; that may give other signals. */
void program::advance()
{
	for (bool moved = true; moved;) {
		moved = false;
		for (unsigned s = 0; s < streams; s++)
			for (; is_blocked(s); at_[s]++, moved = true) {
				const item &i = items_[s][at_[s]];

				if (i.waits >= 0 && signals_[unsigned(i.waits)].giver < 0)
					break;
				if (i.waits >= 0)
					nodes_[i.node].before.push_back(unsigned(signals_[unsigned(i.waits)].giver));
				if (i.gives >= 0)
					signals_[unsigned(i.gives)].giver = int(i.node);
			}
	}
}

void program::submit(unsigned stream, unsigned thread, const std::vector<stream_access> &what)
{
	const unsigned n = push(stream, thread, {});

	nodes_[n].what = what;
	history_.submit(stream_ids_[stream], thread_ids_[thread], what, n);
	advance();
}

int program::signal_of(unsigned stream, unsigned thread)
{
	const int made = int(signals_.size());

	signals_.emplace_back();
	push(stream, thread, {0, made, -1});
	history_.submit_signal(stream_ids_[stream], thread_ids_[thread], signals_.back().real);
	advance();
	return made;
}

void program::wait(unsigned stream, unsigned thread, int signal)
{
	push(stream, thread, {0, -1, signal});
	history_.submit_wait(stream_ids_[stream], thread_ids_[thread], signals_[unsigned(signal)].real);
	advance();
}

void program::give(unsigned thread, int signal)
{
	signals_[unsigned(signal)].giver = int(host(thread));
	history_.give(thread_ids_[thread], signals_[unsigned(signal)].real);
	advance();
}

void program::host_access(unsigned thread, stream_access a)
{
	const unsigned n = host(thread);

	nodes_[n].what = {a};
	history_.access(thread_ids_[thread], a.where, a.writes, n);
}

void program::host_wait(unsigned thread, unsigned stream)
{
	const unsigned n = host(thread);

	if (!items_[stream].empty())
		nodes_[n].before.push_back(items_[stream].back().node);
	history_.waited_for_stream(thread_ids_[thread], stream_ids_[stream]);
}

void program::random_step()
{
	const unsigned s = pick(streams), t = pick(threads);
	const int signal = signals_.empty() ? -1 : int(pick(signals_.size()));

	switch (pick(10)) {
	case 0:
	case 1:
	case 2:
		return submit(s, t, {random_access(pick(2)), random_access(pick(2))});
	case 3:
		signal_of(s, t);
		return;
	case 4:
	case 5:
		return signal >= 0 ? wait(s, t, signal) : void();
	case 6: /* for later */
		signals_.emplace_back();
		return;
	case 7:
		if (signal >= 0 && signals_[unsigned(signal)].giver < 0 && !signals_[unsigned(signal)].real->given() &&
		    std::none_of(std::begin(items_), std::end(items_), [&](const auto &list) {
			    return std::any_of(list.begin(), list.end(),
					       [&](const item &i) { return i.gives == signal; });
		    }))
			give(t, signal);
		return;
	case 8:
		return is_blocked(s) ? void() : host_wait(t, s);
	default:
		return host_access(t, random_access(pick(2)));
	}
}

void program::ordered_step(unsigned skip)
{
	const unsigned s = pick(streams), t = pick(threads);
	const stream_access a = random_access(pick(2));
	std::set<int> needed;

	for (u64 b = a.where.begin; b < a.where.end; b++) {
		needed.insert(writer_[b].begin(), writer_[b].end());
		if (a.writes)
			needed.insert(last_[b].begin(), last_[b].end());
	}
	for (const int signal : needed)
		if (!skip || pick(skip))
			wait(s, t, signal);
	submit(s, t, {a});
	const int done = signal_of(s, t);
	for (u64 b = a.where.begin; b < a.where.end; b++) {
		if (a.writes)
			last_[b].clear();
		(a.writes ? writer_[b] : last_[b]).push_back(done);
		if (a.writes)
			writer_[b] = {done};
	}
}

/* A thread gives the remaining signals. */
void program::finish()
{
	for (size_t i = 0; i < signals_.size(); i++)
		if (signals_[i].giver < 0 && std::none_of(std::begin(items_), std::end(items_), [&](const auto &list) {
			    return std::any_of(list.begin(), list.end(),
					       [&](const item &x) { return x.gives == int(i); });
		    }))
			give(pick(threads), int(i));
	for (unsigned s = 0; s < streams; s++)
		assert_false(is_blocked(s));
	assert_int_equal(history_.result().unseen_signals, 0);
	assert_int_equal(history_.result().queued_forgotten, 0);
}

/* The predecessors of each node. Edges may come from later nodes, which have given an awaited signal. */
std::vector<std::bitset<max_nodes>> program::closure() const
{
	std::vector<std::bitset<max_nodes>> all(nodes_.size());

	for (bool changed = true; changed;) {
		changed = false;
		for (size_t n = 0; n < nodes_.size(); n++) {
			std::bitset<max_nodes> now = all[n];

			for (const unsigned b : nodes_[n].before)
				now |= all[b], now.set(b);
			changed |= now != all[n];
			all[n] = now;
		}
	}
	return all;
}

static byte_set shared_bytes(const node &a, const node &b)
{
	byte_set both;

	for (const stream_access &x : a.what)
		for (const stream_access &y : b.what)
			for (u64 i = 0; (x.writes || y.writes) && i < bytes; i++)
				if (i >= x.where.begin && i < x.where.end && i >= y.where.begin && i < y.where.end)
					both.set(i);
	return both;
}

void program::compare()
{
	const auto before = closure();
	byte_set racy, named;

	for (unsigned a = 0; a < nodes_.size(); a++)
		for (unsigned b = 0; b < a && !nodes_[a].what.empty(); b++)
			if (!before[a].test(b) && !before[b].test(a))
				racy |= shared_bytes(nodes_[a], nodes_[b]);
	for (const seen &r : reported_) {
		const byte_set both = shared_bytes(nodes_[r.first], nodes_[r.second]);

		assert_false(before[r.first].test(r.second) || before[r.second].test(r.first));
		for (u64 i = r.where.begin; i < r.where.end; i++) {
			assert_true(both.test(i));
			named.set(i);
		}
	}
	assert_true(racy == named);
}

} // namespace

static void random_programs(void **)
{
	unsigned conflicts = 0;

	for (unsigned n = 0; n < 400 * scale(); n++) {
		program p(n);

		for (unsigned i = 0; i < 20 + n % 120; i++)
			p.random_step();
		p.finish();
		p.compare();
		conflicts += p.conflicts();
	}
	assert_true(conflicts > 0);
}

static void ordered_programs(void **)
{
	for (unsigned n = 0; n < 200 * scale(); n++) {
		program p(1000000 + n);

		for (unsigned i = 0; i < 60; i++)
			p.ordered_step(0);
		p.finish();
		p.compare();
		assert_int_equal(p.conflicts(), 0);
	}
}

static void programs_with_missing_waits(void **)
{
	unsigned conflicts = 0;

	for (unsigned n = 0; n < 200 * scale(); n++) {
		program p(2000000 + n);

		for (unsigned i = 0; i < 60; i++)
			p.ordered_step(30);
		p.finish();
		p.compare();
		conflicts += p.conflicts();
	}
	assert_true(conflicts > 0);
}

/* ---- fixed programs ---------------------------------------------------------------------------------- */

struct fixed_program {
	history h{[](void *n, const access_conflict &) { ++*static_cast<unsigned *>(n); }, &found};
	unsigned found = 0;
	context_id t = h.add_thread(), a = h.add_stream(), b = h.add_stream();

	void write(context_id s, u64 begin, u64 end) { op(s, {{begin, end}, true}); }
	void read(context_id s, u64 begin, u64 end) { op(s, {{begin, end}, false}); }
	void op(context_id s, stream_access what) { h.submit(s, t, {&what, 1}, 0); }
};

static void memory_is_reused(void **)
{
	fixed_program p;

	p.write(p.a, 0, 100);
	p.h.forget({0, 50});
	p.write(p.b, 0, 50);
	assert_int_equal(p.found, 0);
	p.write(p.b, 49, 51);
	assert_int_equal(p.found, 1);
}

/* A new stream reuses a removed stream's number: their accesses are not confused. */
static void numbers_are_reused(void **)
{
	fixed_program p;

	p.write(p.a, 0, 10);
	p.h.waited_for_stream(p.t, p.a);
	p.h.remove(p.a);
	assert_int_equal(p.h.add_stream(), p.a);
	p.read(p.a, 0, 10);
	assert_int_equal(p.found, 0);
	p.write(p.b, 0, 10);
	assert_int_equal(p.found, 1);
}

static void an_unseen_signal_is_counted(void **)
{
	fixed_program p;

	p.h.submit_wait(p.a, p.t, std::make_shared<order_signal>());
	p.write(p.a, 0, 10);
	assert_int_equal(p.h.result().unseen_signals, 0);
	p.h.waited_for_stream(p.t, p.a);
	assert_int_equal(p.h.result().unseen_signals, 1);
	p.read(p.b, 0, 10); /* after the thread's wait */
	assert_int_equal(p.found, 0);
}

/* Two streams wait for each other's signals: only the first wait is for an unseen signal. */
static void a_signal_is_unseen_among_others(void **)
{
	fixed_program p;
	const auto first = std::make_shared<order_signal>(), second = std::make_shared<order_signal>();

	p.h.submit_wait(p.a, p.t, first);
	p.write(p.a, 0, 10);
	p.h.submit_signal(p.a, p.t, second);
	p.h.submit_wait(p.b, p.t, std::make_shared<order_signal>());
	p.h.submit_signal(p.b, p.t, first);
	p.h.submit_wait(p.b, p.t, second);
	p.read(p.b, 0, 10);
	p.h.waited_for_stream(p.t, p.b);
	assert_int_equal(p.h.result().unseen_signals, 1);
	assert_int_equal(p.found, 0);
}

static void memory_is_bounded(void **)
{
	access_map m(1000);
	vector_clock clock;
	const auto none = [](void *, const access_conflict &) { assert_true(false); };

	assert_true(clock.raise(0, 1));
	for (u64 i = 0; i < 100000; i++) {
		m.write({i * 10, i * 10 + 5}, {0, 0, 1}, clock, none, nullptr);
		m.read({i * 10 + 5, i * 10 + 8}, {0, 0, 1}, clock, none, nullptr);
		assert_true(m.ranges() <= 1000);
	}
	assert_true(m.counts().ranges_forgotten > 190000);
	m.write({0, 2000000}, {0, 0, 1}, clock, none, nullptr);
	assert_int_equal(m.ranges(), 1);
}

static void readers_are_bounded(void **)
{
	access_map m;
	const auto none = [](void *, const access_conflict &) { assert_true(false); };

	for (context_id i = 0; i < 2 * access_map::max_readers; i++) {
		vector_clock clock;

		assert_true(clock.raise(i, 1));
		m.read({0, 10}, {i, 0, 1}, clock, none, nullptr);
	}
	assert_int_equal(m.counts().readers_forgotten, access_map::max_readers);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(random_programs),
		cmocka_unit_test(ordered_programs),
		cmocka_unit_test(programs_with_missing_waits),
		cmocka_unit_test(memory_is_reused),
		cmocka_unit_test(numbers_are_reused),
		cmocka_unit_test(an_unseen_signal_is_counted),
		cmocka_unit_test(memory_is_bounded),
		cmocka_unit_test(readers_are_bounded),
		cmocka_unit_test(a_signal_is_unseen_among_others),
	};

	return cmocka_run_group_tests_name("history", tests, nullptr, nullptr);
}
