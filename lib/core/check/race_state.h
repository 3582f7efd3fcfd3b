/* SPDX-License-Identifier: BSD-3-Clause */
/* What the race detector knows of the process. */
#pragma once

#include "driver/base/grow.h"
#include "lib/core/check/guarded_pages.h"
#include "lib/core/check/race.h"
#include "lib/core/check/race_report.h"
#include "lib/core/check/race_sources.h"
#include "lib/core/check/race_words.h"

#include <mutex>
#include <unordered_map>
#include <utility>

namespace usdma::core {

/* Of an event's record. */
struct race_signal {
	signal_ref given;
	context_id by = ~0u; /* the stream that gives it */
};

struct race_state {
	struct block {
		u64 end, address;
		const char *what;
		u32 stack, frames;
		bool host, unguarded;
	};

	struct alias {
		u64 end, to;
	};

	std::mutex lock;
	report_stacks stacks = {};
	race_operations operations;
	history order{[](void *arg, const access_conflict &c) { static_cast<race_state *>(arg)->found(c); }, this};
	context_id host = order.add_thread();
	std::vector<race_context> contexts{{0, true, false}}; /* by number; the first is the host */
	std::map<u64, block> blocks;                          /* by key */
	struct {
		u64 begin = 0;
		const block *is = nullptr;
	} recent[2];                  /* blocks that were used last: of a device's memory, of the host's */
	std::map<u64, alias> aliases; /* by key */
	race_words words;
	std::map<std::pair<const void *, u64>, std::deque<race_signal>> calls; /* by group and thread, oldest first */
	std::unordered_map<const void *, signal_ref> tokens;
	race_sources sources{[](void *arg, const source_change &c) { static_cast<race_state *>(arg)->changed(c); },
			     this};
	race_guards guards;
	tsan_edges edges;
	const bool beside = tsan_edges::available();
	std::vector<stream_access> scratch; /* of submit(): most calls need no memory */
	u64 no_memory = 0;

	race_state();
	void forward(context_id c, std::span<const stream_access> ranges, u32 number);
	u64 word_at(u64 key);
	void changed(const source_change &c);
	void add_guards(context_id s, u64 time, std::span<const stream_access> ranges, u32 number);
	void name_operation(page_fault *p);
	void report_faults();
	void host_knows();
	void add_sources(context_id s, u64 time, std::span<const stream_access> ranges, u32 number);
	void found(const access_conflict &c);
	race_location location_of(byte_range r);
	u64 key_of(u64 key) const;
	u32 operation(const char *what, context_id by);
	void submit(context_id s, const char *what, std::span<const stream_access> ranges);
	void batch(context_id s, const char *what, std::span<const stream_access> items);
	const block *block_at(u64 key, u64 *begin);
	void reached(const race_signal &s);
	void lost();
};

/* nullptr: there is no memory for it. */
race_state *race_get();

/* Runs f(state) with the lock. Nothing it does may fail the program's call: lack of memory is counted. */
template <class F> void within_race(const F &f)
{
	race_state *const r = race_get();

	if (!r)
		return;
	std::lock_guard guard(r->lock);
	if (!fits([&] {
		    r->report_faults();
		    f(*r);
	    }))
		r->lost();
}

} // namespace usdma::core
