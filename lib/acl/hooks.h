/* SPDX-License-Identifier: BSD-3-Clause */
/* Callbacks that programs register under a name. */
#pragma once

#include "lib/acl/report.h"
#include "lib/core/slab.h"

#include <mutex>
#include <string>
#include <vector>

namespace usdma::acl {

template <class F> class hook_table {
public:
	struct hook {
		std::string name;
		F fn;
		void *args;
	};

	/* NULL fn ends a registration; the same name again replaces it. */
	aclError set(const char *call, const char *name, F fn, void *args)
	{
		if (!name)
			return bad_arg(call, "regName is NULL");
		std::lock_guard guard(lock_);
		for (size_t i = 0; i < hooks_.size(); i++) {
			if (hooks_[i].name != name)
				continue;
			if (fn)
				hooks_[i] = {name, fn, args};
			else
				hooks_.erase(hooks_.begin() + long(i));
			__atomic_store_n(&count_, hooks_.size(), __ATOMIC_RELEASE);
			return ACL_SUCCESS;
		}
		if (!fn)
			return fault(call, ACL_ERROR_RT_PARAM_INVALID, "regName %s is not registered", name);
		hooks_.push_back({name, fn, args});
		__atomic_store_n(&count_, hooks_.size(), __ATOMIC_RELEASE);
		return ACL_SUCCESS;
	}
	/* Calls each, without the lock, so that a callback may register others. */
	template <class... A> void call(A... a)
	{
		for (const hook &h : now())
			h.fn(a..., h.args);
	}
	/* The same; what the first one that failed returned, and its name. */
	template <class... A> int ask(std::string *failed, A... a)
	{
		int first = 0;

		for (const hook &h : now()) {
			const int got = h.fn(a..., h.args);

			if (got && !first)
				*failed = h.name;
			first = first ? first : got;
		}
		return first;
	}

private:
	std::vector<hook> now()
	{
		if (!__atomic_load_n(&count_, __ATOMIC_ACQUIRE))
			return {};
		std::lock_guard guard(lock_);
		return hooks_;
	}

	std::mutex lock_;
	size_t count_ = 0;
	std::vector<hook> hooks_;
};

} // namespace usdma::acl
