/* SPDX-License-Identifier: BSD-3-Clause */
/* A channel that halted: what is taken out of its ring, and how it goes on. */
#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/engines/sdma/sdma.h"

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

unsigned ring_squash(dma::channel *ch, u64 cookie)
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

int ring_resume(dma::channel *ch)
{
	sdma_channel *c = to_sdma(ch);
	dma::fault old, now;

	if (!dma::read_fault(ch, &old))
		return fail(EINVAL, "channel %u is not halted", c->index);
	if (int rc = reg_write(c->owner->transport(), chan_ctrl(c->index) + chan_command, u32(chan_cmd_resume)); rc < 0)
		return rc;
	/* On a bus the write is under way when it returns; the next request may have failed by the time we look. */
	return wait_for(c, "resumed", [&] {
		return !dma::read_fault(ch, &now) || now.seq != old.seq || now.reason != old.reason;
	});
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

} // namespace usdma::sdma
