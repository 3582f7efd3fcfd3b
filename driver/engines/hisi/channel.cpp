/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/base/mmio.h"
#include "driver/engines/hisi/hisi.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace usdma::hisi {

using dma::fault_reason;
using dma::opcode;

/* ---- registers --------------------------------------------------------------------------------------- */

/* Linux waits 1 ms and DPDK one second for each; a machine whose CPUs are all busy takes longer. */
static constexpr u64 idle_ms = 2000, quiesce_ms = 100;

void queue_regs::put(u32 reg, u32 value)
{
	if (likely(bar_ != nullptr))
		mmio_write32(bar_ + base_ + reg, value);
	else
		write(reg, value);
}

void queue_regs::mask(bool on, bool flush)
{
	u32 value;

	/* As Linux does; rearm() finds what ended before. */
	if (!on)
		put(q_int_sts, layout_.int_bits);
	put(q_int_msk, on ? layout_.int_bits : 0);
	if (!flush)
		return;
	if (likely(bar_ != nullptr))
		mmio_read32(bar_ + base_ + q_int_msk);
	else
		read(q_int_msk, &value);
}

int queue_regs::read(u32 reg, u32 *out)
{
	const int err = dev_.region_read(vfio::region_bar2, base_ + reg, out, sizeof(*out));

	/* No register that is read here has all bits set. */
	return err || *out != ~0u ? err : fail(EIO, "its registers read as ones: the device is off");
}

int queue_regs::change(u32 reg, u32 clear, u32 set)
{
	u32 value = 0;
	const int err = read(reg, &value);

	return err ? err : write(reg, (value & ~clear) | set);
}

int queue_regs::state(u32 *out)
{
	const int err = read(q_fsm, out);

	*out &= fsm_mask;
	return err;
}

template <class F> int queue_regs::wait(u64 ms, const char *what, const F &is_so)
{
	const deadline until = deadline::in_ms(ms);
	const timespec t = {0, 20 * 1000};
	u32 now = 0;

	for (;; nanosleep(&t, nullptr)) {
		if (int err = state(&now); err < 0 || is_so(now))
			return err;
		if (until.passed())
			return fail(ETIMEDOUT, "the queue is not %s after %llu ms (state %u)", what,
				    static_cast<unsigned long long>(ms), now);
	}
}

int queue_regs::pause()
{
	const int err = change(q_ctrl0, 0, ctrl0_pause);

	return err ? err : wait(idle_ms, "paused", [](u32 now) { return now != fsm_run; });
}

int queue_regs::mask_all()
{
	const int err = write(q_int_msk, layout_.int_bits);

	return err || !layout_.err_bits ? err : write(hip09_err_msk, layout_.err_bits);
}

/* One that does not stop running is reset all the same. */
int queue_regs::reset()
{
	int err = change(q_ctrl0, 0, ctrl0_pause);

	if (!err)
		err = change(q_ctrl0, ctrl0_enable, 0);
	if (!err)
		err = mask_all();
	if (!err)
		err = wait(quiesce_ms, "paused", [](u32 now) { return now != fsm_run; });
	if (!err || err == -ETIMEDOUT)
		err = change(q_ctrl1, 0, ctrl1_reset);
	if (!err)
		err = write(q_sq_tail, 0);
	if (!err)
		err = write(q_cq_head, 0);
	if (!err)
		err = unpause();
	return err ? err : wait(idle_ms, "idle after a reset", [](u32 now) { return now == fsm_idle; });
}

int queue_regs::set_rings(u64 sq, u64 cq, u32 depth)
{
	const u32 values[][2] = {
		{q_sq_base, u32(sq)}, {q_sq_base + 4, u32(sq >> 32)}, {q_sq_depth, depth - 1}, {q_sq_tail, 0},
		{q_cq_base, u32(cq)}, {q_cq_base + 4, u32(cq >> 32)}, {q_cq_depth, depth - 1}, {q_cq_head, 0}};
	int err = 0;

	for (const auto &[reg, value] : values)
		if (!err)
			err = write(reg, value);
	return err;
}

/* HIP09 has an interrupt of errors of its own, which stays on; HIP08 masks errors with the rest. */
int queue_regs::start(u64 sq, u64 cq, u32 depth, bool has_vector)
{
	int err = set_rings(sq, cq, depth);

	if (!err)
		err = write(q_int_sts, layout_.int_bits);
	if (!err)
		err = write(q_int_msk, has_vector ? 0 : layout_.int_bits);
	if (!err && layout_.err_bits)
		err = write(hip09_err_sts, layout_.err_bits);
	if (!err && layout_.err_bits)
		err = write(hip09_err_msk, has_vector ? 0 : layout_.err_bits);
	if (!err && layout_.err_bits)
		err = change(q_ctrl1, 0, ctrl1_va);
	return err ? err : change(q_ctrl0, layout_.ctrl0_remote, layout_.ctrl0_abort | ctrl0_enable);
}

/* ---- opening ---------------------------------------------------------------------------------------- */

static constexpr u64 page = 4096;

hisi_channel::hisi_channel(hisi_engine &e, u32 index_)
	: ring_channel(e, e.host(), index_), owner_(e), regs_(e.transport(), e.bar(), e.registers(), index_)
{
}

int hisi_channel::open(const dma::channel_config &cfg, u32 size)
{
	static_assert(sizeof(shared_page) <= page);
	pairs_ = std::max(u64(size) * 2, u64(least_depth) / 2);
	const u64 sq_bytes = align_up(pairs_ * sizeof(pair), page);
	const u64 cq_bytes = align_up(2 * pairs_ * sizeof(completion), page);

	if (int err = make_memory("usdma-hisi", page + sq_bytes + cq_bytes + pairs_ * sizeof(u64)); err < 0)
		return err;
	ring_size = size;
	page_ = reinterpret_cast<shared_page *>(memory());
	ring_ = reinterpret_cast<pair *>(memory() + page);
	done_ = reinterpret_cast<completion *>(memory() + page + sq_bytes);
	numbers_ = reinterpret_cast<u64 *>(memory() + page + sq_bytes + cq_bytes);
	return begin(cfg, owner_.vector(index));
}

void hisi_channel::close()
{
	owner_.close(this);
}

/* ---- submissions ------------------------------------------------------------------------------------- */

bool hisi_channel::in_hardware(const dma::request &r) const
{
	if ((r.flags & ~dma::valid_flags) || r.spaces)
		return false;
	return r.op == opcode::nop || (r.op == opcode::copy && r.len - 1 < owner_.limits().max_len);
}

/* The device has no operation without an effect: a nop copies to an unused word. */
void hisi_channel::build(u64 i, u64 seq, const dma::request &r)
{
	static constexpr u32 control = sqe_copy | sqe_fence;
	u64 *const number = number_at(i);
	pair &p = ring_[pair_of(i)];

	*number = seq;
	if (r.op == opcode::nop)
		p.data = {control, {}, sizeof(seq), iova_of(number), iova_of(&page_->unused)};
	else
		p.data = {control, {}, u32(r.len), r.src, r.dst};
	p.number = {control | sqe_interrupt, {}, sizeof(seq), iova_of(number), iova_of(&page_->record.completed)};
}

void hisi_channel::ring(u64 last)
{
	if (last - read_at_ >= ring_size / 4) {
		read_at_ = last;
		read_completions();
	}
	regs_.put(q_sq_tail, u32(2 * pair_of(last + 1)));
}

/* ---- completions ------------------------------------------------------------------------------------- */

/*
 * The ring has four entries for each request that the ring of requests takes, and a request needs at most two. In use
 * are half of them for requests in the ring, an eighth for those that ended since the last reading, and less than a
 * quarter that was read without a report to the device, which so never waits for space.
 */
void hisi_channel::read_completions()
{
	for (u64 n = 0; n < 2 * pairs_; n++) {
		/* What completed before is visible. */
		const u64 word = load_device(&done_[head_].word);

		if ((word & cqe_valid) != valid_)
			break;
		ended_ = u32(word & cqe_index_mask);
		has_ended_ = true;
		if (!status_) {
			status_ = u32(word >> cqe_status_shift);
			failed_ = ended_;
		}
		unread_++;
		if (++head_ == 2 * pairs_) {
			head_ = 0;
			valid_ ^= cqe_valid;
		}
	}
	if (unread_ >= pairs_ / 2) {
		unread_ = 0;
		regs_.put(q_cq_head, head_);
	}
}

/* After a reset the device starts at the first entry of the ring: the pending requests are moved there. */
int hisi_channel::start(u64 first)
{
	if (int err = regs_.reset(); err < 0)
		return err;
	std::rotate(ring_, ring_ + pair_of(first), ring_ + pairs_);
	base_ = first;
	read_at_ = first - 1;
	memset(static_cast<void *>(done_), 0, 2 * pairs_ * sizeof(*done_));
	head_ = unread_ = status_ = 0;
	has_ended_ = paused_ = false;
	valid_ = cqe_valid;
	return regs_.start(iova_of(ring_), iova_of(done_), u32(2 * pairs_), owner_.vector(index) >= 0);
}

/* Between the submissions of a pair the request has run: its number is stored here, as it must not run again. */
int hisi_channel::suspend()
{
	if (int err = regs_.pause(); err < 0) {
		/* What was posted runs on, as the stop has failed. */
		if (err == -ETIMEDOUT)
			regs_.unpause();
		return err;
	}
	read_completions();
	if (status_ || !has_ended_ || ended_ % 2)
		return 0;
	const u64 seq = *number_at(base_ + ended_ / 2);
	if (seq == completed(this) + 1)
		store_release(&page_->record.completed, seq);
	return 0;
}

/* ---- faults ------------------------------------------------------------------------------------------ */

/* A device that goes on after an error, whatever ctrl0_abort says, runs nothing behind the report of it. */
void hisi_channel::pause_after_error()
{
	paused_ = true;
	if (regs_.pause() < 0)
		log_warn("%s: channel %u: %s", owner_.transport().name(), index, error_text());
	const u64 seq = *number_at(base_ + failed_ / 2);
	if (s64(completed(this) - seq) >= 0)
		log_error("%s: channel %u: request %llu failed, and the device went on: status 0x%x",
			  owner_.transport().name(), index, static_cast<unsigned long long>(seq), status_);
}

bool hisi_channel::has_halted()
{
	read_completions();
	if (status_ && !paused_)
		pause_after_error();
	return status_;
}

int hisi_channel::read_halted(bool *out)
{
	u32 state = 0;
	const int err = regs_.state(&state);

	*out = has_halted() || state == fsm_halt || state == fsm_abort;
	return err;
}

static fault_reason reason_of(u32 status)
{
	return status & st_length ? fault_reason::bad_length :
	       status & st_opcode ? fault_reason::bad_op :
				    fault_reason::transfer;
}

/* The device reports neither the address nor whether it was the mapping: both follow from the list of areas. */
void hisi_channel::read_fault(const dma::request &r, fault_reason *why, u64 *at)
{
	log_debug("%s: channel %u: status 0x%x", owner_.transport().name(), index, status_);
	if (find_fault(r, why, at))
		return;
	*why = reason_of(status_);
	*at = status_ & (st_read | st_remote_read) ? r.src : r.dst;
}

void hisi_channel::describe_hardware(char *buf, size_t size)
{
	u32 state = 0;

	regs_.state(&state);
	snprintf(buf, size, "state %u, status 0x%x", state, status_);
}

} // namespace usdma::hisi
