/* SPDX-License-Identifier: BSD-3-Clause */
/* The hot path: a descriptor is one cache line, written word by word with the tag last. */
#include "driver/base/barrier.h"
#include "driver/base/mmio.h"
#include "driver/engines/sdma/sdma.h"

#include <cstddef>
#include <cstring>

namespace usdma::sdma {

/* op, flags, spaces and arg have the same layout in both, so that they are copied as one word. */
static_assert(offsetof(dma::request, op) == 0 && offsetof(descriptor, op) == 4);
static_assert(offsetof(dma::request, flags) == 1 && offsetof(descriptor, flags) == 5);
static_assert(offsetof(dma::request, spaces) == 2 && offsetof(descriptor, spaces) == 6);
static_assert(offsetof(dma::request, arg) == 3 && offsetof(descriptor, arg) == 7);
static_assert(offsetof(descriptor, reserved) == offsetof(descriptor, height) + 4);

/* head: op, flags, spaces, arg; height_word: height and reserved, which is zero. */
struct words {
	u32 head;
	u64 height_word, src, dst, len, a, b, cookie;
};

[[gnu::always_inline]] static inline void write_descriptor(descriptor *d, const words &w, u64 seq)
{
	store_relaxed(reinterpret_cast<u64 *>(&d->height), w.height_word);
	store_relaxed(&d->src, w.src);
	store_relaxed(&d->dst, w.dst);
	store_relaxed(&d->len, w.len);
	store_relaxed(&d->a, w.a);
	store_relaxed(&d->b, w.b);
	store_relaxed(&d->cookie, w.cookie);
	/* A device that reads the tag sees the words above. */
	store_device(reinterpret_cast<u64 *>(d), u64(u32(seq)) | u64(w.head) << 32);
}

static inline words words_of(const dma::request *r)
{
	u32 head;

	memcpy(&head, r, sizeof(head));
	return {head, r->height, r->src, r->dst, r->len, r->a, r->b, r->cookie};
}

/* Compares differences, not values: sequence numbers may wrap. */
static unsigned reclaim_slots(dma::channel *ch, unsigned n)
{
	/* completed() acquires: the device has read a slot before it counts it, so refilling the slot comes after. */
	const u64 pending = ch->posted - dma::completed(ch);
	/* More pending than the ring holds: the device reported a bogus number, so there is no space. */
	const u64 space = pending <= ch->ring_size ? ch->ring_size - pending : 0;

	ch->post_limit = ch->posted + space;
	return space < n ? unsigned(space) : n;
}

/*
 * The device read this slot in the last round, so it owns the line: an early prefetch hides the latency. Not so
 * early that the device's own read-ahead fetches it again.
 */
static constexpr u64 write_ahead = 12;

[[gnu::always_inline]] static inline void fill_slot(const sdma_channel *c, u64 seq, const words &w)
{
	descriptor *const ring = c->ring;
	const u64 mask = c->mask;

	prefetch_write(&ring[(seq + write_ahead) & mask]);
	write_descriptor(&ring[seq & mask], w, seq);
}

static unsigned ring_post(dma::channel *ch, const dma::request *r, unsigned n)
{
	sdma_channel *c = to_sdma(ch);
	u64 seq = c->posted;

	if (unlikely(c->post_limit - seq < n))
		n = reclaim_slots(ch, n);
	for (unsigned i = 0; i < n; i++) {
		seq++;
		fill_slot(c, seq, words_of(&r[i]));
	}
	store_relaxed(&c->posted, seq);
	return n;
}

static void doorbell_write(sdma_channel *c, u32 reg, u64 value)
{
	/* Release if mapped, otherwise a message or a system call: the descriptors are visible first. */
	if (likely(c->doorbell != nullptr))
		mmio_write64(c->doorbell + reg, value);
	else
		reg_write(c->owner->transport(), chan_doorbell(c->index) + reg,
			  value); /* fails only if the device is lost */
}

static void ring_doorbell(dma::channel *ch)
{
	doorbell_write(to_sdma(ch), doorbell_tail, ch->posted);
}

static void ring_submit_copy(dma::channel *ch, u32 spaces, u64 src, u64 dst, u64 len, u64 cookie)
{
	sdma_channel *c = to_sdma(ch);
	const u64 seq = c->posted + 1;

	fill_slot(c, seq, {u32(dma::opcode::copy) | spaces << 16, 0, src, dst, len, 0, 0, cookie});
	store_relaxed(&c->posted, seq);
	doorbell_write(c, doorbell_tail, seq);
}

static void ring_wake(dma::channel *ch)
{
	sdma_channel *c = to_sdma(ch);

	if (likely(c->wake_fd >= 0) && c->owner->transport().doorbell_ring(c->wake_fd))
		return;
	reg_write(c->owner->transport(), chan_ctrl(c->index) + chan_wake, u32(1));
}

static void ring_arm(dma::channel *ch, unsigned slot, u64 seq)
{
	sdma_channel *c = to_sdma(ch);

	doorbell_write(c, doorbell_arm + slot * doorbell_arm_stride, seq);
	/*
	 * Orders the arm before the caller's second read of the record (store → load). The device writes the record,
	 * then reads the arm, so at least one sees the other's store. A locked access to a word of our own, since the
	 * register may not be memory.
	 */
	store_fence(&c->fence_word, seq);
}

/* The device raises it, but learns of the arm when it is awake, and late if it went to sleep just before. */
static bool ring_withdraw(dma::channel *ch, u64)
{
	if (load_relaxed(ch->asleep) && dma::claim_wake(ch))
		ring_wake(ch);
	return false;
}

static int ring_completion_fd(dma::channel *ch)
{
	sdma_channel *c = to_sdma(ch);

	return c->owner->completion_fd(c);
}

static dma::request request_of(const descriptor *d)
{
	const u32 head = load_relaxed(reinterpret_cast<const u32 *>(d) + 1);
	dma::request r;

	memcpy(static_cast<void *>(&r), &head, sizeof(head));
	r.height = load_relaxed(&d->height);
	r.src = load_relaxed(&d->src);
	r.dst = load_relaxed(&d->dst);
	r.len = load_relaxed(&d->len);
	r.a = load_relaxed(&d->a);
	r.b = load_relaxed(&d->b);
	return r;
}

static bool ring_last_use(const dma::channel *ch, const dma::iova_range &where, u64 *seq)
{
	const auto *c = static_cast<const sdma_channel *>(ch);

	return find_last_use(ch, where, seq, [c](u64 at) { return request_of(&c->ring[at & c->mask]); });
}

static constexpr dma::channel_ops ops_with(decltype(dma::channel_ops::submit_copy) submit_copy)
{
	return {
		.post = ring_post,
		.doorbell = ring_doorbell,
		.submit_copy = submit_copy,
		.wake = ring_wake,
		.arm = ring_arm,
		.withdraw = ring_withdraw,
		.completion_fd = ring_completion_fd,
		.cancel = ring_cancel,
		.resume = ring_resume,
		.stop = ring_stop,
		.abort = ring_abort,
		.restart = ring_restart,
		.begun = ring_begun,
		.in_wait = ring_in_wait,
		.describe = ring_describe,
		.last_use = ring_last_use,
		.close = channel_close,
	};
}

const dma::channel_ops ring_ops = ops_with(ring_submit_copy), trapped_ops = ops_with(nullptr);

} // namespace usdma::sdma
