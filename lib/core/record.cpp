/* SPDX-License-Identifier: BSD-3-Clause */
/* Records: where in which ring an event is reached, and the pinned words that the device stamps. */
#include "driver/base/grow.h"
#include "lib/core/task.h"
#include "lib/core/wait.h"

#include <new>

namespace usdma::core {

/* Words in pinned memory, handed out one by one; a block is never given back. */
struct stamp_pool {
	static constexpr size_t block = 16 * KiB;
	std::mutex lock;
	std::vector<u64 *> free; /* has room for all words that there are, so that giving one back needs no memory */
	size_t words = 0;
};
static constinit immortal<stamp_pool> stamps;

static u64 *stamp_get()
{
	std::lock_guard guard(stamps->lock);
	void *mem;

	if (stamps->free.empty()) {
		const size_t more = stamp_pool::block / sizeof(u64), most = stamps->words + more;

		/* Twice as much, so that it need not move each time. */
		if (most > stamps->free.capacity() && !try_reserve(stamps->free, 2 * most)) {
			no_memory("the list of time stamps");
			return nullptr;
		}
		if (host_alloc(stamp_pool::block, -1, &mem))
			return nullptr;
		stamps->words = most;
		for (size_t i = 0; i < more; i++)
			push_reserved(stamps->free, static_cast<u64 *>(mem) + i);
	}
	u64 *w = stamps->free.back();
	stamps->free.pop_back();
	return w;
}

static void stamp_put(u64 *w)
{
	std::lock_guard guard(stamps->lock);

	push_reserved(stamps->free, w);
}

record *record_new(bool timing)
{
	u64 *stamp = timing ? stamp_get() : nullptr;

	if (timing && !stamp)
		return nullptr;
	auto *r = new (std::nothrow) record;
	if (!r) {
		if (stamp)
			stamp_put(stamp);
		fail(ENOMEM, "no memory for a record");
		return nullptr;
	}
	r->stamp = stamp;
	return r;
}

void record_ref(record *r)
{
	__atomic_add_fetch(&r->refs, 1, __ATOMIC_RELAXED);
}

void record_unref(record *r)
{
	if (!r || __atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL))
		return;
	if (r->stamp)
		stamp_put(r->stamp);
	delete r;
}

bool record_place(record *r, stream *s)
{
	lane *l = s->ln;

	if (r->stamp) {
		const place at = locate(r->stamp);
		dma::request q;

		q.op = dma::opcode::timestamp;
		q.spaces = dma::spaces(at.space, at.space);
		q.dst = at.dma;
		q.len = sizeof(u64);
		q.cookie = reinterpret_cast<u64>(s);
		if (l->ch->ops->post(l->ch, &q, 1) != 1)
			return false;
		stream_note_posted(s, &q, 1);
	}
	r->ln = l;
	r->seq = s->last;
	/* Release: who sees in_ring sees ln and seq. */
	store_release(&r->at, u32(record::in_ring));
	return true;
}

void record_settle(record *r, const device *dev)
{
	if (load_acquire(&r->at) == record::in_ring && r->ln->dev == dev)
		store_release(&r->at, u32(record::reached));
}

bool record_passed(const record *r)
{
	const u32 at = load_acquire(&r->at);

	return at == record::reached || (at == record::in_ring && lane_done(r->ln, r->seq));
}

bool record_reached(record *r)
{
	if (load_acquire(&r->at) == record::in_ring && lane_halted(r->ln))
		lane_check_fault(r->ln);
	return record_passed(r);
}

} // namespace usdma::core
