/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/base/mmio.h"
#include "driver/engines/hisi/hisi.h"

#include <algorithm>
#include <cstdio>

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
		dev_.region_post(vfio::region_bar2, base_ + reg, &value, sizeof(value));
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
	/* It goes on after an error, as in [L] and [D]. */
	return err ? err : change(q_ctrl0, layout_.ctrl0_remote | layout_.ctrl0_abort, ctrl0_enable);
}

/* ---- opening ---------------------------------------------------------------------------------------- */

static constexpr u64 page = 4096;

hisi_channel::hisi_channel(hisi_engine &e, u32 index_)
	: status_channel(e, e.host(), index_), owner_(e), regs_(e.transport(), e.bar(), e.registers(), index_)
{
}

int hisi_channel::open(const dma::channel_config &cfg, u32 size)
{
	static_assert(sizeof(shared_page) <= page);
	entries_ = std::max(u64(size) * 2, u64(least_depth));
	const u64 sq_bytes = align_up(entries_ * sizeof(submission), page);

	if (int err = make_statuses(entries_); err < 0)
		return err;
	if (int err = make_memory("usdma-hisi", page + sq_bytes + entries_ * sizeof(completion)); err < 0)
		return err;
	ring_size = size;
	page_ = reinterpret_cast<shared_page *>(memory());
	ring_ = reinterpret_cast<submission *>(memory() + page);
	done_ = reinterpret_cast<completion *>(memory() + page + sq_bytes);
	return begin(cfg, owner_.vector(index), owner_.bar() != nullptr);
}

/* ---- submissions ------------------------------------------------------------------------------------- */

bool hisi_channel::in_hardware(const dma::request &r) const
{
	if ((r.flags & ~dma::valid_flags) || r.spaces)
		return false;
	return r.op == opcode::nop || (r.op == opcode::copy && r.len - 1 < owner_.limits().max_len);
}

/* The device has no operation without an effect: a nop copies an unused word. */
void hisi_channel::build(u64 i, const dma::request &r)
{
	const u32 control = sqe_copy | sqe_fence | sqe_interrupt;
	submission &s = ring_[entry_of(i)];

	if (r.op == opcode::nop)
		s = {control, {}, sizeof(u64), iova_of(&page_->unused[0]), iova_of(&page_->unused[1])};
	else
		s = {control, {}, u32(r.len), r.src, r.dst};
}

/*
 * The completion ring never fills: it has twice the entries of the requests in flight, and when there can be more of
 * these, less than a quarter of it was read without a report to the device.
 */
void hisi_channel::ring(u64 last)
{
	const u64 read = load_relaxed(&read_);

	if (read - given_ >= entries_ / 4) {
		given_ = read;
		regs_.put(q_cq_head, u32(read & (entries_ - 1)));
	}
	regs_.put(q_sq_tail, u32(entry_of(last + 1)));
}

/* ---- completions ------------------------------------------------------------------------------------- */

/* The valid bit is 1 in the first round of the ring, 0 in the second, and so on. */
bool hisi_channel::is_valid(u64 read, u64 *word) const
{
	/* What completed before is visible. */
	*word = load_device(&done_[read & (entries_ - 1)].word);
	return (*word & cqe_valid) == (read & entries_ ? 0 : cqe_valid);
}

/*
 * A completion is that of all submissions up to its own ([D]), and has the status of its own. One that names a
 * submission again, or one that was not handed over, says nothing.
 */
void hisi_channel::read_reports()
{
	u64 word;

	for (u64 n = 0; n < entries_ && is_valid(reading_, &word); n++, reading_++) {
		const u64 last = ended() + ((word - entry_of(ended())) & (entries_ - 1));

		if (s64(handed() - last) >= 0 && (last != ended() || word >> cqe_status_shift))
			set_ended(last, u32(word >> cqe_status_shift));
	}
}

bool hisi_channel::has_reports() const
{
	u64 word;

	return is_valid(read_shared(&read_), &word);
}

/* ---- start and stop ---------------------------------------------------------------------------------- */

/* After a reset the device starts at the first entry of the ring: the pending requests are built there. */
int hisi_channel::start(u64 first)
{
	{
		std::lock_guard holding(collect_lock_);

		base_ = first;
		for (u64 n = 0; n < entries_; n++)
			store_relaxed(&done_[n].word, u64(0));
		clear_statuses(first);
		reading_ = given_ = 0;
		store_release(&read_, u64(0));
	}
	return regs_.start(iova_of(ring_), iova_of(done_), u32(entries_), owner_.vector(index) >= 0);
}

int hisi_channel::suspend()
{
	const int err = regs_.pause();

	/* What was posted runs on, as the stop has failed. */
	if (err == -ETIMEDOUT)
		regs_.unpause();
	return err;
}

/* ---- faults ------------------------------------------------------------------------------------------ */

int hisi_channel::read_halted(bool *out)
{
	u32 state = 0;
	const int err = regs_.state(&state);

	completed(this);
	*out = failure() || state == fsm_halt || state == fsm_abort;
	return err;
}

static fault_reason reason_of(u32 status)
{
	return status & st_length ? fault_reason::bad_length :
	       status & st_opcode ? fault_reason::bad_op :
				    fault_reason::transfer;
}

/*
 * Requests behind it may run until the queue is paused. The device reports neither the address nor whether it was the
 * mapping: both follow from the list of areas.
 */
void hisi_channel::read_fault(const dma::request &r, fault_reason *why, u64 *at)
{
	const u32 status = failure();

	/* Then it runs what was posted until it is reset, as in [L]. */
	if (regs_.pause() < 0)
		log_warn("%s: channel %u: %s", owner_.transport().name(), index, error_text());
	log_debug("%s: channel %u: status 0x%x", owner_.transport().name(), index, status);
	if (find_fault(r, why, at))
		return;
	*why = reason_of(status);
	*at = status & (st_read | st_remote_read) ? r.src : r.dst;
}

void hisi_channel::describe_hardware(char *buf, size_t size)
{
	u32 state = 0;

	regs_.state(&state);
	snprintf(buf, size, "state %u, status 0x%x", state, failure());
}

} // namespace usdma::hisi
