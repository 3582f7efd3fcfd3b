/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream-ordered memory pools. */
#include "lib/core/stream/pool.h"

#include "lib/acl/state.h"

namespace usdma::acl {

using pool_guard = object_guard<core::pool, core::pool_enter, core::pool_leave>;

static aclError no_pool(const char *call, const void *handle)
{
	return fault(call, ACL_ERROR_RT_INVALID_HANDLE, "%p is not a live memory pool", handle);
}

static aclError get_pool(const char *call, const void *handle, pool_guard *out)
{
	if (!handle)
		return bad_arg(call, "memPool is NULL");
	if (core::forked())
		return no_context(call);
	return out->take(handle) ? ACL_SUCCESS : no_pool(call, handle);
}

static bool is_switch(aclrtMemPoolAttr attr)
{
	return attr >= ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
	       attr <= ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

/* The words of the switches store "off", so that all are initially on. */
static u64 *switch_of(core::pool *p, aclrtMemPoolAttr attr)
{
	return &core::pool_user(p)[attr - ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES];
}

static aclError set_attr(const char *call, core::pool *p, aclrtMemPoolAttr attr, const void *value)
{
	if (is_switch(attr)) {
		store_relaxed(switch_of(p, attr), u64(!*static_cast<const u32 *>(value)));
		return ACL_SUCCESS;
	}
	const u64 v = *static_cast<const u64 *>(value);
	if (attr == ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD) {
		core::pool_set_threshold(p, v);
		return ACL_SUCCESS;
	}
	const bool reserved = attr == ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH,
		   used = attr == ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH;
	if ((!reserved && !used) || v)
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "attr %d is unknown or read-only, or its value is not 0",
			     attr);
	core::pool_reset_high(p, reserved, used);
	return ACL_SUCCESS;
}

static aclError get_attr(const char *call, core::pool *p, aclrtMemPoolAttr attr, void *value)
{
	const core::pool_stats st = core::pool_get_stats(p);
	u64 *out = static_cast<u64 *>(value);

	if (is_switch(attr)) {
		*static_cast<u32 *>(value) = !load_relaxed(switch_of(p, attr));
		return ACL_SUCCESS;
	}
	switch (attr) {
	case ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD:
		*out = core::pool_threshold(p);
		return ACL_SUCCESS;
	case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT:
		*out = st.reserved;
		return ACL_SUCCESS;
	case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH:
		*out = st.reserved_high;
		return ACL_SUCCESS;
	case ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT:
		*out = st.used;
		return ACL_SUCCESS;
	case ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH:
		*out = st.used_high;
		return ACL_SUCCESS;
	default:
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "attr %d is unknown", attr);
	}
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclrtMemPoolCreate(aclrtMemPool *memPool, const aclrtMemPoolProps *poolProps)
{
	core::pool *p = nullptr;
	core::device *dev;
	int err, slot;

	if (!memPool || !poolProps)
		return bad_arg(__func__, "memPool or poolProps is NULL");
	if (poolProps->allocType != ACL_MEM_ALLOCATION_TYPE_PINNED ||
	    poolProps->location.type != ACL_MEM_LOCATION_TYPE_DEVICE)
		return bad_arg(__func__, "poolProps: allocType must be PINNED and location DEVICE");
	if (poolProps->handleType != ACL_MEM_HANDLE_TYPE_NONE)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "poolProps: handleType must be NONE");
	slot = slot_of(poolProps->location.id);
	if (slot < 0)
		return no_device(__func__, poolProps->location.id);
	err = core::device_get(unsigned(slot), &dev);
	if (err)
		return core_fault(__func__, err, at::open);
	err = core::pool_create(dev, poolProps->maxSize, &p);
	core::device_put(dev); /* the pool holds its own reference */
	if (!err)
		*memPool = core::pool_handle(p);
	return check(__func__, err, at::memory);
}

aclError aclrtMemPoolDestroy(const aclrtMemPool memPool)
{
	if (!memPool)
		return bad_arg(__func__, "memPool is NULL");
	if (core::forked())
		return no_context(__func__);
	return core::pool_destroy(memPool) ? ACL_SUCCESS : no_pool(__func__, memPool);
}

aclError aclrtMemPoolSetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value)
{
	pool_guard p;

	if (!value)
		return bad_arg(__func__, "value is NULL");
	const aclError err = get_pool(__func__, memPool, &p);
	return err ? err : set_attr(__func__, p, attr, value);
}

aclError aclrtMemPoolGetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value)
{
	pool_guard p;

	if (!value)
		return bad_arg(__func__, "value is NULL");
	const aclError err = get_pool(__func__, memPool, &p);
	return err ? err : get_attr(__func__, p, attr, value);
}

aclError aclrtMemPoolMallocAsync(void **ptr, size_t size, aclrtMemPool memPool, aclrtStream stream)
{
	stream_guard s;
	pool_guard p;
	aclError err;

	if (!ptr || !stream)
		return bad_arg(__func__, "ptr or stream is NULL");
	err = get_pool(__func__, memPool, &p);
	if (err || !size)
		return err;
	err = get_stream(__func__, stream, &s);
	return err ? err : check(__func__, core::pool_alloc(p, size, s, ptr), at::memory);
}

aclError aclrtMemPoolFreeAsync(void *ptr, aclrtStream stream)
{
	stream_guard s;

	if (!ptr || !stream)
		return bad_arg(__func__, "ptr or stream is NULL");
	const aclError err = get_stream(__func__, stream, &s);
	return err ? err : check(__func__, core::pool_free(ptr, s), at::memory);
}

aclError aclrtMemPoolTrimTo(aclrtMemPool memPool, size_t minBytesToKeep)
{
	pool_guard p;
	const aclError err = get_pool(__func__, memPool, &p);

	if (!err)
		core::pool_trim(p, minBytesToKeep);
	return err;
}

} // extern "C"
