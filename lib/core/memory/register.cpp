/* SPDX-License-Identifier: BSD-3-Clause */
/* Registration of the caller's memory, pinned in place; each registration has its own IOVA. */
#include "driver/base/cancel.h"
#include "driver/base/error.h"
#include "driver/base/madvise.h"
#include "driver/base/memory_limit.h"
#include "driver/base/page_guard.h"
#include "lib/core/memory/hold.h"
#include "lib/core/memory/internal.h"
#include "lib/core/memory/retire.h"
#include "lib/core/base/section.h"

#include <algorithm>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

namespace usdma::core {

/*
 * How long an unregistration waits: for a lost device to quiesce, which takes milliseconds or never happens, and for
 * work that uses the memory.
 */
static constexpr u64 wait_ms = 1000;

/* Linux 5.14 and newer support MADV_POPULATE_READ; probed on a valid page. */
static bool populates()
{
	static const bool can = [] {
		const u64 size = os_page_size();
		void *p = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		const mapping page(p == MAP_FAILED ? nullptr : p, size);

		return page && !madvise(page.data(), size, MADV_POPULATE_READ);
	}();

	return can;
}

static int fail_access(u64 first, u64 size, bool readonly)
{
	return fail(EFAULT, "the %llu bytes at %#llx are not all mapped %s: only mapped memory can be registered",
		    static_cast<unsigned long long>(size), static_cast<unsigned long long>(first),
		    readonly ? "and readable" : "readable and writable");
}

/* Older kernels: read one byte of each page by a system call, which returns -EFAULT instead of raising SIGSEGV. */
static bool readable(u64 first, u64 size)
{
	static constexpr size_t batch = 256;
	iovec from[batch];
	u8 byte[batch];
	const iovec to = {byte, batch};

	for (u64 at = first, end = first + size; at < end;) {
		size_t n = 0;

		for (; n < batch && at < end; n++, at += os_page_size())
			from[n] = {reinterpret_cast<void *>(at), 1};
		if (process_vm_readv(getpid(), &to, 1, from, n, 0) != ssize_t(n))
			return false;
	}
	return true;
}

/* Usually most pages are resident; counted only if all of them would not fit. */
static int claim_absent(u64 first, u64 size, memory_claim *claim)
{
	static constexpr const char *what = "memory to register";
	void *const addr = reinterpret_cast<void *>(first);

	return claim->take(size, what) ? claim->take(memory_absent(addr, size), what) : 0;
}

static int check_access(u64 first, u64 size, bool readonly)
{
	memory_claim claim;
	int err = claim_absent(first, size, &claim);

	if (err)
		return err;
	if (!populates())
		return readable(first, size) ? 0 : fail_access(first, size, readonly);
	err = memory_populate(reinterpret_cast<void *>(first), size, !readonly, &claim);
	if (err == -ENOMEM || err == -EFAULT || err == -EINVAL)
		return fail_access(first, size, readonly);
	return err ? fail(-err, "faulting in %llu bytes to register", static_cast<unsigned long long>(size)) : 0;
}

static int reserve_free()
{
	std::lock_guard guard(mem_state().lock);

	deferred_run();
	return deferred_reserve();
}

/* Adds the region; else the range is unmapped again. */
static int publish(const region &r, dma_range *sp)
{
	const int err = region_add(r, nullptr);

	if (!err)
		return 0;
	const saved_error why;
	range_drop(sp);
	return why.again(err);
}

static int add_mapped(region *r, bool readonly)
{
	dma_range *sp;
	const int err = range_add_around({reinterpret_cast<u8 *>(r->base), r->size, r->reach, readonly}, &sp);

	if (err)
		return err;
	r->delta = sp->iova - reinterpret_cast<u64>(sp->vaddr);
	r->owner = sp;
	return publish(*r, sp);
}

static int add(u64 base, u64 size, u32 flags, const device *dev, u64 user)
{
	region r;
	int err;

	r.base = base;
	r.size = size;
	r.cls = mem_class::host;
	r.kind = region_kind::registered;
	r.flags = flags;
	r.slot = u8(dev ? dev->slot : 0);
	r.page_size = u32(os_page_size());
	r.reach = host_reach_of(dev);
	r.user = user;
	err = reserve_free();
	if (err)
		return err;
	ranges_unmap_removed();
	err = add_mapped(&r, flags & region_readonly);
	if (err) {
		std::lock_guard guard(mem_state().lock);

		deferred_unreserve(1);
	}
	return err;
}

static int add_charged(u64 base, u64 size, u32 flags, const device *dev, u64 user)
{
	u32 charged = 0;
	int err = flags & host_reg_charged ? pin_charge(size, &charged) : 0;

	if (err)
		return err;
	err = add(base, size,
		  (flags & host_reg_readonly ? u32(region_readonly) : 0) |
			  (flags & host_reg_charged ? u32(region_program) : 0) | charged,
		  dev, user);
	if (err)
		pin_discharge(size, charged);
	return err;
}

/* Early check for the most common mistake, before pages are faulted in and mapped. */
static int check_overlap(u64 base, u64 size)
{
	const translation first = translate(base), last = translate(base + size - 1);

	if (!first.reg && !last.reg)
		return 0;
	return fail(EEXIST, "%#llx and %llu bytes from there overlap memory that is registered or pinned already",
		    static_cast<unsigned long long>(base), static_cast<unsigned long long>(size));
}

/* 1: not all of it is inside one block of pinned memory. */
static int add_over_pinned(u64 base, u64 size, u64 user)
{
	std::lock_guard guard(mem_state().lock);
	const translation p = translate(base);

	if (!p.reg || p.kind != region_kind::pinned || p.flags & region_shared || base - p.base + size > p.size)
		return 1;
	return pinned_register(base, size, user);
}

int host_register(void *ptr, u64 size, u32 flags, const device *dev, u64 user)
{
	const no_cancel scope;
	const u64 base = reinterpret_cast<u64>(ptr);
	const bool readonly = flags & host_reg_readonly;
	int err;

	if (is_other_process())
		return fail_forked();
	if (!ptr || !size || base + size < base || base + size > u64(1) << 56)
		return fail(EINVAL, "%p: %llu bytes from there are not mapped", ptr,
			    static_cast<unsigned long long>(size));
	if (window_overlaps(base, size))
		return fail(EINVAL, "%p is device memory: only host memory can be registered", ptr);
	if (flags & host_reg_over_pinned) {
		err = add_over_pinned(base, size, user);
		if (err <= 0)
			return err;
	}
	err = check_overlap(base, size);
	if (err)
		return err;
	const page_range pages = pages_around(base, size);
	err = check_access(pages.first, pages.size, readonly);
	/* The program may have replaced signal handlers since the device was opened. */
	if (!err)
		err = page_guard_install();
	return err ? err : add_charged(base, size, flags, dev, user);
}

/* With the lock held. */
static int find(void *ptr, region **out)
{
	region *r = region_at(reinterpret_cast<u64>(ptr));

	if (!r || r->kind != region_kind::registered || r->flags & region_shared || region_is_hidden(r))
		return fail(ENOENT, "%p is not the start of registered memory", ptr);
	*out = r;
	return 0;
}

/* Its range, in use: another thread may unregister it. nullptr: there is none. */
static dma_range *enter(void *ptr)
{
	std::lock_guard guard(mem_state().lock);
	region *r = nullptr;

	if (find(ptr, &r))
		return nullptr;
	auto *sp = static_cast<dma_range *>(r->owner);
	sp->users++;
	return sp;
}

static bool may_be_written(void *ptr)
{
	dma_range *sp = enter(ptr);

	if (!sp)
		return false;
	/* Memory that a lost device accessed by messages only can be revoked at once. */
	range_unmap_lost(sp);
	std::lock_guard guard(mem_state().lock);
	const bool may = range_may_be_written(sp);
	range_leave(sp);
	return may;
}

/* Waits until no lost device may write there. */
static int await_quiesced(void *ptr, deadline until)
{
	const timespec nap = {0, 200 * 1000};

	while (may_be_written(ptr)) {
		retired_poll();
		if (until.passed())
			return fail(EBUSY,
				    "a device that was lost may still write to %p, which stays registered: retain the "
				    "memory, and "
				    "try again when that device's server has ended",
				    ptr);
		nanosleep(&nap, nullptr);
	}
	return 0;
}

/* New copies treat it as pageable memory. The region keeps its addresses, so that it can be restored. */
static int take_out(void *ptr, region **out)
{
	std::lock_guard guard(mem_state().lock);
	region *r = nullptr;

	if (const int err = find(ptr, &r))
		return err;
	region_hide(r);
	*out = r;
	return 0;
}

/* False: a lost device may still write there. */
static bool end_registration(region *r, dma_range *sp)
{
	std::lock_guard guard(mem_state().lock);

	if (range_may_be_written(sp))
		return false;
	pin_discharge(r->size, r->flags);
	region_remove(r);
	sp->dead = sp->is_deferred = true;
	deferred_add({.what = deferred_free::iova, .sp = sp});
	return true;
}

/*
 * Unmaps it from all devices: copies in flight fail, and the IOVA is not reused before they have ended. If a
 * device does not release the memory, the registration is restored.
 */
static int revoke(region *r)
{
	auto *sp = static_cast<dma_range *>(r->owner);
	const int err = range_unmap_all(sp);

	if (!err && end_registration(r, sp))
		return 0;
	const saved_error why;
	range_restore(sp);
	std::lock_guard guard(mem_state().lock);
	region_show(r, mem_class::host);
	return why.again(-EBUSY);
}

static int unregister(void *ptr, deadline until)
{
	region *r = nullptr;
	int err = await_quiesced(ptr, until);

	if (!err)
		err = take_out(ptr, &r);
	if (err)
		return err;
	/* Wait for what readers post. */
	grace_wait();
	/* Copies by the CPU, and gates that read a word there, end first; longer ones go on as of unregistered memory.
	 */
	hold_wait(*r, until);
	/* Let earlier work end first: after the return the caller owns the memory. */
	uses_await({ptr, {r->base + r->delta, r->size}}, r->reach, until);
	return revoke(r);
}

static bool take_out_pinned(void *ptr)
{
	std::lock_guard guard(mem_state().lock);

	return pinned_unregister(reinterpret_cast<u64>(ptr));
}

bool host_registration(const void *ptr, u64 *user)
{
	const translation p = translate(ptr);

	if (p.reg && p.kind == region_kind::registered && p.cls == mem_class::host) {
		*user = p.reg->user;
		return true;
	}
	/* After fork: a thread of the parent may have held the lock. */
	if (p.kind != region_kind::pinned || forked())
		return false;
	std::lock_guard guard(mem_state().lock);
	const pinned_registration *over = pinned_registered(reinterpret_cast<u64>(ptr));
	if (over)
		*user = over->user;
	return over;
}

int host_unregister(void *ptr)
{
	const no_cancel scope;
	const deadline until = deadline::in_ms(wait_ms);
	int err;

	if (is_other_process())
		return fail_forked();
	if (take_out_pinned(ptr))
		return 0;
	/* Retry: a device may be lost while it releases the memory. */
	do {
		err = unregister(ptr, until);
	} while (err == -EBUSY && !until.passed());
	return err;
}

} // namespace usdma::core
