/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of hooks: what core reports, as the detector has it. */
#include "lib/core/check/entry.h"

#include "driver/base/grow.h"
#include "lib/core/check/race.h"
#include "lib/core/memory/memory.h"

#include <algorithm>

namespace usdma::core {

/* ---- regions ---------------------------------------------------------------------------------------- */

static bool is_followed(const region &r)
{
	return r.cls == mem_class::device || r.flags & region_program || r.kind >= region_kind::vmm;
}

/* A new block of a device: its content is of no one. */
static bool is_empty(const region &r)
{
	return r.cls == mem_class::device && r.kind == region_kind::heap && !(r.flags & region_shared);
}

/* mprotect() is for whole pages: those of a reserved one, for all that is in it. */
static bool is_unguarded(const region &r)
{
	return r.flags & region_readonly || (r.kind < region_kind::vmm && r.page_size > os_page_size());
}

static const char *name_of(const region &r)
{
	return r.cls == mem_class::device        ? "device memory" :
	       r.kind == region_kind::registered ? "registered memory" :
						   "pinned memory";
}

static void on_region(const region &r, bool there)
{
	const u64 key = memory_key(r.space == dma::space::host, r.slot, r.base + r.delta);

	if (!is_followed(r))
		return;
	if (there)
		race_block_add(
			{key, r.size, r.base, name_of(r), r.cls == mem_class::host, !is_empty(r), is_unguarded(r)});
	else
		race_block_remove(key, r.size, r.base);
}

static void on_memory(race_memory what, u64 key, u64 size, u64 to)
{
	switch (what) {
	case race_memory::freed:
		return race_block_free(key);
	case race_memory::written:
		return race_written(key, size);
	case race_memory::reset:
		return race_word_reset(key);
	case race_memory::alias:
		return race_alias(key, to, size);
	}
}

/* ---- accesses --------------------------------------------------------------------------------------- */

/* A range may be of several regions; what is not registered is not followed. */
static void add_ranges(const race_use &u, std::vector<stream_access> *all)
{
	const u64 end = reinterpret_cast<u64>(u.at) + u.size;

	for (u64 at = reinterpret_cast<u64>(u.at), n; at < end; at += n) {
		const translation p = translate(reinterpret_cast<const void *>(at));
		const u64 key = memory_key(p);

		if (p.cls == mem_class::unregistered)
			break;
		n = std::min(end, p.base + p.size) - at;
		all->push_back({{key, key + n}, u.writes});
	}
}

/* One each: the number of an item is that of its range. */
static void add_item(const race_use &u, std::vector<stream_access> *all)
{
	const translation p = translate(u.at);
	const u64 key = memory_key(p);

	all->push_back({{key, p.cls == mem_class::unregistered ? key : key + u.size}, u.writes});
}

static void on_access(const race_access &a)
{
	std::vector<stream_access> all;

	if (a.broken)
		return race_breaks(a.broken, a.fix);
	const bool fit = fits([&] {
		for (size_t i = 0; i < a.n; i++)
			(a.batch ? add_item : add_ranges)(a.use(a.arg, i), &all);
	});
	if (!fit)
		return race_no_memory();
	if (!all.empty())
		(a.batch ? race_batch : race_submit)(a.by, a.what, all);
}

/* ---- the table -------------------------------------------------------------------------------------- */

static constexpr race_hooks hooks = {
	.region = on_region,
	.memory = on_memory,
	.stream_add = race_stream_add,
	.stream_remove = race_stream_remove,
	.requests = race_requests,
	.gate = race_gate,
	.access = on_access,
	.by_library = race_by_library,
	.stream_mark = race_stream_mark,
	.stream_waited = race_stream_waited,
	.record = race_records,
	.call = race_call_add,
	.call_made = race_call_made,
	.call_event = race_call_event,
	.frames = race_frames,
};

/* For programs that the detector is a part of. */
int race_detector(const race_hooks **out)
{
	*out = usdma_race_detector();
	return 0;
}

} // namespace usdma::core

const usdma::core::race_hooks *usdma_race_detector()
{
	return &usdma::core::hooks;
}
