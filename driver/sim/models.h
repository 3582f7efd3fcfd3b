/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The models by name: each folder of driver/sim/models has the rows of its engine, and driver/hw/engines.inc names
 * the folders.
 */
#pragma once

#include "driver/base/grow.h"
#include "driver/base/types.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace usdma::sim {

class device_model;
class faults;
struct config;

struct model_info {
	std::string_view name;      /* model=NAME */
	const char *driver;         /* of dma::drivers */
	u32 variant;                /* a version or revision, as its register has it */
	u32 channels, max_channels; /* without channels=, and the most with it; max_channels 0: it is refused */
	/* nullptr: no memory. It keeps wrong, not cfg. */
	std::unique_ptr<device_model> (*make)(const config &cfg, faults *wrong);
	/* Of settings together, -EINVAL with a text; nullptr: those of a device whose registers act on access. */
	int (*check)(const config &cfg) = nullptr;
	bool makes_mistakes = true; /* fault rules "wrong" (fault_plan.h) */
};

template <class M> std::unique_ptr<device_model> make_as(const config &cfg, faults *wrong)
{
	return try_unique<M>(cfg, wrong);
}

/* The reference engine's. */
const model_info *default_model();
/* nullptr: there is none. */
const model_info *find_model(std::string_view name);
/* Shorter if there is no memory. */
std::vector<std::string> model_list();

} // namespace usdma::sim
#pragma GCC visibility pop
