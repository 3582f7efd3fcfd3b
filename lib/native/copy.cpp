/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API: copies and other work. */
#include "lib/core/copy/copy.h"

#include "lib/native/handles.h"

using namespace usdma;
using native::until_ms;

/* The public types have the values of core's. */
static_assert(USDMA_INT8 == int(dma::element::i8) && USDMA_UINT8 == int(dma::element::u8));
static_assert(USDMA_FLOAT16 == int(dma::element::f16) && USDMA_FLOAT64 == int(dma::element::f64));
static_assert(USDMA_SUM == int(dma::reduce_op::sum) && USDMA_PROD == int(dma::reduce_op::prod));
static_assert(USDMA_GEQ == int(dma::compare::geq) && USDMA_NOR == int(dma::compare::nor));

[[gnu::noinline]] static int copy_slow(usdma_stream *stream, void *dst, const void *src, size_t len)
{
	const core::stream_guard s(stream);

	return likely(s) ? core::copy_async(s, dst, src, len) : native::fail_guard("usdma_copy", "stream", s.error());
}

/* Fast path inside the read section; the slow path may block and runs outside it. */
static inline u64 try_cached(usdma_stream *stream, void *dst, const void *src, size_t len)
{
	const void *const cache = core::thread_here()->cache;
	const core::read_section in;
	core::stream *const s = likely(in) ? core::stream_find(stream) : nullptr;

	return likely(s) ? core::copy_fast(cache, s, dst, src, len, false) : 0;
}

int usdma_copy(usdma_stream *stream, void *dst, const void *src, size_t len)
{
	if (likely(try_cached(stream, dst, src, len)))
		return 0;
	const int slow = copy_slow(stream, dst, src, len);
	asm volatile(""); /* no tail call: reports of USDMA_CHECK=race find this call's frame */
	return slow;
}

int usdma_copy_sync(usdma_device *dev, void *dst, const void *src, size_t len, int timeout_ms)
{
	guard_device(d, dev);
	return core::copy_sync(d, dst, src, len, until_ms(timeout_ms));
}

int usdma_copy_batch(usdma_stream *stream, const struct usdma_copy_item *items, size_t n, size_t *done)
{
	size_t submitted = 0;

	if (done)
		*done = 0;
	guard_stream(s, stream);
	if (!n)
		return 0;
	need_pointer(items);
	const core::copy_list list(&items->dst, &items->src, &items->len, sizeof(*items));
	const int err = core::copy_submit(s, list, n, nullptr, &submitted);

	if (done)
		*done = err ? submitted : n;
	return err;
}

static int check_flags(const char *call, unsigned flags)
{
	return flags & ~unsigned(USDMA_NOWAIT) ? fail(EINVAL, "%s: there are no flags 0x%x", call, flags) : 0;
}

/* As try_cached(); the number, which needs the stream. */
static inline u64 try_numbered(usdma_stream *stream, void *dst, const void *src, size_t len)
{
	const void *const cache = core::thread_here()->cache;
	const core::read_section in;
	core::stream *const s = likely(in) ? core::stream_find(stream) : nullptr;
	const u64 cookie = likely(s) ? core::copy_fast(cache, s, dst, src, len, false) : 0;

	return likely(cookie) ? core::number_of_cookie(s, cookie) : 0;
}

static int submit_slow(usdma_stream *stream, void *dst, const void *src, size_t len, unsigned flags, u64 *number)
{
	const core::stream_guard s(stream);
	core::op_numbers numbers;

	numbers.may_wait = !(flags & USDMA_NOWAIT);
	if (unlikely(!s))
		return native::fail_guard("usdma_submit_copy", "stream", s.error());
	const int err = core::copy_async(s, dst, src, len, &numbers);
	*number = numbers.first;
	return err;
}

int usdma_submit_copy(usdma_stream *stream, void *dst, const void *src, size_t len, unsigned flags, uint64_t *sequence)
{
	if (const int err = check_flags(__func__, flags))
		return err;
	u64 number = try_numbered(stream, dst, src, len);
	const int err = likely(number) ? 0 : submit_slow(stream, dst, src, len, flags, &number);
	if (sequence)
		*sequence = number;
	return err;
}

int usdma_submit_batch(usdma_stream *stream, const struct usdma_copy_item *items, size_t n, unsigned flags,
		       size_t *done, uint64_t *sequence)
{
	core::op_numbers numbers = {n};
	size_t submitted = 0;

	numbers.may_wait = !(flags & USDMA_NOWAIT);
	if (done)
		*done = 0;
	if (sequence)
		*sequence = 0;
	guard_stream(s, stream);
	if (const int err = check_flags(__func__, flags))
		return err;
	if (!n)
		return 0;
	need_pointer(items);
	const core::copy_list list(&items->dst, &items->src, &items->len, sizeof(*items));
	const int err = core::copy_submit(s, list, n, nullptr, &submitted, &numbers);
	if (done)
		*done = err ? submitted : n;
	if (sequence)
		*sequence = numbers.first;
	return err;
}

static core::copy_rect rect_of(const struct usdma_copy_rect &r)
{
	return {r.dst, r.dst_pitch, r.src, r.src_pitch, r.width, r.height};
}

int usdma_copy_2d(usdma_stream *stream, const struct usdma_copy_rect *rect)
{
	guard_stream(s, stream);
	need_pointer(rect);
	return core::copy_2d_async(s, rect_of(*rect));
}

int usdma_copy_2d_sync(usdma_device *dev, const struct usdma_copy_rect *rect, int timeout_ms)
{
	guard_device(d, dev);
	need_pointer(rect);
	return core::copy_2d_sync(d, rect_of(*rect), until_ms(timeout_ms));
}

int usdma_fill(usdma_stream *stream, void *dst, uint64_t pattern, unsigned pattern_size, size_t len)
{
	guard_stream(s, stream);
	return core::fill_async(s, dst, pattern, pattern_size, len);
}

int usdma_fill_sync(usdma_device *dev, void *dst, uint64_t pattern, unsigned pattern_size, size_t len, int timeout_ms)
{
	guard_device(d, dev);
	return core::fill_sync(d, dst, pattern, pattern_size, len, until_ms(timeout_ms));
}

int usdma_reduce(usdma_stream *stream, void *dst, const void *src, size_t len, int element, int op)
{
	guard_stream(s, stream);
	if (element < 0 || element >= int(dma::element::count))
		return fail(EINVAL, "%s: there is no element type %d", __func__, element);
	if (op < USDMA_SUM || op > USDMA_PROD)
		return fail(EINVAL, "%s: there is no operation %d", __func__, op);
	return core::reduce_async(s, dst, src, len, dma::element(element), dma::reduce_op(op));
}

int usdma_write_value(usdma_stream *stream, void *dst, uint64_t value)
{
	guard_stream(s, stream);
	return core::write_value_async(s, dst, value);
}

int usdma_wait_value(usdma_stream *stream, const void *addr, int compare, uint64_t value)
{
	guard_stream(s, stream);
	if (compare < USDMA_GEQ || compare > USDMA_NOR)
		return fail(EINVAL, "%s: there is no comparison %d", __func__, compare);
	return core::wait_value_async(s, addr, dma::compare(compare), value);
}
