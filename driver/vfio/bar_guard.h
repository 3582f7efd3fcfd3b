/* SPDX-License-Identifier: BSD-3-Clause */
/* The BARs that are mapped, so that they can be replaced when the device goes. */
#pragma once

#include "driver/base/mapping.h"

#include <mutex>
#include <vector>

namespace usdma::vfio {

class bar_guard final : public mapping_guard {
public:
	/* Maps like region_mmap and remembers.  -ENODEV after replace_all. */
	static int map(const std::shared_ptr<bar_guard> &self, int fd, u32 flags, u64 fd_offset, u64 size,
		       mapping *out);

	/*
	 * Puts memory of all ones under every mapping, at its address: reads answer what
	 * the bus answers for an absent device, writes go nowhere.  Each page changes at
	 * once; a thread that reads or writes meanwhile meets the one or the other.
	 */
	void replace_all();
	void unmap(void *addr, size_t size) override;

private:
	struct live {
		u8 *addr;
		size_t size;
	};

	std::mutex lock_; /* held over mmap and munmap: an address must not be given away and then replaced */
	std::vector<live> live_;
	bool replaced_ = false;
};

} // namespace usdma::vfio
