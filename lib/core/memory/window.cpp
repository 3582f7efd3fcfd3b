/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/memory/window.h"

#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/base/grow.h"
#include "driver/base/no_destructor.h"
#include "driver/base/page.h"
#include "lib/core/base/fork.h"
#include "lib/core/memory/heap.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <sys/mman.h>
#include <sys/resource.h>

namespace usdma::core {

static constexpr u64 slots_size = max_devices * window_slot;
/*
 * Possible bases of the window. AddressSanitizer's shadow memory covers the start of the first, and a ZGC heap
 * occupies one of them. In all of them bit 46 distinguishes device from host pointers (translation_index()).
 */
static constexpr u64 bases[] = {window_base, window_base + window_size, window_base + 2 * window_size,
				window_base + 3 * window_size};
static constexpr u64 all_bases = std::size(bases) * window_size;
/* Device pointers lie below this where possible: bit 46 is clear there. */
static constexpr u64 device_end = u64(1) << 46;
static constexpr u64 nowhere = ~u64(0);

struct taken {
	u64 size;
	u64 offset; /* in the heap of ranges; nowhere: a slot, or a fixed address outside the heap */
};

struct window_state {
	std::mutex lock;
	std::map<u64, taken> all; /* by start */
	heap ranges;              /* offsets in the window, after the slots */
	bool ready = false;
	bool outside = false; /* something was reserved outside of its bases */
};

static window_state &window()
{
	static no_destructor<window_state> made;

	return *made;
}

/* ---- reserving addresses ----------------------------------------------------------------------------- */

static void *map_none(u64 hint, u64 size)
{
	return mmap(reinterpret_cast<void *>(hint), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		    0);
}

/*
 * mlockall(MCL_FUTURE) charges new mappings to RLIMIT_MEMLOCK, even PROT_NONE ones. Growing one unlocked page
 * with mremap() avoids the charge.
 */
static void *map_none_unlocked(u64 hint, u64 size)
{
	const u64 page = os_page_size();
	void *const first = map_none(hint, page);
	void *p = MAP_FAILED;

	if (first == MAP_FAILED)
		return first;
	if (!munlock(first, page))
		p = mremap(first, page, size, MREMAP_MAYMOVE);
	if (p == MAP_FAILED) {
		const int err = errno;
		munmap(first, page);
		errno = err;
	}
	return p;
}

/* At the hint if it is free, else anywhere. */
static void *reserve(u64 hint, u64 size)
{
	void *p = map_none(hint, size);

	if (p == MAP_FAILED && errno == EAGAIN)
		p = map_none_unlocked(hint, size);
	if (p == MAP_FAILED)
		return p;
	munlock(p, size); /* do not use up the program's RLIMIT_MEMLOCK */
	madvise(p, size, MADV_DONTDUMP);
	return p;
}

/* No MAP_FIXED_NOREPLACE: sanitizers may drop the hint and keep the flag, and old kernels ignore it. */
static bool reserve_at(u64 addr, u64 size)
{
	void *p = reserve(addr, size);

	if (reinterpret_cast<u64>(p) == addr)
		return true;
	if (p != MAP_FAILED) {
		munmap(p, size);
		errno = EEXIST;
	}
	return false;
}

static bool reserve_anywhere(u64 size, u64 align, u64 *base)
{
	const u64 all = size + align;
	void *p = all > size ? reserve(0, all) : MAP_FAILED;

	if (p == MAP_FAILED)
		return false;
	const u64 first = reinterpret_cast<u64>(p);
	*base = align_up(first, align);
	if (*base > first)
		munmap(p, *base - first);
	if (*base + size < first + all)
		munmap(reinterpret_cast<void *>(*base + size), first + all - *base - size);
	return true;
}

/* ---- diagnosing failures ----------------------------------------------------------------------------- */

struct map_summary {
	u64 largest = 0, in_use = 0, gap = 0;
	char line[160] = {}; /* of the largest mapping */
};

static map_summary read_maps()
{
	const std::unique_ptr<FILE, int (*)(FILE *)> file(fopen("/proc/self/maps", "re"), fclose);
	map_summary s;
	char line[512];
	ull from, to;
	u64 end = os_page_size();

	while (file && fgets(line, sizeof(line), file.get())) {
		if (sscanf(line, "%llx-%llx", &from, &to) != 2 || from >> 56) /* vsyscall is the kernel's */
			continue;
		s.in_use += to - from;
		s.gap = std::max<u64>(s.gap, from > end ? from - end : 0);
		end = to;
		if (to - from <= s.largest)
			continue;
		s.largest = to - from;
		line[strcspn(line, "\n")] = 0;
		snprintf(s.line, sizeof(s.line), "%.*s", int(sizeof(s.line) - 1), line);
	}
	return s;
}

static int fail_occupied(u64 size)
{
	const int err = errno;
	const map_summary s = read_maps();
	rlimit as = {RLIM_INFINITY, RLIM_INFINITY}, lock = as;

	getrlimit(RLIMIT_AS, &as);
	getrlimit(RLIMIT_MEMLOCK, &lock);
	if (err == EAGAIN)
		return fail(ENOMEM,
			    "%llu bytes of addresses for device pointers are locked memory after mlockall(MCL_FUTURE): "
			    "the limit (RLIMIT_MEMLOCK, ulimit -l) is %llu bytes",
			    ull(size), ull(lock.rlim_cur));
	if (err == ENOMEM && as.rlim_cur != RLIM_INFINITY && s.in_use + 2 * size > as.rlim_cur)
		return fail(
			ENOMEM,
			"%llu bytes of addresses for device pointers are more than half of what the limit on address "
			"space (RLIMIT_AS, ulimit -v) leaves: it is %llu bytes, of which %llu are in use",
			ull(size), ull(as.rlim_cur), ull(s.in_use));
	if (err == ENOMEM && s.largest)
		return fail(ENOMEM,
			    "%llu bytes of addresses for device pointers are not free: the largest gap has %llu bytes "
			    "(or vm.max_map_count is reached); the largest mapping in the way is %s",
			    ull(size), ull(s.gap), s.line);
	return fail(ENOMEM, "%llu bytes of addresses for device pointers: %s", ull(size), strerror(err));
}

/* ---- the window -------------------------------------------------------------------------------------- */

static bool reserve_at_bases(u64 offset, u64 size, u64 *base)
{
	for (const u64 candidate : bases) {
		*base = candidate + offset;
		if (reserve_at(*base, size))
			return true;
	}
	return false;
}

/* With the lock held: at offset from one of the bases, else anywhere. */
static int find_range(u64 offset, u64 size, u64 align, u64 *base)
{
	return reserve_at_bases(offset, size, base) || reserve_anywhere(size, align, base) ? 0 : fail_occupied(size);
}

/*
 * For ranges that the window cannot hold. First the bases after the first one, below bit 46, so that the bit still
 * distinguishes device from host pointers; then any address.
 */
static int find_beyond(u64 size, u64 align, u64 *base)
{
	for (*base = window_base + window_size; size <= device_end && *base <= device_end - size; *base += window_size)
		if (*base % align == 0 && reserve_at(*base, size))
			return 0;
	return reserve_anywhere(size, align, base) ? 0 : fail_occupied(size);
}

/* A device takes at most half of the remaining RLIMIT_AS, so that the program can still map memory. */
static bool within_half(u64 size)
{
	const std::unique_ptr<FILE, int (*)(FILE *)> file(fopen("/proc/self/statm", "re"), fclose);
	rlimit as;
	ull pages;

	if (getrlimit(RLIMIT_AS, &as) || as.rlim_cur == RLIM_INFINITY || !file)
		return true;
	if (fscanf(file.get(), "%llu", &pages) != 1)
		return true;
	const u64 used = pages * os_page_size();
	return used < as.rlim_cur && size <= (as.rlim_cur - used) / 2;
}

static int record(window_state &w, u64 base, const taken &t)
{
	if (!try_emplace(w.all, base, t)) {
		munmap(reinterpret_cast<void *>(base), t.size);
		return -ENOBUFS;
	}
	if (!range_within(base - window_base, t.size, all_bases))
		store_release(&w.outside, true);
	return 0;
}

/*
 * Outside of the bases reserve a whole slot if possible, so that pointers well past the device's memory are
 * still recognized.
 */
static int find_slot(unsigned slot, u64 *size, u64 *base)
{
	const u64 align = *size < GiB ? window_grain : GiB;

	if (reserve_at_bases(slot * window_slot, *size, base))
		return 0;
	if (*size >= window_slot || !within_half(window_slot) || !reserve_anywhere(window_slot, align, base))
		return reserve_anywhere(*size, align, base) ? 0 : fail_occupied(*size);
	*size = window_slot;
	return 0;
}

int window_take_slot(unsigned slot, u64 size, u64 *base)
{
	window_state &w = window();
	std::lock_guard guard(w.lock);
	/* One page more: the address just past the memory must not be valid. */
	taken t = {align_up(size, window_grain) + os_page_size(), nowhere};
	int err;

	errno = ENOMEM;
	if (!within_half(t.size))
		return fail_occupied(t.size);
	err = find_slot(slot, &t.size, base);
	return err ? err : record(w, *base, t);
}

static int take_at(window_state &w, u64 size, u64 expect, u64 *offset)
{
	const u64 at = expect - window_base - slots_size;

	*offset = nowhere;
	if (expect % window_grain || expect + size < expect)
		return -EEXIST;
	if (expect - window_base < slots_size)
		return -EEXIST;
	if (at < w.ranges.size()) {
		if (const int err = w.ranges.reserve(at, size))
			return err == -EINVAL ? -EEXIST : err;
		*offset = at;
	}
	if (reserve_at(expect, size))
		return 0;
	return -EEXIST;
}

static int take_any(window_state &w, u64 size, u64 align, u64 *base, u64 *offset)
{
	*offset = nowhere;
	if (const int err = w.ranges.alloc(size, align, offset))
		return err == -ENOMEM ? find_beyond(size, align, base) : err;
	return find_range(slots_size + *offset, size, align, base);
}

static int get_ready(window_state &w)
{
	if (!w.ready)
		w.ready = !w.ranges.init(window_size - slots_size, window_grain);
	return w.ready ? 0 : -ENOBUFS;
}

int window_take(u64 size, u64 align, u64 expect, u64 *base)
{
	window_state &w = window();
	std::lock_guard guard(w.lock);
	u64 offset = nowhere;
	int err = get_ready(w);

	*base = expect;
	if (!err)
		err = expect ? take_at(w, size, expect, &offset) : take_any(w, size, align, base, &offset);
	if (!err)
		err = record(w, *base, {size, offset});
	if (err && offset != nowhere)
		w.ranges.free(offset);
	return err;
}

void window_give(u64 base)
{
	window_state &w = window();
	std::lock_guard guard(w.lock);
	const auto it = w.all.find(base);

	if (it == w.all.end())
		return;
	munmap(reinterpret_cast<void *>(base), it->second.size);
	if (it->second.offset != nowhere)
		w.ranges.free(it->second.offset);
	w.all.erase(it);
}

bool window_overlaps(u64 addr, u64 size)
{
	window_state &w = window();
	std::lock_guard guard(w.lock);
	auto it = w.all.upper_bound(addr);

	if (it != w.all.end() && it->first - addr < size)
		return true;
	return it != w.all.begin() && (--it, addr - it->first < it->second.size);
}

static bool is_mapped(u64 addr)
{
	const page_range page = pages_around(addr, 1);

	/* Without an effect, but for -ENOMEM. mincore(2) is not in systemd's @system-service. */
	return !msync(reinterpret_cast<void *>(page.first), page.size, MS_ASYNC) || errno != ENOMEM;
}

bool in_window(u64 addr)
{
	const bool inside = addr - window_base < all_bases;

	if (!inside && !load_acquire(&window().outside))
		return false;
	/* A thread of the parent may have held the lock: no call of a child of fork has a device that it could reach.
	 */
	if (unlikely(forked()))
		return true;
	return window_overlaps(addr, 1) || (inside && !is_mapped(addr));
}

} // namespace usdma::core
