/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/base/mmio.h"
#include "driver/engines/ioat/ioat.h"

#include <cstdio>

namespace usdma::ioat {

using dma::fault_reason;
using dma::opcode;

/* ---- registers --------------------------------------------------------------------------------------- */

/* Linux waits 100 ms for a suspend and 200 ms for a reset; a machine whose CPUs are all busy takes longer. */
static constexpr u64 command_ms = 2000, quiesce_ms = 100;
static constexpr u16 ctrl_silent = ctrl_err_completion | ctrl_any_err_abort;
static constexpr u16 ctrl_run = ctrl_silent | ctrl_int_rearm | ctrl_err_int;

template <class T> int channel_regs::read(u32 reg, T *out)
{
	return dev_.region_read(vfio::region_bar0, base_ + reg, out, sizeof(T));
}

template <class T> int channel_regs::write(u32 reg, T value)
{
	return dev_.region_write(vfio::region_bar0, base_ + reg, &value, sizeof(T));
}

/* Low half first: some chips do not take 64 bits at once. */
int channel_regs::write_address(u32 reg, u64 value)
{
	const int err = write(reg, u32(value));

	return err ? err : write(reg + 4, u32(value >> 32));
}

void channel_regs::count(u16 descriptors)
{
	if (likely(bar_ != nullptr))
		mmio_write16(bar_ + base_ + chan_dmacount, descriptors);
	else
		dev_.region_post(vfio::region_bar0, base_ + chan_dmacount, &descriptors, sizeof(descriptors));
}

/* Flush: a completion before the rearm, which raised no interrupt, has then reached memory. */
void channel_regs::rearm(bool flush)
{
	u32 status;

	if (likely(bar_ != nullptr)) {
		mmio_write16(bar_ + base_ + chan_ctrl, ctrl_run);
		if (flush)
			mmio_read32(bar_ + base_ + chan_sts);
	} else if (!write(chan_ctrl, ctrl_run) && flush) {
		read(chan_sts, &status);
	}
}

static void nap()
{
	const timespec t = {0, 20 * 1000};

	nanosleep(&t, nullptr);
}

int channel_regs::stop(u64 ms, u64 *status)
{
	const deadline until = deadline::in_ms(ms);
	int err = write(chan_cmd, u8(cmd_suspend));

	for (; !err; nap()) {
		err = read(chan_sts, status);
		if (err || (*status & sts_mask) == sts_suspended || (*status & sts_mask) == sts_halted)
			return err;
		if (until.passed())
			err = fail(ETIMEDOUT, "the channel is not suspended after %llu ms (status 0x%llx)",
				   static_cast<unsigned long long>(ms), static_cast<unsigned long long>(*status));
	}
	return err;
}

int channel_regs::suspend(u64 *status)
{
	const int err = stop(command_ms, status);

	/* What was posted runs on, as the stop has failed. */
	if (err == -ETIMEDOUT)
		write(chan_cmd, u8(cmd_resume));
	return err;
}

int channel_regs::clear_errors()
{
	u32 errors;
	int err = read(chan_err, &errors);

	if (!err && errors)
		err = write(chan_err, errors);
	if (err || chip_.version >= version_3_3)
		return err;
	if (!dev_.region_read(vfio::region_config, cfg_chanerr_int, &errors, sizeof(errors)) && errors)
		dev_.region_write(vfio::region_config, cfg_chanerr_int, &errors, sizeof(errors));
	return 0;
}

/* One that does not obey the suspend is reset all the same. */
int channel_regs::reset()
{
	const deadline until = deadline::in_ms(command_ms);
	u64 status;
	u8 cmd;
	int err = read(chan_sts, &status);

	if (!err && (status & sts_mask) <= sts_idle)
		err = stop(quiesce_ms, &status);
	if (!err || err == -ETIMEDOUT)
		err = clear_errors();
	if (!err)
		err = write(chan_cmd, u8(cmd_reset));
	for (; !err; nap()) {
		err = read(chan_cmd, &cmd);
		if (err || !(cmd & cmd_reset))
			return err;
		if (until.passed())
			err = fail(ETIMEDOUT, "the channel's reset is not done after %llu ms",
				   static_cast<unsigned long long>(command_ms));
	}
	return err;
}

int channel_regs::arm(u64 chain, u64 completion, bool interrupts)
{
	int err = write(chan_ctrl, interrupts ? ctrl_run : ctrl_silent);

	if (!err)
		err = write_address(chan_cmp, completion);
	return err ? err : write_address(chan_chainaddr, chain);
}

/* ---- opening ---------------------------------------------------------------------------------------- */

static constexpr u64 page = 4096;

ioat_channel::ioat_channel(ioat_engine &e, u32 index_)
	: ring_channel(e, e.host(), index_), owner_(e), regs_(e.transport(), e.bar(), e.quirks(), index_)
{
}

int ioat_channel::open(const dma::channel_config &cfg, u32 size)
{
	slots_ = 2 * u64(size);
	if (int err = make_memory("usdma-ioat", page + slots_ * sizeof(descriptor)); err < 0)
		return err;
	ring_size = size;
	page_ = reinterpret_cast<shared_page *>(memory());
	ring_ = reinterpret_cast<descriptor *>(memory() + page);
	ring_iova_ = iova() + page;
	return begin(cfg, owner_.vector(index), owner_.bar() != nullptr);
}

/* ---- descriptors ------------------------------------------------------------------------------------- */

/* No source says where the pattern of a fill begins, which is equal for these only: equal bytes, or aligned words. */
static bool fill_is_plain(const dma::request &r)
{
	return r.arg == 1 || (r.arg == 8 && r.dst % 8 == 0 && r.len % 8 == 0);
}

bool ioat_channel::in_hardware(const dma::request &r) const
{
	const dma::engine_limits &l = owner_.limits();

	if (r.op >= opcode::op_count || !(l.ops & op_bit(r.op)) || (r.flags & ~dma::valid_flags) || r.spaces)
		return false;
	return r.op == opcode::nop || (r.len - 1 < l.max_len && (r.op == opcode::copy || fill_is_plain(r)));
}

static u32 control_of(opcode op)
{
	return op == opcode::fill ? u32(op_fill) << desc_op_shift : op == opcode::nop ? u32(desc_null) : 0;
}

/* A null descriptor of size 0 is an error. The fence: the next one may read what this one writes. */
void ioat_channel::build(u64 i, const dma::request &r)
{
	const u32 usual = desc_completion | desc_fence | (has_vector() ? u32(desc_interrupt) : 0);
	const u64 byte = (r.a & 0xff) * 0x0101010101010101;

	ring_[i & (slots_ - 1)] = {r.op == opcode::nop ? 1 : u32(r.len),
				   usual | control_of(r.op),
				   r.op != opcode::fill ? r.src :
				   r.arg == 1           ? byte :
							  r.a,
				   r.dst,
				   address_of(i + 1),
				   {}};
}

/* ---- completions ------------------------------------------------------------------------------------- */

/* How many slots from next on have completed. After a reset the address is 0, which is none's ([L] __cleanup). */
u64 ioat_channel::news(u64 next) const
{
	/* What completed before is visible. */
	const u64 at = (load_device(&page_->status) & sts_address) - ring_iova_;

	return at < slots_ * sizeof(descriptor) ? (at / sizeof(descriptor) - (next - 1)) & (slots_ - 1) : 0;
}

/* Of a stopped channel: the register is right if the write of it was lost. */
void ioat_channel::believe(u64 status)
{
	if (status & sts_address)
		store_release(&page_->status, status);
}

/* After a reset. */
int ioat_channel::start(u64 first)
{
	owner_.restore_vector(index);
	base_ = first - 1;
	/* The reset has ended the writes of earlier completions. */
	store_release(&page_->status, u64(0));
	return regs_.arm(address_of(first), iova() + offsetof(shared_page, status), has_vector());
}

int ioat_channel::suspend()
{
	u64 status = 0;
	const int err = regs_.suspend(&status);

	if (!err)
		believe(status);
	return err;
}

/* ---- faults ------------------------------------------------------------------------------------------ */

bool ioat_channel::has_halted()
{
	/* What completed before is visible. */
	return (load_device(&page_->status) & sts_mask) == sts_halted;
}

int ioat_channel::read_halted(bool *out)
{
	u64 status = 0;
	const int err = regs_.status(&status);

	*out = !err && (status & sts_mask) == sts_halted;
	if (*out)
		believe(status);
	return err;
}

/* The device reports neither the address nor whether it was the mapping: both follow from the list of areas. */
void ioat_channel::read_fault(const dma::request &r, fault_reason *why, u64 *at)
{
	u32 error = 0;

	if (regs_.error(&error) < 0 || regs_.clear_error(error) < 0)
		log_warn("%s: channel %u: %s", owner_.transport().name(), index, error_text());
	log_debug("%s: channel %u: error 0x%x", owner_.transport().name(), index, error);
	if (find_fault(r, why, at))
		return;
	*why = error & err_length ? fault_reason::bad_length : fault_reason::transfer;
	*at = error & (err_src_address | err_read_data) ? r.src : r.dst;
}

void ioat_channel::describe_hardware(char *buf, size_t size)
{
	u64 status = 0;
	u32 error = 0;

	regs_.status(&status);
	regs_.error(&error);
	snprintf(buf, size, "status 0x%llx, error 0x%x", static_cast<unsigned long long>(status), error);
}

} // namespace usdma::ioat
