/* SPDX-License-Identifier: BSD-3-Clause */
/* A channel that halted: what is taken out of its ring, and how it goes on. */
#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/base/mmio.h"
#include "driver/engines/sdma/sdma.h"

#include <cstdio>

namespace usdma::sdma {

/* The device looks at nothing in the ring while it is halted; resume orders these stores before it does. */
static void make_nop(descriptor *d)
{
	store_relaxed(&d->op, u8(dma::opcode::nop));
	store_relaxed(&d->spaces, u8(0));
	store_relaxed(&d->arg, u8(0));
	store_relaxed(&d->height, 0u);
	for (u64 *word : {&d->src, &d->dst, &d->len, &d->a, &d->b})
		store_relaxed(word, u64(0));
}

unsigned ring_cancel(dma::channel *ch, u64 cookie)
{
	sdma_channel *c = to_sdma(ch);
	unsigned count = 0;
	dma::fault f;

	if (!dma::read_fault(ch, &f))
		return 0;
	/* What failed has run; what was stopped has not, and would run again. */
	const u64 first = f.reason == dma::fault_reason::stopped ? f.seq : f.seq + 1;
	const u64 left = ch->posted + 1 - first;
	if (left > ch->ring_size) /* a number that the device made up */
		return 0;
	for (u64 i = 0; i < left; i++) {
		descriptor *d = &c->ring[(first + i) & c->mask];

		if (load_relaxed(&d->cookie) != cookie)
			continue;
		make_nop(d);
		count++;
	}
	return count;
}

/* Calls done until it says true. -ENODEV, -ETIMEDOUT with what. */
template <class F> static int wait_for(sdma_channel *c, const char *what, F done)
{
	const deadline until = deadline::in_ms(command_ms);
	const timespec nap = {0, 20 * 1000};

	for (unsigned i = 0; !done(); i++) {
		if (c->owner->is_resetting())
			return fail(EAGAIN, "channel %u: the device is being reset", c->index);
		if (c->owner->lost())
			return fail(ENODEV, "channel %u: the device was lost before it %s", c->index, what);
		if (until.passed())
			return fail(ETIMEDOUT, "channel %u: the device has not %s in %llu ms", c->index, what,
				    static_cast<unsigned long long>(command_ms));
		if (i < 1000)
			cpu_relax();
		else
			nanosleep(&nap, nullptr);
	}
	return 0;
}

/* On again behind first_seq; what is posted beyond runs. */
static int switch_on(sdma_channel *c, u64 first_seq)
{
	const int rc = c->owner->program(c, first_seq);

	if (rc)
		return rc;
	c->off = false;
	ring_ops.doorbell(c);
	ring_ops.wake(c);
	return 0;
}

int ring_resume(dma::channel *ch)
{
	sdma_channel *c = to_sdma(ch);
	dma::fault old, now;

	if (!dma::read_fault(ch, &old))
		return fail(EINVAL, "channel %u is not halted", c->index);
	if (c->off)
		return switch_on(c, old.reason == dma::fault_reason::stopped ? old.seq - 1 : old.seq);
	if (int rc = reg_write(c->owner->transport(), chan_ctrl(c->index) + chan_command, u32(chan_cmd_resume)); rc < 0)
		return rc;
	/* On a bus the write is in flight when it returns; the next request may have failed by the time we look. */
	return wait_for(c, "resumed",
			[&] { return !dma::read_fault(ch, &now) || now.seq != old.seq || now.reason != old.reason; });
}

int ring_stop(dma::channel *ch)
{
	sdma_channel *c = to_sdma(ch);

	if (dma::halted(ch))
		return 0;
	if (int rc = reg_write(c->owner->transport(), chan_ctrl(c->index) + chan_command, u32(chan_cmd_stop)); rc < 0)
		return rc;
	return wait_for(c, "stopped", [&] { return dma::halted(ch); });
}

/* The request that the device is in, or has yet to begin; *seq > posted: none. -EAGAIN: a WAIT. */
static int find_current(const sdma_channel *c, u64 *seq, bool *begun)
{
	const u64 done = dma::completed(c);
	u64 head;

	if (int rc = reg_read(c->owner->transport(), chan_ctrl(c->index) + chan_head, &head); rc < 0)
		return rc;
	/* A number that the device made up, or that of the last one that ended: the first that is not completed. */
	*begun = head != done;
	*seq = head - done - 1 < c->posted - done ? head : done + 1;
	return *seq - done <= c->posted - done && load_relaxed(&c->ring[*seq & c->mask].op) == u8(dma::opcode::wait) ?
		       -EAGAIN :
		       0;
}

/* The device is off and touches nothing: the driver writes the record in its place. */
static void write_record(sdma_channel *c, u64 seq, bool cut)
{
	dma::completion_record *r = &c->status->record;

	store_relaxed(&r->reason, u32(cut ? dma::fault_reason::reset : dma::fault_reason::stopped));
	store_relaxed(&r->fault_seq, seq);
	store_relaxed(&r->fault_address, u64(0));
	store_relaxed(&r->fault_cookie, cut ? load_relaxed(&c->ring[seq & c->mask].cookie) : u64(0));
	/* Those before it have ended, whether the device came to write that or not. */
	store_release(&r->completed, seq - 1);
	/* Release: who sees the state also sees the fault. */
	store_release(&r->state, u32(dma::state_halted));
}

int ring_begun(const dma::channel *ch)
{
	u64 seq;
	bool begun = false;
	const int rc = find_current(static_cast<const sdma_channel *>(ch), &seq, &begun);

	return rc && rc != -EAGAIN ? rc : begun;
}

int ring_cut(dma::channel *ch)
{
	sdma_channel *c = to_sdma(ch);
	bool begun = false;
	u64 seq = 0;

	if (dma::halted(ch) || dma::completed(ch) == ch->posted)
		return -EAGAIN;
	/* A device that tells of its life while it waits, and has not, hangs there too. */
	if (int rc = find_current(c, &seq, &begun); rc < 0 && !(rc == -EAGAIN && c->owner->has_heartbeat()))
		return rc;
	if (int rc = switch_off(c); rc < 0)
		return rc;
	c->off = true;
	/*
	 * Once more: it may have got on in between.  A WAIT did nothing yet, and what was not begun neither:
	 * they run again.
	 */
	const int rc = find_current(c, &seq, &begun);
	if (rc < 0 && rc != -EAGAIN)
		return rc;
	write_record(c, seq, !rc && begun && seq - dma::completed(ch) <= ch->posted - dma::completed(ch));
	return 0;
}

/* The tail as the device sees it: 0 where it does not say. */
static u64 read_tail(const sdma_channel *c)
{
	u64 tail = 0;

	if (c->doorbell)
		return mmio_read64(c->doorbell + doorbell_tail);
	reg_read(c->owner->transport(), chan_doorbell(c->index) + doorbell_tail, &tail);
	return tail;
}

bool ring_in_wait(const dma::channel *ch)
{
	u64 seq;
	bool begun = false;

	return find_current(static_cast<const sdma_channel *>(ch), &seq, &begun) == -EAGAIN;
}

void ring_describe(const dma::channel *ch, char *buf, size_t size)
{
	const auto *c = static_cast<const sdma_channel *>(ch);
	const u64 done = dma::completed(ch);
	const descriptor *next = &c->ring[(done + 1) & c->mask];
	u64 head = 0;
	u32 state = 0, debug = 0;

	reg_read(c->owner->transport(), chan_ctrl(c->index) + chan_head, &head);
	reg_read(c->owner->transport(), chan_ctrl(c->index) + chan_debug, &debug);
	reg_read(c->owner->transport(), chan_ctrl(c->index) + chan_state, &state);
	snprintf(buf, size,
		 "posted %llu, doorbell %llu, begun %llu, completed %llu; the next one's tag is 0x%x (due: 0x%x), "
		 "op %u; device state %u, %s%s, %s its engine's list, bell %s",
		 static_cast<unsigned long long>(ch->posted), static_cast<unsigned long long>(read_tail(c)),
		 static_cast<unsigned long long>(head), static_cast<unsigned long long>(done), load_relaxed(&next->tag),
		 u32(done + 1), load_relaxed(&next->op), state, load_relaxed(ch->asleep) ? "asleep" : "awake",
		 debug & chan_debug_waiting ? ", in a WAIT" : "", debug & chan_debug_listed ? "in" : "not in",
		 debug & chan_debug_bell ? "rung" : "silent");
}

int ring_restart(dma::channel *ch)
{
	return switch_on(to_sdma(ch), ch->posted);
}

} // namespace usdma::sdma
