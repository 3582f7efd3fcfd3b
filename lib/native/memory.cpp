/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API: memory. */
#include "lib/native/handles.h"
#include "lib/core/memory/memory.h"

using namespace usdma;

static_assert(USDMA_MEMORY_UNREGISTERED == int(core::mem_class::unregistered));
static_assert(USDMA_MEMORY_HOST == int(core::mem_class::host));
static_assert(USDMA_MEMORY_DEVICE == int(core::mem_class::device));
static_assert(u32(USDMA_REGISTER_READ_ONLY) == u32(core::host_reg_readonly));

static int need_size(const char *call, size_t size)
{
	return size ? 0 : fail(EINVAL, "%s: size is 0", call);
}

static int alloc_for(const char *call, const core::device *dev, size_t size, void **out)
{
	const int err = need_size(call, size);

	return err ? err : core::host_alloc_charged(size, -1, out, dev);
}

int usdma_host_alloc(usdma_device *dev, size_t size, void **out)
{
	need_pointer(out);
	*out = nullptr;
	if (!dev)
		return alloc_for(__func__, nullptr, size, out);
	guard_device(d, dev);
	return alloc_for(__func__, d, size, out);
}

int usdma_host_free(void *ptr)
{
	return ptr ? core::host_free(ptr) : 0;
}

int usdma_host_register(void *ptr, size_t size, unsigned flags)
{
	need_pointer(ptr);
	if (flags & ~unsigned(USDMA_REGISTER_READ_ONLY))
		return fail(EINVAL, "%s: unknown flags 0x%x", __func__, flags);
	if (const int err = need_size(__func__, size))
		return err;
	return core::host_register(ptr, size, flags | core::host_reg_charged);
}

int usdma_host_unregister(void *ptr)
{
	need_pointer(ptr);
	return core::host_unregister(ptr);
}

int usdma_device_alloc(usdma_device *dev, size_t size, void **out)
{
	u64 addr;

	need_pointer(out);
	*out = nullptr;
	guard_device(d, dev);
	if (const int err = need_size(__func__, size))
		return err;
	if (const int err = core::device_alloc(d, size, core::page_policy::huge_first, &addr))
		return err;
	*out = reinterpret_cast<void *>(addr);
	return 0;
}

int usdma_device_free(void *ptr)
{
	return ptr ? core::device_free(reinterpret_cast<u64>(ptr)) : 0;
}

int usdma_pointer_get_info(const void *ptr, struct usdma_pointer_info *info)
{
	const no_cancel no_exit;
	struct usdma_pointer_info v = {};

	need_pointer(info);
	if (core::forked())
		return core::fail_forked();
	const core::translation p = core::translate(ptr);

	v.memory_class = int32_t(p.cls);
	v.base = p.size ? p.base : 0;
	v.size = p.size;
	v.device_index = p.cls == core::mem_class::device ? p.slot : -1;
	v.registered = p.size && p.kind == core::region_kind::registered;
	return native::give(__func__, info, v);
}
