/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/acl/profile.h"
#include "lib/core/config/config.h"
#include "lib/core/memory/memory.h"

#include <cstring>
#include <string_view>

namespace usdma::acl {

u8 hot_refused = undecided, strict_documents;

/* Calls that the runtime's documentation marks as not supported on Atlas A2 (910B) and A3 (910C). */
static constexpr std::string_view not_on_910 = "aclrtCntNotifyCreate,aclrtCntNotifyDestroy,aclrtCntNotifyGetId,"
					       "aclrtCntNotifyRecord,aclrtCntNotifyReset,aclrtCntNotifyWaitWithTimeout";
/* On A2 only. */
static constexpr std::string_view not_on_910b = "aclrtIpcMemImportPidInterServer,aclrtIpcMemSetAttr,"
						"aclrtMemMapSelectedLink,aclrtReserveMemAddressNoUCMemory";
/* By drivers before 26.0.RC1 (25.5: Mooncake#4137). */
static constexpr std::string_view not_by_25 = "aclrtMemRetainAllocationHandle";

static bool is_910b(core::product p)
{
	return p == core::product::ascend_910b || p == core::product::ascend_910b_25;
}

static bool is_driver_25(core::product p)
{
	return p == core::product::ascend_910b_25 || p == core::product::ascend_910c_25;
}

const soc &profile_soc()
{
	return is_910b(core::config_get().profile) ? soc_910b : soc_910c;
}

/* Index of a name; wrapped_count: none. */
static unsigned index_of(std::string_view name)
{
	unsigned i = 0;

	while (i < wrapped_count && name != wrapped_calls[i].name)
		i++;
	return i;
}

/* Calls f for each name in a list that commas or spaces separate. */
template <class F> static void for_names(std::string_view list, const F &f)
{
	static constexpr const char *between = ", \t";

	for (size_t at; (at = list.find_first_not_of(between)) != list.npos;) {
		list.remove_prefix(at);
		const size_t n = std::min(list.find_first_of(between), list.size());

		f(list.substr(0, n));
		list.remove_prefix(n);
	}
}

static bool is_in(std::string_view list, std::string_view name)
{
	bool found = false;

	for_names(list, [&](std::string_view one) { found |= one == name; });
	return found;
}

static bool is_refused(const core::config &c, const char *name)
{
	return is_in(c.refuse, name) || (c.profile != core::product::none && is_in(not_on_910, name)) ||
	       (is_910b(c.profile) && is_in(not_on_910b, name)) || (is_driver_25(c.profile) && is_in(not_by_25, name));
}

/* Threads that do so at the same time come to the same result. */
static void decide()
{
	if (core::config_ready())
		return; /* no memory: the next call tries again */
	const core::config &c = core::config_get();
	bool hot = false;

	for (unsigned i = 0; i < wrapped_count; i++) {
		const bool refused = is_refused(c, wrapped_calls[i].name);

		hot |= refused && wrapped_calls[i].hot;
		store_relaxed(&call_refused[i], u8(refused));
	}
	/* Calls of the fast path are refused, and checked, in their slow paths. */
	if (hot || c.checks.strict)
		core::translations_stay_uncached();
	store_relaxed(&strict_documents, u8(c.checks.strict));
	/* After the others: refuse_named() decides by this one. */
	store_release(&hot_refused, u8(hot));
}

static aclError refusal(unsigned i)
{
	return load_relaxed(&call_refused[i]) == 1 ?
		       unsupported(wrapped_calls[i].name,
				   "refused, as profile or refuse say (USDMA_PROFILE, USDMA_REFUSE)") :
		       ACL_SUCCESS;
}

aclError refuse_wrapped(unsigned i)
{
	if (load_relaxed(&call_refused[i]) == undecided)
		decide();
	return refusal(i);
}

aclError refuse_named(const char *call)
{
	const unsigned i = index_of(call);

	if (load_acquire(&hot_refused) == undecided)
		decide();
	return i < wrapped_count ? refusal(i) : ACL_SUCCESS;
}

static int check_names(std::string_view list)
{
	char unknown[256] = "";

	for_names(list, [&](std::string_view name) {
		const size_t used = strlen(unknown);

		if (index_of(name) == wrapped_count)
			snprintf(unknown + used, sizeof(unknown) - used, "%s%.*s", used ? ", " : "", int(name.size()),
				 name.data());
	});
	return *unknown ? fail(EINVAL,
			       "refuse (USDMA_REFUSE) names %s: not a call of libascendcl that returns a code, or one "
			       "that every driver has",
			       unknown) :
			  0;
}

int refusals_take_effect()
{
	if (load_relaxed(&hot_refused) == undecided)
		decide();
	return check_names(core::config_get().refuse);
}

} // namespace usdma::acl
