/* SPDX-License-Identifier: BSD-3-Clause */
/* The models by name: add new ones here and to model_kind in config.h. */
#include "driver/base/grow.h"
#include "driver/sim/config.h"
#include "driver/sim/models/dsa/dsa_model.h"
#include "driver/sim/models/hisi/hisi_model.h"
#include "driver/sim/models/ioat/ioat_model.h"
#include "driver/sim/models/sdma/sdma_model.h"

namespace usdma::sim {

std::unique_ptr<device_model> make_model(const config &cfg, faults *wrong)
{
	if (cfg.model == model_kind::ioat)
		return try_unique<ioat_model>(cfg, wrong);
	if (cfg.model == model_kind::dsa)
		return try_unique<dsa_model>(cfg, wrong);
	if (cfg.model == model_kind::hisi)
		return try_unique<hisi_model>(cfg, wrong);
	return try_unique<sdma_model>(cfg, wrong);
}

} // namespace usdma::sim
