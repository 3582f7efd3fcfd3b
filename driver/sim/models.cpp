/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/models.h"

namespace usdma::sim {

#define MODEL(name) extern const std::span<const model_info> name##_models;
#include "driver/hw/engines.inc"

static constexpr const std::span<const model_info> *families[] = {
#define MODEL(name) &name##_models,
#include "driver/hw/engines.inc"
};

const model_info *default_model()
{
	return &families[0]->front();
}

const model_info *find_model(std::string_view name)
{
	for (const auto *family : families)
		for (const model_info &m : *family)
			if (m.name == name)
				return &m;
	return nullptr;
}

std::vector<std::string> model_list()
{
	std::vector<std::string> names;

	for (const auto *family : families)
		for (const model_info &m : *family)
			(void)try_push(names, m.name);
	return names;
}

} // namespace usdma::sim
