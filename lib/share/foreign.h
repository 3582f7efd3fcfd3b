/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps part of a shared file, of this or another process, as memory that engines can access. */
#pragma once

#include "driver/base/mapping.h"
#include "lib/core/memory/memory.h"
#include "driver/base/types.h"

namespace usdma::core {

class device;

struct foreign_memory {
	mapping pages;  /* whole pages */
	u64 inside = 0; /* offset of the part in them */
	u64 iova = 0;   /* of the part */
	bool pinned = false;

	foreign_memory() = default;
	foreign_memory(foreign_memory &&o) noexcept = default;
	foreign_memory &operator=(foreign_memory &&o) noexcept;
	~foreign_memory();
	u8 *cpu() const { return pages.data() + inside; }
};

/* For dev, as host_register. */
int foreign_map(const device *dev, int fd, u64 offset, u64 size, foreign_memory *out);

} // namespace usdma::core
