/* SPDX-License-Identifier: BSD-3-Clause */
/* For C++: allocators that take a typed pointer, so that no cast to void ** is needed.  In C it equals acl_rt.h. */
#ifndef USDMA_ACL_RT_API_H
#define USDMA_ACL_RT_API_H

#include "acl_rt.h"

#ifdef __cplusplus

template <class T> inline aclError aclrtMalloc(T **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
	return ::aclrtMalloc(reinterpret_cast<void **>(devPtr), size, policy);
}

template <class T> inline aclError aclrtMallocAlign32(T **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
	return ::aclrtMallocAlign32(reinterpret_cast<void **>(devPtr), size, policy);
}

template <class T> inline aclError aclrtMallocCached(T **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
	return ::aclrtMallocCached(reinterpret_cast<void **>(devPtr), size, policy);
}

template <class T> inline aclError aclrtMallocHost(T **hostPtr, size_t size)
{
	return ::aclrtMallocHost(reinterpret_cast<void **>(hostPtr), size);
}

template <class T>
inline aclError aclrtMemPoolMallocAsync(T **ptr, size_t size, aclrtMemPool memPool, aclrtStream stream)
{
	return ::aclrtMemPoolMallocAsync(reinterpret_cast<void **>(ptr), size, memPool, stream);
}

#endif

#endif
