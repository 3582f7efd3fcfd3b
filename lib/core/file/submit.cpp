/* SPDX-License-Identifier: BSD-3-Clause */
/* The front of operations: checks, the gate in its stream, the wait of a synchronous call. */
#include "lib/core/file/internal.h"

#include "driver/base/cancel.h"
#include "driver/base/error.h"
#include "driver/base/futex_lock.h"
#include "driver/base/grow.h"
#include "driver/base/wakes.h"
#include "lib/core/copy/copy.h"
#include "lib/core/memory/hold.h"
#include "lib/core/stream/guard.h"
#include "lib/core/stream/task.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstring>
#include <new>

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

/* A group is built of requests, whose references it takes over. */
static int add_operation(file_group *g, const file_request &r)
{
	const unsigned slot = r.f->slot;
	operation *op = &g->items[g->n++];

	op->g = g;
	op->r = r;
	if (r.op == file_op::write)
		file_writes_add(r.f, 1);
	if (g->s && slot != g->s->dev->slot)
		return fail(EXDEV, "the file was imported for device %u, the stream runs on device %u", slot,
			    g->s->dev->slot);
	return check_request(r);
}

/* Once all are valid: no file system is queried before. */
static void plan(file_group *g)
{
	for (size_t i = 0; i < g->n; i++) {
		operation *op = &g->items[i];

		op->reads_ahead = op->r.op == file_op::read && !file_has_writes(op->r.f);
		if (op->r.op == file_op::write || (op->r.op == file_op::read && !file_reads_cached(op->r.f)))
			file_from_disk(op);
	}
	g->left = g->n;
}

void file_group_free(file_group *g, bool closes)
{
	for (size_t i = 0; i < g->n; i++)
		file_unref(g->items[i].r.f, closes);
	delete[] g->items;
	delete g;
}

/* Of a group that was not accepted. */
static int drop(file_group *g, int err)
{
	const saved_error why;

	for (size_t i = 0; i < g->n; i++)
		if (g->items[i].r.op == file_op::write)
			file_writes_add(g->items[i].r.f, ~u32(0));
	file_group_free(g, true);
	return why.again(err);
}

static file_group *group_new(stream *s, size_t n)
{
	auto *g = new (std::nothrow) file_group;

	if (!g)
		return nullptr;
	g->s = s;
	if (n <= PTRDIFF_MAX / sizeof(operation))
		g->items = new (std::nothrow) operation[n];
	if (g->items)
		return g;
	delete g;
	return nullptr;
}

static int same_request(const void *arg, size_t, file_request *out)
{
	*out = *static_cast<const file_request *>(arg);
	fetch_add_relaxed(&out->f->refs, 1);
	return 0;
}

static int group_make(stream *s, size_t n, file_requests request, const void *arg, file_group **out)
{
	file_group *g = group_new(s, n);
	int err = g ? file_thread_start() : no_memory("file operations");

	for (size_t i = 0; i < n && !err; i++) {
		file_request r;

		err = request(arg, i, &r);
		if (!err)
			err = add_operation(g, r);
		if (err && n > 1)
			fail_in(err, "item %zu", i);
	}
	if (err)
		return g ? drop(g, err) : err;
	plan(g);
	*out = g;
	return 0;
}

/* ---- USDMA_CHECK=race: an operation counts as accessing its memory, as a copy does ---------------------------- */

static race_use use_of(const void *arg, size_t i)
{
	const file_request &r = static_cast<const file_group *>(arg)->items[i].r;

	return {r.mem, r.op == file_op::sync ? 0 : r.len, r.op == file_op::read};
}

static const char *operation_name(const file_group *g)
{
	return g->n > 1 ? "file batch" : g->items->r.op == file_op::read ? "file read" : "file write";
}

static void check_accesses(const file_group *g)
{
	race().access({.by = g->s ? g->s->order : 0, .what = operation_name(g), .n = g->n, .use = use_of, .arg = g});
}

/* ---- on a stream ---------------------------------------------------------------------------------------------- */

/* Under the lock of the stream's hardware queue, when its earlier work has ended. */
static int gate_check(void *arg)
{
	auto *g = static_cast<file_group *>(arg);

	if (!load_relaxed(&g->reached)) {
		store_release(&g->reached, u32(is_reached));
		file_thread_wake();
	}
	if (!load_acquire(&g->ended))
		return 0;
	if (const operation *op = g->failed)
		stream_note_file_error(g->s, op->err, verb(op->r.op), op->r.offset + op->landed);
	return 1;
}

static bool gate_uses(const void *arg, const memory_use &use)
{
	const auto *g = static_cast<const file_group *>(arg);
	const u64 at = reinterpret_cast<u64>(use.mem);

	return std::any_of(g->items, g->items + g->n, [&](const operation &op) {
		const u64 mem = reinterpret_cast<u64>(op.r.mem);

		return mem < at + use.dma.size && at < mem + op.r.len;
	});
}

static void gate_release(void *arg)
{
	auto *g = static_cast<file_group *>(arg);

	/* Last: the thread may free it. */
	store_release(&g->front, u32(front_left));
	file_thread_wake();
}

int file_submit_all(stream *s, size_t n, file_requests request, const void *arg, size_t *done)
{
	file_group *g = nullptr;

	if (const int err = group_make(s, n, request, arg, &g); !g)
		return err;
	g->done = done;
	fetch_add_relaxed(&s->refs, 1);
	stream_outside_enter(s);
	if (s->order && !stream_refuses(s))
		check_accesses(g);
	if (const int err = stream_wait_check(s, gate_check, gate_release, g, deadline::never(), &seen_nothing,
					      changed_by_library, gate_uses)) {
		const saved_error why;

		stream_outside_leave(s);
		stream_unref(s);
		return drop(g, why.again(err));
	}
	file_thread_add(g);
	return 0;
}

int file_submit(stream *s, const file_request &r)
{
	return file_submit_all(s, 1, same_request, &r, nullptr);
}

/* ---- without one ------------------------------------------------------------------------------------------------ */

static bool wait_ended(file_group *g, u64 until_ns)
{
	static constexpr u64 step_ns = 1000 * ns_per_ms;

	while (!load_acquire(&g->ended) && now_ns() < until_ns)
		futex_wait_checked(&g->ended, 0, 1, until_ns, step_ns);
	return load_acquire(&g->ended);
}

static int fail_late(const file_request &r, ull at)
{
	return fail(ETIMEDOUT, "%s a file: not done in time, cancelled at offset %llu", verb(r.op), at);
}

static int fail_operation(const operation *op, bool late)
{
	const ull at = op->r.offset + op->landed;

	if (late && op->err == ECANCELED)
		return fail_late(op->r, at);
	return op->err ? fail(op->err, "%s a file failed at offset %llu: %s", verb(op->r.op), at,
			      *op->g->text ? op->g->text : file_error_text(op->err)) :
			 0;
}

/* True: the thread has not begun to move it, and will not. */
static bool take_back(file_group *g)
{
	u32 seen = is_reached;

	return cmpxchg_acq_rel(&g->reached, &seen, not_reached);
}

/* By the thread. *landed: of this call. */
static int run_by_thread(const file_request &r, deadline until, u64 *landed)
{
	file_group *g = nullptr;

	if (const int err = group_make(nullptr, 1, same_request, &r, &g); !g)
		return err;
	operation *op = g->items;
	g->reached = is_reached;
	/* By the caller: the thread may end it after the return. */
	op->r.moved = nullptr;
	if (unlikely(race_on()))
		check_accesses(g);
	file_thread_add(g);
	const bool late = !wait_ended(g, until.at());
	if (late && take_back(g)) {
		gate_release(g);
		return fail_late(r, r.offset);
	}
	if (late) {
		/* The thread finishes it after the piece that it copies. */
		store_release(&g->front, u32(front_cancels));
		file_thread_wake();
		wait_ended(g, ~u64(0));
	}
	*landed += op->landed;
	const int err = fail_operation(op, late);
	gate_release(g);
	return err;
}

/* By the caller, as far as the page cache goes. True: up to the end. */
static bool run_cached(const file_request &r, deadline until, u64 *landed)
{
	ssize_t n;

	do {
		n = file_read_cached(r.f, static_cast<u8 *>(r.mem) + *landed, r.offset + *landed, r.len - *landed,
				     until);
		*landed += u64(std::max<ssize_t>(n, 0));
	} while (n > 0 && *landed < r.len && !until.passed());
	return n == 0 || *landed == r.len;
}

static int run(const file_request &r, deadline until, u64 *landed)
{
	file_request left = r;

	/* It may be closed later, too: then the thread finds out. */
	if (!slot_guard(r.f->slot))
		return fail(EBADF, "device %u, for which the file was imported, was closed", r.f->slot);
	if (r.op == file_op::read && file_reads_cached(r.f) && !file_begins_on_disk(r, 0)) {
		if (const int err = check_request(r))
			return err;
		if (run_cached(r, until, landed))
			return 0;
		left.mem = static_cast<u8 *>(r.mem) + *landed;
		left.offset += *landed;
		left.len -= *landed;
		if (until.passed())
			return fail_late(left, left.offset);
	}
	return run_by_thread(left, until, landed);
}

/* What was unregistered meanwhile is ordinary memory. */
static int hold_memory(memory_hold *held, const void *mem, translation *p)
{
	int err;

	while ((err = held->take(*p)) == stale) {
		if (p->kind != region_kind::registered)
			return fail(EFAULT, "the memory of the file operation was freed");
		*p = translate(mem);
	}
	return err;
}

/* Memory that is freed meanwhile is not another's before the end. */
int file_run(const file_request &r, deadline until)
{
	const no_cancel scope;
	translation p = translate(r.mem);
	memory_hold held;
	u64 landed = 0;
	int err = hold_memory(&held, r.mem, &p);

	err = err ? err : run(r, until, &landed);
	err = err ? err : hold_memory(&held, r.mem, &p);
	if (r.moved)
		*r.moved = landed;
	return err;
}

} // namespace usdma::core
