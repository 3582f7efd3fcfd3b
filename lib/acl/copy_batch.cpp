/* SPDX-License-Identifier: BSD-3-Clause */
/* Batches: many copies in one call, each checked against the locations that the caller states. */
#include "lib/acl/copy.h"
#include "lib/acl/capture.h"
#include "lib/acl/profile.h"
#include "lib/core/config/race.h"

#include <algorithm>

namespace usdma::acl {

inline constexpr size_t most_sync = 4096;

struct batch {
	const char *call;
	void **dsts;
	const size_t *maxs;
	void **srcs;
	const size_t *sizes;
	size_t n;
	const aclrtMemcpyBatchAttr *attrs;
	const size_t *indexes;
	size_t attr_count;
	size_t *fail;
};

static bool all_empty(const batch &b)
{
	return std::all_of(b.sizes, b.sizes + b.n, [](size_t size) { return !size; });
}

static bool reserved_clear(const aclrtMemcpyBatchAttr &a)
{
	return std::all_of(std::begin(a.rsv), std::end(a.rsv), [](u8 byte) { return !byte; });
}

/* The checks on the arrays; *done: there is nothing to copy. An error of them concerns no item. */
static aclError check_arrays(const batch &b, bool *done)
{
	*b.fail = SIZE_MAX;
	*done = false;
	if (!b.sizes || !b.n)
		return bad_arg(b.call, "sizes is NULL or numBatches is 0");
	if (all_empty(b)) {
		*done = true;
		return ACL_SUCCESS;
	}
	if (!b.dsts || !b.maxs || !b.srcs || !b.attrs || !b.indexes)
		return bad_arg(b.call, "dsts, destMaxs, srcs, attrs or attrsIndexes is NULL");
	for (size_t i = 0; i < b.n; i++)
		if (b.maxs[i] < b.sizes[i])
			return bad_arg(b.call, "item %zu: size %zu is more than destMax %zu", i, b.sizes[i], b.maxs[i]);
	for (size_t i = 0; i < std::min(b.attr_count, b.n); i++)
		if (!reserved_clear(b.attrs[i]))
			return bad_arg(b.call, "attrs[%zu].rsv is not zero", i);
	return ACL_SUCCESS;
}

static aclError check_indexes(const batch &b)
{
	if (!b.attr_count || b.attr_count > b.n)
		return fault(b.call, ACL_ERROR_RT_PARAM_INVALID, "numAttrs is %zu, it must be 1 ... numBatches (%zu)",
			     b.attr_count, b.n);
	if (b.indexes[0])
		return fault(b.call, ACL_ERROR_RT_PARAM_INVALID, "attrsIndexes[0] is %zu, it must be 0", b.indexes[0]);
	for (size_t i = 1; i < b.attr_count; i++)
		if (b.indexes[i] <= b.indexes[i - 1])
			return fault(b.call, ACL_ERROR_RT_PARAM_INVALID,
				     "attrsIndexes[%zu] is not above the one before", i);
	if (b.indexes[b.attr_count - 1] >= b.n)
		return fault(b.call, ACL_ERROR_RT_PARAM_INVALID, "attrsIndexes[%zu] is %zu, there are %zu items",
			     b.attr_count - 1, b.indexes[b.attr_count - 1], b.n);
	return ACL_SUCCESS;
}

/* Location of one side as the caller states it: a device's slot, the host, or none. */
using core::side_host;
inline constexpr int side_none = -2;

static int side_of(const aclrtMemLocation &said)
{
	if (said.type == ACL_MEM_LOCATION_TYPE_HOST || said.type == ACL_MEM_LOCATION_TYPE_HOST_NUMA)
		return side_host;
	const int slot = said.type == ACL_MEM_LOCATION_TYPE_DEVICE ? slot_of(said.id) : -1;
	return slot >= 0 ? slot : side_none;
}

/* Converts an attribute, once for all its items. */
static core::sides sides_of(const aclrtMemcpyBatchAttr &a)
{
	return {side_of(a.dstLoc), side_of(a.srcLoc)};
}

/* Class unregistered counts as host. */
static inline int side_of(const core::translation &p)
{
	return p.cls == core::mem_class::device ? p.slot : side_host;
}

[[gnu::cold, gnu::noinline]] static aclError bad_item(const batch &b, size_t i, aclError code, const char *what)
{
	*b.fail = i;
	return fault(b.call, code, "item %zu (dst %p, src %p, %zu bytes): %s", i, b.dsts[i], b.srcs[i], b.sizes[i],
		     what);
}

/* The checks on one item; async: an empty item is an error. */
static inline aclError check_item(const batch &b, size_t i, const core::endpoints &e, core::sides said, bool async)
{
	const bool to_device = e.dst.cls == core::mem_class::device, from_device = e.src.cls == core::mem_class::device;

	if (unlikely((to_device && !e.dst.size) || (from_device && !e.src.size)))
		return bad_item(b, i, ACL_ERROR_RT_DRV_INTERNAL_ERROR, "a device address that is not allocated");
	if (unlikely(side_of(e.dst) != said.dst || side_of(e.src) != said.src))
		return bad_item(b, i, ACL_ERROR_RT_PARAM_INVALID, "an address is not at its location in attrs");
	if (unlikely(to_device == from_device))
		return bad_item(b, i, ACL_ERROR_RT_PARAM_INVALID, "one side must be host memory, the other a device's");
	if (unlikely(!b.dsts[i] || !b.srcs[i] || (async && !b.sizes[i])))
		return bad_item(b, i, ACL_ERROR_RT_PARAM_INVALID, "an address is NULL, or the size is 0");
	return ACL_SUCCESS;
}

/* Checks and submits an item. */
static aclError run_item(const batch &b, core::stream *s, size_t i, core::sides said, bool async)
{
	const core::copy_item item{b.dsts[i], b.srcs[i], b.sizes[i]};
	const core::endpoints e = core::translate_both(item.dst, item.src);
	size_t done;

	if (const aclError bad = check_item(b, i, e, said, async))
		return bad;
	const int err = core::copy_async(s, item.dst, item.src, item.len);
	if (likely(!err))
		return ACL_SUCCESS;
	const aclError code = err == err_captured ? capture_copies(b.call, s, &item, 1, &done) :
						    copy_fault(b.call, err, e);
	if (code)
		*b.fail = i;
	return code;
}

/* Submits the items [from, end), which have one attribute. */
static aclError run_attribute(const batch &b, core::stream *s, size_t from, size_t end, core::sides said, bool async)
{
	const bool fits = (said.dst == side_host) != (said.src == side_host);
	aclError bad = ACL_SUCCESS;

	while (from < end && !bad) {
		const core::copy_list rest(b.dsts + from, b.srcs + from, b.sizes + from, sizeof(void *));
		size_t done = 0;
		/* Fast path: every check holds. */
		const int err = fits ? core::copy_submit(s, rest, end - from, &said, &done) : 1;

		from += done;
		if (unlikely(err < 0 && err != err_captured)) {
			*b.fail = from;
			return copy_fault(b.call, err, core::translate_both(b.dsts[from], b.srcs[from]));
		}
		if (err)
			bad = run_item(b, s, from++, said, async);
	}
	return bad;
}

/* f(from, end, sides) for each attribute and the items that have it, until one fails. */
template <class F> static aclError each_attribute(const batch &b, const F &f)
{
	aclError err = ACL_SUCCESS;

	for (size_t a = 0; a < b.attr_count && !err; a++)
		err = f(b.indexes[a], a + 1 < b.attr_count ? b.indexes[a + 1] : b.n, sides_of(b.attrs[a]));
	return err;
}

/* The documents of aclrtMemcpyBatchAsync permit one direction in a call; the runtime accepts both. */
static void check_directions(const batch &b)
{
	bool to = false, from = false;

	each_attribute(b, [&](size_t, size_t, core::sides said) {
		to |= said.dst >= 0;
		from |= said.src >= 0;
		return ACL_SUCCESS;
	});
	if (to && from)
		core::race_rule("a batch copies in both directions, its documents permit one",
				"a batch from the host to the device, and another one back");
}

static aclError run(const batch &b, core::stream *s, bool async)
{
	const noted_task task(s);
	aclError err = refuse_hot(b.call);

	if (unlikely(documents_count()))
		check_directions(b);
	if (!err)
		err = each_attribute(b, [&](size_t from, size_t end, core::sides said) {
			return run_attribute(b, s, from, end, said, async);
		});
	if (unlikely(s->order) && !err)
		core::copy_check_batch(s, core::copy_list(b.dsts, b.srcs, b.sizes, sizeof(void *)), b.n);
	return err;
}

static aclError batch_async(const batch &b, aclrtStream stream)
{
	stream_guard s;
	bool done;
	aclError err = check_arrays(b, &done);

	if (err || done)
		return err;
	if (stream && !stream_live(stream))
		return bad_stream(b.call, stream);
	err = check_indexes(b);
	if (!err)
		err = get_stream(b.call, stream, &s);
	return err ? err : run(b, s, true);
}

/* As in the runtime, no item is copied if one of them is wrong. */
static aclError check_items(const batch &b)
{
	return each_attribute(b, [&](size_t from, size_t end, core::sides said) {
		aclError bad = ACL_SUCCESS;

		for (; from < end && !bad; from++) {
			bad = check_item(b, from, core::translate_both(b.dsts[from], b.srcs[from]), said, false);
			if (!bad && (core::check_memory(b.dsts[from], b.sizes[from], true) ||
				     core::check_memory(b.srcs[from], b.sizes[from], false)))
				bad = bad_item(b, from, ACL_ERROR_RT_PARAM_INVALID, error_text());
		}
		return bad;
	});
}

/* Uses a temporary stream, so that it does not wait for any other stream. */
static aclError run_sync(const batch &b, core::device *dev)
{
	core::stream *s;
	int err = core::stream_create(dev, {}, &s);
	aclError code;

	if (err)
		return core_fault(b.call, err, at::memory);
	code = run(b, s, false);
	err = core::stream_sync(s, deadline::never());
	if (err && !code)
		code = core_fault(b.call, err, at::copy);
	core::stream_destroy(s);
	return code;
}

static aclError batch_sync(const batch &b)
{
	bool done;
	aclError err = check_arrays(b, &done);

	if (err || done)
		return err;
	err = check_indexes(b);
	if (err)
		return err;
	if (b.n > most_sync)
		return fault(b.call, ACL_ERROR_RT_PARAM_INVALID, "numBatches is %zu, the most is %zu", b.n, most_sync);
	const context_guard c;
	if (!c)
		return no_context(b.call);
	err = check_items(b);
	return err ? err : run_sync(b, c->dev);
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclrtMemcpyBatch(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
			  aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs, size_t *failIndex)
{
	if (!failIndex)
		return bad_arg(__func__, "failIndex is NULL");
	return batch_sync(
		{__func__, dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, failIndex});
}

aclError aclrtMemcpyBatchV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
			    aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs)
{
	size_t fail;

	return batch_sync({__func__, dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, &fail});
}

aclError aclrtMemcpyBatchAsync(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
			       aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs, size_t *failIndex,
			       aclrtStream stream)
{
	if (!failIndex)
		return bad_arg(__func__, "failIndex is NULL");
	return batch_async(
		{__func__, dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, failIndex}, stream);
}

aclError aclrtMemcpyBatchAsyncV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
				 aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs, aclrtStream stream)
{
	size_t fail;

	return batch_async({__func__, dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, &fail},
			   stream);
}

} // extern "C"
