/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aclrtMemcpy and aclrtMemcpyAsync.  The order of the checks is part of the
 * interface: programs and their tests see which one comes first.
 */
#include "lib/acl/copy.h"
#include "lib/acl/capture.h"
#include "lib/acl/copy_cached.h"
#include "lib/acl/profile.h"
#include "lib/core/config/race.h"

namespace usdma::acl {

/* ---- what goes wrong -------------------------------------------------------------------------------- */

[[gnu::cold, gnu::noinline]] static aclError bad_copy(const char *call, const void *dst, const void *src, u32 kind)
{
	if (!dst || !src)
		return bad_arg(call, "%s is NULL", dst ? "src" : "dst");
	return bad_arg(call, "kind %u is invalid for this call", kind);
}

[[gnu::cold, gnu::noinline]] static aclError beyond(const char *call, size_t count, size_t max)
{
	return fault(call, ACL_ERROR_RT_PARAM_INVALID, "count %zu is more than destMax %zu", count, max);
}

/* An unallocated device address. */
static bool unallocated(const core::translation &p)
{
	return p.cls == core::mem_class::device && !p.size;
}

[[gnu::cold, gnu::noinline]] aclError copy_fault(const char *call, int err, const core::endpoints &e)
{
	if (err == -EFAULT && (unallocated(e.dst) || unallocated(e.src)))
		return fault(call, ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%s", error_text());
	return core_fault(call, err, at::submit);
}

[[gnu::cold, gnu::noinline]] static aclError fail_unallocated(const char *call, const core::endpoints &e,
							      const void *dst, const void *src)
{
	return fault(call, ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%s %p is a device address that is not allocated",
		     unallocated(e.dst) ? "dst" : "src", unallocated(e.dst) ? dst : src);
}

[[gnu::cold, gnu::noinline]] static aclError host_to_host(const char *call)
{
	return unsupported(call, "both sides are host memory: use aclrtMemcpy");
}

/* ---- kinds ------------------------------------------------------------------------------------------ */

/* Copies of pageable memory depend on the kind: which kinds are accepted, and what DEFAULT means. */
struct kind_rule {
	u8 accepted; /* a bit for each kind */
	u8 fallback;
};

static constexpr u8 bit(aclrtMemcpyKind k)
{
	return u8(1u << k);
}

static constexpr u8 h2h = bit(ACL_MEMCPY_HOST_TO_HOST), h2d = bit(ACL_MEMCPY_HOST_TO_DEVICE),
		    d2h = bit(ACL_MEMCPY_DEVICE_TO_HOST), d2d = bit(ACL_MEMCPY_DEVICE_TO_DEVICE),
		    any_default = bit(ACL_MEMCPY_DEFAULT);

/* Indexed by [source][destination], in the order of mem_class: unregistered, host, device. */
static constexpr kind_rule rules[3][3] = {
	{{h2h | h2d | d2h | d2d | any_default, ACL_MEMCPY_HOST_TO_HOST},
	 {h2h | d2h | any_default, ACL_MEMCPY_HOST_TO_HOST},
	 {h2d | d2d | any_default, ACL_MEMCPY_HOST_TO_DEVICE}},
	{{h2h | h2d | any_default, ACL_MEMCPY_HOST_TO_HOST}, {}, {}},
	{{d2h | d2d | any_default, ACL_MEMCPY_DEVICE_TO_HOST}, {}, {}},
};

/*
 * Either side is pageable memory: waits for the stream, copies, and returns when done. Captures take what is called a
 * copy between devices (runtime: api_error.cc, MemcpyAsync).
 */
static aclError memcpy_pageable(const char *call, stream_guard &s, const core::endpoints &e, void *dst, const void *src,
				size_t count, u32 kind)
{
	const kind_rule &rule = rules[size_t(e.src.cls)][size_t(e.dst.cls)];
	const void *const of_device = e.dst.cls == core::mem_class::device ? dst :
				      e.src.cls == core::mem_class::device ? src :
									     nullptr;
	const bool is_captured = kind == ACL_MEMCPY_DEVICE_TO_DEVICE && of_device && captures(s);
	int err;

	if (const aclError refused = is_captured ? ACL_SUCCESS : capture_allows_pageable(call, s))
		return refused;
	if (!(rule.accepted >> kind & 1))
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "kind %u does not fit the memory of dst %p and src %p",
			     kind, dst, src);
	if (kind == ACL_MEMCPY_DEFAULT)
		kind = rule.fallback;
	if (kind == ACL_MEMCPY_HOST_TO_HOST)
		return host_to_host(call);
	if (dst == src)
		return ACL_SUCCESS;
	if (kind == ACL_MEMCPY_DEVICE_TO_DEVICE && owner_of(s) != current_now())
		return foreign_stream(call, s);
	if (is_captured)
		return capture_call(
			call, s, captured_call([=](core::stream *to) { return core::copy_async(to, dst, src, count); }),
			{{of_device, count}});
	err = core::sync_before(s, deadline::never());
	/* Looked up again: what ran meanwhile may have mapped other memory there. */
	if (!err)
		err = core::copy_sync(s->dev, dst, src, count, deadline::never());
	return likely(!err) ? ACL_SUCCESS : copy_fault(call, err, e);
}

/* kind 5: src is read before it returns, so the caller may reuse or free it at once. */
static aclError memcpy_buffered(const char *call, core::stream *s, void *dst, const void *src, size_t count)
{
	const core::endpoints e = core::translate_both(dst, src);
	int err;

	if (e.src.cls == core::mem_class::device || e.dst.cls != core::mem_class::device)
		return fault(
			call, ACL_ERROR_RT_PARAM_INVALID,
			"kind HOST_TO_BUF_TO_DEVICE needs a source in host memory and a destination in device memory");
	if (owner_of(s) != current_now())
		return foreign_stream(call, s);
	if (captures(s))
		return unsupported(call, "kind HOST_TO_BUF_TO_DEVICE cannot be captured");
	const noted_task task(s);
	err = core::copy_staged(s, dst, src, count);
	return likely(!err) ? ACL_SUCCESS : copy_fault(call, err, e);
}

[[gnu::cold, gnu::noinline]] static aclError capture_copy(const char *call, core::stream *s, void *dst, const void *src,
							  size_t count)
{
	const core::copy_item item{dst, src, count};
	size_t done;

	return capture_copies(call, s, &item, 1, &done);
}

/* What the documents of aclrtMemcpyAsync demand and the runtime does not check. */
[[gnu::cold, gnu::noinline]] static void check_documents(const void *dst, const void *src, u32 kind)
{
	static constexpr u64 documented_alignment = 64;
	const core::endpoints e = core::translate_both(dst, src);

	if ((reinterpret_cast<u64>(dst) | reinterpret_cast<u64>(src)) % documented_alignment)
		core::race_rule("dst or src is not aligned to 64 bytes", "addresses that are multiples of 64");
	if (kind == ACL_MEMCPY_HOST_TO_HOST &&
	    (e.dst.cls == core::mem_class::device || e.src.cls == core::mem_class::device))
		core::race_rule("kind is ACL_MEMCPY_HOST_TO_HOST, and a side is device memory",
				"the kind of the copy, or ACL_MEMCPY_DEFAULT");
}

/* The order of the checks is part of the interface. */
[[gnu::noinline]] static aclError memcpy_checked(const char *call, void *dst, size_t max, const void *src, size_t count,
						 u32 kind, aclrtStream stream)
{
	stream_guard s;

	if (const aclError refusal = refuse_hot(call))
		return refusal;
	if (stream && (s.take(stream) || !owner_of(s)))
		return core::forked() ? no_context(call) : bad_stream(call, stream);
	if (count > max)
		return beyond(call, count, max);
	if (!has_context())
		return no_context(call);
	if (!stream)
		if (const aclError err = get_any_stream(call, nullptr, &s))
			return err;
	if (unlikely(documents_count()))
		check_documents(dst, src, kind);
	if (kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)
		return memcpy_buffered(call, s, dst, src, count);
	const core::endpoints e = core::translate_both(dst, src);
	if (core::is_pageable(e))
		return unallocated(e.dst) || unallocated(e.src) ? fail_unallocated(call, e, dst, src) :
								  memcpy_pageable(call, s, e, dst, src, count, kind);
	if (e.dst.cls == core::mem_class::host && e.src.cls == core::mem_class::host)
		return host_to_host(call);
	if (dst == src)
		return unallocated(e.dst) ? fail_unallocated(call, e, dst, src) : ACL_SUCCESS;
	if (owner_of(s) != current_now())
		return foreign_stream(call, stream);
	if (const aclError refused = check_peers(call, e))
		return refused;
	const noted_task task(s);
	const int err = core::copy_direct(s, e, dst, src, count);
	return likely(!err)        ? ACL_SUCCESS :
	       err == err_captured ? capture_copy(call, s, dst, src, count) :
				     copy_fault(call, err, e);
}

static inline __attribute__((always_inline)) aclError memcpy_async(const char *call, void *dst, size_t max,
								   const void *src, size_t count, u32 kind,
								   aclrtStream stream)
{
	if (unlikely(!count))
		return ACL_SUCCESS;
	if (unlikely(!dst || !src || kind > ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE))
		return bad_copy(call, dst, src, kind);
	const u64 cookie = try_cached(dst, max, src, count, kind, stream);
	if (unlikely(!cookie))
		return memcpy_checked(call, dst, max, src, count, kind, stream);
	note_copy(cookie);
	return ACL_SUCCESS;
}

/* Whether two ranges of host memory overlap. */
static bool overlap(const void *a, const void *b, size_t len)
{
	const u64 x = reinterpret_cast<u64>(a), y = reinterpret_cast<u64>(b);

	return x < y ? y - x < len : x - y < len;
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
			  aclrtStream stream)
{
	return memcpy_async(__func__, dst, destMax, src, count, kind, stream);
}

aclError aclrtMemcpyAsyncWithCondition(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
				       aclrtStream stream)
{
	return memcpy_async(__func__, dst, destMax, src, count, kind, stream);
}

aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind)
{
	int err;

	if (unlikely(!count))
		return ACL_SUCCESS;
	if (unlikely(!dst || !src || u32(kind) > ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE))
		return bad_copy(__func__, dst, src, kind);
	if (unlikely(count > destMax))
		return beyond(__func__, count, destMax);
	if (unlikely(dst == src))
		return ACL_SUCCESS;
	const context_guard c;
	if (unlikely(!c))
		return no_context(__func__);
	if (const aclError refused = capture_allows(__func__))
		return refused;
	if (unlikely(overlap(dst, src, count)) && core::translate(dst).cls != core::mem_class::device)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "dst %p and src %p overlap within %zu bytes", dst,
			     src, count);
	if (const aclError refused = check_peers(__func__, core::translate_both(dst, src)))
		return refused;
	err = core::copy_sync(c->dev, dst, src, count, deadline::never());
	return check(__func__, err, at::copy);
}

} // extern "C"
