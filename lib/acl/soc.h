/* SPDX-License-Identifier: BSD-3-Clause */
/* The versions and the SoC that programs read from this library, the libraries beside it and usdmactl. */
#pragma once

#include "driver/base/types.h"

namespace usdma::acl {

/* Of the runtime whose interface this is, and of the driver below it. */
struct package_version {
	const char *text;
	unsigned major, minor, patch;
};

inline constexpr package_version runtime_version = {"9.1.0", 9, 1, 0}, driver_version = {"25.2.0", 25, 2, 0};

struct soc {
	const char *name, *family;
};

/* soc_910b: of the profiles 910B. */
inline constexpr soc soc_910c = {"Ascend910_9362", "Ascend910_93"}, soc_910b = {"Ascend910B3", "Ascend910B"};
inline constexpr const char *chip_name = "Ascend910";
/* ai_cpu_cnt: CANN's platform_config/Ascend910B2.ini. */
inline constexpr u32 soc_cube_cores = 20, soc_vector_cores = 40, soc_ai_cpus = 6;
inline constexpr u32 soc_arch = 2201;
inline constexpr u32 most_priority = 7; /* of streams: the least urgent; 0 is the most urgent */

} // namespace usdma::acl
