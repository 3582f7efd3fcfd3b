/* SPDX-License-Identifier: BSD-3-Clause */
/* Constants and layouts of the ACL headers, as the C and the C++ compiler see them. */
#include "acl/acl.h"
#include "acl/acl_dump.h"
#include "acl/acl_platform.h"
#include "acl/acl_prof.h"
#include "acl/acl_rt_allocator.h"
#include "acl/acl_rt_api.h"
#include "acl/acl_tdt.h"
#include "acl/acl_tdt_queue.h"
#include "runtime/rt.h"
#include "tests/support/test.h"

#include <cstddef>
#include <initializer_list>
#include <type_traits>

extern "C" const char *layout_c_wrong_value(void);

static constexpr bool count_up(long long first, std::initializer_list<long long> all)
{
	for (const long long one : all)
		if (one != first++)
			return false;
	return true;
}

#define V(name, value) static_assert((long long)(name) == (long long)(value), #name);
#define R(first, ...) static_assert(count_up(first, {__VA_ARGS__}), #__VA_ARGS__);
#define S(type, size, alignment)                                                                                       \
	static_assert(sizeof(type) == (size), "size of " #type);                                                       \
	static_assert(alignof(type) == (alignment), "alignment of " #type);
#define O(type, member, at) static_assert(offsetof(type, member) == (at), "offset of " #type "." #member);
#define T(tag, type) static_assert(std::is_same_v<tag, type>, "tag of " #type);
#include "layout.inc"

static void test_values_in_c(void **)
{
	const char *wrong = layout_c_wrong_value();

	/* The first constant with a wrong value, or the names of its R(). */
	assert_string_equal(wrong ? wrong : "", "");
}

static void test_inverse_enums(void **)
{
	/* Two enums with opposite meanings of the same values. */
	assert_int_equal(ACL_EVENT_STATUS_COMPLETE, ACL_EVENT_RECORDED_STATUS_NOT_READY);
	assert_int_equal(ACL_EVENT_STATUS_NOT_READY, ACL_EVENT_RECORDED_STATUS_COMPLETE);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_values_in_c),
		cmocka_unit_test(test_inverse_enums),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
