/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For LD_PRELOAD: simulates a kernel with larger pages, of USDMA_TEST_PAGE_SIZE bytes. Mappings are multiples of
 * it, and calls with other addresses or offsets fail as on such a kernel.
 *
 * The C library's own mappings (malloc's, stacks, programs) are not changed: in a page around such memory only a part
 * may be mapped or writable. It counts as a page that is.
 */
/* With it <sys/mman.h> redirects mmap to mmap64. */
#undef _FILE_OFFSET_BITS
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

static constexpr size_t small = 4096, largest = 65536;

static size_t page_size()
{
	static const size_t size = [] {
		const char *const text = getenv("USDMA_TEST_PAGE_SIZE");
		const size_t n = text ? strtoul(text, nullptr, 10) : 0;

		return n >= small && n <= largest && !(n & (n - 1)) ? n : largest;
	}();

	return size;
}

static size_t up(size_t n)
{
	return (n + page_size() - 1) & ~(page_size() - 1);
}

static bool is_whole(uintptr_t at)
{
	return !(at % page_size());
}

static void *moved(void *at, size_t by)
{
	return static_cast<char *>(at) + by;
}

static int invalid()
{
	errno = EINVAL;
	return -1;
}

/* ---- the kernel's calls ------------------------------------------------------------------------------- */

static void *map(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	return reinterpret_cast<void *>(syscall(SYS_mmap, at, len, prot, flags, fd, offset));
}

static int unmap(void *at, size_t len)
{
	return int(syscall(SYS_munmap, at, len));
}

static int advise(void *at, size_t len, int advice)
{
	return int(syscall(SYS_madvise, at, len, advice));
}

/* ---- mappings ------------------------------------------------------------------------------------------ */

static void *reserve(void *hint, size_t len)
{
	static constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void *p = hint ? map(hint, len, PROT_NONE, flags, -1, 0) : MAP_FAILED;

	if (p != MAP_FAILED && is_whole(uintptr_t(p)))
		return p;
	if (p != MAP_FAILED)
		unmap(p, len);
	p = map(nullptr, len + page_size(), PROT_NONE, flags, -1, 0);
	if (p == MAP_FAILED)
		return p;
	const size_t before = up(uintptr_t(p)) - uintptr_t(p);
	if (before)
		unmap(p, before);
	unmap(moved(p, before + len), page_size() - before);
	return moved(p, before);
}

/* Behind the end of a file the rest of its last page is memory. */
static void *map_file(void *at, size_t len, int prot, int flags, int fd, off_t offset, const struct stat &st)
{
	const size_t end = up(size_t(st.st_size)), first = (size_t(st.st_size) + small - 1) / small * small;
	void *const p = map(at, up(len), prot, flags, fd, offset);

	if (p == MAP_FAILED || first >= end || end <= size_t(offset) || first >= size_t(offset) + up(len))
		return p;
	const size_t skip = first > size_t(offset) ? first - size_t(offset) : 0;
	return map(moved(p, skip), end - size_t(offset) - skip, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
			       MAP_FAILED ?
		       MAP_FAILED :
		       p;
}

static void *map_at(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	struct stat st;

	if (flags & MAP_ANONYMOUS || fd < 0)
		return map(at, up(len), prot, flags, fd, offset);
	/* A device's mapping keeps its length; the rest of its last page stays reserved. */
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return map(at, len, prot, flags, fd, offset);
	return map_file(at, len, prot, flags, fd, offset, st);
}

extern "C" void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset) noexcept
{
	const bool fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE);

	if (flags & MAP_HUGETLB || !len || up(len) < len)
		return map(addr, len, prot, flags, fd, offset);
	if (!is_whole(uint64_t(offset)) || (fixed && !is_whole(uintptr_t(addr))))
		return invalid(), MAP_FAILED;
	if (fixed)
		return map_at(addr, len, prot, flags, fd, offset);
	void *const at = reserve(addr, up(len));
	if (at == MAP_FAILED)
		return at;
	void *const p = map_at(at, len, prot, flags | MAP_FIXED, fd, offset);
	if (p == MAP_FAILED) {
		const int err = errno;

		unmap(at, up(len));
		if (err == EINVAL) /* a file of huge pages, which need another alignment */
			return map(addr, len, prot, flags, fd, offset);
		errno = err;
	}
	return p;
}

extern "C" void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t offset) noexcept
{
	return mmap(addr, len, prot, flags, fd, offset);
}

extern "C" int munmap(void *addr, size_t len) noexcept
{
	return is_whole(uintptr_t(addr)) ? unmap(addr, up(len)) : invalid();
}

extern "C" void *mremap(void *addr, size_t len, size_t wanted, int flags, ...) noexcept
{
	if (!is_whole(uintptr_t(addr)) || flags != MREMAP_MAYMOVE)
		return invalid(), MAP_FAILED;
	if (up(wanted) <= up(len))
		return reinterpret_cast<void *>(syscall(SYS_mremap, addr, up(len), up(wanted), flags));
	void *const to = reserve(nullptr, up(wanted));
	if (to == MAP_FAILED)
		return to;
	return reinterpret_cast<void *>(syscall(SYS_mremap, addr, up(len), up(wanted), flags | MREMAP_FIXED, to));
}

extern "C" int mprotect(void *addr, size_t len, int prot) noexcept
{
	return is_whole(uintptr_t(addr)) ? int(syscall(SYS_mprotect, addr, up(len), prot)) : invalid();
}

/* True: a part of the page was populated; the rest is not the program's memory. */
static bool populate_page(void *at, int advice)
{
	bool some = false;

	for (size_t i = 0; i < page_size(); i += small)
		some |= !advise(moved(at, i), small, advice);
	return some;
}

extern "C" int madvise(void *addr, size_t len, int advice) noexcept
{
	if (!is_whole(uintptr_t(addr)))
		return invalid();
	const int err = advise(addr, up(len), advice);
	if (!err || (advice != MADV_POPULATE_READ && advice != MADV_POPULATE_WRITE))
		return err;
	const int why = errno;
	for (size_t at = 0; at < len; at += page_size())
		if (!populate_page(moved(addr, at), advice)) {
			errno = why;
			return -1;
		}
	return 0;
}

/* False: none of it is mapped. */
static bool is_resident(void *at, unsigned char *out)
{
	unsigned char parts[largest / small], one;
	bool mapped = !syscall(SYS_mincore, at, page_size(), parts);

	*out = mapped ? parts[0] : 0;
	for (size_t i = 0; !mapped && i < page_size(); i += small)
		if (!syscall(SYS_mincore, moved(at, i), small, &one)) {
			mapped = true;
			*out = one;
		}
	return mapped;
}

extern "C" int mincore(void *addr, size_t len, unsigned char *vec) noexcept
{
	if (!is_whole(uintptr_t(addr)))
		return invalid();
	for (size_t at = 0; at < len; at += page_size())
		if (!is_resident(moved(addr, at), &vec[at / page_size()])) {
			errno = ENOMEM;
			return -1;
		}
	return 0;
}

/* As a question whether it is mapped. */
extern "C" int msync(void *addr, size_t len, int flags)
{
	bool mapped = false;

	if (!is_whole(uintptr_t(addr)))
		return invalid();
	for (size_t at = 0; at < up(len); at += small)
		mapped |= !syscall(SYS_msync, moved(addr, at), small, flags);
	errno = ENOMEM;
	return mapped ? 0 : -1;
}

/* ---- the page size ------------------------------------------------------------------------------------- */

static long (*next_sysconf)(int);
static unsigned long (*next_getauxval)(unsigned long);

/* Early: a process in a sandbox cannot resolve names any more. */
[[gnu::constructor]] static void find_next()
{
	next_sysconf = reinterpret_cast<long (*)(int)>(dlsym(RTLD_NEXT, "sysconf"));
	next_getauxval = reinterpret_cast<unsigned long (*)(unsigned long)>(dlsym(RTLD_NEXT, "getauxval"));
}

extern "C" long sysconf(int name) noexcept
{
	if (name == _SC_PAGESIZE)
		return long(page_size());
	if (!next_sysconf)
		find_next();
	const long n = next_sysconf(name);
	return name == _SC_PHYS_PAGES || name == _SC_AVPHYS_PAGES ? n / long(page_size() / small) : n;
}

extern "C" int getpagesize() noexcept
{
	return int(page_size());
}

extern "C" unsigned long getauxval(unsigned long type) noexcept
{
	if (type == AT_PAGESZ)
		return page_size();
	if (!next_getauxval)
		find_next();
	return next_getauxval(type);
}
