/* SPDX-License-Identifier: BSD-3-Clause */
/* The layout table, checked by the C compiler. */
#include "acl/acl.h"
#include "acl/acl_dump.h"
#include "acl/acl_platform.h"
#include "acl/acl_prof.h"
#include "acl/acl_rt_allocator.h"
#include "acl/acl_rt_api.h"
#include "acl/acl_tdt.h"
#include "acl/acl_tdt_queue.h"
#include "acl/rt_compat.h"

#include <stddef.h>

/* ACL_ERROR_* of the ACL family are objects in C, so values are compared at run time. */
#define V(name, value)                                                                                                 \
	if ((long long)(name) != (long long)(value))                                                                   \
		return #name;
#define R(first, ...)                                                                                                  \
	{                                                                                                              \
		const long long all[] = {__VA_ARGS__};                                                                 \
		for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)                                              \
			if (all[i] != (first) + (long long)i)                                                          \
				return #__VA_ARGS__;                                                                   \
	}
#define S(type, size, alignment)
#define O(type, member, offset)
#define T(tag, type)
const char *layout_c_wrong_value(void);

const char *layout_c_wrong_value(void)
{
#include "layout.inc"
	return NULL;
}
#undef V
#undef R
#undef S
#undef O
#undef T

#define V(name, value)
#define R(first, ...)
#define S(type, size, alignment)                                                                                       \
	_Static_assert(sizeof(type) == (size), "size of " #type);                                                      \
	_Static_assert(_Alignof(type) == (alignment), "alignment of " #type);
#define O(type, member, at) _Static_assert(offsetof(type, member) == (at), "offset of " #type "." #member);
#define T(tag, type) _Static_assert(_Generic((tag *)0, type * : 1, default : 0), "tag of " #type);
#include "layout.inc"
