/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The function and its registers of 32 bits. Model: a wider access is two of them, a narrower read is a part of one,
 * and a narrower write is ignored.
 */
#include "driver/sim/models/ptdma/ptdma_model.h"

#include "driver/sim/models.h"

namespace usdma::sim {

using namespace ptdma;

ptdma_model::ptdma_model(const config &cfg, faults *wrong) : threaded_model(cfg, wrong, queue_count, queue_count) {}

ptdma_model::~ptdma_model()
{
	quiesce();
}

int ptdma_model::start()
{
	pci_layout layout = {.vendor = pci_vendor,
			     .device = pci_device,
			     .class_code = pci_class,
			     .registers = 2,
			     .vectors = queue_count,
			     .msix_bar = 2,
			     .msix_table = msix_table,
			     .msix_pba = msix_pba};

	layout.bar[2] = {bar_size, bar_64};
	return start_function("ptdma-engine", layout, bar_size - msix_table);
}

/* Model: it has a function-level reset. A descriptor that is running completes first: is_resetting() until then. */
int ptdma_model::reset()
{
	std::lock_guard guard(lock_);

	if (wrong_)
		wrong_->device_reset();
	queue_.reset_due = true;
	apply_pending();
	return 0;
}

bool ptdma_model::is_resetting() const
{
	std::lock_guard guard(lock_);

	return queue_.reset_due;
}

/* Applies a reset once the engine has left the queue's descriptor. */
void ptdma_model::apply_pending()
{
	if (queue_.busy || !queue_.reset_due)
		return;
	const u64 seq = queue_.seq;

	queue_ = {};
	queue_.seq = seq;
	if (wrong_)
		wrong_->channel_off(0);
}

/* ---- registers ------------------------------------------------------------------------------------- */

u32 ptdma_queue::ring_mask() const
{
	const u32 value = control >> control_size_shift & control_size_mask;

	/* Model: no ring is longer than 32 bits of address. */
	return value > 25 ? ~0u : (u32(sizeof(descriptor)) << (value + 1)) - 1;
}

u32 ptdma_model::read_word(u32 offset) const
{
	const ptdma_queue &q = queue_;

	switch (offset) {
	case reg_priority:
		return q.priority;
	case reg_request:
		return q.request;
	case reg_timeout:
		return q.timeout;
	case reg_version:
		return version_value;
	case reg_config:
		return q.config;
	case reg_clock:
		return q.clock;
	case q_control:
		return q.control;
	case q_tail:
		return q.tail;
	case q_head:
		return q.head;
	case q_int_enable:
		return q.int_enable;
	case q_int_status:
		return q.int_status;
	case q_status:
		return q.status;
	}
	return 0;
}

u64 ptdma_model::read_register(u32 offset, u32 len)
{
	if (len == 8)
		return read_word(offset) | u64(read_word(offset + 4)) << 32;
	const u32 value = read_word(offset & ~3u) >> offset % 4 * 8;

	return len == 4 ? value : value & ((1u << 8 * len) - 1);
}

/* Model: an empty queue does not keep RUN for a tail that comes later, nor one that has failed and is reported. */
void ptdma_model::write_control(u32 value)
{
	ptdma_queue &q = queue_;

	q.control = value & ~u32(control_halt);
	if (!q.running && (q.is_empty() || q.int_status & int_error))
		q.control &= ~u32(control_run);
	kick();
}

void ptdma_model::acknowledge(u32 bits)
{
	queue_.int_status &= ~bits;
	if (!(queue_.int_status & int_error))
		queue_.status = 0;
}

void ptdma_model::write_word(u32 offset, u32 value)
{
	ptdma_queue &q = queue_;

	switch (offset) {
	case reg_priority:
		q.priority = value;
		return;
	case reg_request:
		q.request = value;
		return;
	case reg_timeout:
		q.timeout = value;
		return;
	case reg_config:
		q.config = value;
		return;
	case reg_clock:
		q.clock = value;
		return;
	case q_control:
		return write_control(value);
	case q_tail:
		q.tail = value;
		return;
	case q_head:
		/* Model: ignored while it runs. */
		if (!q.running)
			q.head = value;
		return;
	case q_int_enable:
		q.int_enable = value & int_all;
		return;
	case q_int_status:
		return acknowledge(value);
	}
}

void ptdma_model::write_register(u32 offset, u64 value, u32 len)
{
	if (len >= 4)
		write_word(offset, u32(value));
	if (len == 8)
		write_word(offset + 4, u32(value >> 32));
}

/* ---- its row of the table -------------------------------------------------------------------------- */

static constexpr model_info rows[] = {{"ptdma", "ptdma", 0, queue_count, 0, make_as<ptdma_model>}};
extern const std::span<const model_info> ptdma_models;
constinit const std::span<const model_info> ptdma_models = rows;

} // namespace usdma::sim
