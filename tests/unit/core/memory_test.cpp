/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory with fake devices that record their mappings. */
#include "tests/support/level.h"
#include "lib/core/memory/memory.h"
#include "tests/unit/core/memory_rig.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>

using namespace usdma;
using namespace usdma::core;
using test::attached;
using test::fake;
using test::is_fork;
using test::on_device;
using test::own_memory;
using test::pages;
using test::pinned;

static const u64 page = os_page_size();

/* The device accesses p's memory at p's DMA address. */
static void assert_reached(fake &f, const void *p)
{
	assert_ptr_equal(f.vfio().reach(translate(p).dma), p);
}

/* ---- classes and bounds ------------------------------------------------------------------------------ */

static void classes(void **)
{
	attached f(0);
	int on_stack;
	auto *p = static_cast<u8 *>(pinned(1000));
	const u64 d = on_device(f, 5000);
	translation at = translate(p + 999);

	assert_true(at.cls == mem_class::host && at.kind == region_kind::pinned && at.space == dma::space::host);
	assert_int_equal(at.base, reinterpret_cast<u64>(p));
	assert_int_equal(at.size, 1000);
	assert_true(translate(p + 1000).cls == mem_class::unregistered);
	assert_true(translate(p - 1).cls == mem_class::unregistered);
	at = translate(d + 4999);
	assert_true(at.cls == mem_class::device && at.kind == region_kind::heap && at.space == dma::space::device);
	assert_int_equal(at.slot, 0);
	assert_int_equal(at.base, d);
	assert_int_equal(at.size, 5000);
	assert_int_equal(at.dma, d + 4999);
	at = translate(d + 5000);
	assert_true(at.cls == mem_class::device && at.size == 0 && !at.reg);
	assert_true(translate(&on_stack).cls == mem_class::unregistered);
	assert_true(translate(nullptr).cls == mem_class::unregistered);
	assert_true(translate(~u64(0)).cls == mem_class::unregistered);
	assert_int_equal(host_free(p), 0);
	assert_true(translate(p).cls == mem_class::unregistered);
	assert_int_equal(device_free(d), 0);
	assert_int_equal(translate(d).size, 0);
}

static void wrong_frees(void **)
{
	attached f(0);
	int on_stack;
	auto *p = static_cast<u8 *>(pinned(1000));
	u8 *r = pages(1);
	const u64 d = on_device(f, 5000);

	assert_int_equal(host_register(r, page, host_reg_charged), 0);
	assert_int_equal(host_free(p + 64), -EINVAL);
	assert_int_equal(host_free(&on_stack), -EINVAL);
	assert_int_equal(host_free(nullptr), -EINVAL);
	assert_int_equal(host_free(r), -EINVAL);
	assert_int_equal(host_free(reinterpret_cast<void *>(d)), -EINVAL);
	assert_int_equal(host_unregister(p), -ENOENT);
	assert_int_equal(host_unregister(r + 1), -ENOENT);
	assert_int_equal(device_free(d + 512), -EINVAL);
	assert_int_equal(device_free(reinterpret_cast<u64>(p)), -EINVAL);
	assert_int_equal(device_free(0), -EINVAL);
	assert_int_equal(host_free(p), 0);
	assert_int_equal(host_free(p), -EINVAL);
	assert_int_equal(device_free(d), 0);
	assert_int_equal(device_free(d), -EINVAL);
	assert_int_equal(host_unregister(r), 0);
	assert_int_equal(host_unregister(r), -ENOENT);
	void *none;
	u64 no;
	assert_int_equal(host_alloc(0, -1, &none), -EINVAL);
	assert_int_equal(host_alloc(~u64(0), -1, &none), -ENOMEM);
	assert_int_equal(host_alloc(64, 5000, &none), -EINVAL);
	assert_int_equal(host_alloc(64, -2, &none), -EINVAL);
	assert_int_equal(device_alloc(&f.dev, 0, page_policy::normal_only, &no), -EINVAL);
	assert_int_equal(device_alloc(&f.dev, ~u64(0), page_policy::huge_only, &no), -ENOMEM);
	munmap(r, page);
}

static void window_is_inaccessible(void **)
{
	attached f(0);
	u64 d = on_device(f, page), word = 0;
	const iovec to = {&word, 8}, from = {reinterpret_cast<void *>(d), 8};

	assert_int_equal(process_vm_readv(getpid(), &to, 1, &from, 1, 0), -1);
	assert_true(errno == EFAULT || errno == ENOSYS); /* a kernel may lack this call */
	/* No other mapping can be created there. */
	const u64 base = device_memory(&f.dev).base;
	for (u64 at : {base, base + own_memory - page, base + own_memory}) {
		void *p = mmap(reinterpret_cast<void *>(at), page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_true(p != MAP_FAILED && p != reinterpret_cast<void *>(at));
		munmap(p, page);
	}
	/* A pointer beyond the memory is still a device pointer, of no block. */
	assert_true(translate(base + own_memory).cls == mem_class::device && !translate(base + own_memory).size);
}

/* ---- pinned host memory ------------------------------------------------------------------------------ */

static void pinned_reaches_every_device(void **)
{
	attached a(0), b(3);
	u8 *small = static_cast<u8 *>(pinned(100)), *large = static_cast<u8 *>(pinned(3 * MiB + 5));

	assert_int_equal(reinterpret_cast<u64>(small) % 64, 0);
	assert_int_equal(reinterpret_cast<u64>(large) % page, 0);
	for (u8 *p : {small, small + 99, large, large + 3 * MiB + 4}) {
		assert_reached(a, p);
		assert_reached(b, p);
	}
	attached c(1);
	assert_reached(c, small);
	assert_reached(c, large + 2 * MiB);
	memset(large, 0x5a, 3 * MiB + 5);
	/* The file that is sent to devices has the same data, and cannot be truncated. */
	const vfio::dma_area area = a.vfio().areas[translate(large).dma];
	u8 byte = 0;
	assert_true(area.fd >= 0);
	assert_int_equal(pread(area.fd, &byte, 1, off_t(area.fd_offset + 2 * MiB)), 1);
	assert_int_equal(byte, 0x5a);
	assert_int_equal(ftruncate(area.fd, 0), -1);
	const size_t before = a.vfio().count();
	assert_int_equal(host_free(large), 0);
	assert_int_equal(a.vfio().count(), before - 1);
	assert_int_equal(c.vfio().count(), before - 1);
	assert_int_equal(host_free(small), 0);
}

static void empty_arenas_are_freed_except_one(void **)
{
	attached f(0);
	std::vector<void *> all;

	for (int i = 0; i < 40; i++)
		all.push_back(pinned(200 * KiB));
	assert_true(f.vfio().count() >= 8); /* arenas of 1 MiB */
	for (void *p : all)
		assert_int_equal(host_free(p), 0);
	assert_int_equal(f.vfio().count(), 1);
}

/* The n-th mapping fails, for every n: the call must be undone completely. */
static void failed_maps_are_undone(void **)
{
	attached a(0), b(1), c(2);
	u8 *mem = pages(4);
	void *p = pinned(64), *none = nullptr;
	const size_t before = a.vfio().count();

	for (attached *f : {&a, &b, &c}) {
		f->vfio().fail_map_at = 1;
		assert_int_equal(host_alloc(2 * MiB, -1, &none), -ENOSPC);
		assert_non_null(strstr(error_text(), "no more mappings"));
		f->vfio().fail_map_at = 1;
		assert_int_equal(host_register(mem, 4 * page, host_reg_charged), -ENOSPC);
		assert_true(translate(mem).cls == mem_class::unregistered);
		for (attached *g : {&a, &b, &c})
			assert_int_equal(g->vfio().count(), before);
	}
	for (int n = 1; n <= int(before); n++) {
		attached d(3);
		d.detach();
		d.vfio().fail_map_at = n;
		d.attach(-ENOSPC);
		assert_int_equal(d.vfio().count(), 0);
	}
	assert_int_equal(host_register(mem, 4 * page, host_reg_charged), 0);
	assert_reached(c, mem + page);
	assert_int_equal(host_unregister(mem), 0);
	assert_int_equal(host_free(p), 0);
	munmap(mem, 4 * page);
}

/* If a device fails to unmap memory, the memory exists until the device is closed; its IOVA is not reused. */
static void failed_unmap_keeps_memory(void **)
{
	attached a(0);
	auto b = std::make_unique<attached>(1);
	auto *p = static_cast<u8 *>(pinned(2 * MiB));
	const u64 iova = translate(p).dma;

	log_set_level(log_level::none);
	b->vfio().fail_unmap_at = 1;
	assert_int_equal(host_free(p), 0);
	log_set_level(log_level::warn);
	assert_true(translate(p).cls == mem_class::unregistered);
	assert_null(a.vfio().reach(iova));
	assert_ptr_equal(b->vfio().reach(iova), p);
	unsigned char in_core;
	assert_int_equal(mincore(p, page, &in_core), 0); /* still mapped here */
	void *q = pinned(2 * MiB);
	assert_true(translate(q).dma != iova);
	assert_int_equal(host_free(q), 0);
	attached c(2); /* the freed memory is not mapped into it */
	assert_null(c.vfio().reach(iova));
	b.reset();
	assert_int_equal(mincore(p, page, &in_core), -1);
}

static void lost_device_does_not_affect_others(void **)
{
	attached a(0), b(1);
	void *p = pinned(2 * MiB), *q;

	b.vfio().is_lost = true;
	q = pinned(2 * MiB);
	assert_reached(a, q);
	assert_int_equal(host_free(p), 0);
	assert_int_equal(host_free(q), 0);
	const size_t before = a.vfio().count();
	b.detach();
	assert_int_equal(a.vfio().count(), before);
}

static void child_has_no_pinned_memory(void **)
{
	attached f(0);
	void *p = pinned(page), *none;
	u64 word = 0;
	int status;

	*static_cast<u64 *>(p) = 0x1122334455667788;
	const pid_t child = fork();
	if (!child) {
		const iovec to = {&word, 8}, from = {p, 8};
		/* A thread of a sanitizer may have mapped other memory there. */
		const bool there = process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 8 && word == 0x1122334455667788;

		is_fork = true;
		_exit(there ? 1 : host_free(p) != -EPERM ? 2 : host_alloc(1, -1, &none) != -EPERM ? 3 : 0);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(host_free(p), 0);
}

/* ---- registered memory ------------------------------------------------------------------------------- */

static void registering(void **)
{
	attached f(0);
	u8 *mem = pages(8);

	assert_int_equal(host_register(mem + 100, page + 904, host_reg_charged), 0);
	assert_true(translate(mem + 99).cls == mem_class::unregistered);
	assert_true(translate(mem + page + 1004).cls == mem_class::unregistered);
	assert_true(translate(mem + page + 1003).kind == region_kind::registered);
	assert_reached(f, mem + 100);
	assert_reached(f, mem + page + 1003);
	assert_int_equal(f.vfio().areas[align_down(translate(mem + 100).dma, page)].fd, -1);
	/* An adjacent registration in the same page. */
	assert_int_equal(host_register(mem + page + 1004, 100, host_reg_readonly | host_reg_charged), 0);
	assert_reached(f, mem + page + 1004);
	assert_null(f.vfio().reach(translate(mem + page + 1004).dma, vfio::dma_write));
	assert_non_null(f.vfio().reach(translate(mem + page + 1003).dma, vfio::dma_write));
	for (const auto &[off, len] :
	     {std::pair<u64, u64>{0, 101}, {page + 1003, 1}, {0, 8 * page}, {page + 1103, 50}, {200, 10}})
		assert_int_equal(host_register(mem + off, len, host_reg_charged), -EEXIST);
	assert_int_equal(host_unregister(mem + 100), 0);
	assert_reached(f, mem + page + 1004);
	assert_int_equal(host_register(mem, page + 1004, host_reg_charged), 0);
	attached late(1);
	assert_reached(late, mem);
	assert_reached(late, mem + page + 1054);
	assert_int_equal(host_unregister(mem), 0);
	assert_int_equal(host_unregister(mem + page + 1004), 0);
	munmap(mem, 8 * page);
}

/* Parts of a pinned block, up to its last byte; a free removes them. */
static void registering_pinned(void **)
{
	attached f(0);
	auto *p = static_cast<u8 *>(pinned(3 * page));
	const size_t before = f.vfio().count();
	u64 tag = 0;

	assert_int_equal(host_register(p, 3 * page + 1, host_reg_over_pinned | host_reg_charged), -EEXIST);
	assert_int_equal(host_register(p + 100, page, host_reg_over_pinned | host_reg_charged, nullptr, 5), 0);
	assert_int_equal(host_register(p + page + 100, 1, host_reg_over_pinned | host_reg_charged, nullptr, 6), 0);
	for (const auto &[off, len] : {std::pair<u64, u64>{0, 101}, {page + 99, 1}, {0, 3 * page}, {page + 100, 50}})
		assert_int_equal(host_register(p + off, len, host_reg_over_pinned | host_reg_charged), -EEXIST);
	assert_false(host_registration(p + 99, &tag) || host_registration(p + page + 101, &tag));
	assert_true(host_registration(p + page + 99, &tag) && tag == 5);
	assert_true(host_registration(p + page + 100, &tag) && tag == 6);
	assert_true(translate(p + 100).kind == region_kind::pinned);
	assert_int_equal(f.vfio().count(), before);
	assert_int_equal(host_unregister(p), -ENOENT);
	assert_int_equal(host_unregister(p + 100), 0);
	assert_reached(f, p + 100);
	assert_int_equal(host_free(p), 0);
	assert_int_equal(host_unregister(p + page + 100), -ENOENT);
}

static void registering_unmapped_memory(void **)
{
	if (!test::populate_is_checked())
		skip();
	attached f(0);
	u8 *mem = pages(3), *readonly = pages(1, PROT_READ);
	auto *mine = static_cast<u8 *>(pinned(page));
	const size_t before = f.vfio().count();

	munmap(mem + page, page);
	assert_int_equal(host_register(mem, 3 * page, host_reg_charged), -EFAULT);
	assert_int_equal(host_register(mem + page - 1, 2, host_reg_readonly | host_reg_charged), -EFAULT);
	assert_int_equal(host_register(readonly, page, host_reg_charged), -EFAULT);
	assert_int_equal(host_register(nullptr, page, host_reg_charged), -EINVAL);
	assert_int_equal(host_register(mem, 0, host_reg_charged), -EINVAL);
	assert_int_equal(host_register(mem, ~u64(0), host_reg_charged), -EINVAL);
	assert_int_equal(host_register(reinterpret_cast<void *>(device_memory(&f.dev).base), page, host_reg_charged),
			 -EINVAL);
	assert_int_equal(host_register(mine + 64, 64, host_reg_charged), -EEXIST);
	assert_int_equal(f.vfio().count(), before);
	assert_int_equal(host_register(readonly, page, host_reg_readonly | host_reg_charged), 0);
	assert_int_equal(host_unregister(readonly), 0);
	assert_int_equal(host_free(mine), 0);
	munmap(mem, page);
	munmap(mem + 2 * page, page);
	munmap(readonly, page);
}

static void many_registrations(void **)
{
	static constexpr size_t n = 100000, step = 192;
	auto gen = test::rng(2);
	attached f(0);
	u8 *mem = pages(n * step / page + 1);

	for (size_t i = 0; i < n; i++)
		assert_int_equal(host_register(mem + i * step, 128, host_reg_charged), 0);
	for (size_t i = 0; i < 200000; i++) {
		const size_t off = gen() % (n * step);
		const translation at = translate(mem + off);

		if (off % step >= 128) {
			assert_true(at.cls == mem_class::unregistered);
			continue;
		}
		assert_int_equal(at.base, reinterpret_cast<u64>(mem + off / step * step));
		assert_int_equal(at.size, 128);
		if (i % 16 == 0)
			assert_reached(f, mem + off);
	}
	for (size_t i = 0; i < n; i++)
		assert_int_equal(host_unregister(mem + i * step), 0);
	munmap(mem, n * step);
}

/* ---- IOVAs ------------------------------------------------------------------------------------------- */

static void narrower_device(void **)
{
	attached a(0), b(1);
	void *p = pinned(2 * MiB);
	const u64 iova = translate(p).dma;

	b.detach();
	b.vfio().lim.usable = {{0, iova - 1}, {iova + 4 * MiB, 300 * GiB - 1}};
	b.attach(-ERANGE);
	assert_non_null(strstr(error_text(), "open this device before"));
	assert_int_equal(b.vfio().count(), 0);
	/* To the last byte of a range, and from the first. */
	const u64 first = mem_state().ranges.begin()->first, size = mem_state().ranges.begin()->second.size;
	b.vfio().lim.usable = {{first, first + size - 1}};
	b.attach(0);
	assert_reached(b, p);
	b.detach();
	for (const vfio::range &r : {vfio::range{first, first + size - 2}, vfio::range{first + 1, first + size}}) {
		b.vfio().lim.usable = {r};
		b.attach(-ERANGE);
	}
	assert_int_equal(host_free(p), 0);
	/* Without other mappings it fits; later ones are at IOVAs that both devices can access. */
	b.vfio().lim.usable = {{0, 5 * GiB - 1}, {300 * GiB, 300 * GiB + 8 * MiB - 1}};
	b.attach(0);
	attached c(2);
	c.detach();
	c.vfio().lim.usable = {{5 * GiB - 64 * MiB, 600 * GiB}};
	c.attach(0);
	std::vector<void *> all;
	void *q;
	while (all.size() < 30 && !host_alloc(4 * MiB, -1, &q))
		all.push_back(q);
	assert_in_range(all.size(), 15,
			18); /* 64 MiB and 8 MiB, minus the retained arena; the fakes check the ranges */
	assert_non_null(strstr(error_text(), "every open device reaches"));
	c.detach();
	b.detach();
	q = pinned(4 * MiB);
	assert_reached(a, q);
	assert_int_equal(host_free(q), 0);
	for (void *r : all)
		assert_int_equal(host_free(r), 0);
	b.vfio().lim.page_size = 16 * page;
	b.attach(-EOPNOTSUPP);
}

/* Adds n consecutive ranges, as registering them does once their pages are present. */
static std::vector<dma_range *> add_pieces(u8 *from, u64 size, size_t n, int *err)
{
	std::vector<dma_range *> all;
	dma_range *sp;

	for (*err = 0; all.size() < n; all.push_back(sp))
		if ((*err = range_add_around({from + all.size() * size, size, host_reach_of(nullptr)}, &sp)))
			break;
	return all;
}

static void remove_all(const std::vector<dma_range *> &all)
{
	for (dma_range *sp : all)
		range_drop(sp);
}

static void terabytes(void **)
{
	if (!test::addresses_are_free())
		skip();
	constexpr u64 TiB = 1024 * GiB;
	void *const p = mmap(nullptr, 4 * TiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED && test::sanitized)
		skip(); /* a sanitizer leaves fewer addresses */
	assert_ptr_not_equal(p, MAP_FAILED);
	const mapping addresses(p, 4 * TiB);
	u8 *const from = static_cast<u8 *>(p);
	attached a(0), b(1);
	int err;

	auto all = add_pieces(from, 64 * GiB, 24, &err);
	assert_int_equal(all.size(), 24);
	const auto large = add_pieces(from + 2 * TiB, TiB + TiB / 2, 1, &err);
	assert_int_equal(large.size(), 1);
	remove_all(large);
	remove_all(all);
	/* The narrower device, with an IOMMU of 39 bits, limits both. */
	b.detach();
	b.vfio().lim.usable = {{0, 512 * GiB - 1}};
	b.attach(0);
	all = add_pieces(from, 64 * GiB, 24, &err);
	assert_in_range(all.size(), 6, 7);
	assert_int_equal(err, -ENOMEM);
	assert_non_null(strstr(error_text(), "ends at 0x7fffffffff (the IOMMU of"));
	remove_all(all);
}

/* ---- device memory ----------------------------------------------------------------------------------- */

/* Larger than the distance between two devices' default addresses. */
static void large_device_memory(void **)
{
	attached f(2, 300 * GiB), next(3);
	const u64 d = on_device(f, 250 * GiB), other = on_device(next, MiB);

	assert_int_equal(device_heap_info(&f.dev).total, 300 * GiB);
	assert_int_equal(translate(d + 250 * GiB - 1).slot, 2);
	assert_int_equal(translate(other).slot, 3);
	assert_int_equal(device_free(d), 0);
	assert_int_equal(device_free(other), 0);
}

static void policies(void **)
{
	attached f(2);
	const u64 base = device_memory(&f.dev).base;
	u64 none;

	assert_int_equal(f.engine().base, base);
	const u64 small = on_device(f, 100), big = on_device(f, MiB + 1),
		  normal = on_device(f, 4 * MiB, page_policy::normal_only);
	const u64 tiny_huge = on_device(f, 1, page_policy::huge_only);
	assert_int_equal(small % 512, 0);
	assert_int_equal(big % (2 * MiB), 0);
	assert_int_equal(tiny_huge % (2 * MiB), 0);
	assert_int_equal(translate(small).reg->page_size, device_page);
	assert_int_equal(translate(normal).reg->page_size, device_page);
	assert_int_equal(translate(big).reg->page_size, 2 * MiB);
	const heap_info info = device_heap_info(&f.dev);
	assert_int_equal(info.total, own_memory);
	assert_int_equal(info.used_normal, 512 + 4 * MiB);
	assert_int_equal(info.used_huge, 4 * MiB);
	assert_int_equal(info.free, own_memory - info.used_normal - info.used_huge);
	assert_int_equal(info.blocks, 4);
	assert_int_equal(device_alloc(&f.dev, 1, page_policy::huge1g_only, &none), -ENOMEM);
	assert_non_null(strstr(error_text(), "no space"));
	for (u64 d : {small, big, normal, tiny_huge})
		assert_int_equal(device_free(d), 0);
	assert_int_equal(device_heap_info(&f.dev).free, own_memory);
	assert_int_equal(device_heap_info(&f.dev).peak, 512 + 8 * MiB);
	/* huge_first falls back to small pages if no huge page is free. */
	std::vector<u64> pins;
	for (u64 i = 0; i < own_memory / (2 * MiB); i++) {
		pins.push_back(on_device(f, 2 * MiB, page_policy::huge_only));
	}
	assert_int_equal(device_alloc(&f.dev, 1, page_policy::huge_first, &none), -ENOMEM);
	for (u64 d : pins)
		assert_int_equal(device_free(d), 0);
	const u64 shift = on_device(f, 512), rest = on_device(f, own_memory - device_page);
	assert_int_equal(translate(rest).reg->page_size, device_page);
	assert_int_equal(rest, shift + device_page); /* at a page */
	assert_int_equal(translate(rest + own_memory - device_page - 1).slot, 2);
	/* Blocks that are not freed end with the device. */
	f.detach();
	assert_int_equal(translate(rest).size, 0);
	assert_int_equal(translate(shift).size, 0);
	assert_int_equal(device_free(rest), -EINVAL);
}

static void carving(void **)
{
	attached f(0);
	const u64 base = device_memory(&f.dev).base;
	u64 off, none;

	assert_int_equal(device_carve(&f.dev, 4 * MiB, 2 * MiB, &off), 0);
	assert_int_equal(off % (2 * MiB), 0);
	assert_int_equal(device_heap_info(&f.dev).used_huge, 4 * MiB);
	assert_int_equal(translate(base + off).size, 0);
	assert_int_equal(device_carve(&f.dev, own_memory, 512, &none), -ENOMEM);
	assert_int_equal(device_carve(&f.dev, 0, 512, &none), -EINVAL);
	assert_int_equal(device_carve(&f.dev, 512, 3, &none), -EINVAL);
	const u64 block = on_device(f, 512);
	log_set_level(log_level::none);
	device_uncarve(&f.dev, off, 2 * MiB); /* another size */
	device_uncarve(&f.dev, off + 512, 512);
	device_uncarve(&f.dev, block - base, 512); /* not a carved one */
	log_set_level(log_level::warn);
	assert_int_equal(device_heap_info(&f.dev).used_huge, 4 * MiB);
	assert_int_equal(device_heap_info(&f.dev).used_normal, 512);
	device_uncarve(&f.dev, off, 4 * MiB);
	assert_int_equal(device_free(block), 0);
	assert_int_equal(device_heap_info(&f.dev).free, own_memory);
	const memory_view v = device_memory(&f.dev);
	assert_true(v.size == own_memory && v.dma == base && v.space == dma::space::device && !v.cpu);
}

/* An engine without memory gets a pool of host memory: pointers are device pointers, requests use host memory. */
static void pool_in_host_memory(void **)
{
	attached other(1);
	const size_t before = other.vfio().count();
	auto f = std::make_unique<attached>(0, 0);
	const u64 d = on_device(*f, 10000);
	const translation at = translate(d + 5000);
	const memory_view v = device_memory(&f->dev);

	assert_true(at.cls == mem_class::device && at.space == dma::space::host);
	assert_int_equal(v.size, 4 * MiB);
	assert_true(in_window(d));
	u8 *there = f->vfio().reach(at.dma, vfio::dma_write);
	assert_non_null(there);
	assert_ptr_equal(there, v.cpu + (d - v.base) + 5000);
	assert_ptr_equal(other.vfio().reach(at.dma), there);
	u64 none;
	assert_int_equal(device_alloc(&f->dev, 5 * MiB, page_policy::normal_only, &none), -ENOMEM);
	/* Another device still copies from it: it is freed when that has ended. */
	other.post(1);
	f.reset();
	assert_int_equal(translate(d).size, 0);
	assert_int_equal(other.vfio().count(), before + 1);
	other.complete();
	memory_reclaim();
	assert_int_equal(other.vfio().count(), before);
}

static void failed_attach_is_undone(void **)
{
	attached f(0);
	void *p = pinned(64);

	f.detach();
	f.engine().base_error = EIO;
	f.attach(-EIO);
	assert_int_equal(f.vfio().count(), 0);
	f.engine().base_error = 0;
	f.attach(0);
	assert_reached(f, p);
	fake twin(0, own_memory), beyond(max_devices, own_memory);
	assert_int_equal(memory_attach(&twin.dev), -EBUSY);
	assert_int_equal(memory_attach(&beyond.dev), -EBUSY);
	memory_detach(&twin.dev); /* not attached: no effect */
	assert_reached(f, p);
	assert_int_equal(host_free(p), 0);
}

/* Precedence: the caller's node, the setting, the device's node, the first device's node. */
static void nodes(void **)
{
	attached first(0), other(1);

	assert_int_equal(node_for(-1, -1, nullptr), -1);
	first.engine().set_node(1);
	other.engine().set_node(2);
	assert_int_equal(node_for(-1, -1, nullptr), 1);
	assert_int_equal(node_for(-1, -1, &other.dev), 2);
	assert_int_equal(node_for(-1, 3, &other.dev), 3);
	assert_int_equal(node_for(-1, 0, &other.dev), 0);
	assert_int_equal(node_for(4, 3, &other.dev), 4);
}

int main()
{
	const CMUnitTest tests[] = {
		unit(classes),
		unit(wrong_frees),
		unit(window_is_inaccessible),
		unit(pinned_reaches_every_device),
		unit(empty_arenas_are_freed_except_one),
		unit(failed_maps_are_undone),
		unit(failed_unmap_keeps_memory),
		unit(lost_device_does_not_affect_others),
		unit(child_has_no_pinned_memory),
		unit(registering),
		unit(registering_pinned),
		unit(registering_unmapped_memory),
		unit(many_registrations),
		unit(narrower_device),
		unit(terabytes),
		unit(large_device_memory),
		unit(policies),
		unit(carving),
		unit(nodes),
		unit(pool_in_host_memory),
		unit(failed_attach_is_undone),
	};

	test::plain_settings();
	return cmocka_run_group_tests_name("memory", tests, nullptr, nullptr);
}
