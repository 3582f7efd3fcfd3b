/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes a channel: its memory, its registers, its slot in the engine. */
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/dma/own_memory.h"
#include "driver/engines/sdma/sdma.h"

#include <algorithm>
#include <new>

namespace usdma::sdma {

/* In a channel's memory, behind the status block. */
static constexpr u64 ring_at = 4096;

/*
 * A tag in slot i is valid only when it equals i modulo the ring's size, so i ^ 1 is never valid: whatever
 * number the channel starts with, a slot not yet written appears empty.
 */
static void clear_ring(sdma_channel *c)
{
	for (u64 i = 0; i <= c->mask; i++) {
		c->ring[i] = descriptor{};
		c->ring[i].tag = u32(i ^ 1);
	}
}

int sdma_engine::map_ring(sdma_channel *c)
{
	vfio::dma_area area = {.size = c->memory.size(), .vaddr = c->memory.data(), .fd = c->file.get()};
	std::lock_guard guard(lock_);

	/* Reserved for closing, which must not fail. */
	if (!try_reserve(stuck_, stuck_.size() + channels_.size()))
		return no_memory("a ring");
	if (int err = dma::own_memory_map(*dev_, &area, &next_ring_); err < 0)
		return err;
	c->iova = area.iova;
	c->file.reset(); /* both sides have mapped it */
	return 0;
}

void sdma_engine::unmap_ring(sdma_channel *c)
{
	if (!c->iova)
		return;
	std::lock_guard guard(lock_);
	if (dev_->dma_unmap(c->iova, c->memory.size()) == 0) {
		next_ring_ = std::min(next_ring_, c->iova);
		return;
	}
	/*
	 * The address stays reserved and the pages stay allocated: a device that we lost contact with may still be
	 * running.
	 */
	if (!dev_->lost())
		log_warn("%s: cannot unmap a ring: %s", dev_->name(), error_text());
	push_reserved(stuck_, std::move(c->memory));
}

void sdma_engine::remove_channel(sdma_channel *c)
{
	std::lock_guard guard(lock_);

	if (channels_[c->index] == c)
		channels_[c->index] = nullptr;
	if (c->completion_vector != no_vector)
		completion_of_[c->completion_vector - 1 - waiters_] = 0;
}

int sdma_engine::check_config(const dma::channel_config &cfg, u32 ring_size) const
{
	if (!is_pow2(ring_size) || ring_size < min_ring_ || ring_size > max_ring_)
		return fail(EINVAL, "ring size %u: the device takes powers of two from %u to %u", ring_size, min_ring_,
			    max_ring_);
	if (cfg.coalesce_count > 0xffff || cfg.coalesce_us > 0xffff)
		return fail(EINVAL, "interrupt coalescing of %u completions or %u us: each may be up to 65535",
			    cfg.coalesce_count, cfg.coalesce_us);
	return 0;
}

/* Registers of one channel page. */
struct page_writer {
	vfio::device &dev;
	u64 page;
	int err = 0;

	template <class T> page_writer &put(u64 reg, T value)
	{
		if (!err)
			err = reg_write(dev, page + reg, value);
		return *this;
	}
};

/*
 * The register only reports "bad configuration"; the configuration is correct, so the device must have failed
 * to access the ring.
 */
static int ring_unreachable(const sdma_channel *c)
{
	return fail(EIO,
		    "channel %u does not start: the device cannot access its ring, %zu KiB at IOVA %#llx. In a virtual "
		    "machine: "
		    "does the device's server allow that many mappings? See the server's log",
		    c->index, c->memory.size() / 1024, static_cast<unsigned long long>(c->iova));
}

int switch_off(sdma_channel *c)
{
	vfio::device &dev = c->owner->transport();
	const deadline until = deadline::in_ms(command_ms);
	const timespec nap = {0, 20 * 1000};
	u32 state;

	if (int err = reg_write(dev, chan_ctrl(c->index) + chan_command, u32(chan_cmd_disable)); err < 0)
		return err;
	for (;;) {
		if (int err = reg_read(dev, chan_ctrl(c->index) + chan_state, &state); err < 0)
			return err;
		if (state == ~u32(0))
			return dev.answers();
		if (state != chan_state_stopping)
			return 0;
		if (until.passed())
			return fail(ETIMEDOUT,
				    "channel %u: device accesses are still in flight %llu ms after it was disabled",
				    c->index, static_cast<unsigned long long>(command_ms));
		nanosleep(&nap, nullptr);
	}
}

/*
 * As the device does when the channel is enabled; if its writes arrive by messages, no one sees an old fault
 * until then.
 */
static void begin_record(sdma_channel *c, u64 first_seq)
{
	dma::completion_record *r = &c->status->record;

	store_relaxed(&r->reason, 0u);
	store_relaxed(&r->completed, first_seq);
	store_release(&r->state, u32(dma::state_running));
}

int sdma_engine::program(sdma_channel *c, u64 first_seq)
{
	const u32 vectors = waiter_vector(c->index) | 0u << 16; /* waiter | service */
	page_writer w{*dev_, chan_ctrl(c->index)};
	page_writer doorbell{*dev_, chan_doorbell(c->index)};
	u32 state;

	if (int err = switch_off(c); err < 0)
		return err;
	w.put(chan_ring_base, u64(c->iova + ring_at))
		.put(chan_ring_order, u32(__builtin_ctz(c->ring_size)))
		.put(chan_vectors, vectors)
		.put(chan_record, c->iova)
		.put(chan_first_seq, first_seq)
		.put(chan_coalesce, c->cfg.coalesce_count | c->cfg.coalesce_us << 16);
	if (has_completion_irq())
		w.put(chan_completion, c->completion_vector);
	/* Before enable: a stale tail of an earlier user must not look like work. */
	doorbell.put(doorbell_tail, first_seq).put(doorbell_arm, arm_none).put(doorbell_arm_service, arm_none);
	if (has_completion_irq())
		doorbell.put(doorbell_arm_completion, arm_none);
	if (doorbell.err)
		return doorbell.err;
	begin_record(c, first_seq);
	if (w.put(chan_command, u32(chan_cmd_enable)).err)
		return w.err;
	if (int err = reg_read(*dev_, chan_ctrl(c->index) + chan_state, &state); err < 0)
		return err;
	/* Halted: a descriptor in its ring has already failed. */
	if (state == ~u32(0))
		if (int err = dev_->answers(); err < 0)
			return err;
	if (state == chan_state_error)
		return ring_unreachable(c);
	if (state != chan_state_running && state != chan_state_halted)
		return fail(EIO, "channel %u does not start: state %#x", c->index, state);
	return 0;
}

int sdma_engine::setup(sdma_channel *c, const dma::channel_config &cfg)
{
	const u64 size = align_up(ring_at + u64(c->ring_size) * sizeof(descriptor), page_size_);

	if (int err = dma::own_memory_make("usdma-ring", size, limits_.numa_node, &c->file, &c->memory); err < 0)
		return err;
	c->status = reinterpret_cast<status_block *>(c->memory.data());
	c->ring = reinterpret_cast<descriptor *>(c->memory.data() + ring_at);
	clear_ring(c);
	c->record = &c->status->record;
	c->asleep = &c->status->asleep;
	c->asleep_ordered = sleep_is_ordered();
	if (dev_->own_connection()) /* not through the kernel's VFIO: its CPU numbers may be those of a guest */
		c->engine_cpu = &c->status->cpu;
	if (int err = map_ring(c); err < 0)
		return err;
	c->record_iova = c->iova + offsetof(status_block, record.completed);
	if (dev_->region_map(vfio::region_bar0, chan_doorbell(c->index), chan_stride, &c->doorbell_page) == 0)
		c->doorbell = c->doorbell_page.data();
	c->ops = c->doorbell ? &ring_ops : &trapped_ops;
	c->wake_fd = dev_->region_doorbell_fd(vfio::region_bar0, chan_ctrl(c->index) + chan_wake);
	c->irq_fd[dma::irq_waiter] = vectors_[waiter_vector(c->index)].get();
	c->irq_fd[dma::irq_service] = vectors_[0].get();
	c->completion_vector = take_completion_vector(c->index);
	c->irq_fd[dma::irq_completion] = -1;
	c->cfg = cfg;
	return program(c, cfg.first_seq);
}

int sdma_engine::channel_open(unsigned index, const dma::channel_config &cfg, dma::channel **out)
{
	const u32 ring_size = cfg.ring_size ? cfg.ring_size : limits_.ring_size;
	sdma_channel *c;

	if (index >= limits_.channels)
		return fail(EINVAL, "channel %u: the device has %u", index, limits_.channels);
	if (int err = check_config(cfg, ring_size); err < 0)
		return err;
	c = new (std::nothrow) sdma_channel();
	if (!c)
		return fail(ENOMEM, "no memory for channel %u", index);
	c->ops = &ring_ops;
	c->posted = cfg.first_seq;
	c->post_limit = cfg.first_seq + ring_size;
	c->ring_size = ring_size;
	c->mask = ring_size - 1;
	c->index = index;
	c->eng = c->owner = this;
	{
		std::lock_guard guard(lock_);

		if (channels_[index]) {
			delete c;
			return fail(EBUSY, "channel %u is open already", index);
		}
		channels_[index] = c;
	}
	if (int err = setup(c, cfg); err < 0) {
		channel_close(c);
		return fail_in(err, "channel %u", index);
	}
	*out = c;
	return 0;
}

void channel_close(dma::channel *ch)
{
	sdma_channel *c = to_sdma(ch);
	vfio::device &dev = c->owner->transport();

	/* The unmap below stops even a device that does not obey. */
	if (c->iova && !dev.lost() && switch_off(c) < 0)
		log_warn("%s: channel %u: %s", dev.name(), c->index, error_text());
	c->owner->unmap_ring(c);
	c->owner->remove_channel(c);
	delete c;
}

} // namespace usdma::sdma
