/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies by descriptor, copies by address cells, rectangles; reductions. */
#include "lib/acl/copy.h"
#include "lib/acl/capture.h"

#include <cstring>

namespace usdma::acl {

/* ---- descriptors ------------------------------------------------------------------------------------ */

/* Layout read by the device (docs/hardware.md). */
struct memcpy_desc {
	u32 reserved[2];
	u32 len_high, len_low;
	u64 src, dst;
};
static_assert(sizeof(memcpy_desc) == 32 && offsetof(memcpy_desc, len_low) == 12 && offsetof(memcpy_desc, src) == 16);

inline constexpr u64 desc_align = 64;
inline constexpr u64 most_desc = 4 * GiB;
inline constexpr u64 most_offset = 0xffffffffffff;
inline constexpr size_t most_width = 5000000, most_height = 5 * MiB;

static aclError check_desc_kind(const char *call, aclrtMemcpyKind kind)
{
	if (u32(kind) > ACL_MEMCPY_INTER_DEVICE_TO_DEVICE)
		return bad_arg(call, "kind %u is unknown", u32(kind));
	return ACL_SUCCESS;
}

static aclError check_desc_supported(const char *call, aclrtMemcpyKind kind)
{
	if (kind != ACL_MEMCPY_INNER_DEVICE_TO_DEVICE)
		return unsupported(call, "kind %u: descriptors are for INNER_DEVICE_TO_DEVICE (6)", u32(kind));
	return ACL_SUCCESS;
}

static bool on_device(const core::translation &p, unsigned slot)
{
	return p.cls == core::mem_class::device && p.size && p.slot == slot && !core::is_remote(p);
}

static aclError check_desc_address(const char *call, const void *desc)
{
	if (reinterpret_cast<u64>(desc) % desc_align)
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "desc %p is not aligned to 64 bytes", desc);
	if (core::forked())
		return no_context(call);
	const core::translation p = core::translate(desc);
	if (p.cls != core::mem_class::device || !p.size)
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "desc %p is not device memory", desc);
	return ACL_SUCCESS;
}

static aclError write_desc(const char *call, const context *c, void *desc, const void *src, const void *dst,
			   size_t count)
{
	const core::endpoints e = core::translate_both(dst, src);
	const unsigned slot = core::translate(desc).slot;
	memcpy_desc d{};

	/* Of any device: the runtime compares those of src and dst, and the engine of desc's device reads it. */
	if (!on_device(e.dst, slot) || !on_device(e.src, slot))
		return fault(call, ACL_ERROR_RT_PARAM_INVALID,
			     "desc %p, src %p and dst %p must all be memory of one device", desc, src, dst);
	d.len_high = u32(count >> 32);
	d.len_low = u32(count);
	d.src = e.src.dma;
	d.dst = e.dst.dma;
	return check(call, core::copy_sync(c->dev, desc, &d, sizeof(d), deadline::never()), at::copy);
}

/* Those of another device are read as its memory is copied; what they name is read when the copy runs. */
static aclError check_cells(const char *call, const core::stream *s, const core::endpoints &e)
{
	aclError err = ACL_SUCCESS;

	for (const core::translation &cell : {e.dst, e.src})
		if (!err && cell.cls == core::mem_class::device && cell.kind == core::region_kind::heap &&
		    cell.slot != s->dev->slot)
			err = check_peers(call, cell.slot, s->dev->slot);
	return err;
}

static int copy_cells(core::stream *s, void **dst, const void **src, size_t count, size_t dst_offset, size_t src_offset)
{
	int err = 0;

	for (size_t done = 0; done < count && !err; done += s->max_len)
		err = core::copy_cells_async(s, dst, src, count - done < s->max_len ? count - done : s->max_len,
					     dst_offset + done, src_offset + done);
	return err;
}

/* ---- rectangles ------------------------------------------------------------------------------------- */

static aclError check_rect(const char *call, const core::copy_rect &r, u32 kind)
{
	if (!r.dst || !r.src)
		return bad_arg(call, "%s is NULL", r.dst ? "src" : "dst");
	if (r.width > r.src_pitch || r.width > r.dst_pitch)
		return bad_arg(call, "width %llu is more than a pitch", static_cast<unsigned long long>(r.width));
	if (kind < ACL_MEMCPY_HOST_TO_DEVICE || kind > ACL_MEMCPY_DEFAULT)
		return bad_arg(call, "kind %u is invalid for this call", kind);
	return ACL_SUCCESS;
}

/* Checks the kind against the classes; DEFAULT fits all but host to host. */
static aclError check_rect_kind(const char *call, const core::copy_rect &r, u32 kind)
{
	const core::endpoints e = core::translate_both(r.dst, r.src);
	const bool to = e.dst.cls == core::mem_class::device, from = e.src.cls == core::mem_class::device;
	const u32 found = to && from ? ACL_MEMCPY_DEVICE_TO_DEVICE :
			  to         ? ACL_MEMCPY_HOST_TO_DEVICE :
			  from       ? ACL_MEMCPY_DEVICE_TO_HOST :
				       ACL_MEMCPY_HOST_TO_HOST;

	if (found == ACL_MEMCPY_HOST_TO_HOST || (kind != ACL_MEMCPY_DEFAULT && kind != found))
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "kind %u does not fit the memory of dst %p and src %p",
			     kind, r.dst, r.src);
	return check_peers(call, e);
}

static aclError check_rect_size(const char *call, const core::copy_rect &r)
{
	if (r.width > most_width || r.height > most_height)
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "%llu bytes in %llu rows: the most is %zu in %zu",
			     static_cast<unsigned long long>(r.width), static_cast<unsigned long long>(r.height),
			     most_width, most_height);
	return ACL_SUCCESS;
}

/* ---- reductions ------------------------------------------------------------------------------------- */

struct reduce_type {
	aclDataType type;
	bool native; /* supported by the engine */
	dma::element element;
};

static constexpr reduce_type reduce_types[] = {
	{ACL_FLOAT, true, dma::element::f32},  {ACL_FLOAT16, true, dma::element::f16},
	{ACL_BF16, true, dma::element::bf16},  {ACL_INT8, true, dma::element::i8},
	{ACL_INT16, true, dma::element::i16},  {ACL_INT32, true, dma::element::i32},
	{ACL_UINT8, true, dma::element::u8},   {ACL_UINT16, true, dma::element::u16},
	{ACL_UINT32, true, dma::element::u32}, {ACL_INT4, false, dma::element::i8},
};

static const reduce_type *find_type(aclDataType type)
{
	for (const reduce_type &t : reduce_types)
		if (t.type == type)
			return &t;
	return nullptr;
}

static dma::reduce_op op_of(aclrtReduceKind kind)
{
	switch (kind) {
	case ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX:
		return dma::reduce_op::max;
	case ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN:
		return dma::reduce_op::min;
	case ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL:
		return dma::reduce_op::equal;
	default:
		return dma::reduce_op::sum;
	}
}

static aclError check_reduce(const char *call, const void *dst, const void *src, u64 count, aclrtReduceKind kind,
			     const reduce_type &t)
{
	const u64 size = dma::element_size(t.element);

	if (!count || kind < ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM || kind > ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL ||
	    (kind == ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM && count > 4 * GiB))
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "count %llu is 0 or too large, or kind %d is unknown",
			     static_cast<unsigned long long>(count), kind);
	if (!t.native || !size)
		return unsupported(call, "type %d: the engine does not support this reduction", t.type);
	if ((reinterpret_cast<u64>(dst) | reinterpret_cast<u64>(src)) % size)
		return fault(call, ACL_ERROR_RT_ADDR_UNALIGNED,
			     "dst %p or src %p is not aligned to the element of %llu bytes", dst, src,
			     static_cast<unsigned long long>(size));
	const core::endpoints e = core::translate_both(dst, src);
	if (e.dst.cls != core::mem_class::device || e.src.cls != core::mem_class::device)
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "dst %p and src %p must be device memory", dst, src);
	return check_peers(call, e);
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclrtGetMemcpyDescSize(aclrtMemcpyKind kind, size_t *descSize)
{
	if (!descSize)
		return bad_arg(__func__, "descSize is NULL");
	aclError err = check_desc_kind(__func__, kind);
	if (!err)
		err = check_desc_supported(__func__, kind);
	if (!err)
		*descSize = sizeof(memcpy_desc);
	return err;
}

aclError aclrtSetMemcpyDesc(void *desc, aclrtMemcpyKind kind, void *srcAddr, void *dstAddr, size_t count, void *config)
{
	aclError err;

	if (!desc || !srcAddr || !dstAddr || !count || config)
		return bad_arg(__func__, "desc, srcAddr or dstAddr is NULL, count is 0, or config is not NULL");
	err = check_desc_kind(__func__, kind);
	if (!err)
		err = check_desc_supported(__func__, kind);
	if (err)
		return err;
	if (count > most_desc)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "count %zu is more than 4 GiB", count);
	err = check_desc_address(__func__, desc);
	if (err)
		return err;
	const context_guard c;
	return c ? write_desc(__func__, c.get(), desc, srcAddr, dstAddr, count) : no_context(__func__);
}

aclError aclrtMemcpyAsyncWithDesc(void *desc, aclrtMemcpyKind kind, aclrtStream stream)
{
	stream_guard s;
	aclError err;

	if (unlikely(!desc || !stream))
		return bad_arg(__func__, "%s is NULL", desc ? "stream" : "desc");
	err = check_desc_kind(__func__, kind);
	if (unlikely(err))
		return err;
	if (unlikely(!stream_live(stream)))
		return bad_stream(__func__, stream);
	err = check_desc_supported(__func__, kind);
	if (!err)
		err = check_desc_address(__func__, desc);
	if (!err)
		err = get_stream(__func__, stream, &s);
	if (unlikely(err))
		return err;
	if (!on_device(core::translate(desc), s->dev->slot))
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "desc %p is not memory of the stream's device",
			     desc);
	const noted_task task(s);
	return submit(__func__, s, [=](core::stream *to) { return core::copy_indirect_async(to, desc); },
		      {{desc, sizeof(memcpy_desc)}});
}

aclError aclrtMemcpyAsyncWithOffset(void **dst, size_t destMax, size_t dstDataOffset, const void **src, size_t count,
				    size_t srcDataOffset, aclrtMemcpyKind kind, aclrtStream stream)
{
	stream_guard s;
	aclError err;

	if (!count)
		return ACL_SUCCESS;
	if (kind != ACL_MEMCPY_INNER_DEVICE_TO_DEVICE || !dst || !src || dstDataOffset > most_offset ||
	    srcDataOffset > most_offset || dstDataOffset >= destMax || count > destMax - dstDataOffset)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID,
			     "kind %u is not INNER_DEVICE_TO_DEVICE, a cell is NULL, or %zu bytes at offset %zu leave "
			     "destMax %zu",
			     u32(kind), count, dstDataOffset, destMax);
	err = get_stream(__func__, stream, &s);
	if (!err)
		err = check_cells(__func__, s, core::translate_both(dst, src));
	if (err)
		return err;
	const noted_task task(s);
	return submit(__func__, s,
		      [=](core::stream *to) { return copy_cells(to, dst, src, count, dstDataOffset, srcDataOffset); },
		      {{dst, sizeof(*dst)}, {src, sizeof(*src)}});
}

aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
		       aclrtMemcpyKind kind)
{
	const core::copy_rect r{dst, dpitch, src, spitch, width, height};
	aclError err;

	if (!width || !height)
		return ACL_SUCCESS;
	err = check_rect(__func__, r, u32(kind));
	if (!err)
		err = check_rect_size(__func__, r);
	if (err)
		return err;
	const context_guard c;
	if (!c)
		return no_context(__func__);
	err = check_rect_kind(__func__, r, u32(kind));
	if (!err)
		err = capture_allows(__func__);
	if (err)
		return err;
	const core::endpoints e = core::translate_both(dst, src);
	if (e.dst.cls == e.src.cls && e.dst.cls == core::mem_class::device)
		return unsupported(__func__, "device to device: use aclrtMemcpy2dAsync");
	return check(__func__, core::copy_2d_sync(c->dev, r, deadline::never()), at::copy);
}

aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
			    aclrtMemcpyKind kind, aclrtStream stream)
{
	const core::copy_rect r{dst, dpitch, src, spitch, width, height};
	stream_guard s;
	aclError err;

	if (!width || !height)
		return ACL_SUCCESS;
	err = check_rect(__func__, r, u32(kind));
	if (err)
		return err;
	if (stream && !stream_live(stream))
		return bad_stream(__func__, stream);
	err = check_rect_size(__func__, r);
	if (!err && !has_context())
		err = no_context(__func__);
	if (!err)
		err = check_rect_kind(__func__, r, u32(kind));
	if (!err)
		err = get_stream(__func__, stream, &s);
	if (!err && core::is_pageable(core::translate_both(dst, src)))
		err = capture_allows_pageable(__func__, s);
	if (err)
		return err;
	const noted_task task(s);
	return submit(__func__, s, [=](core::stream *to) { return core::copy_2d_async(to, r); },
		      {{dst, dpitch * (height - 1) + width}, {src, spitch * (height - 1) + width}});
}

aclError aclrtReduceAsync(void *dst, const void *src, uint64_t count, aclrtReduceKind kind, aclDataType type,
			  aclrtStream stream, void *reserve)
{
	const reduce_type *t = find_type(type);
	stream_guard s;
	aclError err;

	if (!dst || !src || reserve)
		return bad_arg(__func__, "dst or src is NULL, or reserve is not NULL");
	if (!t)
		return bad_arg(__func__, "type %d is not one for reductions", type);
	if (stream && !stream_live(stream))
		return bad_stream(__func__, stream);
	err = check_reduce(__func__, dst, src, count, kind, *t);
	if (!err)
		err = get_stream(__func__, stream, &s);
	if (err)
		return err;
	const noted_task task(s);
	return submit(
		__func__, s,
		[=](core::stream *to) { return core::reduce_async(to, dst, src, count, t->element, op_of(kind)); },
		{{dst, count}, {src, count}});
}

} // extern "C"
