/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/fault_plan.h"

#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/base/grow.h"
#include "driver/base/words.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <string>
#include <unistd.h>

namespace usdma::sim {

using std::string_view;

/* The names of dma::fault_reason, not a second vocabulary. */
static constexpr string_view reasons[] = {
	"none",    "bad-op",  "bad-length", "src-unmapped", "dst-unmapped", "src-denied", "dst-denied", "unaligned",
	"timeout", "bad-tag", "transfer",   "stopped",      "injected",     "lost",       "reset",
};
static_assert(std::size(reasons) == size_t(dma::fault_reason::count));
static constexpr string_view replies[] = {"none", "drop", "close", "short", "long", "wrong-id", "garbage"};
static_assert(std::size(replies) == size_t(reply_fault::count));
static constexpr string_view actions[] = {"fail",        "hang",     "slow",  "die",        "vanish",
					  "drop-record", "drop-irq", "wrong", "refuse-map", "reply"};
static constexpr string_view mistakes[] = {"length", "early", "completion", "error", "vector"};
static_assert(std::size(mistakes) == size_t(mistake::count));
static constexpr string_view limits[] = {"channel", "device", "for-good"};
static constexpr u64 longest_slow_us = 3600000000; /* an hour */
/* More or longer rules are rejected. */
static constexpr size_t max_rules = fault_page::most_rules, max_rule = 64;

template <size_t n> static bool find(const string_view (&names)[n], string_view name, u64 *out)
{
	for (size_t i = 0; i < n; i++)
		if (names[i] == name) {
			*out = i;
			return true;
		}
	return false;
}

int fault_plan::parse_argument(string_view text, rule *out)
{
	switch (out->what) {
	case action::fail:
		out->arg = u64(dma::fault_reason::injected);
		return text.empty() || (find(reasons, text, &out->arg) && out->arg) ? 0 : -EINVAL;
	case action::slow:
		return number_parse(text, &out->arg, 0, longest_slow_us) ? 0 : -EINVAL;
	case action::hang:
		static_assert(std::size(limits) == size_t(until::count));
		return text.empty() || find(limits, text, &out->arg) ? 0 : -EINVAL;
	case action::wrong:
		return find(mistakes, text, &out->arg) ? 0 : -EINVAL;
	case action::reply:
		return find(replies, text, &out->arg) && out->arg ? 0 : -EINVAL;
	default:
		return text.empty() ? 0 : -EINVAL;
	}
}

int fault_plan::parse_rule(string_view text, rule *out)
{
	const size_t at = text.find_first_of("@%~");
	const size_t slash = text.find('/');
	u64 what;

	if (text.size() > max_rule)
		return -EINVAL;
	if (at == string_view::npos || !find(actions, text.substr(0, at), &what))
		return -EINVAL;
	*out = {};
	out->text = text;
	out->what = action(what);
	out->how = text[at] == '@' ? when::once : text[at] == '%' ? when::every : when::chance;
	if (!number_parse(text.substr(at + 1, slash == string_view::npos ? slash : slash - at - 1), &out->n, 1,
			  out->how == when::chance ? 1000000 : ~u64(0)))
		return -EINVAL;
	return parse_argument(slash == string_view::npos ? string_view() : text.substr(slash + 1), out);
}

int fault_plan::set(string_view text)
{
	return within_memory("fault rules", [=, this] { return take(text); });
}

int fault_plan::parse(string_view text, std::vector<rule> *out) const
{
	std::vector<rule> &rules = *out;

	/* A trailing "+" is followed by an empty rule, which is an error. */
	for (bool more = !text.empty(); more;) {
		const size_t end = text.find('+');
		const string_view one = text.substr(0, end);
		rule r;

		if (parse_rule(one, &r))
			return fail(
				EINVAL,
				"fault rule \"%.*s\" is not ACTION@N, ACTION%%N or ACTION~P with /ARGUMENT where it "
				"takes "
				"one (fail hang slow die vanish drop-record drop-irq wrong refuse-map reply)",
				int(std::min(one.size(), max_rule)), one.data());
		if (rules.size() == max_rules)
			return fail(EINVAL, "more than %zu fault rules", max_rules);
		if (r.what == action::die && !may_die_)
			return fail(EINVAL,
				    "fault rule \"%.*s\": only a device in a process of its own (usdma-sim) can die",
				    int(one.size()), one.data());
		if (r.what == action::wrong && !makes_mistakes_)
			return fail(EINVAL,
				    "fault rule \"%.*s\": only the models of I/OAT, DSA and HiSilicon make mistakes",
				    int(one.size()), one.data());
		rules.push_back(std::move(r));
		more = end != string_view::npos;
		text.remove_prefix(more ? end + 1 : 0);
	}
	return 0;
}

int fault_plan::take(string_view text)
{
	std::vector<rule> rules;

	if (const int err = parse(text, &rules))
		return err;
	std::lock_guard guard(lock_);
	if (page_ && text.size() > fault_page::most_text)
		return fail(EINVAL, "fault rules of more than %zu bytes", fault_page::most_text);
	rules_ = std::move(rules);
	if (page_)
		show(text);
	return 0;
}

/* ---- rules of one process, applied in another -------------------------------------------------------- */

/* Caller holds lock_. */
void fault_plan::show(string_view text)
{
	store_relaxed(&page_->version, version_ + 1);
	/* Orders the odd version before the text; the release below orders the text before the even one. */
	barrier_release();
	memcpy(page_->text, text.data(), text.size());
	store_relaxed(&page_->size, u32(text.size()));
	version_ += 2;
	memset(page_->of[version_ / 2 % 2], 0, sizeof(page_->of[0]));
	store_release(&page_->version, version_);
}

void fault_plan::publish(fault_page *b)
{
	std::lock_guard guard(lock_);
	std::string text;

	for (const rule &r : rules_)
		text += (text.empty() ? "" : "+") + r.text;
	page_ = b;
	show(text);
}

/* Takes over new rules between two counts; while the text changes, the old ones apply. */
void fault_plan::refresh()
{
	char text[fault_page::most_text];
	std::vector<rule> rules;

	if (!follows_)
		return;
	const u32 version = load_acquire(&page_->version);
	if (version == version_ || version % 2)
		return;
	const u32 size = std::min(load_relaxed(&page_->size), u32(sizeof(text)));
	memcpy(text, page_->text, size);
	/* Orders the copy before the second read of the version. */
	barrier_acquire();
	if (load_relaxed(&page_->version) != version ||
	    within_memory("fault rules", [&] { return parse(string_view(text, size), &rules); }))
		return;
	version_ = version;
	rules_ = std::move(rules);
	for (rule &r : rules_) {
		r.seen = load_relaxed(&counts_of(r)->seen);
		r.struck = load_relaxed(&counts_of(r)->struck);
	}
}

void fault_plan::follow(fault_page *b)
{
	std::lock_guard guard(lock_);

	page_ = b;
	follows_ = true;
	version_ = 1; /* no version */
	if (const u64 random = load_relaxed(&b->random))
		random_ = random;
	refresh();
}

fault_page::counts *fault_plan::counts_of(const rule &r)
{
	return &page_->of[version_ / 2 % 2][&r - rules_.data()];
}

void fault_plan::note(const rule &r)
{
	if (!follows_)
		return;
	store_relaxed(&counts_of(r)->seen, r.seen);
	store_relaxed(&counts_of(r)->struck, r.struck);
	store_relaxed(&page_->random, random_);
}

/* ---- counting ----------------------------------------------------------------------------------------- */

void fault_plan::new_client(bool anew)
{
	std::lock_guard guard(lock_);

	vanished_ = false;
	for (rule &r : rules_) {
		r.holds = false;
		if (!anew)
			continue;
		r.seen = r.struck = 0;
		/* No process applies them at this time. */
		if (page_)
			*counts_of(r) = {};
	}
}

std::string fault_plan::report()
{
	std::lock_guard guard(lock_);
	std::string out;

	for (rule &r : rules_) {
		if (page_ && !follows_) {
			r.seen = load_relaxed(&counts_of(r)->seen);
			r.struck = load_relaxed(&counts_of(r)->struck);
		}
		out += r.text + " seen " + std::to_string(r.seen) + " struck " + std::to_string(r.struck) + "\n";
	}
	return out;
}

bool fault_plan::has_die()
{
	std::lock_guard guard(lock_);

	for (const rule &r : rules_)
		if (r.what == action::die)
			return true;
	return false;
}

/* Counts an event; true: the rule applies to it. */
bool fault_plan::turn(rule &r)
{
	r.seen++;
	switch (r.how) {
	case when::once:
		return r.seen == r.n;
	case when::every:
		return r.seen % r.n == 0;
	case when::chance:
		random_ = random_ * 6364136223846793005u + 1442695040888963407u;
		return (random_ >> 33) % 1000000 < r.n;
	}
	return false;
}

/* Caller holds lock_. Counts an event for all rules of the kind, with this argument; returns the first that applies. */
fault_plan::rule *fault_plan::hit(action what, u64 arg)
{
	rule *first = nullptr;

	refresh();
	for (rule &r : rules_) {
		if (r.what != what || (arg != any_arg && r.arg != arg))
			continue;
		const bool strikes = turn(r) && !first;

		r.struck += strikes;
		if (strikes)
			first = &r;
		note(r);
	}
	return first;
}

/* Called first for each descriptor, and polled while it hangs. */
bool fault_plan::hang(u32 channel, u64)
{
	std::lock_guard guard(lock_);

	refresh();
	if (vanished_)
		return true;
	for (rule &r : rules_)
		if (r.what == action::hang && r.holds && r.channel == channel)
			return true;
	rule *r = hit(action::hang);
	if (r) {
		r->holds = true;
		r->channel = channel;
	}
	if (hit(action::die))
		kill(getpid(), SIGKILL);
	return r != nullptr;
}

bool fault_plan::vanish(u32, u64)
{
	std::lock_guard guard(lock_);

	vanished_ |= hit(action::vanish) != nullptr;
	return vanished_;
}

void fault_plan::channel_off(u32 channel)
{
	std::lock_guard guard(lock_);

	for (rule &r : rules_)
		if (r.what == action::hang && r.channel == channel && until(r.arg) == until::channel)
			r.holds = false;
}

void fault_plan::device_reset()
{
	std::lock_guard guard(lock_);

	for (rule &r : rules_)
		if (r.what == action::hang && until(r.arg) != until::for_good)
			r.holds = false;
}

dma::fault_reason fault_plan::descriptor(u32, u64, u64 dst, u64 *address)
{
	std::lock_guard guard(lock_);
	const rule *r = hit(action::fail);

	*address = dst;
	return r ? dma::fault_reason(r->arg) : dma::fault_reason::none;
}

u64 fault_plan::delay_ns(u32, u64)
{
	std::lock_guard guard(lock_);
	const rule *r = hit(action::slow);

	return r ? r->arg * ns_per_us : 0;
}

bool fault_plan::drop_interrupt(u32)
{
	std::lock_guard guard(lock_);

	return hit(action::drop_irq) != nullptr;
}

bool fault_plan::drop_record(u32, u64)
{
	std::lock_guard guard(lock_);

	return hit(action::drop_record) != nullptr;
}

bool fault_plan::wrong(mistake what)
{
	std::lock_guard guard(lock_);

	return hit(action::wrong, u64(what)) != nullptr;
}

int fault_plan::refuse_map(u64, u64)
{
	std::lock_guard guard(lock_);

	return hit(action::refuse_map) ? ENOMEM : 0;
}

reply_fault fault_plan::reply()
{
	std::lock_guard guard(lock_);
	const rule *r = hit(action::reply);

	return r ? reply_fault(r->arg) : reply_fault::none;
}

} // namespace usdma::sim
