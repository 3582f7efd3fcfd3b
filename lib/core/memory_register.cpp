/* SPDX-License-Identifier: BSD-3-Clause */
/* The caller's own memory, pinned in place: its pages at an IOVA of their own for each registration. */
#include "driver/base/error.h"
#include "lib/core/memory_room.h"

#include <algorithm>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace usdma::core {

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
	return fail(EFAULT, "the %llu bytes at %#llx are not all mapped %s: only memory that you have can be registered",
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

static int check_access(u64 first, u64 size, bool readonly)
{
	const int how = readonly ? MADV_POPULATE_READ : MADV_POPULATE_WRITE;

	if (!populates())
		return readable(first, size) ? 0 : fail_access(first, size, readonly);
	if (!madvise(reinterpret_cast<void *>(first), size, how))
		return 0;
	if (errno == ENOMEM || errno == EFAULT || errno == EINVAL)
		return fail_access(first, size, readonly);
	return fail_errno("faulting in %llu bytes to register", static_cast<unsigned long long>(size));
}

static int add(u64 base, u64 size, u64 first, u64 whole, bool readonly)
{
	std::unique_ptr<backing> none;
	region *made;
	region r;
	span *sp;
	int err;

	r.base = base;
	r.size = size;
	r.cls = mem_class::host;
	r.kind = region_kind::registered;
	std::lock_guard guard(room().lock);
	limbo_run();
	err = span_add(reinterpret_cast<u8 *>(first), whole, readonly, none, &sp);
	if (err)
		return err;
	r.delta = sp->iova - first;
	r.owner = sp;
	err = region_add(r, &made);
	if (err) {
		const kept_error why;

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

int host_register(void *ptr, u64 size, u32 flags)
{
	const u64 base = reinterpret_cast<u64>(ptr);
	const bool readonly = flags & host_reg_readonly;
	int err;

	if (forked())
		return fail_forked();
	if (!ptr || !size || base + size < base || base + size > u64(1) << 56)
		return fail(EINVAL, "%p and %llu bytes from there are no memory", ptr, static_cast<unsigned long long>(size));
	if (base < window_base + window_size && base + size > window_base)
		return fail(EINVAL, "%p is device memory: only host memory can be registered", ptr);
	err = check_overlap(base, size);
	if (err)
		return err;
	const u64 first = align_down(base, page_normal), whole = align_up(base + size, page_normal) - first;
	err = check_access(first, whole, readonly);
	return err ? err : add(base, size, first, whole, readonly);
}

static int take_out(void *ptr, span **sp)
{
	std::lock_guard guard(room().lock);
	region *r = region_at(reinterpret_cast<u64>(ptr));

	if (!r || r->kind != region_kind::registered || r->flags & region_shared)
		return fail(ENOENT, "%p is not the start of registered memory", ptr);
	*sp = static_cast<span *>(r->owner);
	region_remove(r);
	return 0;
}

int host_unregister(void *ptr)
{
	span *sp = nullptr;
	int err;

	if (forked())
		return fail_forked();
	err = take_out(ptr, &sp);
	if (err)
		return err;
	/* The memory is the caller's again when this returns: what was submitted before may end first. */
	limbo_drain();
	std::lock_guard guard(room().lock);
	return span_remove(sp);
}

} // namespace usdma::core
