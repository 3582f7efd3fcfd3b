/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/base/page.h"

#include <memory>
#include <sys/mman.h>
#include <utility>

namespace usdma {

/* Unmaps in place of munmap(), for memory that must be restored or tracked when a mapping is removed. */
class mapping_guard {
public:
	virtual ~mapping_guard() = default;
	virtual void unmap(void *addr, size_t size) = 0;
};

/* Unmaps the pages around a range, which are its own. */
inline void unmap_around(void *addr, size_t size)
{
	const page_range pages = pages_around(reinterpret_cast<u64>(addr), size);

	munmap(reinterpret_cast<void *>(pages.first), pages.size);
}

/* Owns a memory mapping: of whole pages, of which it may show a part. */
class mapping {
public:
	mapping() = default;
	mapping(void *addr, size_t size, std::shared_ptr<mapping_guard> guard = nullptr)
		: addr_(addr), size_(size), guard_(std::move(guard))
	{
	}
	mapping(mapping &&o) noexcept
		: addr_(std::exchange(o.addr_, nullptr)), size_(std::exchange(o.size_, 0)), guard_(std::move(o.guard_))
	{
	}
	mapping &operator=(mapping &&o) noexcept
	{
		std::swap(addr_, o.addr_);
		std::swap(size_, o.size_);
		std::swap(guard_, o.guard_);
		return *this;
	}
	~mapping()
	{
		if (addr_ && guard_)
			guard_->unmap(addr_, size_);
		else if (addr_)
			unmap_around(addr_, size_);
	}

	u8 *data() const { return static_cast<u8 *>(addr_); }
	size_t size() const { return size_; }
	/* Releases ownership, the guard's included: the caller unmaps. */
	void *release() { return std::exchange(addr_, nullptr); }
	explicit operator bool() const { return addr_ != nullptr; }

private:
	void *addr_ = nullptr;
	size_t size_ = 0;
	std::shared_ptr<mapping_guard> guard_;
};

} // namespace usdma
