/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/share/remote_copy.h"

#include "lib/core/stream/guard.h"
#include "lib/share/vmm_internal.h"

#include <algorithm>

namespace usdma::core {

static constexpr u64 fill_part = 16 * MiB; /* net/wire.h */

/* ---- memory ------------------------------------------------------------------------------------------------ */

void remote_part::drop()
{
	if (p_)
		physical_leave(std::exchange(p_, nullptr));
}

int remote_part::find(const void *at)
{
	drop();
	if (const int err = vmm_find(reinterpret_cast<u64>(at), &p_, &offset, &left))
		return err == -ENOENT ? fail(EFAULT, "%p was unmapped while a copy used it", at) : err;
	return p_->remote.by ? 0 : fail(EFAULT, "%p was mapped anew while a copy used it", at);
}

helper *remote_part::by() const
{
	return p_->remote.by;
}

u64 remote_part::id() const
{
	return p_->remote.id;
}

/* ---- pieces ------------------------------------------------------------------------------------------------- */

copy_item transfer::item_at(u64 i) const
{
	if (w.items)
		return w.items[i];
	return {static_cast<u8 *>(w.rect.dst) + i * w.rect.dst_pitch,
		static_cast<const u8 *>(w.rect.src) + i * w.rect.src_pitch, w.rect.width};
}

void transfer::fails(int e, u64 in, u64 offset)
{
	if (err || !e)
		return;
	err = e;
	failed_item = in;
	failed_at = offset;
	why = saved_error();
}

static bool is_fill(const transfer &t)
{
	return t.w.pattern_size;
}

static u8 *dst_of(const transfer &t, const remote_piece &c)
{
	return static_cast<u8 *>(t.item_at(c.item).dst) + c.at;
}

static const u8 *src_of(const transfer &t, const remote_piece &c)
{
	return static_cast<const u8 *>(t.item_at(c.item).src) + c.at;
}

/* Between this process's memory and a slot's. */
static int copy_local(const transfer &t, void *dst, const void *src, u64 n)
{
	const slot_guard dev(t.slot);

	return dev ? as_failure(copy_sync(dev.get(), dst, src, n, t.until)) :
		     fail(EBADF, "device %u was closed", t.slot);
}

static helper_op op_of(const transfer &t, piece_step step)
{
	return is_fill(t) ? helper_op::fill : step == piece_step::comes ? helper_op::get : helper_op::put;
}

static int post_piece(const transfer &t, remote_piece *c, piece_step step)
{
	const remote_part &side = step == piece_step::comes ? c->src : c->dst;

	c->step = step;
	if (step == piece_step::goes && !is_fill(t) && !c->src.found())
		if (const int err = copy_local(t, helper_memory_of(t.by, c->slot), src_of(t, *c), c->n))
			return err;
	const unsigned part = c->n == 1 && t.w.pattern_size ? c->at % t.w.pattern_size : 0;
	return helper_post(t.by, c->slot, op_of(t, step), side.id(), side.offset, c->n, t.w.pattern >> part * 8,
			   std::min<u32>(t.w.pattern_size, u32(c->n)));
}

static int find_side(const transfer &t, remote_part *side, const void *at, u64 *n)
{
	if (!is_remote(translate(at)))
		return 0;
	if (const int err = side->find(at))
		return err;
	*n = std::min(*n, side->left);
	return side->by() == t.by ? 0 :
				    fail(ECONNRESET, "usdma-net has ended since a part of this memory was imported");
}

/* A piece of a fill has whole patterns; one across the border of two imports goes byte by byte. */
static u64 fill_length(const transfer &t, const remote_piece &c)
{
	const u64 whole = c.n - c.n % t.w.pattern_size;

	return c.at % t.w.pattern_size || !whole ? 1 : whole;
}

/* The next piece: up to the end of what is mapped as one. */
static int find_piece(const transfer &t, remote_piece *c)
{
	c->item = t.item;
	c->at = t.at;
	c->n = std::min(t.item_at(t.item).len - t.at, is_fill(t) ? fill_part : helper_part);
	int err = find_side(t, &c->dst, dst_of(t, *c), &c->n);
	if (!err && !is_fill(t))
		err = find_side(t, &c->src, src_of(t, *c), &c->n);
	else if (!err)
		c->n = fill_length(t, *c);
	if (!err && !c->dst.found() && !c->src.found())
		err = fail(EFAULT, "memory was unmapped while a copy used it");
	return err;
}

static void end_piece(remote_piece *c)
{
	c->dst.drop();
	c->src.drop();
	c->slot = -1;
}

/* Writes that were left could destroy newer data. */
static bool is_clear(const transfer &t, const remote_piece &c)
{
	return (!c.dst.found() || helper_is_clear(t.by, c.dst.id())) &&
	       (!c.src.found() || helper_is_clear(t.by, c.src.id()));
}

static void skip_empty(transfer *t)
{
	while (t->item < t->w.n && t->at == t->item_at(t->item).len) {
		t->item++;
		t->at = 0;
	}
}

/* False: there is no slot for it now. */
static bool start_piece(transfer *t)
{
	remote_piece *const c = &t->nth(t->n);
	int err = find_piece(*t, c);

	c->slot = err || !is_clear(*t, *c) ? -1 : helper_take(t->by, t->n);
	if (!err && c->slot < 0) {
		end_piece(c);
		return false;
	}
	if (!err)
		err = post_piece(*t, c, c->src.found() ? piece_step::comes : piece_step::goes);
	if (err) {
		t->fails(err, c->item, c->at);
		if (c->slot >= 0)
			helper_give(t->by, c->slot);
		end_piece(c);
		return true;
	}
	t->at += c->n;
	t->n++;
	skip_empty(t);
	return true;
}

/* What comes after the request of the first piece. True: it has another one. */
static bool go_on(transfer *t, remote_piece *c)
{
	int err = helper_result(t->by, c->slot);

	if (!err && !t->err && !t->cancelled && c->step == piece_step::comes) {
		if (c->dst.found()) {
			err = post_piece(*t, c, piece_step::goes);
			if (!err)
				return true;
		} else
			err = copy_local(*t, dst_of(*t, *c), helper_memory_of(t->by, c->slot), c->n);
	}
	t->fails(err, c->item, c->at);
	return false;
}

/* ---- all of it ---------------------------------------------------------------------------------------------- */

int transfer_begin(transfer *t)
{
	remote_part any;
	const copy_item i = t->item_at(0);

	if (const int err = any.find(is_remote(translate(i.dst)) ? i.dst : i.src))
		return err;
	t->by = any.by();
	helper_ref(t->by);
	skip_empty(t);
	return 0;
}

/* In order, so that nothing behind a failure changes here. */
bool transfer_step(transfer *t)
{
	bool moved = false;

	while (t->n && helper_is_done(t->by, t->nth(0).slot)) {
		remote_piece *const c = &t->nth(0);

		moved = true;
		if (go_on(t, c))
			continue;
		helper_give(t->by, c->slot);
		end_piece(c);
		t->first = (t->first + 1) % pieces_most;
		t->n--;
	}
	while (!t->err && !t->cancelled && t->item < t->w.n && t->n < pieces_most && start_piece(t))
		moved = true;
	return moved;
}

bool transfer_is_over(const transfer &t)
{
	return !t.n && (t.err || t.cancelled || t.item >= t.w.n);
}

void transfer_leave(transfer *t)
{
	for (; t->n; t->n--) {
		remote_piece *const c = &t->nth(t->n - 1);

		helper_leave(t->by, c->slot, c->step == piece_step::goes ? c->dst.id() : 0);
		end_piece(c);
	}
}

static int fail_transfer(const transfer &t)
{
	return t.err ? t.why.again(t.err) : 0;
}

int transfer_run(transfer *t)
{
	helper_pulse pulse;

	while (!transfer_is_over(*t)) {
		const u32 rings = helper_rings(t->by);

		if (transfer_step(t))
			continue;
		const int err = helper_wait(t->by, rings, &pulse, t->until);
		if (!err)
			continue;
		transfer_leave(t);
		return t->err            ? fail_transfer(*t) :
		       err != -ETIMEDOUT ? err :
					   fail(ETIMEDOUT, "work with memory of another machine was not done in time");
	}
	return fail_transfer(*t);
}

} // namespace usdma::core
