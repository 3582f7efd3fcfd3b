/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies that the engine cannot do directly: pageable memory through staging buffers, and between devices. */
#include "lib/core/copy/internal.h"

#include "driver/base/cancel.h"
#include "driver/copy/copy.h"
#include "driver/base/error.h"
#include "lib/core/copy/staging.h"
#include "lib/core/stream/task.h"
#include "lib/core/queue/wait.h"

#include <cinttypes>
#include <cstring>

namespace usdma::core {

/* ---- parts ------------------------------------------------------------------------------------------ */

static race_use nth_of(const void *arg, size_t i)
{
	return static_cast<const race_use *>(arg)[i];
}

/* Accesses of the CPU, by USDMA_CHECK=race. device: also those to device memory. */
static void check_cpu(const endpoints &e, u64 len, bool device)
{
	race_use all[2] = {};

	if (likely(!race_on()))
		return;
	for (const bool writes : {false, true}) {
		const translation &p = writes ? e.dst : e.src;

		if (p.cls != mem_class::unregistered && (device || is_host(p)))
			all[writes] = {reinterpret_cast<const void *>(p.dma - p.delta), len, writes};
	}
	race().access({.what = "copy by the CPU", .n = 2, .use = nth_of, .arg = all});
}

static int submit_piece(stream *s, void *dst, const void *src, u64 n, u64 *seq, u8 flags = 0)
{
	const int err = copy_direct(s, translate_both(dst, src), dst, src, n, flags);

	*seq = s->last; /* an internal stream has no other submitter */
	return err;
}

/* After a failed transfer the buffer holds stale data, which must not be copied to the caller. */
static int wait_piece(stream *s, u64 seq, deadline until)
{
	const int err = hwq_wait(s->ln, seq, until, stream_wait_mode(s));

	return err ? err : stream_take_error(s, nullptr);
}

/* Fills a staging buffer, which the engine reads next. nt: non-temporal stores. */
static int fill(u8 *mem, const u8 *src, u64 n, bool nt)
{
	const copy_tuning &t = copy_for_cpu();

	return touch({mem, n}, {src, n}, [&] {
		if (nt && n >= t.probe_min)
			t.stream(mem, src, n);
		else
			copy_bytes(t, mem, src, n, cache_hint::keep);
	});
}

/* Host → device: fill a buffer while the engine reads the ones before it. */
static int stage_in(stream *s, staging &st, bool nt, u8 *dst, const u8 *src, u64 len, deadline until)
{
	int err = 0;

	for (u64 off = 0, i = 0; off < len && !err; off += st.chunk, i++) {
		staging::buffer &b = st.at(i);
		const u64 n = std::min(len - off, st.chunk);

		err = b.busy ? wait_piece(s, b.seq, until) : 0;
		if (err)
			break;
		err = fill(b.mem, src + off, n, nt);
		if (err)
			break;
		err = submit_piece(s, dst + off, b.mem, n, &b.seq);
		b.busy = true;
	}
	return err;
}

/* Copies a staging buffer out. For long copies the destination is not in the caches. */
static int empty(u8 *dst, const u8 *mem, u64 n)
{
	const copy_tuning &t = copy_for_cpu();

	return touch({dst, n}, {mem, n}, [&] { (n < t.probe_min ? t.medium : t.stream)(dst, mem, n); });
}

/* Device → host: keep all buffers in flight, copy them out in order. */
static int stage_out(stream *s, staging &st, bool nt, u8 *dst, const u8 *src, u64 len, deadline until)
{
	const u8 flags = nt ? u8(0) : u8(dma::flag_cache);
	u64 requested = 0;
	int err = 0;

	if (!st.count)
		return fail(ENOMEM, "no staging buffer for a pageable copy");
	for (u64 i = 0; i < st.count && requested < len && !err; i++) {
		const u64 n = std::min(len - requested, st.chunk);

		err = submit_piece(s, st.at(i).mem, src + requested, n, &st.at(i).seq, flags);
		requested += n;
	}
	for (u64 off = 0, i = 0; off < len && !err; off += st.chunk, i++) {
		staging::buffer &b = st.at(i);

		err = wait_piece(s, b.seq, until);
		if (err)
			break;
		err = empty(dst + off, b.mem, std::min(len - off, st.chunk));
		if (err || requested >= len)
			continue;
		const u64 n = std::min(len - requested, st.chunk);
		err = submit_piece(s, b.mem, src + requested, n, &b.seq, flags);
		requested += n;
	}
	return err;
}

/*
 * Device → another device through the host, in pieces; src_buf: written by the source's device, dst_buf: read
 * by the destination's, may be the same.
 */
static int relay(stream *from, stream *to, u8 *src_buf, u8 *dst_buf, u64 chunk, u8 *dst, const u8 *src, u64 len,
		 deadline until)
{
	int err = 0;
	u64 seq;

	for (u64 off = 0; off < len && !err; off += chunk) {
		const u64 n = std::min(len - off, chunk);

		err = submit_piece(from, src_buf, src + off, n, &seq);
		if (!err)
			err = stream_sync(from, until);
		if (!err && src_buf != dst_buf)
			memcpy(dst_buf, src_buf, n);
		if (!err)
			err = submit_piece(to, dst + off, dst_buf, n, &seq);
		if (!err)
			err = stream_sync(to, until);
	}
	return err;
}

/* ---- the paths --------------------------------------------------------------------------------------- */

/*
 * Whether the buffers of a copy of len bytes are written with non-temporal stores. A copy that fits in the
 * buffers uses cached stores, as its data are read next.
 */
static bool nontemporal(const staging &st, u64 len)
{
	return len > st.chunk * st.count;
}

/*
 * Completes a copy, successful or not. The buffers return to the pool only if the engine is done with them, not
 * if this wait fails (device lost, timeout).
 */
static int drain(stream *s, staging *st, deadline until)
{
	const int late = stream_wait(s, until), err = stream_take_error(s, nullptr);

	if (!late && st)
		st->drained();
	return late ? late : err;
}

static int move_staged(const endpoints &e, u8 *dst, const u8 *src, u64 len, deadline until)
{
	const bool in = is_host(e.src);
	internal_stream s(in ? e.dst.slot : e.src.slot, until);
	int err, end;

	if (s.error())
		return s.error();
	check_cpu(e, len, false);
	staging st(len, s.get()->dev);
	if (st.error())
		return st.error();
	const bool nt = nontemporal(st, len);
	err = in ? stage_in(s.get(), st, nt, dst, src, len, until) : stage_out(s.get(), st, nt, dst, src, len, until);
	end = drain(s.get(), &st, until);
	return err ? err : end;
}

static int move_between(const endpoints &e, u8 *dst, const u8 *src, u64 len, deadline until)
{
	internal_stream from(e.src.slot, until), to(e.dst.slot, until);

	if (from.error() || to.error())
		return from.error() ? from.error() : to.error();
	/* If one of the devices is isolated, each needs its own buffer. */
	const bool apart = from.get()->dev->host_reach != to.get()->dev->host_reach;
	staging out(1, from.get()->dev), in(apart, to.get()->dev);
	if (out.error() || in.error())
		return out.error() ? out.error() : in.error();
	u8 *const src_buf = out.at(0).mem, *const dst_buf = apart ? in.at(0).mem : src_buf;
	const int err = relay(from.get(), to.get(), src_buf, dst_buf, out.chunk, dst, src, len, until);
	const int end_from = drain(from.get(), apart ? &out : nullptr, until);
	const int end_to = drain(to.get(), apart ? &in : end_from ? nullptr : &out, until);
	return err ? err : end_from ? end_from : end_to;
}

/* Waits for what submit() submits to an internal stream. */
template <class F> static int run_sync(unsigned slot, deadline until, const F &submit)
{
	internal_stream s(slot, until);

	if (s.error())
		return s.error();
	const int err = submit(s.get()), end = drain(s.get(), nullptr, until);
	return err ? err : end;
}

static int move_direct(const endpoints &e, void *dst, const void *src, u64 len, deadline until)
{
	return run_sync(is_host(e.dst) ? e.src.slot : e.dst.slot, until,
			[&](stream *s) { return copy_direct(s, e, dst, src, len); });
}

/* -ENODEV if the memory belongs to a lost device. */
static int check_present(const translation &p)
{
	if (is_host(p))
		return 0;
	const slot_guard dev(p.slot);
	return dev && dev->lost() ?
		       fail(ENODEV, "device %u (%s), which owns the memory, was lost", dev->slot, dev->spec.c_str()) :
		       0;
}

int check_device_sides(const endpoints &e, const void *dst, const void *src, u64 len)
{
	int err = 0;

	if (!is_host(e.dst))
		err = check_range(e.dst, reinterpret_cast<u64>(dst), len, "destination");
	if (!err && !is_host(e.src))
		err = check_range(e.src, reinterpret_cast<u64>(src), len, "source");
	if (!err)
		err = check_present(e.dst);
	return err ? err : check_present(e.src);
}

/* The destination's engine can access the source's memory directly. */
static bool peers(const endpoints &e)
{
	const slot_guard dev(e.dst.slot);
	translation p = e.src;

	return dev && !peer_translate(dev.get(), &p);
}

/* Both sides belong to one device, or to a device and host memory that it can access. */
static bool within_reach(const endpoints &e)
{
	if (is_host(e.dst) || is_host(e.src))
		return is_host(e.dst) ? slot_reaches(e.src.slot) & e.dst.reach : slot_reaches(e.dst.slot) & e.src.reach;
	return e.dst.slot == e.src.slot || peers(e);
}

static bool is_short(const endpoints &e, u64 len)
{
	return len <= config_get().direct_store_max && (is_host(e.dst) || is_host(e.src));
}

/* By the engine. */
static int move_by_engine(const endpoints &e, u8 *dst, const u8 *src, u64 len, deadline until)
{
	if (within_reach(e))
		return move_direct(e, dst, src, len, until);
	return is_host(e.dst) || is_host(e.src) ? move_staged(e, dst, src, len, until) :
						  move_between(e, dst, src, len, until);
}

/*
 * Holds both sides for a copy, so that what is freed meanwhile does not become other memory at the same address.
 * Unregistered memory is what it is now.
 */
static int hold_sides(memory_hold *held, endpoints *e, const void *dst, const void *src)
{
	int err;

	while ((err = held->take(e->dst, e->src)) == stale && (err = check_freed(*e)) == stale)
		*e = translate_both(dst, src);
	return err;
}

/* Looked up once more in parts: what is freed meanwhile stops it. */
[[gnu::cold]] static int move_remote(const endpoints &e, void *dst, const void *src, u64 len, deadline until)
{
	int err = check_device_sides(e, dst, src, len);

	if (!err)
		err = check_writable(e.dst, dst);
	return err || !len ? err : remote_run(e, remote_copy_of(dst, src, len), until);
}

/* Copies between any memory; synchronous, except on -ETIMEDOUT. */
static int move(endpoints e, void *dst, const void *src, u64 len, deadline until)
{
	const copy_item one = {dst, src, len};
	u8 *const to = static_cast<u8 *>(dst);
	const u8 *const from = static_cast<const u8 *>(src);
	memory_hold held;
	int err;

	if (unlikely(is_remote(e)))
		return move_remote(e, dst, src, len, until);
	if (is_pageable(e) && copy_group_by_cpu(&one, 1, len, nullptr))
		return 0;
	err = hold_sides(&held, &e, dst, src);
	if (!err)
		err = check_device_sides(e, dst, src, len);
	if (!err)
		err = check_writable(e.dst, dst);
	if (err || !len)
		return err;
	if (is_host(e.dst) && is_host(e.src)) {
		check_cpu(e, len, true);
		return touch({dst, len}, {src, len}, [&] { memmove(dst, src, len); });
	}
	if (is_short(e, len) || !within_reach(e)) {
		err = copy_by_cpu(to, from, len, until);
		if (!err)
			check_cpu(e, len, true);
		if (err <= 0)
			return err;
	}
	return move_by_engine(e, to, from, len, until);
}

int sync_before(stream *s, deadline until)
{
	const int err = stream_is_captured(s) ? 0 : stream_wait(s, until);

	memory_reclaim();
	return err ? err : stream_refuses(s);
}

int copy_pageable(stream *s, void *dst, const void *src, u64 len)
{
	const int err = sync_before(s, deadline::never());

	/* Looked up after the wait: what ran meanwhile may have mapped other memory there. */
	return err ? err : move(translate_both(dst, src), dst, src, len, deadline::never());
}

int copy_sync(device *dev, void *dst, const void *src, u64 len, deadline until)
{
	const no_cancel scope;

	if (forked())
		return fail_forked();
	if (dev->lost())
		return fail_lost(dev);
	return move(translate_both(dst, src), dst, src, len, until);
}

int copy_staged(stream *s, void *dst, const void *src, u64 len)
{
	void *mem;
	int err;

	if (!len)
		return 0;
	err = host_alloc(len, -1, &mem, s->dev);
	if (err)
		return err;
	endpoints e = translate_both(dst, src);
	memory_hold held;
	err = hold_sides(&held, &e, dst, src);
	if (!err)
		err = touch({src, len}, {}, [&] { memcpy(mem, src, len); });
	if (!err)
		err = copy_direct(s, translate_both(dst, mem), dst, mem, len);
	/* Deferred by host_free() until the engine has done the copy. */
	host_free(mem);
	return err;
}

/* ---- rectangles ------------------------------------------------------------------------------------- */

static int copy_rows(u8 *dst, u64 dst_pitch, const u8 *src, u64 src_pitch, u64 width, u64 rows)
{
	return touch({dst, rows * dst_pitch}, {src, rows * src_pitch}, [&] {
		for (u64 r = 0; r < rows; r++)
			memcpy(dst + r * dst_pitch, src + r * src_pitch, width);
	});
}

/* Copies rows that fit in a staging buffer, packed. */
static int rows_through(stream *s, u8 *mem, const endpoints &e, const copy_rect &c, deadline until)
{
	const auto device_rows = [&](const copy_rect &r) {
		const int err = copy_2d_reached(s, r), end = drain(s, nullptr, until);

		return err ? err : end;
	};
	int err = 0;

	if (is_host(e.src)) {
		err = copy_rows(mem, c.width, static_cast<const u8 *>(c.src), c.src_pitch, c.width, c.height);
		return err ? err : device_rows({c.dst, c.dst_pitch, mem, c.width, c.width, c.height});
	}
	err = device_rows({mem, c.width, c.src, c.src_pitch, c.width, c.height});
	return err ? err : copy_rows(static_cast<u8 *>(c.dst), c.dst_pitch, mem, c.width, c.width, c.height);
}

static copy_rect rows_of(const copy_rect &c, u64 first, u64 rows)
{
	return {static_cast<u8 *>(c.dst) + first * c.dst_pitch,
		c.dst_pitch,
		static_cast<const u8 *>(c.src) + first * c.src_pitch,
		c.src_pitch,
		c.width,
		rows};
}

/* The next rows in one step, if they are short copies by the CPU; returns how many. */
static u64 rows_by_cpu(const copy_rect &c, u64 first)
{
	static constexpr u64 rows_most = 64, bytes_most = 128 * KiB;
	const u64 n = std::min(std::clamp<u64>(bytes_most / c.width, 1, rows_most), c.height - first);
	copy_item rows[rows_most];

	for (u64 i = 0; i < n; i++) {
		const copy_rect r = rows_of(c, first + i, 1);

		rows[i] = {r.dst, r.src, r.width};
	}
	return copy_group_by_cpu(rows, n, c.width * c.height, nullptr);
}

static int move_each_row(const endpoints &e, const copy_rect &c, deadline until)
{
	const bool in_groups = is_pageable(e) && is_host(e.dst) != is_host(e.src);
	int err = 0;

	for (u64 i = 0, done; i < c.height && !err; i += done) {
		if (i && until.passed())
			return fail(ETIMEDOUT, "a copy of %" PRIu64 " rows: %" PRIu64 " were copied in time", c.height,
				    i);
		done = in_groups ? rows_by_cpu(c, i) : 0;
		if (done)
			continue;
		const copy_rect r = rows_of(c, i, 1);
		err = move(translate_both(r.dst, r.src), r.dst, r.src, r.width, until);
		done = 1;
	}
	return err;
}

static int move_rows(endpoints e, const copy_rect &c, deadline until)
{
	const u64 rows = staging_chunk / c.width;
	memory_hold held;
	int err = hold_sides(&held, &e, c.dst, c.src);

	if (!err)
		err = check_writable(e.dst, c.dst);
	if (err)
		return err;
	if (is_remote(e))
		return remote_run(e, {.rect = c, .n = c.height}, until);
	if (!rows || is_host(e.dst) == is_host(e.src) || is_by_cpu(e))
		return move_each_row(e, c, until);
	internal_stream s(is_host(e.src) ? e.dst.slot : e.src.slot, until);
	if (s.error())
		return s.error();
	staging st(1, s.get()->dev);
	if (st.error())
		return st.error();
	for (u64 i = 0; i < c.height && !err; i += rows)
		err = rows_through(s.get(), st.at(0).mem, e, rows_of(c, i, std::min(rows, c.height - i)), until);
	const int end = drain(s.get(), &st, until);
	return err ? err : end;
}

int copy_2d_rows(stream *s, const endpoints &e, const copy_rect &c, deadline until)
{
	const int err = sync_before(s, until);

	return err ? err : move_rows(e, c, until);
}

int copy_2d_sync(device *dev, const copy_rect &c, deadline until)
{
	const no_cancel scope;

	return forked() ? fail_forked() : run_sync(dev->slot, until, [&](stream *s) { return copy_2d_async(s, c); });
}

/* ---- fills ------------------------------------------------------------------------------------------ */

int fill_sync(device *dev, void *dst, u64 pattern, unsigned pattern_size, u64 len, deadline until)
{
	const no_cancel scope;
	const translation p = translate(dst);

	if (forked())
		return fail_forked();
	if (dev->lost())
		return fail_lost(dev);
	if (const int err = check_pattern(pattern_size, len))
		return err;
	if (is_host(p))
		return fill_host(dst, pattern, pattern_size, len);
	if (const int err = check_present(p))
		return err;
	if (is_remote(p)) {
		const int err = check_range(p, reinterpret_cast<u64>(dst), len, "destination");

		return err || !len ? err : remote_run({p, p}, remote_fill_of(dst, pattern, pattern_size, len), until);
	}
	return run_sync(p.slot, until, [&](stream *s) { return fill_async(s, dst, pattern, pattern_size, len); });
}

} // namespace usdma::core
