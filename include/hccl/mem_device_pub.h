/* SPDX-License-Identifier: BSD-3-Clause */
/* C++ only. */
#ifndef USDMA_HCCL_MEM_DEVICE_PUB_H
#define USDMA_HCCL_MEM_DEVICE_PUB_H

#include "hccl_common.h"

namespace hccl {

/*
 * A range of device memory: a view, or its owner. Only alloc(), the constructor with owner, and moves create
 * owners; a copy is always a view.
 */
class USDMA_HCCL_API DeviceMem {
public:
	explicit DeviceMem() = default;
	/* Wraps an existing range; owner: the destructor frees it (aclrtFree). */
	explicit DeviceMem(void *ptr, u64 size, bool owner = false);
	DeviceMem(const DeviceMem &that);
	DeviceMem(DeviceMem &&that) noexcept;
	/* Becomes a view of that. Memory that this one owned is leaked: call free() before. */
	DeviceMem &operator=(const DeviceMem &that);
	/* Takes over that one's memory, and returns a view of it. Memory that this one owned is leaked. */
	DeviceMem operator=(DeviceMem &&that) noexcept;
	~DeviceMem();

	/*
	 * Allocates memory of the current device. On failure ptr() is NULL, and size() is still the requested
	 * size.
	 */
	static DeviceMem alloc(u64 size, bool level2Address = false);
	/* E_OOM: exhausted; E_RUNTIME: size 0, no context, or another failure. mem is not modified on an error. */
	static HcclResult alloc(DeviceMem &mem, u64 size, bool level2Address = false);
	static DeviceMem create(void *ptr, u64 size);

	/* A view of a part; empty (NULL, 0) if this one is empty or the part is not inside it. */
	DeviceMem range(u64 offset, u64 size) const;
	/* Frees memory that it owns; ptr() becomes NULL, size() is unchanged. */
	void free();

	void *ptr() const { return ptr_; }
	u64 size() const { return size_; }
	operator bool() const { return ptr_ != nullptr; }
	bool operator==(const DeviceMem &that) const { return ptr_ == that.ptr_ && size_ == that.size_; }
	bool operator!=(const DeviceMem &that) const { return !(*this == that); }

	void *ptr_ = nullptr;

private:
	u64 size_ = 0;
	bool owner_ = false;
};

static_assert(sizeof(DeviceMem) == 24 && alignof(DeviceMem) == 8, "HCCL code passes it by layout");

} // namespace hccl

#endif
