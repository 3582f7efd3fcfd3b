/* SPDX-License-Identifier: BSD-3-Clause */
/* The caller's own memory, pinned in place: its pages at an IOVA of their own for each registration. */
#include "driver/base/cancel.h"
#include "driver/base/error.h"
#include "driver/base/memory_limit.h"
#include "driver/base/page_guard.h"
#include "lib/core/memory/internal.h"
#include "lib/core/memory/retire.h"
#include "lib/core/base/section.h"

#include <algorithm>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace usdma::core {

/*
 * So long an unregistration waits for a device that was lost to be proven quiet: that takes milliseconds, or
 * may never be.
 */
static constexpr u64 quiet_ms = 1000;

/* Linux 5.14 and newer fault pages in and say whether that can be; found out on a page that can. */
static bool populates()
{
	static const bool can = [] {
		void *p = mmap(nullptr, page_normal, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		const mapping page(p == MAP_FAILED ? nullptr : p, page_normal);

		return page && !madvise(page.data(), page_normal, MADV_POPULATE_READ);
	}();

	return can;
}

static int fail_access(u64 first, u64 size, bool readonly)
{
	return fail(EFAULT,
		    "the %llu bytes at %#llx are not all mapped %s: only memory that you have can be registered",
		    static_cast<unsigned long long>(size), static_cast<unsigned long long>(first),
		    readonly ? "and readable" : "readable and writable");
}

/* Older kernels: one byte of each page is read through the kernel, which says -EFAULT instead of SIGSEGV. */
static bool readable(u64 first, u64 size)
{
	static constexpr size_t batch = 256;
	iovec from[batch];
	u8 byte[batch];
	const iovec to = {byte, batch};

	for (u64 at = first, end = first + size; at < end;) {
		size_t n = 0;

		for (; n < batch && at < end; n++, at += page_normal)
			from[n] = {reinterpret_cast<void *>(at), 1};
		if (process_vm_readv(getpid(), &to, 1, from, n, 0) != ssize_t(n))
			return false;
	}
	return true;
}

/* Most of it is there mostly, and counted only where all of it would not fit. */
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

static int add(u64 base, u64 size, bool readonly, const device *dev)
{
	region *made;
	region r;
	span *sp;
	int err;

	r.base = base;
	r.size = size;
	r.cls = mem_class::host;
	r.kind = region_kind::registered;
	r.flags = readonly ? u32(region_readonly) : 0;
	r.slot = u8(dev ? dev->slot : 0);
	r.reach = lends_for(dev);
	std::lock_guard guard(mem_state().lock);
	deferred_run();
	err = deferred_expect();
	if (err)
		return err;
	err = span_add_around({reinterpret_cast<u8 *>(base), size, r.reach, readonly}, &sp);
	if (err) {
		deferred_forgo(1);
		return err;
	}
	r.delta = sp->iova - reinterpret_cast<u64>(sp->vaddr);
	r.owner = sp;
	err = region_add(r, &made);
	if (err) {
		const kept_error why;

		deferred_forgo(1);
		span_remove(sp);
		return why.again(err);
	}
	return 0;
}

/* Before pages are touched and devices are asked: the usual mistake. */
static int check_overlap(u64 base, u64 size)
{
	const place begins = locate(base), ends = locate(base + size - 1);

	if (!begins.reg && !ends.reg)
		return 0;
	return fail(EEXIST, "%#llx and %llu bytes from there overlap memory that is registered or pinned already",
		    static_cast<unsigned long long>(base), static_cast<unsigned long long>(size));
}

int host_register(void *ptr, u64 size, u32 flags, const device *dev)
{
	const no_cancel quiet;
	const u64 base = reinterpret_cast<u64>(ptr);
	const bool readonly = flags & host_reg_readonly;
	int err;

	if (forked())
		return fail_forked();
	if (!ptr || !size || base + size < base || base + size > u64(1) << 56)
		return fail(EINVAL, "%p: %llu bytes from there are not mapped", ptr,
			    static_cast<unsigned long long>(size));
	if (window_overlaps(base, size))
		return fail(EINVAL, "%p is device memory: only host memory can be registered", ptr);
	err = check_overlap(base, size);
	if (err)
		return err;
	const u64 first = align_down(base, page_normal), whole = align_up(base + size, page_normal) - first;
	err = check_access(first, whole, readonly);
	/* The program may have installed handlers since the device was opened. */
	if (!err)
		err = page_guard_install();
	return err ? err : add(base, size, readonly, dev);
}

/* With the lock held. */
static int find(void *ptr, region **out)
{
	region *r = region_at(reinterpret_cast<u64>(ptr));

	if (!r || r->kind != region_kind::registered || r->flags & region_shared)
		return fail(ENOENT, "%p is not the start of registered memory", ptr);
	*out = r;
	return 0;
}

static bool is_suspect(void *ptr)
{
	std::lock_guard guard(mem_state().lock);
	region *r = nullptr;

	if (find(ptr, &r))
		return false;
	auto *sp = static_cast<span *>(r->owner);
	/* Of a lost device some of it can be taken back at once: what it reached by messages only. */
	for (device *dev : mem_state().attached)
		if (dev && dev->lost())
			span_unmap(sp, dev);
	return span_is_suspect(sp);
}

/* Until no device that was lost may still write there. */
static int await_quiet(void *ptr, deadline until)
{
	const timespec nap = {0, 200 * 1000};

	while (is_suspect(ptr)) {
		retired_look();
		if (until.passed())
			return fail(EBUSY,
				    "a device that was lost may still write to %p, which stays registered: keep the "
				    "memory, and "
				    "try again when that device's server has ended",
				    ptr);
		nanosleep(&nap, nullptr);
	}
	return 0;
}

/* From now on it is ordinary memory to new copies. */
static int take_out(void *ptr, region *kept, span **sp)
{
	std::lock_guard guard(mem_state().lock);
	region *r = nullptr;

	if (const int err = find(ptr, &r))
		return err;
	*kept = *r;
	*sp = static_cast<span *>(r->owner);
	region_remove(r);
	return 0;
}

/*
 * Taken away from all devices: copies that are still in flight fail there, and no other memory gets the IOVA before
 * they have.  Where a device does not release it it, all is as it was.
 */
static int take_away(const region &kept, span *sp)
{
	deferred_free item = {};
	const bool clear = deferred_ask();
	std::lock_guard guard(mem_state().lock);

	if (span_unmap_all(sp) || span_is_suspect(sp)) {
		const kept_error why;

		region_add(kept, nullptr); /* there was room for it a moment ago */
		span_restore(sp);
		return why.again(-EBUSY);
	}
	sp->dead = sp->is_deferred = true;
	item.what = deferred_free::iova;
	item.sp = sp;
	deferred_add(std::move(item), clear);
	return 0;
}

static int unregister(void *ptr, deadline until)
{
	span *sp = nullptr;
	region kept;
	int err = await_quiet(ptr, until);

	if (!err)
		err = take_out(ptr, &kept, &sp);
	if (err)
		return err;
	/* Who looks at a word there (a gate) has left. */
	grace_wait();
	/* The memory is the caller's again when this returns: what was submitted before may end first. */
	deferred_drain();
	return take_away(kept, sp);
}

int host_unregister(void *ptr)
{
	const no_cancel quiet;
	const deadline until = deadline::in_ms(quiet_ms);
	int err;

	if (forked())
		return fail_forked();
	/* A device may be lost just when it is to released the memory. */
	do {
		err = unregister(ptr, until);
	} while (err == -EBUSY && !until.passed());
	return err;
}

} // namespace usdma::core
