/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/base/types.h"

#include <sys/mman.h>
#include <utility>

namespace usdma {

/* Owns a memory mapping; unmaps it at the end. */
class mapping {
public:
	mapping() = default;
	mapping(void *addr, size_t size) : addr_(addr), size_(size) {}
	mapping(mapping &&o) noexcept : addr_(std::exchange(o.addr_, nullptr)), size_(std::exchange(o.size_, 0)) {}
	mapping &operator=(mapping &&o) noexcept
	{
		std::swap(addr_, o.addr_);
		std::swap(size_, o.size_);
		return *this;
	}
	~mapping()
	{
		if (addr_)
			munmap(addr_, size_);
	}

	u8 *data() const { return static_cast<u8 *>(addr_); }
	size_t size() const { return size_; }
	explicit operator bool() const { return addr_ != nullptr; }

private:
	void *addr_ = nullptr;
	size_t size_ = 0;
};

} // namespace usdma
