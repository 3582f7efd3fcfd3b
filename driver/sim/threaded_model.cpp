/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/threaded_model.h"

#include "driver/base/await_fds.h"
#include "driver/base/error.h"
#include "driver/base/fd.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/base/thread.h"
#include "driver/sim/signal_fd.h"

#include <algorithm>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>

namespace usdma::sim {

/* How often an injected hang is checked again. */
static constexpr int hang_poll_ms = 1;
static constexpr u64 delay_step_ns = ns_per_ms, early_ns = ns_per_s;

threaded_model::threaded_model(const config &cfg, faults *wrong, u32 queues, u32 vectors)
	: cfg_(cfg), queues_count_(queues), space_({.file_bytes = cfg.share, .files = {.any_file = cfg.any_file}}),
	  irqs_(vectors, space_), memory_(space_, copy_for_cpu(cfg.copy_rows)), wrong_(wrong)
{
}

int threaded_model::start_function(const char *name, const pci_layout &layout, u64 msix_bytes)
{
	static constexpr u32 rw = vfio::region_readable | vfio::region_writable;

	name_ = name;
	registers_ = vfio::region_bar0 + layout.registers;
	irq_type_ = layout.has_msi ? vfio::irq_msi : vfio::irq_msix;
	if (!try_resize(msix_, msix_bytes))
		return no_memory("the MSI-X table");
	msix_at_ = layout.msix_table;
	pci_.init(layout);
	/* Not mappable, as they act on access. */
	for (u32 i = 0; i < std::size(layout.bar); i++)
		if (layout.bar[i].size)
			regions_[vfio::region_bar0 + i] = {layout.bar[i].size, rw, -1, {}};
	regions_[vfio::region_config] = {pci_config::size, rw, -1, {}};
	wake_.reset(fd_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
	if (!wake_.valid())
		return fail_errno("sim: cannot make an engine's eventfd");
	if (const int err = memory_.ready(wake_.get(), thread_.quit_flag()))
		return err;
	return thread_.start(name, thread_main, this);
}

/* The engine first: this stops its accesses, and nothing else uses what is released next. */
void threaded_model::quiesce()
{
	thread_.stop(wake_.get());
	if (space_.unmap_all())
		log_warn_limited("%s", error_text());
	irqs_.clear(0, irqs_.count());
	error_.reset();
}

void threaded_model::connect(remote_port *port)
{
	remote_ = port;
	memory_.connect(port);
}

/* ---- regions ------------------------------------------------------------------------------------- */

static int check_access(u64 offset, u32 len)
{
	if (is_pow2(len) && len <= 8 && offset % len == 0)
		return 0;
	return fail(EINVAL, "sim: a register is accessed by 1, 2, 4 or 8 bytes, aligned; not %u at 0x%llx", len,
		    static_cast<unsigned long long>(offset));
}

int threaded_model::read_bar(u32 index, u64, u8 *, u32)
{
	return fail(EINVAL, "sim: region %u cannot be read", index);
}

int threaded_model::write_bar(u32 index, u64, const u8 *, u32)
{
	return fail(EINVAL, "sim: region %u cannot be written", index);
}

int threaded_model::region_read(u32 index, u64 offset, u8 *buf, u32 len)
{
	if (index == vfio::region_config) {
		pci_.read(u32(offset), buf, len, is_resetting());
		return 0;
	}
	if (index != registers_)
		return read_bar(index, offset, buf, len);
	if (offset >= msix_at_ && offset + len <= msix_at_ + msix_.size()) {
		memcpy(buf, msix_.data() + (offset - msix_at_), len);
		return 0;
	}
	if (const int err = check_access(offset, len))
		return err;
	std::lock_guard guard(lock_);
	const u64 value = read_register(u32(offset), len);

	memcpy(buf, &value, len);
	return 0;
}

/* Neither data nor an interrupt comes after the reply to the write. */
void threaded_model::end_accesses()
{
	if (space_.quiesce())
		memory_.cancel_unsent();
	else
		log_warn("sim: the engine accesses memory for longer than an unmap waits");
}

int threaded_model::write_config(u32 offset, const u8 *buf, u32 len)
{
	const bool resets = pci_.write(offset, buf, len) == pci_config::effect::reset;
	const bool was_allowed = memory_.is_allowed();

	memory_.allow(pci_.may_reach_memory());
	if (was_allowed && !memory_.is_allowed()) {
		end_accesses();
		std::lock_guard guard(lock_);

		if (!resets)
			bus_master_off();
	}
	return resets ? reset() : 0;
}

int threaded_model::region_write(u32 index, u64 offset, const u8 *buf, u32 len)
{
	u64 value = 0;

	if (index == vfio::region_config)
		return write_config(u32(offset), buf, len);
	if (index != registers_)
		return write_bar(index, offset, buf, len);
	if (offset >= msix_at_ && offset + len <= msix_at_ + msix_.size()) {
		memcpy(msix_.data() + (offset - msix_at_), buf, len);
		return 0;
	}
	if (const int err = check_access(offset, len))
		return err;
	memcpy(&value, buf, len);
	std::lock_guard guard(lock_);

	write_register(u32(offset), value, len);
	return 0;
}

/* ---- interrupts, memory --------------------------------------------------------------------------- */

/* The error interrupt is never raised, but without its eventfd QEMU offers its guest no error recovery. */
u32 threaded_model::irq_count(u32 index) const
{
	return index == irq_type_ ? irqs_.count() : index == vfio::irq_err ? 1 : 0;
}

int threaded_model::irq_set(u32 index, u32 first, std::span<unique_fd> fds)
{
	if (index == irq_type_)
		irqs_.set(first, fds);
	else
		error_ = std::move(fds[0]);
	return 0;
}

int threaded_model::irq_clear(u32 index, u32 first, u32 count)
{
	if (index == irq_type_)
		irqs_.clear(first, count);
	else
		error_.reset();
	return 0;
}

/* By the engine's thread: only that writes to descriptors that the client holds. */
int threaded_model::irq_trigger(u32 index, u32 vector)
{
	if (index != irq_type_)
		return fail(ENOTSUP, "sim: interrupt type %u is not raised", index);
	std::lock_guard guard(lock_);

	triggered_ |= u64(1) << vector;
	kick();
	return 0;
}

int threaded_model::dma_map(u64 iova, u64 size, u32 prot, unique_fd fd, u64 offset)
{
	if (wrong_)
		if (const int err = wrong_->refuse_map(iova, size))
			return fail(err, "sim: DMA_MAP refused by an injected fault");
	return space_.map(iova, size, prot, std::move(fd), offset);
}

/* A message is a write to memory. */
void threaded_model::raise(u32 vector)
{
	if (memory_.is_allowed() && !(wrong_ && wrong_->drop_interrupt(vector)))
		irqs_.raise(vector);
}

void threaded_model::raise_due()
{
	u64 due, triggered;
	{
		std::lock_guard guard(lock_);

		due = due_;
		triggered = triggered_;
		due_ = triggered_ = 0;
	}
	for (u32 i = 0; due | triggered; i++, due >>= 1, triggered >>= 1) {
		if (triggered & 1)
			irqs_.raise(i);
		if (due & 1)
			raise(i);
	}
}

/* ---- the thread ---------------------------------------------------------------------------------- */

void threaded_model::kick()
{
	eventfd_add(wake_.get());
}

void *threaded_model::thread_main(void *arg)
{
	auto *m = static_cast<threaded_model *>(arg);

	thread_name(m->name_);
	if (m->in_client_)
		thread_short_slice();
	m->run();
	return nullptr;
}

bool threaded_model::run_queues()
{
	bool worked = false;

	raise_due();
	for (u32 i = 0; i < queues_count_; i++)
		worked |= run_queue(i);
	return worked;
}

void threaded_model::run()
{
	dma_reader &reader = memory_.reader();

	reader.enter();
	while (!thread_.quits()) {
		if (run_queues()) {
			reader.pass();
			continue;
		}
		reader.leave();
		sleep();
		reader.enter();
	}
	reader.leave();
	thread_.ended();
}

/* Until there is work: the server's thread adds some and kicks, and the eventfd holds the kick until it is read. */
void threaded_model::sleep()
{
	pollfd p = {wake_.get(), POLLIN, 0};
	bool hung = false;
	{
		std::lock_guard guard(lock_);

		if (due_)
			return;
		for (u32 i = 0; i < queues_count_; i++)
			hung |= is_hung(i);
	}
	if (await_fds(&p, 1, hung ? hang_poll_ms : -1) == 1)
		eventfd_take(wake_.get());
}

void threaded_model::delay(u32 index, u64 until_ns)
{
	for (u64 now = now_ns(); now < until_ns && !thread_.quits(); now = now_ns()) {
		const timespec t = {0, long(std::min(until_ns - now, delay_step_ns))};
		{
			std::lock_guard guard(lock_);

			if (is_cancelled(index))
				return;
		}
		memory_.reader().leave();
		nanosleep(&t, nullptr);
		memory_.reader().enter();
	}
}

/* ---- injected faults ------------------------------------------------------------------------------- */

void threaded_model::delay_early(u32 index)
{
	delay(index, now_ns() + early_ns);
}

void threaded_model::pace(u32 index, u64 from, u64 ns, u64 bytes)
{
	ns = std::max(ns, cfg_.latency_us * ns_per_us);
	if (cfg_.rate)
		ns = std::max(ns, u64(double(bytes) * double(ns_per_s) / double(cfg_.rate)));
	if (ns)
		delay(index, from + ns);
}

bool threaded_model::injected_hang(u32 index, u64 seq)
{
	if (wrong_->hang(index, seq))
		return true;
	if (!wrong_->vanish(index, seq))
		return false;
	if (remote_)
		remote_->hang_up();
	return true;
}

} // namespace usdma::sim
