/* SPDX-License-Identifier: BSD-3-Clause */
/* The order that events, words and host functions make. */
#include "lib/core/check/race_state.h"

namespace usdma::core {

/* ---- signals ---------------------------------------------------------------------------------------- */

/* With the lock held. */
static race_signal *signal_at(race_signal **at)
{
	if (!*at)
		*at = std::make_unique<race_signal>(race_signal{std::make_shared<order_signal>()}).release();
	return *at;
}

static void record_made(race_state &r, context_id s, race_signal **at)
{
	race_signal *const sig = signal_at(at);

	sig->by = s;
	r.order.submit_signal(s, r.host, sig->given);
}

/* It was given in fact: what it waits for in here was given by means unseen. */
void race_state::reached(const race_signal &s)
{
	if (!s.given->given())
		order.reach(s.by, *s.given);
	order.waited_for(host, *s.given);
	host_knows();
}

void race_records(race_record what, context_id s, race_signal **at)
{
	if (what == race_record::deleted)
		return delete *at;
	within_race([&](race_state &r) {
		if (what == race_record::made)
			record_made(r, s, at);
		else if (what == race_record::wait)
			r.order.submit_wait(s, r.host, signal_at(at)->given);
		else if (*at)
			r.reached(**at);
	});
}

/* ---- words ------------------------------------------------------------------------------------------ */

void race_word_write(context_id s, u64 key, u64 value)
{
	within_race([&](race_state &r) {
		const u64 at = r.key_of(key);

		r.order.written({at, at + sizeof(value)});
		for (const signal_ref &given : r.words.write(at, value)) {
			given->is_word(r.word_at(at));
			r.order.submit_signal(s, r.host, given);
		}
	});
}

void race_word_wait(context_id s, u64 key, dma::compare cmp, u64 value, bool takes)
{
	within_race([&](race_state &r) {
		const u64 at = r.key_of(key);

		for (const signal_ref &from : r.words.wait(at, {cmp, value, takes})) {
			from->is_word(r.word_at(at));
			r.order.submit_wait(s, r.host, from);
		}
	});
}

void race_word_reset(u64 key)
{
	within_race([&](race_state &r) { r.words.reset(r.key_of(key)); });
}

/* ---- host functions --------------------------------------------------------------------------------- */

/* Its start, and its end if the stream waits for it. */
struct race_call {
	const void *group;
	u64 by;
	const void *token;
	signal_ref start, end;
};

race_call *race_call_add(context_id s, const void *group, u64 by, const void *token)
{
	std::unique_ptr<race_call> made;

	within_race([&](race_state &r) {
		made = std::make_unique<race_call>(race_call{group, by, token, std::make_shared<order_signal>(), {}});
		r.order.submit_signal(s, r.host, made->start);
		/* That of a test's own delivery has no start. */
		if (by || !token)
			r.calls[{group, by}].push_back({made->start, s});
		if (!token)
			return;
		made->end = std::make_shared<order_signal>();
		r.tokens.insert_or_assign(token, made->end);
		r.order.submit_wait(s, r.host, made->end);
	});
	return made.release();
}

/* The token may be another call's by now, as may the newest of the group. */
static void call_refused(race_state &r, const race_call &c)
{
	if (const auto it = r.calls.find({c.group, c.by}); it != r.calls.end()) {
		std::erase_if(it->second, [&](const race_signal &s) { return s.given == c.start; });
		if (it->second.empty())
			r.calls.erase(it);
	}
	if (!c.end)
		return;
	if (const auto it = r.tokens.find(c.token); it != r.tokens.end() && it->second == c.end)
		r.tokens.erase(it);
	r.order.give(r.host, c.end);
}

void race_call_made(race_call *c, bool accepted)
{
	const std::unique_ptr<race_call> made(c);

	if (!accepted)
		within_race([&](race_state &r) { call_refused(r, *made); });
}

static void call_starts(const void *group, u64 by)
{
	within_race([&](race_state &r) {
		const auto it = r.calls.find({group, by});

		if (it == r.calls.end() || it->second.empty())
			return;
		r.reached(it->second.front());
		it->second.pop_front();
		if (it->second.empty())
			r.calls.erase(it);
	});
}

static void call_done(const void *token)
{
	within_race([&](race_state &r) {
		const auto it = r.tokens.find(token);

		if (it == r.tokens.end())
			return;
		r.order.give(r.host, it->second);
		r.tokens.erase(it);
	});
}

void race_call_event(race_event what, const void *of, u64 by)
{
	if (what == race_event::call_starts)
		call_starts(of, by);
	else
		call_done(of);
}

} // namespace usdma::core
