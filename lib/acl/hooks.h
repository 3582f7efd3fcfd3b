/* SPDX-License-Identifier: BSD-3-Clause */
/* Callbacks that programs register by name. */
#pragma once

#include "driver/base/barrier.h"
#include "driver/base/grow.h"
#include "lib/acl/report.h"
#include "lib/core/base/slab.h"

#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

namespace usdma::acl {

/*
 * Callbacks are called without the lock, so that one may register others, and in the order of their numbers: that
 * needs no copy of the table, for which there may be no memory.
 */
template <class F> class hook_table {
public:
	struct hook {
		std::string name;
		F fn;
		void *args;
		u64 number;
	};
	/* A name, truncated for messages. */
	struct short_name {
		char text[128] = "";
	};

	/* fn NULL removes a registration; the same name again replaces it. */
	aclError set(const char *call, const char *name, F fn, void *args)
	{
		if (!name)
			return bad_arg(call, "regName is NULL");
		std::lock_guard guard(lock_);
		hook *h = find(name);
		if (!fn && !h)
			return fault(call, ACL_ERROR_RT_PARAM_INVALID, "regName %s is not registered", name);
		if (!fn)
			hooks_.erase(hooks_.begin() + (h - hooks_.data()));
		else if (h)
			h->fn = fn, h->args = args;
		else if (!fits([&] { hooks_.push_back({name, fn, args, ++last_}); }))
			return core_fault(call, no_memory("a callback's registration"), at::memory);
		store_release(&count_, hooks_.size());
		return ACL_SUCCESS;
	}
	template <class... A> void call(A... a)
	{
		const u64 last = newest();
		u64 number = 0;
		short_name name;
		void *args = nullptr;

		while (F fn = next(&number, last, &args, &name))
			fn(a..., args);
	}
	/* As call(); returns the first non-zero result, and the name of that callback. */
	template <class... A> int call_checked(short_name *failed, A... a)
	{
		const u64 last = newest();
		u64 number = 0;
		short_name name;
		void *args = nullptr;
		int first = 0;

		while (F fn = next(&number, last, &args, &name)) {
			const int got = fn(a..., args);

			if (got && !first)
				*failed = name;
			first = first ? first : got;
		}
		return first;
	}

private:
	hook *find(const char *name)
	{
		for (hook &h : hooks_)
			if (h.name == name)
				return &h;
		return nullptr;
	}
	/* The number of the newest callback; 0: there are none. */
	u64 newest()
	{
		if (!load_acquire(&count_))
			return 0;
		std::lock_guard guard(lock_);
		return last_;
	}
	/* The first callback after *number; nullptr: none up to `last`. */
	F next(u64 *number, u64 last, void **args, short_name *name)
	{
		if (!last)
			return nullptr;
		std::lock_guard guard(lock_);
		for (const hook &h : hooks_) {
			if (h.number <= *number || h.number > last)
				continue;
			*number = h.number;
			*args = h.args;
			snprintf(name->text, sizeof(name->text), "%s", h.name.c_str());
			return h.fn;
		}
		return nullptr;
	}

	std::mutex lock_;
	size_t count_ = 0;
	u64 last_ = 0;
	std::vector<hook> hooks_; /* sorted by number */
};

} // namespace usdma::acl
