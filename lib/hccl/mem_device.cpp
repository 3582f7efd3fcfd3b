/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/hccl/call.h"

#include <mem_device_pub.h>

namespace hccl {
namespace {

constexpr u32 alloc_policy = u32(ACL_MEM_TYPE_HIGH_BAND_WIDTH) | u32(ACL_MEM_MALLOC_HUGE_FIRST);
constexpr uint16_t module_hccl = 3; /* ACL's number of the module that owns the memory */

HcclResult allocate(u64 size, void **out)
{
	aclrtMallocAttribute attr = {};
	aclrtMallocConfig cfg = {&attr, 1};

	attr.attr = ACL_RT_MEM_ATTR_MODULE_ID;
	attr.value.moduleId = module_hccl;
	*out = nullptr;
	return acl_result("aclrtMallocWithCfg",
			  aclrtMallocWithCfg(out, size_t(size), aclrtMemMallocPolicy(alloc_policy), &cfg));
}

} // namespace

DeviceMem::DeviceMem(void *ptr, u64 size, bool owner) : ptr_(ptr), size_(size), owner_(owner) {}

DeviceMem::DeviceMem(const DeviceMem &that) : ptr_(that.ptr_), size_(that.size_) {}

DeviceMem::DeviceMem(DeviceMem &&that) noexcept : ptr_(that.ptr_), size_(that.size_), owner_(that.owner_)
{
	that.ptr_ = nullptr;
	that.size_ = 0;
	that.owner_ = false;
}

DeviceMem &DeviceMem::operator=(const DeviceMem &that)
{
	if (this == &that)
		return *this;
	ptr_ = that.ptr_;
	size_ = that.size_;
	owner_ = false;
	return *this;
}

DeviceMem DeviceMem::operator=(DeviceMem &&that) noexcept
{
	if (this == &that)
		return *this;
	ptr_ = that.ptr_;
	size_ = that.size_;
	owner_ = that.owner_;
	that.ptr_ = nullptr;
	that.size_ = 0;
	that.owner_ = false;
	return *this;
}

DeviceMem::~DeviceMem()
{
	free();
}

DeviceMem DeviceMem::alloc(u64 size, bool)
{
	void *ptr;

	if (allocate(size, &ptr) != HCCL_SUCCESS)
		ptr = nullptr;
	return DeviceMem(ptr, size, true);
}

HcclResult DeviceMem::alloc(DeviceMem &mem, u64 size, bool)
{
	void *ptr;

	if (HcclResult ret = allocate(size, &ptr))
		return ret;
	mem = DeviceMem(ptr, size, true);
	return HCCL_SUCCESS;
}

DeviceMem DeviceMem::create(void *ptr, u64 size)
{
	return DeviceMem(ptr, size);
}

DeviceMem DeviceMem::range(u64 offset, u64 size) const
{
	if (!ptr_ || offset > size_ || size > size_ - offset) {
		log_warn("hccl: bytes %llu + %llu are not in device memory %p of %llu bytes", offset, size, ptr_,
			 size_);
		return DeviceMem();
	}
	return DeviceMem(static_cast<char *>(ptr_) + offset, size);
}

void DeviceMem::free()
{
	if (owner_ && ptr_) {
		if (aclError code = aclrtFree(ptr_))
			acl_failed("aclrtFree", code);
	}
	ptr_ = nullptr;
	owner_ = false;
}

} // namespace hccl
