/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/memory.h"

#include "tools/perf/api.h"
#include "tools/perf/numa.h"

#include <cstring>
#include <random>
#include <sys/mman.h>

namespace usdma::perf {

static void fill_random(u8 *at, size_t bytes)
{
	static std::mt19937_64 gen(std::random_device{}());

	for (size_t i = 0; i + sizeof(u64) <= bytes; i += sizeof(u64)) {
		const u64 v = gen();

		memcpy(at + i, &v, sizeof(v));
	}
}

bench_memory::~bench_memory()
{
	drop_host();
	usdma_device_free(device_[0].at);
	usdma_device_free(device_[1].at);
	usdma_device_free(desc_.at);
	if (pageable_.at)
		munmap(pageable_.at, pageable_.bytes);
}

void bench_memory::drop_host()
{
	if (node < 0) {
		usdma_host_free(host_.at);
	} else if (host_.at) {
		usdma_host_unregister(host_.at);
		free_on_node(host_.at, host_.bytes);
	}
	host_ = {};
}

u8 *bench_memory::host(size_t bytes)
{
	void *p;

	if (host_.bytes >= bytes)
		return host_.at;
	drop_host();
	if (node < 0) {
		must(usdma_host_alloc(dev, bytes, &p), "pinned memory");
		host_ = {static_cast<u8 *>(p), bytes};
		fill_random(host_.at, bytes);
		return host_.at;
	}
	u8 *at = alloc_on_node(node, bytes);
	fill_random(at, bytes);
	if (usdma_host_register(at, bytes, 0)) {
		free_on_node(at, bytes);
		throw std::runtime_error(fmt::format("pinning memory of node {}: {}", node, usdma_error_text()));
	}
	host_ = {at, bytes};
	return host_.at;
}

u8 *bench_memory::pageable(size_t bytes)
{
	if (pageable_.bytes >= bytes)
		return pageable_.at;
	if (pageable_.at)
		munmap(pageable_.at, pageable_.bytes);
	pageable_ = {};
	void *p = node >= 0 ? alloc_on_node(node, bytes) :
			      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		throw std::runtime_error("no memory for the pageable buffer");
	pageable_ = {static_cast<u8 *>(p), bytes};
	fill_random(pageable_.at, bytes);
	return pageable_.at;
}

u8 *bench_memory::device(unsigned which, size_t bytes)
{
	block &b = device_[which];
	void *p;

	if (b.bytes >= bytes)
		return b.at;
	usdma_device_free(b.at);
	b = {};
	must(usdma_device_alloc(dev, bytes, &p), "device memory (for more: --device sim:mem=4G)");
	b = {static_cast<u8 *>(p), bytes};
	must(usdma_copy_sync(dev, p, host(bytes), bytes, -1), "filling device memory");
	return b.at;
}

u8 *bench_memory::descs(unsigned threads)
{
	const size_t bytes = threads * desc_most * 64;
	void *p;

	if (desc_.bytes >= bytes)
		return desc_.at;
	usdma_device_free(desc_.at);
	desc_ = {};
	must(usdma_device_alloc(dev, bytes, &p), "device memory for descriptors");
	desc_ = {static_cast<u8 *>(p), bytes};
	return desc_.at;
}

/* New random data in the source and zeros in the destination, so that verification detects a missing copy. */
void bench_memory::renew(u8 *dst, u8 *src, size_t bytes)
{
	std::vector<u8> random(bytes);

	fill_random(random.data(), bytes);
	must(usdma_copy_sync(dev, src, random.data(), bytes, -1), "filling the source");
	must(usdma_fill_sync(dev, dst, 0, 1, bytes, -1), "clearing the destination");
}

std::vector<part> bench_memory::parts(const job &j, size_t cold_bytes, bench_memory *source)
{
	const size_t slot = slot_bytes(j);
	const size_t each = j.cold ? std::max(slot, cold_bytes / j.threads / 4096 * 4096) :
				     std::max<size_t>(64 * KiB, 2 * slot);
	const size_t all = each * j.threads;
	std::vector<part> out;
	u8 *dst, *src;

	switch (j.kind) {
	case copy_kind::d2h:
		src = device(0, all), dst = host(all);
		break;
	case copy_kind::d2d:
	case copy_kind::desc:
		src = (source ? source : this)->device(0, all), dst = device(1, all);
		break;
	case copy_kind::page_h2d:
		src = pageable(all), dst = device(0, all);
		break;
	case copy_kind::page_d2h:
		src = device(0, all), dst = pageable(all);
		break;
	default:
		src = host(all), dst = device(0, all);
	}
	if (j.verify)
		renew(dst, src, all);
	for (unsigned k = 0; k < j.threads; k++)
		out.push_back({dst + k * each, src + k * each, each,
			       j.kind == copy_kind::desc ? descs(j.threads) + k * desc_most * 64 : nullptr});
	return out;
}

int bench_memory::host_node(const job &j) const
{
	const block &b = is_pageable(j.kind) ? pageable_ : host_;

	return j.kind == copy_kind::d2d || j.kind == copy_kind::desc || !b.at ? -1 : node_of(b.at);
}

/* A copy of a range in host memory. */
std::vector<u8> bench_memory::bytes_of(const u8 *at, size_t bytes)
{
	std::vector<u8> out(bytes);

	must(usdma_copy_sync(dev, out.data(), at, bytes, -1), "reading back");
	return out;
}

void bench_memory::check(const job &j, const part &p, size_t slots, u64 n)
{
	const std::vector<u8> dst = bytes_of(p.dst, p.bytes), src = bytes_of(p.src, p.bytes);
	const bool rect = j.kind == copy_kind::rect;
	const size_t rows = !rect ? 1 : j.size >= 4096 ? 16 : 4, width = j.size / rows;

	for (u64 i = 0; i < n; i++)
		for (size_t r = 0; r < rows; r++) {
			const size_t at = slot_of(i, slots) * slot_bytes(j) + r * 2 * width;

			if (memcmp(&dst[at], &src[at], width))
				throw std::runtime_error(
					fmt::format("{} of {} bytes: copy {} has wrong data (around offset {})",
						    name_of(j.kind), j.size, i, at));
		}
}

} // namespace usdma::perf
