/* SPDX-License-Identifier: BSD-3-Clause */
/* C++ only. */
#ifndef USDMA_HCCL_MEM_HOST_PUB_H
#define USDMA_HCCL_MEM_HOST_PUB_H

#include "hccl_common.h"

namespace hccl {

/* As DeviceMem, for host memory: pinned (isRtsMem: aclrtMallocHost), or from the heap. */
class USDMA_HCCL_API HostMem {
public:
	explicit HostMem() = default;
	explicit HostMem(void *ptr, u64 size, bool owner = false, bool isRtsMem = true);
	HostMem(const HostMem &that);
	HostMem(HostMem &&that) noexcept;
	HostMem &operator=(const HostMem &that);
	HostMem operator=(HostMem &&that) noexcept;
	~HostMem();

	static HostMem alloc(u64 size, bool isRtsMem = true);
	/*
	 * E_MEMORY: no heap memory; E_OOM: no pinned memory; E_RUNTIME: another failure; E_PARA: size 0 from the
	 * heap.
	 */
	static HcclResult alloc(HostMem &mem, u64 size, bool isRtsMem = true);
	static HostMem create(void *ptr, u64 size);

	HostMem range(u64 offset, u64 size) const;
	void free();

	void *ptr() const { return ptr_; }
	u64 size() const { return size_; }
	operator bool() const { return ptr_ != nullptr; }
	bool operator==(const HostMem &that) const { return ptr_ == that.ptr_ && size_ == that.size_; }
	bool operator!=(const HostMem &that) const { return !(*this == that); }

	void *ptr_ = nullptr;

private:
	u64 size_ = 0;
	bool owner_ = false;
	bool isRtsMem_ = true;
};

static_assert(sizeof(HostMem) == 24, "HCCL code passes it by layout");

} // namespace hccl

#endif
