/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of the race check: words that streams wait for, sources changed by the program, removed streams. */
#include "tests/support/test.h"

#include "lib/core/check/race_batch.h"
#include "lib/core/check/race_sources.h"
#include "lib/core/check/race_words.h"
#include "lib/core/check/unwritten.h"

#include <bitset>
#include <cstring>

using namespace usdma;
using namespace usdma::core;
using namespace usdma::test;

static constexpr word_wait is_one = {dma::compare::eq, 1, false}, takes_one = {dma::compare::eq, 1, true};
static constexpr u64 key = 4096;

/* A wait is ordered after each given write that satisfies it; if none is given, after the first or next such write. */
static void waits_are_after_writes(void **)
{
	race_words w;
	history order([](void *, const access_conflict &) {}, nullptr);
	const context_id host = order.add_thread();

	const auto early = w.wait(key, is_one);
	assert_int_equal(early.size(), 1);
	const auto other = w.write(key, 2), one = w.write(key, 1);
	assert_int_equal(other.size(), 1);
	assert_int_equal(one.size(), 2);
	assert_true(one[0] == early[0] || one[1] == early[0]);
	const auto again = w.write(key, 1), late = w.wait(key, is_one);
	assert_int_equal(again.size(), 1);
	assert_int_equal(late.size(), 1);
	assert_true(late[0] == one[1]);
	order.give(host, one[1]);
	order.give(host, again[0]);
	const auto both = w.wait(key, is_one);
	assert_int_equal(both.size(), 2);
	assert_true(both[1] == again[0]);
	assert_int_equal(w.wait(key + 8, is_one).size(), 1);
}

/* A notify satisfies one wait. */
static void a_notify_is_taken(void **)
{
	race_words w;

	const auto first = w.wait(key, takes_one), second = w.wait(key, takes_one);
	assert_true(w.write(key, 1)[0] == first[0]);
	assert_true(w.write(key, 1)[0] == second[0]);
	const auto given = w.write(key, 1), third = w.wait(key, takes_one), fourth = w.wait(key, takes_one);
	assert_true(third[0] == given[0]);
	assert_true(fourth[0] != given[0]);
}

/* An unseen write has replaced the word: the next wait is not for earlier writes. */
static void a_word_is_forgotten(void **)
{
	race_words w;

	const auto given = w.write(key, 1);
	w.forget({key - 8, key + 1});
	const auto from = w.wait(key, is_one);
	assert_int_equal(from.size(), 1);
	assert_true(from[0] != given[0]);
	/* The next write does not satisfy that wait. */
	w.reset(key);
	assert_int_equal(w.write(key, 1).size(), 1);
}

namespace {

/* A stream that reads host memory. */
struct source_reader {
	std::vector<source_change> found;
	history order{[](void *, const access_conflict &) {}, nullptr};
	context_id host = order.add_thread(), stream = order.add_stream();
	race_sources sources{
		[](void *arg, const source_change &c) { static_cast<source_reader *>(arg)->found.push_back(c); }, this};
	std::vector<unsigned char> memory = std::vector<unsigned char>(10000, 1);
	byte_range all{key, key + memory.size()};

	void read(u32 operation)
	{
		const stream_access a = {all, false};
		const u64 time = order.submit(stream, host, {&a, 1}, operation);

		sources.add(order, host, stream, time, a, reinterpret_cast<u64>(memory.data()), operation);
	}
	void write(context_id by, u32 operation)
	{
		const stream_access a = {all, true};

		order.submit(by, host, {&a, 1}, operation);
	}
	void wait()
	{
		order.waited_for_stream(host, stream);
		sources.verify(order, host);
	}
};

} // namespace

static void a_changed_source_is_found(void **)
{
	source_reader b;

	b.read(1);
	b.wait();
	assert_int_equal(b.found.size(), 0);
	b.memory[9999] = 2;
	b.read(2);
	b.memory[5000]++;
	b.sources.verify(b.order, b.host); /* the thread has not waited for its end */
	assert_int_equal(b.found.size(), 0);
	b.wait();
	assert_int_equal(b.found.size(), 1);
	assert_int_equal(b.found[0].operation, 2);
	assert_int_equal(b.found[0].where.begin, key + 4096);
	assert_int_equal(b.found[0].where.end, key + 8192);
	b.wait();
	assert_int_equal(b.found.size(), 1);
}

/* A change that a device has made, or may have made, is not reported. */
static void devices_change_sources(void **)
{
	source_reader b;

	b.write(b.stream, 1);
	b.read(2); /* the earlier write may still change it */
	b.memory[0]++;
	b.wait();
	b.read(3);
	b.write(b.stream, 4);
	b.memory[0]++;
	b.wait();
	b.read(5);
	b.sources.forget({key, key + 1});
	b.memory[0]++;
	b.wait();
	assert_int_equal(b.found.size(), 0);
}

/* An unseen signal is ordered after all earlier accesses, also those of removed streams. */
static void an_unseen_signal_is_after_all(void **)
{
	unsigned conflicts = 0;
	history h([](void *arg, const access_conflict &) { ++*static_cast<unsigned *>(arg); }, &conflicts);
	const context_id host = h.add_thread(), removed = h.add_stream(), waits = h.add_stream();
	const stream_access writes = {{0, 8}, true}, reads = {{0, 8}, false};

	h.submit_wait(waits, host, std::make_shared<order_signal>());
	h.submit(waits, host, {&reads, 1}, 2);
	h.submit(removed, host, {&writes, 1}, 1);
	h.remove(removed);
	h.waited_for_stream(host, waits);
	assert_int_equal(conflicts, 0);
}

/* The host is ordered after a reached record, not after later work. */
static void a_record_is_reached(void **)
{
	unsigned conflicts = 0;
	history h([](void *arg, const access_conflict &) { ++*static_cast<unsigned *>(arg); }, &conflicts);
	const context_id host = h.add_thread(), stream = h.add_stream();
	const stream_access writes = {{0, 8}, true}, more = {{8, 16}, true};
	const auto record = std::make_shared<order_signal>();

	h.submit_wait(stream, host, std::make_shared<order_signal>());
	h.submit(stream, host, {&writes, 1}, 1);
	h.submit_signal(stream, host, record);
	h.submit(stream, host, {&more, 1}, 2);
	assert_false(record->given());
	h.reach(stream, *record);
	assert_true(record->given());
	h.waited_for(host, *record);
	h.access(host, {0, 8}, true, 3);
	assert_int_equal(conflicts, 0);
	assert_false(h.is_behind());
	h.access(host, {8, 16}, true, 4);
	assert_int_equal(conflicts, 1);
}

/* One thread waits for a stream; another one meanwhile submits work that waits for a later signal. */
static void a_wait_is_for_what_was_before(void **)
{
	unsigned conflicts = 0;
	history h([](void *arg, const access_conflict &) { ++*static_cast<unsigned *>(arg); }, &conflicts);
	const context_id host = h.add_thread(), stream = h.add_stream(), other = h.add_stream();
	const stream_access writes = {{0, 8}, true}, reads = {{0, 8}, false}, first = {{8, 16}, true};
	const auto loaded = std::make_shared<order_signal>();

	h.submit_wait(stream, host, std::make_shared<order_signal>());
	h.submit(stream, host, {&first, 1}, 1);
	const u64 mark = h.mark(stream);
	h.submit_wait(stream, host, loaded);
	h.submit(stream, host, {&reads, 1}, 2);
	h.waited_for_stream(host, stream, mark);
	assert_true(h.is_behind());
	h.access(host, {8, 16}, true, 3); /* it has ended */
	h.submit(other, host, {&writes, 1}, 4);
	h.submit_signal(other, host, loaded);
	assert_false(h.is_behind());
	assert_int_equal(conflicts, 0);
}

static bool overlap(const item_access &a, const item_access &b)
{
	const u64 begin = std::max(a.what.where.begin, b.what.where.begin);

	return a.item != b.item && (a.what.writes || b.what.writes) && begin < a.what.where.end &&
	       begin < b.what.where.end;
}

/* The result equals that of comparing all pairs; sources and destinations are in separate ranges. */
static void items_of_a_batch_overlap(void **)
{
	auto gen = rng();
	unsigned found = 0;

	for (unsigned round = 0; round < 2000; round++) {
		const bool loads = gen() % 2;
		std::vector<item_access> all;
		bool expected = false;

		for (u64 item = 0; item < 2 + gen() % 6; item++)
			for (const bool writes : {false, true}) {
				const u64 begin = gen() % 60 + (writes == loads ? 1000 : 0), len = gen() % 9;
				all.push_back({{{begin, begin + len}, writes}, item});
			}
		for (const item_access &a : all)
			for (const item_access &b : all)
				expected = expected || overlap(a, b);
		const auto got = find_overlap(all);
		assert_int_equal(got.has_value(), expected);
		if (!got)
			continue;
		found++;
		assert_true(got->first.item < got->second.item && overlap(got->first, got->second));
		assert_int_equal(got->where.begin, std::max(got->first.what.where.begin, got->second.what.where.begin));
		assert_int_equal(got->where.end, std::min(got->first.what.where.end, got->second.what.where.end));
	}
	assert_in_range(found, 1, 1999);
}

/* Compared with a set of bytes. */
static void unwritten_bytes_are_found(void **)
{
	static constexpr u64 bytes = 64;
	auto gen = rng();
	std::bitset<bytes> model;
	unwritten_ranges u;

	for (unsigned i = 0; i < 20000; i++) {
		const u64 begin = gen() % bytes, end = begin + gen() % (bytes - begin + 1);
		const bool adds = gen() % 3 == 0;

		adds ? u.add({begin, end}) : u.remove({begin, end});
		for (u64 b = begin; b < end; b++)
			model.set(b, adds);
		const u64 from = gen() % bytes, to = from + gen() % (bytes - from + 1);
		u64 first = from;
		while (first < to && !model[first])
			first++;
		const byte_range got = u.first_in({from, to});
		assert_int_equal(got.begin < got.end, first < to);
		assert_true(first == to || (got.begin == first && got.end <= to));
		for (u64 b = got.begin; b < got.end; b++)
			assert_true(model[b]);
	}
	assert_int_equal(u.forgotten(), 0);
}

/* Ranges beyond the limit count as written. */
static void unwritten_ranges_are_bounded(void **)
{
	unwritten_ranges u(4);

	u.add({0, 100});
	for (u64 at = 1; at < 100; at += 2)
		u.remove({at, at + 1});
	assert_int_equal(u.ranges(), 4);
	assert_true(u.forgotten() > 0);
	assert_int_equal(u.first_in({0, 100}).begin, 0);
	assert_int_equal(u.first_in({50, 100}).end, 0);
}

/* Reported once for the same bytes, and not after an unseen write, which may be anywhere. */
static void a_read_of_unwritten_memory_is_found(void **)
{
	std::vector<access_conflict> found;
	history h([](void *arg, const access_conflict &c) { static_cast<decltype(found) *>(arg)->push_back(c); },
		  &found);
	const context_id host = h.add_thread(), stream = h.add_stream();
	const stream_access part = {{16, 32}, true}, all = {{0, 64}, false};

	h.allocated({0, 48});
	h.submit(stream, host, {&part, 1}, 1);
	h.submit(stream, host, {&all, 1}, 2);
	assert_int_equal(found.size(), 1);
	assert_true(found[0].unwritten && found[0].second.operation == 2);
	assert_int_equal(found[0].where.begin, 0);
	assert_int_equal(found[0].where.end, 16);
	h.submit(stream, host, {&all, 1}, 3);
	h.allocated({0, 64});
	h.written({0, 64});
	h.submit(stream, host, {&all, 1}, 4);
	h.allocated({0, 64});
	h.writes_unseen();
	h.submit(stream, host, {&all, 1}, 5);
	h.allocated({0, 64});
	h.submit(stream, host, {&all, 1}, 6);
	assert_int_equal(found.size(), 1);
}

/* A read behind a wait is ordered after the write that it waits for. */
static void a_queued_read_is_after_the_write(void **)
{
	unsigned found = 0;
	history h([](void *arg, const access_conflict &) { ++*static_cast<unsigned *>(arg); }, &found);
	const context_id host = h.add_thread(), reads = h.add_stream(), writes = h.add_stream();
	const stream_access in = {{0, 8}, false}, out = {{0, 8}, true};
	const auto loaded = std::make_shared<order_signal>();

	h.allocated({0, 8});
	h.submit_wait(reads, host, loaded);
	h.submit(reads, host, {&in, 1}, 1);
	h.submit(writes, host, {&out, 1}, 2);
	h.submit_signal(writes, host, loaded);
	h.waited_for_stream(host, reads);
	assert_int_equal(found, 0);
}

namespace {

/* Streams, and the number of conflicts. */
struct counted {
	unsigned found = 0;
	history h{[](void *arg, const access_conflict &) { ++static_cast<counted *>(arg)->found; }, this};
	context_id host = h.add_thread(), a = h.add_stream(), b = h.add_stream();

	void submit(context_id by, byte_range where, bool writes)
	{
		const stream_access one = {where, writes};

		h.submit(by, host, {&one, 1}, 1);
	}
	/* Delays the stream until a thread waits for it. */
	void hold(context_id s) { h.submit_wait(s, host, std::make_shared<order_signal>()); }
};

} // namespace

/* A write behind a wait for an unseen signal counts for a read that is ordered after it. */
static void a_queued_write_counts(void **)
{
	for (const bool other : {true, false}) {
		const auto record = std::make_shared<order_signal>();
		counted c;

		c.h.allocated({0, 8});
		c.hold(c.a);
		if (!other)
			c.submit(c.a, {0, 8}, false);
		c.submit(c.a, {0, 8}, true);
		c.h.submit_signal(c.a, c.host, record);
		c.h.submit_wait(c.b, c.host, record);
		c.submit(c.b, {0, 8}, false);
		c.h.waited_for_stream(c.host, other ? c.b : c.a);
		assert_int_equal(c.found, other ? 0 : 1);
	}
}

/* One operation more than the queue's capacity: it may have been the write of any memory that is read. */
static void lost_operations_may_be_writes(void **)
{
	counted c;

	c.h.allocated({0, 16});
	c.hold(c.a);
	for (size_t i = 1; i < history::max_queued; i++)
		c.submit(c.a, {16, 24}, true);
	assert_int_equal(c.h.result().queued_forgotten, 0);
	c.submit(c.b, {0, 8}, false);
	assert_int_equal(c.found, 1);
	c.submit(c.a, {8, 16}, true);
	assert_int_equal(c.h.result().queued_forgotten, 1);
	c.h.allocated({24, 32});
	c.submit(c.b, {8, 16}, false);
	c.submit(c.b, {24, 32}, false);
	assert_int_equal(c.found, 1);
}

/* A block is freed and its address is reused before the work submitted for the first block has run. */
static void queued_accesses_are_of_their_block(void **)
{
	const auto go = std::make_shared<order_signal>();
	counted c;

	c.h.submit_wait(c.a, c.host, go);
	c.submit(c.a, {0, 32}, false);
	c.submit(c.a, {8, 16}, true);
	c.h.forget({8, 16});
	c.h.allocated({8, 16});
	c.submit(c.b, {8, 16}, true);
	c.submit(c.b, {7, 8}, true);
	c.submit(c.b, {16, 17}, true);
	c.h.give(c.host, go);
	assert_int_equal(c.found, 2);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(waits_are_after_writes),
		cmocka_unit_test(a_notify_is_taken),
		cmocka_unit_test(a_word_is_forgotten),
		cmocka_unit_test(a_changed_source_is_found),
		cmocka_unit_test(devices_change_sources),
		cmocka_unit_test(an_unseen_signal_is_after_all),
		cmocka_unit_test(a_record_is_reached),
		cmocka_unit_test(items_of_a_batch_overlap),
		cmocka_unit_test(a_wait_is_for_what_was_before),
		cmocka_unit_test(unwritten_bytes_are_found),
		cmocka_unit_test(unwritten_ranges_are_bounded),
		cmocka_unit_test(a_read_of_unwritten_memory_is_found),
		cmocka_unit_test(a_queued_read_is_after_the_write),
		cmocka_unit_test(a_queued_write_counts),
		cmocka_unit_test(lost_operations_may_be_writes),
		cmocka_unit_test(queued_accesses_are_of_their_block),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
