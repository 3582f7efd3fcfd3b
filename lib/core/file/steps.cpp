/* SPDX-License-Identifier: BSD-3-Clause */
/* The work of an operation: pieces from disk to memory and back, in order. By the file thread. */
#include "lib/core/file/internal.h"

#include "driver/base/error.h"
#include "driver/base/futex_lock.h"
#include "driver/base/page_guard.h"
#include "lib/core/copy/copy.h"
#include "lib/core/copy/mapped.h"
#include "lib/core/stream/guard.h"
#include "lib/core/stream/task.h"

#include <algorithm>
#include <cstdio>

namespace usdma::core {

/* err: a positive errno, or 0. */
static bool finish(operation *op, int err);

/* ---- pieces of several items ---------------------------------------------------------------------------------- */

/* The part of the operation that took it. */
static u64 own_length(const piece *p)
{
	return std::min(p->want, p->op->r.len - p->at);
}

/* What was not written whole is written again, for the result of each, as is the rest of the one that took the piece.
 */
static void end_carried(piece *p)
{
	u64 at = own_length(p);

	for (operation *op = p->op + 1; p->carried; op++, p->carried--) {
		at += op->r.len;
		op->carrier = nullptr;
		op->alone = true;
		if (op->finished || at > p->done)
			continue;
		op->landed = op->r.len;
		finish(op, 0);
	}
}

/* ---- the end ----------------------------------------------------------------------------------------------- */

/* Pieces that are at the disk stay until they are back, and what they carry waits: late, they could destroy newer data.
 */
static void put_pieces(operation *op)
{
	piece *left = nullptr;

	while (piece *p = op->first) {
		op->first = p->next;
		if (!p->at_disk) {
			end_carried(p);
			piece_put(p);
			continue;
		}
		disk_cancel(p);
		p->next = left;
		left = p;
	}
	op->first = left;
}

static void report(const operation *op)
{
	const file_request &r = op->r;
	const void *bad;

	if (r.moved || r.error)
		page_guarded(
			{r.moved, sizeof(*r.moved)}, {r.error, sizeof(*r.error)},
			[&] {
				if (r.moved)
					*r.moved = op->landed;
				if (r.error)
					*r.error = -op->err;
			},
			&bad);
}

/* From here on the memory of the program is not accessed. */
static void group_ended(file_group *g)
{
	const void *bad;

	if (g->done)
		page_guarded(
			{g->done, sizeof(*g->done)}, {}, [&] { *g->done = g->succeeded; }, &bad);
	if (stream *s = g->s) {
		stream_outside_leave(s);
		store_release(&g->ended, 1u);
		stream_unref(s);
		progress_kick();
	} else {
		store_release(&g->ended, 1u);
		futex_wake(&g->ended, 1);
	}
}

static bool finish(operation *op, int err)
{
	file_group *g = op->g;

	/* The block layer and file systems report a time-out of their own as ETIMEDOUT. */
	op->err = -as_failure(-err);
	op->finished = true;
	if (op->r.op == file_op::write)
		file_writes_add(op->r.f, ~u32(0));
	report(op);
	put_pieces(op);
	if (op->sync_piece.at_disk)
		disk_cancel(&op->sync_piece);
	g->succeeded += !err;
	if (err && (!g->failed || op < g->failed))
		g->failed = op;
	if (!--g->left)
		group_ended(g);
	return true;
}

static bool finish_copy(operation *op, int err)
{
	snprintf(op->g->text, sizeof(op->g->text), "%s", error_text());
	return finish(op, -err);
}

static bool finish_all(file_group *g, int err)
{
	for (size_t i = g->begin; i < g->n; i++)
		if (!g->items[i].finished)
			finish(&g->items[i], err);
	return true;
}

bool file_is_over(const file_group *g)
{
	return !g->left && !g->at_disk && load_acquire(&g->front) == front_left;
}

/* ---- pieces ------------------------------------------------------------------------------------------------ */

static u64 any_progress_ns;

static void progressed(operation *op)
{
	op->progress_ns = any_progress_ns = now_ns();
}

/* The next piece: up to a multiple of its size in the file; direct if offset and length are aligned. */
static u64 piece_length(const operation *op, bool *direct)
{
	const u64 at = op->r.offset + op->started, end = op->r.offset + op->r.len, align = op->r.f->align;
	const u64 limit = std::min(end, align_down(at, piece_size) + piece_size);

	*direct = false;
	if (!op->direct || end - at < align)
		return limit - at;
	if (at % align)
		return std::min(end, align_up(at, align)) - at;
	*direct = true;
	return align_down(limit, align) - at;
}

/*
 * nullptr: not now; on an error *err is set. Writes through the page cache and past it are not at the disk at the same
 * time: a page that both touch, or one that is read ahead, could keep old bytes.
 */
static piece *next_piece(operation *op, int *err)
{
	bool direct;

	*err = 0;
	if (op->started == op->r.len)
		return nullptr;
	const u64 want = piece_length(op, &direct);
	if (op->at_disk && op->r.op == file_op::write && direct != op->last->direct)
		return nullptr;
	piece *p = piece_take(op, err);
	if (!p) {
		op->g->starved = true;
		return nullptr;
	}
	p->want = want;
	p->direct = direct;
	p->at = op->started;
	return p;
}

static bool send(operation *op, piece *p)
{
	if (!disk_start(p))
		return false;
	op->at_disk++;
	op->g->at_disk++;
	return true;
}

static void append(operation *op, piece *p)
{
	file_group *g = op->g;

	(op->first ? op->last->next : op->first) = p;
	op->last = p;
	op->started += own_length(p);
	g->reach = std::max(g->reach, size_t(op - g->items) + p->carried + 1);
	progressed(op);
}

/* Back from the disk with an error, or with all that there was. */
static bool is_ready(const piece *p)
{
	return p && !p->at_disk;
}

/* To be repeated: no progress. */
static bool is_refused(const piece *p)
{
	return p->res == -EINTR || p->res == -EAGAIN;
}

/*
 * A direct request that the file system refuses after all is repeated through the page cache. So is a read that fails:
 * a direct one does so as a whole, a buffered one at the block.
 */
static bool needs_more(piece *p)
{
	const bool again = is_refused(p), reads = p->op->r.op == file_op::read;

	if (p->direct && (p->res == -EINVAL || (reads && p->res < 0 && !again))) {
		p->direct = false;
		return true;
	}
	if (p->res < 0 && !again)
		p->err = -p->res;
	if (p->res > 0)
		p->done += unsigned(p->res);
	if (p->direct && p->done % p->op->r.f->align)
		p->direct = false;
	return again || (p->res > 0 && p->done < p->want);
}

void file_piece_done(piece *p)
{
	operation *op = p->op;

	op->at_disk--;
	op->g->at_disk--;
	if (!is_refused(p))
		progressed(op);
	if (needs_more(p) && !op->finished) {
		if (send(op, p))
			return;
		p->err = EBUSY;
	}
	if (op->finished && p != &op->sync_piece) {
		piece **at = &op->first;

		while (*at != p)
			at = &(*at)->next;
		*at = p->next;
		end_carried(p);
		piece_put(p);
	}
}

static void put_first(operation *op)
{
	piece *p = op->first;

	op->first = p->next;
	piece_put(p);
}

/* ---- read, write, sync --------------------------------------------------------------------------------------- */

static u8 *memory_at(const operation *op, u64 at)
{
	return static_cast<u8 *>(op->r.mem) + at;
}

static int copy_piece(operation *op, void *dst, const void *src, u64 n)
{
	const slot_guard dev(op->r.f->slot);
	const race_entered scope; /* by the call */

	if (!dev)
		return file_fail_closed(op);
	int err = copy_mapped(dst, src, n);
	if (err > 0)
		err = copy_sync(dev.get(), dst, src, n, deadline::never());
	/* The time of a copy is not the disk's. */
	progressed(op);
	return err;
}

static bool start_reads(operation *op)
{
	bool moved = false;
	int err;

	while (piece *p = next_piece(op, &err)) {
		if (!send(op, p)) {
			piece_put(p);
			return moved;
		}
		append(op, p);
		moved = true;
	}
	return err ? finish_copy(op, err) : moved;
}

/* Copies in order, so that nothing behind a failure changes. */
static bool take_reads(operation *op)
{
	bool moved = false;

	for (; is_ready(op->first); moved = true) {
		const piece *p = op->first;
		const bool is_end = p->done < p->want;
		const int failed = p->err;

		/* What was read before a failure belongs to the prefix. */
		if (const int err = p->done ? copy_piece(op, memory_at(op, p->at), p->mem, p->done) : 0)
			return finish_copy(op, err);
		op->landed += p->done;
		put_first(op);
		if (failed || is_end)
			return finish(op, failed);
	}
	return op->landed == op->r.len ? finish(op, 0) : moved;
}

static u64 slot_bit(const operation *op)
{
	return u64(1) << op->r.f->slot;
}

static bool read_ahead(operation *op, file_pass *pass)
{
	if (!op->reads_ahead || pass->full & slot_bit(op))
		return false;
	if (op->from == read_source::unknown)
		file_choose_ahead(op);
	if (op->from == read_source::cache)
		return false;
	const bool moved = start_reads(op);
	if (!op->g->held)
		pass->full |= slot_bit(op);
	return moved;
}

/* One part of what the page cache holds. An abort, and other files, wait for it. */
static bool take_cached(operation *op)
{
	static constexpr u64 most_ms = 5;
	const ssize_t n = file_read_cached(op->r.f, memory_at(op, op->landed), op->r.offset + op->landed,
					   op->r.len - op->landed, deadline::in_ms(most_ms));

	if (n < 0) {
		file_from_disk(op);
		return false;
	}
	op->landed += u64(n);
	op->started = op->landed;
	op->g->copied += u64(n);
	progressed(op);
	return n == 0 || op->landed == op->r.len ? finish(op, 0) : true;
}

static bool step_read(operation *op, file_pass *pass)
{
	if (!op->g->entered)
		return read_ahead(op, pass);
	if (op->from == read_source::unknown) {
		op->from = read_source::cache;
		if (file_begins_on_disk(op->r, op->landed))
			file_from_disk(op);
	}
	if (op->from != read_source::disk && take_cached(op))
		return true;
	const bool moved = start_reads(op);
	return op->finished || take_reads(op) || moved;
}

static bool can_carry(const piece *p, const operation *next)
{
	const file_request &r = next->r;

	return r.op == file_op::write && r.f == p->op->r.f && r.offset == p->op->r.offset + p->at + p->want && r.len &&
	       r.len <= piece_size - p->want && next->direct == p->direct && (!p->direct || r.len % r.f->align == 0) &&
	       !next->finished && !next->started && !next->alone;
}

/*
 * Short writes that follow each other in the file become one request: the kernel runs those of a file one by one. An
 * abort does not wait for all of them, nor do other streams for any number.
 */
static void carry_next(piece *p)
{
	static constexpr unsigned most_carried = 64;
	const file_group *g = p->op->g;

	if (p->op->alone || p->at + p->want < p->op->r.len)
		return;
	for (operation *next = p->op + 1; next < g->items + g->n && can_carry(p, next); next++) {
		if (p->carried == most_carried || load_acquire(&g->front) != front_here)
			break;
		/* A failure is found, and reported, once more. */
		next->alone = copy_piece(next, p->mem + p->want, next->r.mem, next->r.len) < 0;
		if (next->alone)
			break;
		next->carrier = p->op;
		p->want += next->r.len;
		p->carried++;
	}
}

static bool start_writes(operation *op)
{
	bool moved = false;
	int err;

	while (piece *p = next_piece(op, &err)) {
		err = copy_piece(op, p->mem, memory_at(op, p->at), p->want);
		if (!err)
			carry_next(p);
		if (err || !send(op, p)) {
			end_carried(p);
			piece_put(p);
			break;
		}
		append(op, p);
		moved = true;
	}
	return err ? finish_copy(op, err) : moved;
}

static bool take_writes(operation *op)
{
	bool moved = false;

	for (; is_ready(op->first); moved = true) {
		piece *p = op->first;
		const u64 own = own_length(p), done = std::min(p->done, own);
		/* A disk that accepts nothing says no error. */
		const int failed = done == own ? 0 : p->err ? p->err : EIO;
		const bool shared = p->carried;

		op->landed += done;
		end_carried(p);
		put_first(op);
		if (failed && !shared)
			return finish(op, failed);
		if (failed) {
			op->alone = true;
			op->started = op->landed;
		}
	}
	return op->landed == op->r.len ? finish(op, 0) : moved;
}

static bool step_write(operation *op)
{
	if (!op->g->entered || op->carrier)
		return false;
	const bool moved = start_writes(op);
	return op->finished || take_writes(op) || moved;
}

static bool step_sync(operation *op)
{
	piece *p = &op->sync_piece;

	if (!op->g->entered || p->at_disk)
		return false;
	if (op->started)
		return finish(op, p->err);
	p->op = op;
	op->started = send(op, p);
	return op->started;
}

static bool step_work(operation *op, file_pass *pass)
{
	switch (op->r.op) {
	case file_op::read:
		return step_read(op, pass);
	case file_op::write:
		return step_write(op);
	case file_op::sync:
		return step_sync(op);
	}
	return false;
}

static bool enter(file_group *g)
{
	u32 seen = is_reached;

	if (g->entered || !load_relaxed(&g->reached) || !cmpxchg_acq_rel(&g->reached, &seen, is_entered))
		return false;
	/* Also those that have failed and whose pieces are at the disk. */
	for (size_t i = 0; i < g->n; i++)
		if (g->items[i].first) {
			pieces_reached(&g->items[i]);
			progressed(&g->items[i]);
		}
	g->entered = true;
	any_progress_ns = now_ns();
	return true;
}

/*
 * Longer than the limit of a device. What waits for staging memory hangs if nothing moves. A sync is one request of any
 * length. polled_ns: when the disk was last polled.
 */
static bool hangs(const operation *op, u64 polled_ns)
{
	/* What is carried has the clock of the request. */
	const operation *at = op->carrier ? op->carrier : op;
	const u64 since = at->at_disk || op->carrier ? at->progress_ns : std::max(at->progress_ns, any_progress_ns);

	return op->g->entered && op->r.op != file_op::sync && polled_ns > since + u64(config_get().hang_ms) * ns_per_ms;
}

/* An operation of a stream is cancelled by the close, which returns the loss of its device. */
static int closed_error(const file_group *g)
{
	return !g->s ? EBADF : g->s->dev->lost() ? ENODEV : ECANCELED;
}

int file_fail_closed(const operation *op)
{
	return fail(closed_error(op->g), "device %u, for which the file was imported, was closed", op->r.f->slot);
}

/* A positive errno if the device was lost or closed. */
static int device_error(const file_group *g, file_pass *pass)
{
	const u64 bit = slot_bit(g->items);

	if (!(pass->checked & bit)) {
		const slot_guard dev(g->items->r.f->slot);

		pass->checked |= bit;
		pass->closed |= dev ? 0 : bit;
		pass->lost |= dev && dev->lost() ? bit : 0;
	}
	return pass->closed & bit ? closed_error(g) : pass->lost & bit ? ENODEV : 0;
}

static bool step_operation(operation *op, file_pass *pass)
{
	if (step_work(op, pass))
		return true;
	if (op->finished || !hangs(op, pass->polled_ns))
		return false;
	pass->hung = true;
	return finish(op, ETIME);
}

/*
 * Those that have pieces, or can get some. Without a free one too: an item that read ahead may have all that the group
 * may hold, and gives them back only when it is stepped.
 */
static bool step_some(file_group *g, file_pass *pass)
{
	bool moved = false;

	g->copied = 0;
	g->starved = !g->entered && pass->full & slot_bit(g->items);
	for (size_t i = g->begin; i < g->n; i++) {
		operation *op = &g->items[i];

		if (!op->finished)
			moved |= step_operation(op, pass);
		if (op->finished)
			g->begin += i == g->begin;
		else if (g->starved && i >= g->reach)
			break;
		/* Others have their turn. */
		if (g->copied >= piece_size)
			break;
	}
	return moved;
}

bool file_step(file_group *g, file_pass *pass)
{
	if (!g->left)
		return false;
	/* First: the stream of a lost device drops its gates. */
	if (const int err = device_error(g, pass))
		return finish_all(g, err);
	if (load_acquire(&g->front) != front_here)
		return finish_all(g, ECANCELED);
	const bool moved = enter(g);
	return step_some(g, pass) || moved;
}

} // namespace usdma::core
