/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/models/ioat/ioat_model.h"

#include "driver/sim/models.h"

#include <algorithm>

namespace usdma::sim {

using namespace ioat;

/* Skylake's, which DPDK's driver and the kernel's VFIO selftests know; and the one whose XOR and PQ Linux uses. */
static constexpr u16 device_3_2 = 0x2021, device_3_3 = 0x0c50;

ioat_model::ioat_model(const config &cfg, faults *wrong)
	: threaded_model(cfg, wrong, channels_of(cfg), channels_of(cfg))
{
	for (u32 i = 0; i < max_channels; i++)
		channels_[i].index = i;
}

ioat_model::~ioat_model()
{
	quiesce();
}

int ioat_model::start()
{
	return start_function("ioat-engine",
			      {.vendor = pci_vendor,
			       .device = cfg_.model->variant == version_3_3 ? device_3_3 : device_3_2,
			       .class_code = pci_class,
			       .revision = 0,
			       .bar = {{bar0_size, bar_64}, {}, {}, {}, {}, {}},
			       .vectors = queues_count_,
			       .msix_bar = 0,
			       .msix_table = msix_table,
			       .msix_pba = msix_pba},
			      bar0_size - msix_table);
}

int ioat_model::irq_set(u32 index, u32 first, std::span<unique_fd> fds)
{
	const u32 count = u32(fds.size());
	const int err = threaded_model::irq_set(index, first, fds);
	std::lock_guard guard(lock_);

	for (u32 i = first; index == vfio::irq_msix && i < first + count; i++)
		channels_[i].mute = false;
	return err;
}

/* A descriptor that is running completes first: is_resetting() until then. */
int ioat_model::reset()
{
	std::lock_guard guard(lock_);

	if (wrong_)
		wrong_->device_reset();
	intrctrl_ = genctrl_ = 0;
	intrdelay_ = 0;
	attention_ = 0;
	for (ioat_channel &ch : channels_) {
		ch.reset_due = ioat_channel::pending::power_on;
		apply_pending(ch);
	}
	return 0;
}

bool ioat_model::is_resetting() const
{
	std::lock_guard guard(lock_);

	return std::any_of(std::begin(channels_), std::end(channels_),
			   [](const ioat_channel &ch) { return ch.reset_due == ioat_channel::pending::power_on; });
}

static constexpr model_info rows[] = {
	{"ioat", "ioat", version_3_2, 1, max_channels, make_as<ioat_model>},
	{"ioat-3.3", "ioat", version_3_3, 1, max_channels, make_as<ioat_model>},
};
extern const std::span<const model_info> ioat_models;
constinit const std::span<const model_info> ioat_models = rows;

} // namespace usdma::sim
