/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs expect of the SoC that aclrtGetSocName() names. */
#pragma once

#include "driver/base/types.h"

namespace usdma::acl {

inline constexpr u32 soc_cube_cores = 20, soc_vector_cores = 40;
inline constexpr u32 soc_arch = 2201;

} // namespace usdma::acl
