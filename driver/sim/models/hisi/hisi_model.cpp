/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/models/hisi/hisi_model.h"

#include <algorithm>

namespace usdma::sim {

using namespace hisi;

hisi_model::hisi_model(const config &cfg, faults *wrong)
	: threaded_model(cfg, wrong, layout_of(cfg.hisi_revision)->queues, layout_of(cfg.hisi_revision)->vectors),
	  layout_(*layout_of(cfg.hisi_revision))
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
			       .revision = cfg_.hisi_revision,
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

} // namespace usdma::sim
