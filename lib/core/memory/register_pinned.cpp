/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations of memory that is pinned already: devices have it mapped, so only the range and the caller's tag
 * are recorded. All under mem_state().lock.
 */
#include "driver/base/grow.h"
#include "lib/core/memory/internal.h"

namespace usdma::core {

/* The last registration that starts below addr. */
static auto before(u64 addr)
{
	auto &list = mem_state().over_pinned;
	auto it = list.lower_bound(addr);

	return it == list.begin() ? list.end() : std::prev(it);
}

static bool overlaps(u64 base, u64 size)
{
	const auto it = before(base + size);

	return it != mem_state().over_pinned.end() && it->first + it->second.size > base;
}

int pinned_register(u64 base, u64 size, u64 user)
{
	if (overlaps(base, size))
		return fail(EEXIST, "%#llx and %llu bytes from there overlap a registration",
			    static_cast<unsigned long long>(base), static_cast<unsigned long long>(size));
	if (!try_emplace(mem_state().over_pinned, base, pinned_registration{size, user}))
		return no_memory("a registration");
	return 0;
}

bool pinned_unregister(u64 base)
{
	return mem_state().over_pinned.erase(base);
}

void pinned_unregister_block(u64 base, u64 size)
{
	auto &list = mem_state().over_pinned;

	list.erase(list.lower_bound(base), list.lower_bound(base + size));
}

const pinned_registration *pinned_registered(u64 addr)
{
	const auto it = before(addr + 1);

	return it != mem_state().over_pinned.end() && addr - it->first < it->second.size ? &it->second : nullptr;
}

} // namespace usdma::core
