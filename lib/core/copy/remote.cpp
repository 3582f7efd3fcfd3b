/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies and fills of memory of other machines, which a layer above moves: lib/share/remote.h. */
#include "lib/core/copy/internal.h"
#include "lib/core/stream/guard.h"

#include <algorithm>
#include <memory>
#include <new>

namespace usdma::core {

static constexpr size_t items_most = 1024; /* of a batch at once */
static const remote_ops *remote;           /* atomic */

void copy_set_remote(const remote_ops *ops)
{
	store_release(&remote, ops);
}

remote_work remote_copy_of(void *dst, const void *src, u64 len)
{
	return {.rect = {dst, len, src, len, len, 1}};
}

remote_work remote_fill_of(void *dst, u64 pattern, unsigned pattern_size, u64 len)
{
	return {.rect = {dst, len, nullptr, 0, len, 1}, .pattern = pattern, .pattern_size = pattern_size};
}

int remote_run(const endpoints &e, const remote_work &w, deadline until)
{
	const unsigned slot = is_remote(e.dst) ? e.dst.slot : e.src.slot;
	const slot_guard dev(slot);

	return dev ? load_acquire(&remote)->run(dev.get(), w, until) :
		     fail(EBADF, "device %u, for which memory of another machine was imported, is closed", slot);
}

int remote_submit(stream *s, const remote_work &w, op_numbers *numbers)
{
	return load_acquire(&remote)->submit(s, w, numbers);
}

int remote_copy_async(stream *s, const endpoints &e, void *dst, const void *src, u64 len, op_numbers *numbers)
{
	int err = check_device_sides(e, dst, src, len);

	if (!err && is_host(e.dst))
		err = check_range(e.dst, reinterpret_cast<u64>(dst), len, "destination");
	if (!err && is_host(e.src))
		err = check_range(e.src, reinterpret_cast<u64>(src), len, "source");
	if (!err)
		err = check_writable(e.dst, dst);
	return err ? err : remote_submit(s, remote_copy_of(dst, src, len), numbers);
}

int remote_fill_async(stream *s, const translation &p, void *dst, u64 pattern, unsigned pattern_size, u64 len)
{
	const int err = check_range(p, reinterpret_cast<u64>(dst), len, "destination");
	op_numbers numbers;

	return err ? err : remote_submit(s, remote_fill_of(dst, pattern, pattern_size, len), &numbers);
}

static bool is_on(const translation &p, int side)
{
	return side == side_host ? p.cls == mem_class::host : p.cls == mem_class::device && p.slot == side;
}

/* Within its regions; else it is found, and has its error, alone. */
static bool joins(const copy_item &i, const sides *expected)
{
	const endpoints e = translate_both(i.dst, i.src);

	return is_remote(e) && !is_pageable(e) && holds(e.dst, reinterpret_cast<u64>(i.dst), i.len) &&
	       holds(e.src, reinterpret_cast<u64>(i.src), i.len) && !(e.dst.flags & region_readonly) &&
	       (!expected || (is_on(e.dst, expected->dst) && is_on(e.src, expected->src)));
}

int remote_copy_items(stream *s, const copy_list &items, size_t n, const sides *expected, op_numbers *numbers,
		      size_t *done)
{
	std::unique_ptr<copy_item[]> all(new (std::nothrow) copy_item[std::min(n, items_most)]);
	size_t k = 0;

	*done = 0;
	if (!all)
		return no_memory("items of a batch");
	for (; k < std::min(n, items_most) && joins(items[k], expected); k++)
		all[k] = items[k];
	const int err = k ? remote_submit(s, {.items = all.get(), .n = k}, numbers) : 0;
	*done = err ? 0 : k;
	return err;
}

} // namespace usdma::core
