/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations as the race check remembers them, and the reports. With the lock of the check held. */
#pragma once

#include "lib/core/check/history.h"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace usdma::core {

/* Where in the program: return addresses, innermost first. Equal ones are stored once. */
class call_stacks {
public:
	static constexpr size_t depth = 24, max_stacks = 1 << 16;
	using frames = std::array<void *, depth>; /* nullptr behind the last */

	/* The caller's. 0: there are too many, or no memory. */
	u32 here(int thread);
	const frames *at(u32 id) const { return id && id <= by_id_.size() ? by_id_[id - 1] : nullptr; }
	/* 0: as here(). */
	u32 number_of(const frames &f);
	u64 forgotten() const { return forgotten_; }

private:
	/*
	 * Most calls come from where others came from: the words of a thread's stack that hold the return addresses
	 * say so at less cost than unwinding does.
	 */
	struct recent {
		int thread = 0;
		u32 id = 0;
		unsigned n = 0;
		const void *below = nullptr; /* the frame of here() */
		void *const *slots[depth];
		const frames *was = nullptr;
	};
	static constexpr size_t max_recent = 256;

	std::map<frames, u32> numbers_;
	recent recent_[max_recent];
	std::vector<const frames *> by_id_;
	u64 forgotten_ = 0;
};

/* The frames of an interpreter, as text. Equal ones are stored once. */
class frame_texts {
public:
	static constexpr size_t max_texts = 1 << 14;

	u32 number_of(const std::string &lines);
	/* "": unknown. */
	const std::string &at(u32 id) const;

private:
	std::map<std::string, u32> numbers_;
	std::vector<const std::string *> by_id_;
};

/* A stream or the host. */
struct race_context {
	u32 stream = 0; /* its number */
	bool host = false, internal = false;
};

struct race_operation {
	const char *what = nullptr; /* "copy", "free"; nullptr: forgotten */
	u32 number = 0, stack = 0;
	race_context by;
	int thread = 0; /* as in gettid(2) */
	u32 frames = 0; /* of an interpreter */
};

/* The last ones, by number. */
class race_operations {
public:
	static constexpr size_t capacity = 1 << 17;

	u32 add(const race_operation &op);
	/* nullptr: too long ago. */
	const race_operation *find(u32 number) const;

private:
	std::vector<race_operation> ring_;
	u32 last_ = 0;
};

struct race_location {
	const char *block = nullptr; /* "device memory", nullptr: unknown */
	u64 address = 0, size = 0;   /* of the block */
	u64 offset = 0, bytes = 0;   /* in it */
	u32 stack = 0, frames = 0;   /* of its allocation */
};

enum class race_kind : u8 {
	no_order,
	free_in_use,    /* no_order, and the second is a free */
	source_changed, /* the second is a store of the CPU that was found by its effect */
	unwritten,      /* there is no first: nothing has written what the second reads */
	batch,          /* both are items of one call */
	rule,           /* there is no first: the documents of a call forbid what the second does */
};

struct race_finding {
	race_kind kind = race_kind::no_order;
	bool first_writes, second_writes;
	race_operation first, second;
	race_location where;
	u64 first_item = 0, second_item = 0; /* batch: their numbers */
	const char *rule = nullptr, *rule_fix = nullptr;
};

/* What went beyond the limits. */
struct race_dropped {
	u64 ranges, readers, waits, sources, pages, unwritten, reports, stacks, no_memory;

	u64 any() const
	{
		return ranges | readers | waits | sources | pages | unwritten | reports | stacks | no_memory;
	}
};

struct report_stacks {
	call_stacks native;
	frame_texts texts;
};

/* Writes a report, or counts it if there was an equal one. */
void race_report(const race_finding &f, const report_stacks &from);
u64 race_reports();
/* At the end of the process. */
void race_report_end(race_dropped d);

} // namespace usdma::core
