/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/models/dsa/dsa_model.h"

#include "driver/base/error.h"

#include <algorithm>
#include <new>

namespace usdma::sim {

/* Within BAR0, as in the map of 9.2; the PCI capability has them. */
static constexpr u64 dsa_bar0_size = 64 * KiB, vectors_at = 0x4000, vectors_end = 0x6000, pending_at = 0x5000;
static constexpr u64 buffer_size = 64 * KiB;

dsa_model::dsa_model(const config &cfg, faults *wrong)
	: threaded_model(cfg, wrong, channels_of(cfg), channels_of(cfg) + 1),
	  groups_count_(std::min(queues_count_, max_groups))
{
}

dsa_model::~dsa_model()
{
	quiesce();
}

int dsa_model::start()
{
	const u64 portals = max_queues * dsa::portals_step;

	queues_.reset(new (std::nothrow) dsa_queue[queues_count_]);
	for (auto &b : buffer_)
		b.reset(new (std::nothrow) u8[buffer_size]);
	if (!queues_ || !buffer_[0] || !buffer_[1])
		return no_memory("a device");
	for (u32 i = 0; i < queues_count_; i++)
		queues_[i].index = i;
	power_on();
	return start_function(
		"dsa-engine",
		{.vendor = dsa::vendor_intel,
		 .device = is_v2() ? dsa::id_gnrd : dsa::id_spr,
		 .class_code = dsa::class_dsa,
		 .translates = true,
		 .bar = {{dsa_bar0_size, bar_64 | bar_prefetch}, {}, {portals, bar_64 | bar_prefetch}, {}, {}, {}},
		 .vectors = irqs_.count(),
		 .msix_bar = 0,
		 .msix_table = vectors_at,
		 .msix_pba = pending_at},
		vectors_end - vectors_at);
}

/* A descriptor that is running completes first: is_resetting() until then. */
int dsa_model::reset()
{
	std::lock_guard guard(lock_);

	if (wrong_)
		wrong_->device_reset();
	reset_due_ = true;
	for (u32 i = 0; i < queues_count_; i++)
		if (queues_[i].busy)
			return 0;
	power_on();
	return 0;
}

bool dsa_model::is_resetting() const
{
	std::lock_guard guard(lock_);

	return reset_due_;
}

static constexpr model_info rows[] = {
	{"dsa", "dsa", 0x100, dsa_model::max_queues, dsa_model::max_queues, make_as<dsa_model>},
	{"dsa-2", "dsa", 0x200, dsa_model::max_queues, dsa_model::max_queues, make_as<dsa_model>},
};
extern const std::span<const model_info> dsa_models;
constinit const std::span<const model_info> dsa_models = rows;

} // namespace usdma::sim
