/* SPDX-License-Identifier: BSD-3-Clause */
/* Words that streams write and wait for: which writes a wait is ordered after. */
#pragma once

#include "driver/dma/request.h"
#include "lib/core/check/history.h"

#include <map>

namespace usdma::core {

struct word_wait {
	dma::compare cmp;
	u64 value;
	bool takes; /* resets the word to 0 */
};

/*
 * In the order of submission. If the word's last value meets a wait, the wait is after all writes that meet it and
 * were reached, as any may have been the one; if none was reached, after the first. Else after the next write that
 * meets it.
 */
class race_words {
public:
	/* Words, and what each remembers. */
	static constexpr size_t max_words = 1 << 14, max_writes = 16, max_waits = 256;

	/* The signals to give when the stream has written. */
	std::vector<signal_ref> write(u64 key, u64 value);
	/* The signals to wait for. */
	std::vector<signal_ref> wait(u64 key, const word_wait &w);
	/* Written by other means, or freed. */
	void forget(byte_range r);
	/* Nothing waits for it any more, either. */
	void reset(u64 key) { words_.erase(key); }

private:
	struct written {
		u64 value;
		signal_ref given;
	};
	struct waiting {
		word_wait what;
		signal_ref given;
	};
	struct word {
		std::deque<written> writes;
		std::deque<waiting> waits;
	};

	word &at(u64 key);

	std::map<u64, word> words_;
};

} // namespace usdma::core
