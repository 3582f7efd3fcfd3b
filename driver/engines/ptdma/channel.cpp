/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/base/mmio.h"
#include "driver/engines/ptdma/ptdma.h"

#include <cstdio>
#include <mutex>

namespace usdma::ptdma {

using dma::fault_reason;
using dma::opcode;

/* A machine whose CPUs are all busy takes longer than the hardware. */
static constexpr u64 stop_ms = 2000, quiesce_ms = 100;

/* ---- registers --------------------------------------------------------------------------------------- */

void queue_regs::put(u32 reg, u32 value)
{
	if (likely(bar_ != nullptr))
		mmio_write32(bar_ + reg, value);
	else
		dev_.region_post(vfio::region_bar2, reg, &value, sizeof(value));
}

int queue_regs::read(u32 reg, u32 *out)
{
	const int err = dev_.region_read(vfio::region_bar2, reg, out, sizeof(*out));

	/* No register that is read here has all bits set. */
	return err || *out != ~0u ? err : fail(EIO, "its registers read as ones: the device is off");
}

/* What was written to memory before the status is visible. */
u32 queue_regs::int_status() const
{
	u32 value = 0;

	if (likely(bar_ != nullptr))
		value = mmio_read32(bar_ + q_int_status);
	else if (dev_.region_read(vfio::region_bar2, q_int_status, &value, sizeof(value)) < 0)
		return 0;
	/* What replaces the registers of a lost device keeps what is stored there. */
	return value == ~0u || (value && dev_.lost()) ? 0 : value & int_all;
}

static u32 control_of(u64 ring)
{
	return u32(ring >> 32) << control_high_shift | ring_size_value << control_size_shift;
}

/* As pt_core_init and pt_core_destroy do, who read the two, too. */
int queue_regs::stop()
{
	u32 value;
	int err = write(q_int_enable, 0);

	if (!err)
		err = write(q_control, 0);
	if (!err)
		err = dev_.region_read(vfio::region_bar2, q_int_detail, &value, sizeof(value));
	if (!err)
		err = dev_.region_read(vfio::region_bar2, q_status, &value, sizeof(value));
	return err ? err : write(q_int_status, int_all);
}

int queue_regs::start(u64 ring)
{
	int err = write(q_tail, u32(ring));

	if (!err)
		err = write(q_head, u32(ring));
	return err ? err : write(q_control, control_of(ring));
}

void queue_regs::run(u64 ring, u64 tail)
{
	put(q_tail, u32(tail));
	put(q_control, control_of(ring) | control_run);
}

int queue_regs::skip(u64 tail)
{
	const int err = write(q_int_status, int_all);

	return err ? err : write(q_head, u32(tail));
}

/* ---- opening ---------------------------------------------------------------------------------------- */

static constexpr u64 page = 4096;

ptdma_channel::ptdma_channel(ptdma_engine &e, u32 index_)
	: ring_channel(e, e.host(), index_), owner_(e), regs_(e.transport(), e.bar())
{
}

int ptdma_channel::open(const dma::channel_config &cfg, u32 size)
{
	static_assert(sizeof(shared_page) <= page && ring_entries * sizeof(descriptor) <= page && ring_align <= page);

	if (int err = make_memory("usdma-ptdma", 2 * page + size * sizeof(descriptor)); err < 0)
		return err;
	ring_size = size;
	page_ = reinterpret_cast<shared_page *>(memory());
	ring_ = reinterpret_cast<descriptor *>(memory() + page);
	slots_ = reinterpret_cast<descriptor *>(memory() + 2 * page);
	return begin(cfg, owner_.vector(index), owner_.bar() != nullptr);
}

/* ---- descriptors ------------------------------------------------------------------------------------- */

static bool is_reachable(u64 at, u64 len)
{
	static constexpr u64 end = u64(1) << address_bits;

	return at < end && end - at >= len;
}

bool ptdma_channel::in_hardware(const dma::request &r) const
{
	if ((r.flags & ~dma::valid_flags) || r.spaces)
		return false;
	if (r.op == opcode::nop)
		return true;
	return r.op == opcode::copy && r.len - 1 < owner_.limits().max_len && is_reachable(r.src, r.len) &&
	       is_reachable(r.dst, r.len);
}

/* The device has no operation without an effect: a nop copies an unused word. */
void ptdma_channel::build(u64 i, const dma::request &r)
{
	const bool copies = r.op == opcode::copy;
	const u64 len = copies ? r.len : sizeof(u64);
	const u64 src = copies ? r.src : iova_of(&page_->unused[0]), dst = copies ? r.dst : iova_of(&page_->unused[1]);

	slot(i) = {desc_copy, u32(len), u32(src), u32(src >> 32), u32(dst), u32(dst >> 32), 0, 0};
}

/* With collect_lock_ held. */
void ptdma_channel::submit_next()
{
	if (holds_ || in_flight_ || s64(handed() - sent_) <= 0)
		return;
	ring_[next_] = slot(sent_ + 1);
	next_ = (next_ + 1) % ring_entries;
	in_flight_ = true;
	store_release(&sent_, sent_ + 1);
	regs_.run(iova_of(ring_), tail());
}

/* What waits for its turn is submitted when the one before it is found to have ended. */
void ptdma_channel::ring(u64)
{
	std::lock_guard holding(collect_lock_);

	submit_next();
}

/* ---- completions ------------------------------------------------------------------------------------- */

bool ptdma_channel::has_news(u64 next) const
{
	return s64(read_shared(&sent_) - next) >= 0 && !read_shared(&failed_) && regs_.int_status();
}

u64 ptdma_channel::read_news(u64 next)
{
	if (!in_flight_ || failed_ || sent_ != next)
		return next - 1;
	const u32 status = regs_.int_status();

	if (status & int_error)
		store_release(&failed_, u64(1));
	ended_ = status == int_done;
	return ended_ ? next : next - 1;
}

/* Not before the record has it, as others see an acknowledged status as nothing new. */
void ptdma_channel::took_news()
{
	if (!ended_)
		return;
	ended_ = in_flight_ = false;
	regs_.put(q_int_status, int_done);
	submit_next();
}

/* ---- interrupts ---------------------------------------------------------------------------------------- */

/* With collect_lock_ held. */
void ptdma_channel::enable_interrupt(bool on)
{
	on = on && has_vector();
	if (raises_ == on)
		return;
	raises_ = on;
	regs_.put(q_int_enable, on ? u32(int_all) : 0);
}

/* What ended while it was disabled raises none: each reader of the record reads the status, which flushes this, too. */
void ptdma_channel::rearm(bool)
{
	std::lock_guard holding(collect_lock_);

	enable_interrupt(true);
}

/* What waits for its turn needs the thread, if no waiter polls. */
void ptdma_channel::disarm()
{
	std::lock_guard holding(collect_lock_);

	if (handed() == sent_)
		enable_interrupt(false);
}

/* ---- start and stop ------------------------------------------------------------------------------------ */

int ptdma_channel::start(u64 first)
{
	std::lock_guard holding(collect_lock_);

	if (!begun_) {
		next_ = 0;
		if (int err = regs_.start(iova_of(ring_)); err < 0)
			return err;
	}
	begun_ = true;
	holds_ = false;
	store_release(&sent_, first - 1);
	enable_interrupt(true);
	return 0;
}

/* True: nothing is in flight, or it has failed. */
bool ptdma_channel::is_idle()
{
	completed(this);
	std::lock_guard holding(collect_lock_);
	holds_ = true;
	/* It was dropped, and is done only now: its function has no reset. */
	if (in_flight_ && s64(sent_ - collected()) <= 0 && regs_.int_status()) {
		regs_.put(q_int_status, int_all);
		in_flight_ = false;
	}
	return !in_flight_ || failed_;
}

/* Nothing is submitted from now on. */
bool ptdma_channel::await_idle(u64 ms)
{
	const deadline until = deadline::in_ms(ms);
	const timespec t = {0, 20 * 1000};

	for (; !is_idle(); nanosleep(&t, nullptr))
		if (until.passed())
			return false;
	return true;
}

int ptdma_channel::suspend()
{
	if (await_idle(stop_ms))
		return 0;
	std::lock_guard holding(collect_lock_);
	/* What was posted runs on, as the stop has failed. */
	holds_ = false;
	submit_next();
	return fail(ETIMEDOUT, "the descriptor in flight has not ended after %llu ms",
		    static_cast<unsigned long long>(stop_ms));
}

int ptdma_channel::quiesce()
{
	return await_idle(0) && !read_shared(&failed_) ? 0 : reset();
}

/* No register stops a descriptor: one that hangs is stopped with the function, which has no other user. */
int ptdma_channel::reset()
{
	const bool idle = await_idle(quiesce_ms);
	const int err = idle ? regs_.stop() : owner_.reset_function();

	if (err < 0)
		return err;
	std::lock_guard holding(collect_lock_);
	in_flight_ = begun_ = raises_ = false;
	store_release(&failed_, u64(0));
	return 0;
}

void ptdma_channel::was_reset()
{
	std::lock_guard holding(collect_lock_);

	holds_ = true;
	begun_ = raises_ = false;
	in_flight_ = in_flight_ && !owner_.has_reset();
	store_release(&failed_, u64(0));
}

/* ---- faults ------------------------------------------------------------------------------------------ */

bool ptdma_channel::has_halted()
{
	completed(this);
	return read_shared(&failed_);
}

int ptdma_channel::read_halted(bool *out)
{
	u32 status = 0;
	const int err = regs_.read(q_int_status, &status);

	*out = !err && has_halted();
	return err;
}

static fault_reason reason_of(u32 code)
{
	return code == error_length                    ? fault_reason::bad_length :
	       code && code <= error_function_reserved ? fault_reason::bad_op :
							 fault_reason::transfer;
}

/* As pt_do_cmd_complete does. The device reports no address: it follows from the list of areas. */
void ptdma_channel::read_fault(const dma::request &r, fault_reason *why, u64 *at)
{
	u32 status = 0;
	{
		std::lock_guard holding(collect_lock_);

		if (regs_.read(q_status, &status) < 0 || regs_.skip(tail()) < 0)
			log_warn("%s: channel %u: %s", owner_.transport().name(), index, error_text());
		holds_ = true;
		in_flight_ = false;
		store_release(&failed_, u64(0));
	}
	const u32 code = status & error_mask;
	log_debug("%s: channel %u: error %u", owner_.transport().name(), index, code);
	if (find_fault(r, why, at))
		return;
	*why = reason_of(code);
	*at = code == error_read ? r.src : r.dst;
}

void ptdma_channel::describe_hardware(char *buf, size_t size)
{
	u32 control = 0, head = 0, status = 0;

	regs_.read(q_control, &control);
	regs_.read(q_head, &head);
	regs_.read(q_int_status, &status);
	snprintf(buf, size, "control 0x%x, head 0x%x, tail 0x%x, interrupt status 0x%x", control, head, u32(tail()),
		 status);
}

} // namespace usdma::ptdma
