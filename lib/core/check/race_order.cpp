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

void race_record(context_id s, race_signal **at)
{
	within_race([&](race_state &r) {
		race_signal *const sig = signal_at(at);

		sig->by = s;
		r.order.submit_signal(s, r.host, sig->given);
	});
}

void race_record_wait(context_id s, race_signal **at)
{
	within_race([&](race_state &r) { r.order.submit_wait(s, r.host, signal_at(at)->given); });
}

/* It was given in fact: what it waits for in here was given by means unseen. */
void race_state::reached(const race_signal &s)
{
	if (!s.given->given())
		order.reach(s.by, *s.given);
	order.waited_for(host, *s.given);
	host_knows();
}

void race_record_waited(race_signal *const *at)
{
	within_race([&](race_state &r) {
		if (*at)
			r.reached(**at);
	});
}

void race_signal_delete(race_signal *s)
{
	delete s;
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

race_call_signals race_call(context_id s, const void *group, u64 by, const void *token)
{
	race_call_signals made;

	within_race([&](race_state &r) {
		made.start = std::make_shared<order_signal>();
		r.order.submit_signal(s, r.host, made.start);
		/* That of a test's own delivery has no start. */
		if (by || !token)
			r.calls[{group, by}].push_back({made.start, s});
		if (!token)
			return;
		made.end = std::make_shared<order_signal>();
		r.tokens.insert_or_assign(token, made.end);
		r.order.submit_wait(s, r.host, made.end);
	});
	return made;
}

/* The token may be another call's by now, as may the newest of the group. */
void race_call_refused(const void *group, u64 by, const void *token, const race_call_signals &which)
{
	within_race([&](race_state &r) {
		if (const auto it = r.calls.find({group, by}); it != r.calls.end()) {
			std::erase_if(it->second, [&](const race_signal &s) { return s.given == which.start; });
			if (it->second.empty())
				r.calls.erase(it);
		}
		if (!which.end)
			return;
		if (const auto it = r.tokens.find(token); it != r.tokens.end() && it->second == which.end)
			r.tokens.erase(it);
		r.order.give(r.host, which.end);
	});
}

void race_call_starts(const void *group, u64 by)
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

void race_call_done(const void *token)
{
	within_race([&](race_state &r) {
		const auto it = r.tokens.find(token);

		if (it == r.tokens.end())
			return;
		r.order.give(r.host, it->second);
		r.tokens.erase(it);
	});
}

} // namespace usdma::core
