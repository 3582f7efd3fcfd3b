/* SPDX-License-Identifier: BSD-3-Clause */
/* The front of an operation: checks, the gate in its stream, the wait of a synchronous call. */
#include "lib/core/file/internal.h"

#include "driver/base/cancel.h"
#include "driver/base/error.h"
#include "driver/base/futex_lock.h"
#include "lib/core/copy/copy.h"
#include "lib/core/stream/task.h"

#include <climits>
#include <cstring>
#include <new>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace usdma::core {

/* ---- checks --------------------------------------------------------------------------------------------------- */

static const char *verb(file_op op)
{
	return op == file_op::read ? "reading" : op == file_op::write ? "writing" : "syncing";
}

static int check_request(const file_request &r)
{
	if (r.op == file_op::read && !r.f->reads)
		return fail(EACCES, "the file was not opened for reading");
	if (r.op == file_op::write && !r.f->writes)
		return fail(EACCES, "the file was not opened for writing, or with O_APPEND, which ignores offsets");
	if (r.len > u64(LLONG_MAX) || r.offset > u64(LLONG_MAX) - r.len)
		return fail(EOVERFLOW, "offset %llu + %llu bytes: a file has no such offset", ull(r.offset),
			    ull(r.len));
	return r.op == file_op::sync ? 0 : check_memory(r.mem, r.len, r.op == file_op::read);
}

/* cachestat(2), of Linux 6.5. */
struct cached_range {
	u64 off, len;
};
struct cached_pages {
	u64 cached, dirty, writeback, evicted, recently_evicted;
};
static constexpr long nr_cachestat = 451;

/* True: at least half of it. False also: unknown. */
static bool is_cached(const file_request &r)
{
	const cached_range range = {r.offset, r.len};
	cached_pages pages = {};

	return syscall(nr_cachestat, r.f->fd.get(), &range, &pages, 0) == 0 && pages.cached >= r.len / (8 * KiB);
}

/* A short read, or one of cached pages, is faster through the page cache; so is a write, which is complete earlier. */
static bool choose_direct(const file_request &r)
{
	if (!r.f->direct.valid() || r.op == file_op::sync)
		return false;
	if (r.f->prefers_direct || !r.f->may_choose)
		return r.f->prefers_direct;
	return r.op == file_op::read && r.len >= piece_size && !is_cached(r);
}

static int operation_new(const file_request &r, operation **out)
{
	if (const int err = check_request(r))
		return err;
	if (const int err = file_thread_start())
		return err;
	auto *op = new (std::nothrow) operation;
	if (!op)
		return no_memory("a file operation");
	fetch_add_relaxed(&r.f->refs, 1);
	op->r = r;
	op->direct = choose_direct(r);
	op->reads_ahead = r.op == file_op::read && !file_has_writes(r.f);
	if (r.op == file_op::write)
		file_writes_add(r.f, 1);
	*out = op;
	return 0;
}

/* ---- on a stream ---------------------------------------------------------------------------------------------- */

/* Under the lock of the stream's hardware queue, when its earlier work has ended. */
static int gate_check(void *arg)
{
	auto *op = static_cast<operation *>(arg);

	if (!load_relaxed(&op->reached)) {
		store_release(&op->reached, u32(is_reached));
		file_thread_wake();
	}
	if (!load_acquire(&op->ended))
		return 0;
	if (op->err)
		stream_note_file_error(op->s, op->err, verb(op->r.op), op->r.offset + op->landed);
	return 1;
}

static void gate_release(void *arg)
{
	auto *op = static_cast<operation *>(arg);

	/* Last: the thread may free it. */
	store_release(&op->front, u32(front_left));
	file_thread_wake();
}

static int push_gate(stream *s, operation *op)
{
	fetch_add_relaxed(&s->refs, 1);
	op->s = s;
	stream_outside_enter(s);
	if (s->order)
		race_record(s->order, &op->before);
	const int err = stream_wait_check(s, gate_check, gate_release, op, deadline::never(), nullptr, true);

	if (err) {
		const saved_error why;

		stream_outside_leave(s);
		stream_unref(s);
		if (op->r.op == file_op::write)
			file_writes_add(op->r.f, ~u32(0));
		file_unref(op->r.f, true);
		race_signal_delete(op->before);
		delete op;
		return why.again(err);
	}
	return 0;
}

int file_submit(stream *s, const file_request &r)
{
	operation *op;

	if (r.f->slot != s->dev->slot)
		return fail(EXDEV, "the file was imported for device %u, the stream runs on device %u", r.f->slot,
			    s->dev->slot);
	if (const int err = operation_new(r, &op))
		return err;
	if (const int err = push_gate(s, op))
		return err;
	file_thread_add(op);
	return 0;
}

/* ---- without one ------------------------------------------------------------------------------------------------ */

static bool wait_ended(operation *op, u64 until_ns)
{
	static constexpr u64 step_ns = 1000 * ns_per_ms;

	while (!load_acquire(&op->ended) && now_ns() < until_ns)
		futex_wait_until(&op->ended, 0, std::min(until_ns, now_ns() + step_ns));
	return load_acquire(&op->ended);
}

static int fail_operation(const operation *op, bool late)
{
	const ull at = op->r.offset + op->landed;

	if (late && op->err == ECANCELED)
		return fail(ETIMEDOUT, "%s a file: not done in time, cancelled at offset %llu", verb(op->r.op), at);
	return op->err ? fail(op->err, "%s a file failed at offset %llu: %s", verb(op->r.op), at,
			      *op->text ? op->text : strerrordesc_np(op->err)) :
			 0;
}

/* True: the thread has not begun to move it, and will not. */
static bool take_back(operation *op)
{
	u32 seen = is_reached;

	return cmpxchg_acq_rel(&op->reached, &seen, not_reached);
}

int file_run(const file_request &r, deadline until)
{
	const no_cancel scope;
	operation *op;

	if (const int err = operation_new(r, &op))
		return err;
	op->reached = is_reached;
	/* Here, not by the thread, which may end it after the return. */
	size_t *const moved = std::exchange(op->r.moved, nullptr);
	file_thread_add(op);
	const bool late = !wait_ended(op, until.at());
	if (late && take_back(op)) {
		gate_release(op);
		return fail(ETIMEDOUT, "%s a file: not begun in time", verb(r.op));
	}
	if (late) {
		/* The thread finishes it after the piece that it copies. */
		store_release(&op->front, u32(front_cancels));
		file_thread_wake();
		wait_ended(op, ~u64(0));
	}
	if (moved)
		*moved = op->landed;
	const int err = fail_operation(op, late);
	gate_release(op);
	return err;
}

} // namespace usdma::core
