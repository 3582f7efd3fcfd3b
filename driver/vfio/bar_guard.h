/* SPDX-License-Identifier: BSD-3-Clause */
/* Tracks mapped BARs, so that they can be replaced when the device is lost. */
#pragma once

#include "driver/base/mapping.h"

#include <mutex>
#include <vector>

namespace usdma::vfio {

class bar_guard final : public mapping_guard {
public:
	/* Like region_mmap, and tracks the mapping. -ENODEV after replace_all. */
	static int map(const std::shared_ptr<bar_guard> &self, int fd, u32 flags, u64 fd_offset, u64 size,
		       mapping *out);

	/*
	 * Replaces every mapping, at its address, by memory of all ones: reads return what the bus returns for an
	 * absent device, writes have no effect. Each page is replaced atomically; concurrent accesses go to either.
	 */
	void replace_all();
	void unmap(void *addr, size_t size) override;

private:
	struct live {
		u8 *addr;
		size_t size;
	};

	std::mutex lock_; /* held over mmap and munmap: an address must not be reused and then replaced */
	std::vector<live> live_;
	bool replaced_ = false;
};

} // namespace usdma::vfio
