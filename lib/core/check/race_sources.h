/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host memory that copies read some time after the call: what was in it then, and whether that was still there when
 * the program knew that they had ended. No device writes it meanwhile, so that it was the program.
 */
#pragma once

#include "lib/core/check/history.h"

#include <map>

namespace usdma {
struct page_guard;
}

namespace usdma::core {

struct source_change {
	u32 operation;
	byte_range where;
};

class race_sources {
public:
	static constexpr size_t max_pending = 1 << 16;
	using report = void (*)(void *arg, const source_change &c);

	race_sources(report changed, void *arg) : changed_(changed), arg_(arg) {}

	/* A copy of the stream, at a time of it, reads from address. */
	void add(const history &order, context_id thread, context_id by, u64 time, const stream_access &a, u64 address,
		 u32 operation);
	/* The thread learned something: compares the sources of the copies whose end it knows now. */
	void verify(const history &order, context_id thread);
	/* The memory is no longer the program's. */
	void forget(byte_range r);
	/* The change was reported otherwise. */
	void drop(u32 operation);
	u64 forgotten() const { return forgotten_; }

private:
	/* Digests of the parts. Most sources have one. */
	struct content {
		u64 first = 0;
		std::vector<u64> others;

		u64 at(size_t i) const { return i ? others[i - 1] : first; }
	};
	struct source {
		u64 time, address;
		byte_range where;
		u32 operation;
		u64 writes; /* those that were there, as a digest */
		content was;
	};

	static bool read(u64 address, u64 len, content *out);
	static bool is_same(const source &s, page_guard &g);
	static size_t find_changed(const std::deque<source> &all, size_t from, size_t n);
	void compare(const history &order, const source &s);

	std::map<context_id, std::deque<source>> pending_; /* oldest first */
	size_t count_ = 0;
	u64 forgotten_ = 0;
	report changed_;
	void *arg_;
};

} // namespace usdma::core
