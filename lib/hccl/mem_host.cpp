/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/hccl/call.h"

#include <mem_host_pub.h>

#include <cstdlib>

namespace hccl {
namespace {

HcclResult allocate(u64 size, bool pinned, void **out)
{
	*out = nullptr;
	if (pinned)
		return acl_result("aclrtMallocHost", aclrtMallocHost(out, size_t(size)));
	if (!size)
		return HCCL_E_PARA;
	*out = std::malloc(size_t(size));
	return *out ? HCCL_SUCCESS : HCCL_E_MEMORY;
}

} // namespace

HostMem::HostMem(void *ptr, u64 size, bool owner, bool isRtsMem)
	: ptr_(ptr), size_(size), owner_(owner), isRtsMem_(isRtsMem)
{
}

HostMem::HostMem(const HostMem &that) : ptr_(that.ptr_), size_(that.size_), isRtsMem_(that.isRtsMem_) {}

HostMem::HostMem(HostMem &&that) noexcept
	: ptr_(that.ptr_), size_(that.size_), owner_(that.owner_), isRtsMem_(that.isRtsMem_)
{
	that.ptr_ = nullptr;
	that.size_ = 0;
	that.owner_ = false;
}

HostMem &HostMem::operator=(const HostMem &that)
{
	if (this == &that)
		return *this;
	ptr_ = that.ptr_;
	size_ = that.size_;
	owner_ = false;
	isRtsMem_ = that.isRtsMem_;
	return *this;
}

HostMem HostMem::operator=(HostMem &&that) noexcept
{
	if (this == &that)
		return *this;
	ptr_ = that.ptr_;
	size_ = that.size_;
	owner_ = that.owner_;
	isRtsMem_ = that.isRtsMem_;
	that.ptr_ = nullptr;
	that.size_ = 0;
	that.owner_ = false;
	return *this;
}

HostMem::~HostMem()
{
	free();
}

HostMem HostMem::alloc(u64 size, bool isRtsMem)
{
	void *ptr;

	if (allocate(size, isRtsMem, &ptr) != HCCL_SUCCESS)
		ptr = nullptr;
	return HostMem(ptr, size, true, isRtsMem);
}

HcclResult HostMem::alloc(HostMem &mem, u64 size, bool isRtsMem)
{
	void *ptr;

	if (HcclResult ret = allocate(size, isRtsMem, &ptr))
		return ret;
	mem = HostMem(ptr, size, true, isRtsMem);
	return HCCL_SUCCESS;
}

HostMem HostMem::create(void *ptr, u64 size)
{
	return HostMem(ptr, size);
}

HostMem HostMem::range(u64 offset, u64 size) const
{
	if (!ptr_ || offset > size_ || size > size_ - offset) {
		log_warn("hccl: bytes %llu + %llu are not in host memory %p of %llu bytes", offset, size, ptr_, size_);
		return HostMem();
	}
	return HostMem(static_cast<char *>(ptr_) + offset, size, false, isRtsMem_);
}

void HostMem::free()
{
	if (owner_ && ptr_ && !isRtsMem_)
		std::free(ptr_);
	if (owner_ && ptr_ && isRtsMem_) {
		if (aclError code = aclrtFreeHost(ptr_))
			acl_failed("aclrtFreeHost", code);
	}
	ptr_ = nullptr;
	owner_ = false;
}

} // namespace hccl
