/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocators that programs register for streams. Nothing here calls them: what is registered can be read again. */
#include "acl/acl_rt_allocator.h"
#include "driver/base/grow.h"
#include "lib/acl/state.h"

#include <memory>
#include <mutex>
#include <unordered_map>

namespace usdma::acl {

namespace {

struct description {
	aclrtAllocator object = nullptr;
	aclrtAllocatorAllocFunc alloc = nullptr;
	aclrtAllocatorFreeFunc free = nullptr;
	aclrtAllocatorAllocAdviseFunc advise = nullptr;
	aclrtAllocatorGetAddrFromBlockFunc address = nullptr;
};

struct registration {
	void *handle; /* the description's when it was registered */
	description what;
};

struct allocator_table {
	std::mutex lock;
	std::unordered_map<void *, std::unique_ptr<description>> descriptions;
	std::unordered_map<void *, registration> by_stream;
};

} // namespace

static allocator_table &table()
{
	static core::no_destructor<allocator_table> t;

	return *t;
}

void forget_allocator(void *stream)
{
	allocator_table &t = table();
	std::lock_guard guard(t.lock);

	t.by_stream.erase(stream);
}

/* Sets one part of a description. */
template <class T> static aclError set_part(const char *call, aclrtAllocatorDesc desc, T description::*part, T value)
{
	allocator_table &t = table();

	if (!desc || !value)
		return bad_arg(call, "allocatorDesc or the second argument is NULL");
	std::lock_guard guard(t.lock);
	const auto it = t.descriptions.find(desc);
	if (it == t.descriptions.end())
		return fault(call, ACL_ERROR_RT_INVALID_HANDLE, "%p is not a description", desc);
	it->second.get()->*part = value;
	return ACL_SUCCESS;
}

static aclError check_stream(const char *call, aclrtStream stream)
{
	stream_guard s;

	return stream ? get_any_stream(call, stream, &s) : bad_arg(call, "stream is NULL");
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclrtAllocatorDesc aclrtAllocatorCreateDesc(void)
{
	std::unique_ptr<description> made(new (std::nothrow) description);
	allocator_table &t = table();
	void *const handle = made.get();
	std::lock_guard guard(t.lock);

	return handle && try_emplace(t.descriptions, handle, std::move(made)) ? handle : nullptr;
}

aclError aclrtAllocatorDestroyDesc(aclrtAllocatorDesc allocatorDesc)
{
	allocator_table &t = table();

	if (!allocatorDesc)
		return bad_arg(__func__, "allocatorDesc is NULL");
	std::lock_guard guard(t.lock);
	if (!t.descriptions.erase(allocatorDesc))
		return fault(__func__, ACL_ERROR_RT_INVALID_HANDLE, "%p is not a description", allocatorDesc);
	return ACL_SUCCESS;
}

aclError aclrtAllocatorRegister(aclrtStream stream, aclrtAllocatorDesc allocatorDesc)
{
	allocator_table &t = table();

	if (!allocatorDesc)
		return bad_arg(__func__, "allocatorDesc is NULL");
	stream_guard s;
	if (const aclError err = stream ? get_any_stream(__func__, stream, &s) : check_stream(__func__, stream))
		return err;
	std::lock_guard guard(t.lock);
	const auto it = t.descriptions.find(allocatorDesc);
	if (it == t.descriptions.end())
		return fault(__func__, ACL_ERROR_RT_INVALID_HANDLE, "%p is not a description", allocatorDesc);
	const description &d = *it->second;
	if (!d.object || !d.alloc || !d.free || !d.address)
		return bad_arg(__func__, "the description lacks its object, or the function that allocates, frees or "
					 "gives the address");
	registration *const r = try_emplace(t.by_stream, stream, registration{});
	if (!r)
		return core_fault(__func__, no_memory("a stream's allocator"), at::memory);
	*r = {allocatorDesc, d};
	return ACL_SUCCESS;
}

aclError aclrtAllocatorGetByStream(aclrtStream stream, aclrtAllocatorDesc *allocatorDesc, aclrtAllocator *allocator,
				   aclrtAllocatorAllocFunc *allocFunc, aclrtAllocatorFreeFunc *freeFunc,
				   aclrtAllocatorAllocAdviseFunc *allocAdviseFunc,
				   aclrtAllocatorGetAddrFromBlockFunc *getAddrFromBlockFunc)
{
	allocator_table &t = table();

	if (!allocatorDesc || !allocator || !allocFunc || !freeFunc || !allocAdviseFunc || !getAddrFromBlockFunc)
		return bad_arg(__func__, "a pointer is NULL");
	if (const aclError err = check_stream(__func__, stream))
		return err;
	std::lock_guard guard(t.lock);
	const auto it = t.by_stream.find(stream);
	if (it == t.by_stream.end())
		return bad_arg(__func__, "no allocator is registered for stream %p", stream);
	const description &d = it->second.what;
	*allocatorDesc = it->second.handle;
	*allocator = d.object;
	*allocFunc = d.alloc;
	*freeFunc = d.free;
	*allocAdviseFunc = d.advise;
	*getAddrFromBlockFunc = d.address;
	return ACL_SUCCESS;
}

} // extern "C"

#include "lib/acl/calls_allocator.h"
