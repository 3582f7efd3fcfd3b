/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/models/hisi/hisi_model.h"

#include "driver/sim/models.h"

#include <algorithm>

namespace usdma::sim {

using namespace hisi;

hisi_model::hisi_model(const config &cfg, faults *wrong)
	: threaded_model(cfg, wrong, layout_of(u8(cfg.model->variant))->queues,
			 layout_of(u8(cfg.model->variant))->vectors),
	  layout_(*layout_of(u8(cfg.model->variant)))
{
	for (u32 i = 0; i < std::size(queues_); i++)
		queues_[i].index = i;
}

hisi_model::~hisi_model()
{
	quiesce();
}

int hisi_model::start()
{
	return start_function("hisi-engine",
			      {.vendor = pci_vendor,
			       .device = pci_device,
			       .class_code = pci_class,
			       .revision = u8(cfg_.model->variant),
			       .registers = 2,
			       .has_msi = true,
			       .bar = {{}, {}, {bar2_size, bar_64 | bar_prefetch}, {}, {}, {}},
			       .vectors = layout_.vectors},
			      0);
}

/* A submission that is running completes first: is_resetting() until then. */
int hisi_model::reset()
{
	std::lock_guard guard(lock_);

	if (wrong_)
		wrong_->device_reset();
	mode_ = 0;
	std::fill(std::begin(ports_), std::end(ports_), 0);
	for (hisi_queue &q : queues_) {
		q.reset_due = hisi_queue::pending::power_on;
		apply_pending(q);
	}
	return 0;
}

bool hisi_model::is_resetting() const
{
	std::lock_guard guard(lock_);

	return std::any_of(std::begin(queues_), std::end(queues_),
			   [](const hisi_queue &q) { return q.reset_due == hisi_queue::pending::power_on; });
}

static constexpr model_info rows[] = {
	{"hisi", "hisi", revision_hip08, hip08.queues, 0, make_as<hisi_model>},
	{"hisi-hip09", "hisi", revision_hip09, hip09.queues, 0, make_as<hisi_model>},
};
extern const std::span<const model_info> hisi_models;
constinit const std::span<const model_info> hisi_models = rows;

} // namespace usdma::sim
