/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/acl/copy_cached.h"
#include "lib/python/acl/args.h"

#include <acl/acl.h>

namespace pyacl {
namespace {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* pyACL still has it */
constexpr auto copy_with_condition = aclrtMemcpyAsyncWithCondition;
#pragma GCC diagnostic pop

/*
 * Releasing the GIL and taking it again costs more than the copy's submission, and lets another thread in between. All
 * other cases may wait, for a full ring or for work before them, which may be a Python callback.
 */
int submit(decltype(&aclrtMemcpyAsync) slow, void *dst, size_t max, void *src, size_t count, int32_t kind, void *stream)
{
	if (usdma::acl::memcpy_async_at_once(dst, max, src, count, uint32_t(kind), stream)) [[likely]]
		return ACL_SUCCESS;
	return without_gil([&] { return slow(dst, max, src, count, aclrtMemcpyKind(kind), stream); });
}

void add_plain(py::module_ &rt)
{
	def(rt, "memcpy", "ret = memcpy(dst, dest_max, src, count, kind)",
	    [](void *dst, size_t max, void *src, size_t count, int32_t kind) {
		    return without_gil([&] { return aclrtMemcpy(dst, max, src, count, aclrtMemcpyKind(kind)); });
	    });
	def(rt, "memcpy_async", "ret = memcpy_async(dst, dest_max, src, count, kind, stream)",
	    [](void *dst, size_t max, void *src, size_t count, int32_t kind, void *stream) {
		    return submit(aclrtMemcpyAsync, dst, max, src, count, kind, stream);
	    });
	def(rt, "memcpy_async_with_condition",
	    "ret = memcpy_async_with_condition(dst, dest_max, src, count, kind, stream)",
	    [](void *dst, size_t max, void *src, size_t count, int32_t kind, void *stream) {
		    return submit(copy_with_condition, dst, max, src, count, kind, stream);
	    });
}

void add_2d(py::module_ &rt)
{
	def(rt, "memcpy2d", "ret = memcpy2d(dst, dpitch, src, spitch, width, height, kind)",
	    [](void *dst, size_t dpitch, void *src, size_t spitch, size_t width, size_t height, int32_t kind) {
		    return without_gil([&] {
			    return aclrtMemcpy2d(dst, dpitch, src, spitch, width, height, aclrtMemcpyKind(kind));
		    });
	    });
	def(rt, "memcpy2d_async", "ret = memcpy2d_async(dst, dpitch, src, spitch, width, height, kind, stream)",
	    [](void *dst, size_t dpitch, void *src, size_t spitch, size_t width, size_t height, int32_t kind,
	       void *stream) {
		    return without_gil([&] {
			    return aclrtMemcpy2dAsync(dst, dpitch, src, spitch, width, height, aclrtMemcpyKind(kind),
						      stream);
		    });
	    });
}

void add_described(py::module_ &rt)
{
	def(rt, "get_memcpy_desc_size", "size, ret = get_memcpy_desc_size(kind)", [](int32_t kind) {
		size_t size = 0;
		int ret = aclrtGetMemcpyDescSize(aclrtMemcpyKind(kind), &size);

		return std::tuple(size, ret);
	});
	def(rt, "set_memcpy_desc", "desc, ret = set_memcpy_desc(desc, kind, src, dst, count[, config])",
	    [](void *desc, int32_t kind, void *src, void *dst, size_t count, std::optional<void *> config) {
		    int ret = without_gil([&] {
			    return aclrtSetMemcpyDesc(desc, aclrtMemcpyKind(kind), src, dst, count,
						      config.value_or(nullptr));
		    });

		    return std::tuple(number(desc), ret);
	    });
	def(rt, "memcpy_async_with_desc", "ret = memcpy_async_with_desc(desc, kind, stream)",
	    [](void *desc, int32_t kind, void *stream) {
		    return without_gil([&] { return aclrtMemcpyAsyncWithDesc(desc, aclrtMemcpyKind(kind), stream); });
	    });
}

} // namespace

void add_copy(py::module_ &rt)
{
	add_plain(rt);
	add_2d(rt);
	add_described(rt);
	def(rt, "reduce_async", "ret = reduce_async(dst, src, count, kind, data_type, stream, reserve)",
	    [](void *dst, void *src, uint64_t count, int32_t kind, int32_t type, void *stream, void *reserve) {
		    return without_gil([&] {
			    return aclrtReduceAsync(dst, src, count, aclrtReduceKind(kind), aclDataType(type), stream,
						    reserve);
		    });
	    });
}

} // namespace pyacl
