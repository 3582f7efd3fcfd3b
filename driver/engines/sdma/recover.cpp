/* SPDX-License-Identifier: BSD-3-Clause */
/* Recovery of a halted channel: cancels requests in its ring, and resumes. */
#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/base/mmio.h"
#include "driver/engines/sdma/sdma.h"

#include <cstdio>

namespace usdma::sdma {

/* The device does not read the ring while halted; resume orders these stores before it does. */
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
	/* A failed request has run; a stopped one has not and would run again. */
	const u64 first = f.reason == dma::fault_reason::stopped ? f.seq : f.seq + 1;
	const u64 left = ch->posted + 1 - first;
	if (left > ch->ring_size) /* the device reported a bogus number */
		return 0;
	for (u64 i = 0; i < left; i++) {
		descriptor *d = &c->ring[(first + i) & c->mask];

		if (dma::cookie_owner(load_relaxed(&d->cookie) ^ cookie))
			continue;
		make_nop(d);
		count++;
	}
	return count;
}

/* Polls done() until it returns true. -ENODEV, -ETIMEDOUT with what. */
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

/* Re-enables the channel after first_seq; requests posted beyond it run. */
static int switch_on(sdma_channel *c, u64 first_seq)
{
	const int err = c->owner->program(c, first_seq);

	if (err)
		return err;
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
	if (int err = reg_write(c->owner->transport(), chan_ctrl(c->index) + chan_command, u32(chan_cmd_resume));
	    err < 0)
		return err;
	/* MMIO writes are posted; the next request may already have failed when we poll. */
	return wait_for(c, "resumed",
			[&] { return !dma::read_fault(ch, &now) || now.seq != old.seq || now.reason != old.reason; });
}

int ring_stop(dma::channel *ch)
{
	sdma_channel *c = to_sdma(ch);

	if (dma::halted(ch))
		return 0;
	if (int err = reg_write(c->owner->transport(), chan_ctrl(c->index) + chan_command, u32(chan_cmd_stop)); err < 0)
		return err;
	return wait_for(c, "stopped", [&] { return dma::halted(ch); });
}

/* The request that the device executes or will execute next; *seq > posted: none. -EAGAIN: a WAIT. */
static int find_current(const sdma_channel *c, u64 *seq, bool *begun)
{
	const u64 done = dma::completed(c);
	u64 head;

	if (int err = reg_read(c->owner->transport(), chan_ctrl(c->index) + chan_head, &head); err < 0)
		return err;
	/* If head is bogus, or the last completed request's number: use the first that is not completed. */
	*begun = head != done;
	*seq = head - done - 1 < c->posted - done ? head : done + 1;
	return *seq - done <= c->posted - done && load_relaxed(&c->ring[*seq & c->mask].op) == u8(dma::opcode::wait) ?
		       -EAGAIN :
		       0;
}

/* The channel is off and accesses nothing: the driver writes the record on its behalf. */
static void write_record(sdma_channel *c, u64 seq, bool aborted)
{
	dma::completion_record *r = &c->status->record;

	store_relaxed(&r->reason, u32(aborted ? dma::fault_reason::reset : dma::fault_reason::stopped));
	store_relaxed(&r->fault_seq, seq);
	store_relaxed(&r->fault_address, u64(0));
	store_relaxed(&r->fault_cookie, aborted ? load_relaxed(&c->ring[seq & c->mask].cookie) : u64(0));
	/* All before it have completed, even if the device did not update the record. */
	store_release(&r->completed, seq - 1);
	/* Release: the fault is visible before the state. */
	store_release(&r->state, u32(dma::state_halted));
}

int ring_begun(const dma::channel *ch)
{
	u64 seq;
	bool begun = false;
	const int err = find_current(static_cast<const sdma_channel *>(ch), &seq, &begun);

	return err && err != -EAGAIN ? err : begun;
}

int ring_abort(dma::channel *ch)
{
	sdma_channel *c = to_sdma(ch);
	bool begun = false;
	u64 seq = 0;

	if (dma::halted(ch) || dma::completed(ch) == ch->posted)
		return -EAGAIN;
	/* A device with a heartbeat updates it also in a WAIT; if it has not, it hangs there too. */
	if (int err = find_current(c, &seq, &begun); err < 0 && !(err == -EAGAIN && c->owner->has_heartbeat()))
		return err;
	if (int err = switch_off(c); err < 0)
		return err;
	c->off = true;
	/*
	 * Again: it may have made progress meanwhile. A WAIT has no effects yet, nor has a request that was not
	 * begun: these run again.
	 */
	const int err = find_current(c, &seq, &begun);
	if (err < 0 && err != -EAGAIN)
		return err;
	write_record(c, seq, !err && begun && seq - dma::completed(ch) <= ch->posted - dma::completed(ch));
	return 0;
}

/* The device's tail; 0 if it cannot be read. */
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
		 "posted %llu, doorbell %llu, begun %llu, completed %llu; the next one's tag is 0x%x (expected: 0x%x), "
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
