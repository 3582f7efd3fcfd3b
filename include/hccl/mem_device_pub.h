/* SPDX-License-Identifier: BSD-3-Clause */
/* C++ only. */
#ifndef USDMA_HCCL_MEM_DEVICE_PUB_H
#define USDMA_HCCL_MEM_DEVICE_PUB_H

#include "hccl_common.h"

namespace hccl {

/*
 * A range of device memory: a view, or its owner.  Only alloc(), the constructor
 * with owner, and moves make owners; a copy is never one.
 */
class USDMA_HCCL_API DeviceMem {
public:
	explicit DeviceMem() = default;
	/* Wraps a range as it is; owner: frees it (aclrtFree) in the end. */
	explicit DeviceMem(void *ptr, u64 size, bool owner = false);
	DeviceMem(const DeviceMem &that);
	DeviceMem(DeviceMem &&that) noexcept;
	/* A view of what that is. What this one owned before is forgotten, not freed: free() it before. */
	DeviceMem &operator=(const DeviceMem &that);
	/* Takes that one's memory over, and returns a view of it. What this one owned before is forgotten. */
	DeviceMem operator=(DeviceMem &&that) noexcept;
	~DeviceMem();

	/* Memory of the current device. When there is none: ptr() is NULL (and size() what was asked for). */
	static DeviceMem alloc(u64 size, bool level2Address = false);
	/* E_OOM: exhausted; E_RUNTIME: size 0, no context, or another failure. mem is untouched on an error. */
	static HcclResult alloc(DeviceMem &mem, u64 size, bool level2Address = false);
	static DeviceMem create(void *ptr, u64 size);

	/* A view of a part; empty (NULL, 0) when this one is or the part leaves it. */
	DeviceMem range(u64 offset, u64 size) const;
	/* Frees what is owned; ptr() becomes NULL, size() stays. */
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
