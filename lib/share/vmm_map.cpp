/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/share/vmm.h"

#include "driver/base/cancel.h"
#include "driver/base/grow.h"
#include "driver/base/memfd.h"
#include "lib/core/memory/memory.h"
#include "lib/core/base/slab.h"
#include "lib/share/vmm_internal.h"

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace usdma::core {

static constinit no_destructor<slab<physical, max_physicals, handle_kind::physical>> physicals;

struct vmm_mapping {
	physical *what;
	u64 size;
	region *reg; /* nullptr: no access yet */
};

struct vmm_state {
	std::mutex lock;
	std::map<u64, u64> reserved;       /* start → size */
	std::map<u64, vmm_mapping> mapped; /* by start */
};

static vmm_state &vmm()
{
	static no_destructor<vmm_state> made;

	return *made;
}

/* ---- addresses -------------------------------------------------------------------------------------- */

int vmm_take_addresses(u64 size, u64 align, u64 expect, u64 *va)
{
	const int err = window_take(size, std::max(align, vmm_grain), expect, va);

	if (err == -ENOBUFS)
		return no_memory("the table of addresses");
	if (err == -EEXIST)
		return fail(EEXIST, "%llu bytes of addresses at %#llx are unavailable: in use, or not aligned",
			    ull(size), ull(expect));
	return err;
}

int vmm_reserve(u64 size, u64 align, u64 expect, u64 *va)
{
	const no_cancel scope;
	const u64 whole = align_up(size, vmm_grain);
	int err;

	if (forked())
		return fail_forked();
	if (!size || whole < size || whole > vmm_limit || (align && !is_pow2(align)))
		return fail(EINVAL, "%llu bytes aligned to %llu cannot be reserved", ull(size), ull(align));
	err = vmm_take_addresses(whole, align, expect, va);
	if (err)
		return err;
	vmm_state &v = vmm();
	std::unique_lock guard(v.lock);
	if (try_emplace(v.reserved, *va, whole))
		return 0;
	guard.unlock();
	window_give(*va);
	return no_memory("the list of reservations");
}

/* Whether anything is mapped in [va, va + size). */
static bool any_mapped(const vmm_state &v, u64 va, u64 size)
{
	auto it = v.mapped.lower_bound(va);

	if (it != v.mapped.end() && it->first < va + size)
		return true;
	return it != v.mapped.begin() && (--it, it->first + it->second.size > va);
}

int vmm_release(u64 va)
{
	const no_cancel scope;

	if (forked())
		return fail_forked();
	vmm_state &v = vmm();
	{
		std::lock_guard guard(v.lock);
		const auto it = v.reserved.find(va);

		if (it == v.reserved.end())
			return fail(ENOENT, "%#llx is not the start of a reservation", ull(va));
		if (any_mapped(v, va, it->second))
			return fail(EBUSY, "memory is still mapped in the reservation at %#llx", ull(va));
		v.reserved.erase(it);
	}
	window_give(va);
	return 0;
}

/* ---- physical memory -------------------------------------------------------------------------------- */

int physical_new(device *dev, u64 size, physical **out)
{
	const int err = device_ref(dev);

	if (err)
		return err;
	physical *p = physicals->get();
	if (!p) {
		const int full = physicals->fail_full(ENOMEM, "handles of physical memory");

		device_put(dev);
		return full;
	}
	p->dev = dev;
	p->size = size;
	*out = p;
	return 0;
}

void physical_ready(physical *p)
{
	physicals->publish(p);
}

/* Called with no handle or mapping left. */
static void physical_end(physical *p)
{
	device *dev = p->dev;

	physical_unshare(p);
	if (p->carved)
		device_uncarve(dev, p->offset, p->size);
	physicals->put(p); /* frees its memory */
	device_put(dev);
}

void physical_leave(physical *p)
{
	if (fetch_sub_acq_rel(&p->refs, 1) == 1)
		physical_end(p);
}

int physical_device(device *dev, u64 size, u64 align, physical **out)
{
	const no_cancel scope;
	physical *p = nullptr;
	int err;

	if (!size || size % vmm_grain)
		return fail(EINVAL, "%llu bytes are not a multiple of 2 MiB", ull(size));
	err = physical_new(dev, size, &p);
	if (err)
		return err;
	err = device_carve(dev, size, std::max(align, vmm_grain), &p->offset);
	if (err) {
		physical_leave(p);
		return err;
	}
	p->carved = true;
	physical_ready(p);
	*out = p;
	return 0;
}

static int make_host(physical *p, u64 size, int node)
{
	/* Sealed to its size, as another process may map it (share.cpp). */
	int err = memfd_make("usdma-physical", size, 0, &p->fd);

	if (!err)
		err = file_on_node(p->fd.get(), size, node);
	if (!err)
		err = foreign_map(p->dev, p->fd.get(), 0, size, &p->mem);
	if (!err)
		madvise(p->mem.pages.data(), size, MADV_DODUMP); /* unlike another process's memory */
	return err;
}

int physical_host(device *dev, u64 size, int node, physical **out)
{
	const no_cancel scope;
	physical *p = nullptr;
	int err;

	if (!size || size % os_page_size())
		return fail(EINVAL, "%llu bytes are not whole pages", ull(size));
	err = physical_new(dev, size, &p);
	if (err)
		return err;
	p->host = true;
	err = make_host(p, size, node);
	if (err) {
		physical_leave(p);
		return err;
	}
	physical_ready(p);
	*out = p;
	return 0;
}

physical *physical_enter(const void *handle)
{
	return physicals->ref(handle, physical_leave);
}

void *physical_handle(const physical *p)
{
	return reinterpret_cast<void *>(load_relaxed(&p->alive));
}

void physical_put(physical *p)
{
	const no_cancel scope;
	vmm_state &v = vmm();
	{
		std::lock_guard guard(v.lock);

		/* Another thread has dropped the last handle. */
		if (!p->handles)
			return;
		if (--p->handles == 0)
			store_release(&p->alive, u64(0));
	}
	physical_leave(p);
}

bool physical_on_host(const physical *p)
{
	return p->host;
}

void *physical_user(physical *p, size_t size)
{
	return size <= sizeof(p->user) ? p->user : nullptr;
}

/* ---- mapping ---------------------------------------------------------------------------------------- */

static region region_of(const physical *p, u64 va)
{
	const memory_view m = device_memory(p->dev);
	region r;

	r.base = va;
	r.size = p->size;
	r.kind = region_kind::vmm;
	r.slot = u8(p->dev->slot);
	r.flags = region_chains | region_shared;
	if (p->remote.by) {
		/* No device reaches it: copies are made by usdma-net (remote.h). */
		r.kind = region_kind::remote;
		r.cls = mem_class::device;
		r.page_size = u32(vmm_grain);
		return r;
	}
	r.cls = p->host ? mem_class::host : mem_class::device;
	r.space = p->carved ? m.space : dma::space::host;
	r.reach = r.space == dma::space::host ? p->dev->host_reach : 1u << p->dev->slot;
	r.page_size = u32(p->carved ? vmm_grain : os_page_size());
	r.delta = (p->carved ? m.dma + p->offset : p->mem.iova) - va;
	return r;
}

/* Maps or unmaps host memory for the CPU at va. */
static int map_for_cpu(const physical *p, u64 va, bool map)
{
	void *at = reinterpret_cast<void *>(va), *got;

	if (!p->host)
		return 0;
	got = map ? mmap(at, p->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->fd.get(), 0) :
		    mmap(at, p->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	return got == MAP_FAILED ? fail_errno("mapping host memory at %#llx", ull(va)) : 0;
}

static int grant(u64 va, vmm_mapping *m)
{
	int err = map_for_cpu(m->what, va, true);

	if (err)
		return err;
	err = region_add(region_of(m->what, va), &m->reg);
	if (err)
		map_for_cpu(m->what, va, false);
	return err;
}

static int check_map(const vmm_state &v, u64 va, u64 size, const physical *p)
{
	const u64 grain = p->host ? os_page_size() : vmm_grain;
	auto it = v.reserved.upper_bound(va);

	if (size != p->size || va % grain)
		return fail(EINVAL,
			    "%llu bytes at %#llx: the memory has %llu bytes, and addresses are multiples of %llu",
			    ull(size), ull(va), ull(p->size), ull(grain));
	if (it == v.reserved.begin() || (--it, !range_within(va - it->first, size, it->second)))
		return fail(ENOENT, "%#llx and %llu bytes from there are not reserved", ull(va), ull(size));
	if (any_mapped(v, va, size))
		return fail(EEXIST, "something is mapped at %#llx already", ull(va));
	return 0;
}

int vmm_map(u64 va, u64 size, physical *p, bool access)
{
	const no_cancel scope;
	vmm_state &v = vmm();
	std::lock_guard guard(v.lock);
	const vmm_mapping m{p, size, nullptr};
	int err;

	if (forked())
		return fail_forked();
	err = check_map(v, va, size, p);
	if (err)
		return err;
	vmm_mapping *made = try_emplace(v.mapped, va, m);
	if (!made)
		return no_memory("the list of mappings");
	err = access ? grant(va, made) : 0;
	if (err) {
		v.mapped.erase(va);
		return err;
	}
	fetch_add_relaxed(&p->refs, 1);
	return 0;
}

static vmm_mapping *mapping_at(vmm_state &v, u64 va)
{
	const auto it = v.mapped.find(va);

	if (it != v.mapped.end())
		return &it->second;
	fail(ENOENT, "%#llx is not the start of a mapping", ull(va));
	return nullptr;
}

int vmm_unmap(u64 va)
{
	const no_cancel scope;
	vmm_state &v = vmm();
	physical *p = nullptr;

	if (forked())
		return fail_forked();
	{
		std::lock_guard guard(v.lock);
		const vmm_mapping *m = mapping_at(v, va);

		if (!m)
			return -ENOENT;
		p = m->what;
		if (m->reg) {
			region_remove(m->reg);
			map_for_cpu(p, va, false);
		}
		v.mapped.erase(va);
	}
	physical_leave(p);
	return 0;
}

int vmm_set_access(u64 va, u64 size)
{
	const no_cancel scope;

	if (forked())
		return fail_forked();
	vmm_state &v = vmm();
	std::lock_guard guard(v.lock);
	vmm_mapping *m = mapping_at(v, va);

	if (!m)
		return -ENOENT;
	if (m->size != size)
		return fail(EINVAL, "%#llx is mapped with %llu bytes, not %llu", ull(va), ull(m->size), ull(size));
	return m->reg ? 0 : grant(va, m);
}

int vmm_get_access(u64 va, bool *granted, bool *host)
{
	if (forked())
		return fail_forked();
	vmm_state &v = vmm();
	std::lock_guard guard(v.lock);
	auto it = v.mapped.upper_bound(va);

	if (it == v.mapped.begin() || (--it, va - it->first >= it->second.size))
		return fail(ENOENT, "nothing is mapped at %#llx", ull(va));
	*granted = it->second.reg != nullptr;
	*host = it->second.what->host;
	return 0;
}

int vmm_find(u64 va, physical **out, u64 *offset, u64 *left)
{
	vmm_state &v = vmm();
	std::lock_guard guard(v.lock);
	auto it = v.mapped.upper_bound(va);

	if (it == v.mapped.begin() || (--it, va - it->first >= it->second.size) || !it->second.reg)
		return fail(ENOENT, "nothing is mapped at %#llx (any more)", ull(va));
	*out = it->second.what;
	*offset = va - it->first;
	*left = it->second.size - *offset;
	fetch_add_relaxed(&it->second.what->refs, 1);
	return 0;
}

int vmm_retain(u64 va, physical **out)
{
	if (forked())
		return fail_forked();
	vmm_state &v = vmm();
	std::lock_guard guard(v.lock);
	const vmm_mapping *m = mapping_at(v, va);

	if (!m)
		return -ENOENT;
	fetch_add_relaxed(&m->what->refs, 1);
	m->what->handles++;
	if (!load_relaxed(&m->what->alive))
		physicals->publish(m->what);
	*out = m->what;
	return 0;
}

} // namespace usdma::core
