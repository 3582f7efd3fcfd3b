/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/vfio_user/dma.h"

#include "driver/base/barrier.h"
#include "driver/base/grow.h"
#include "driver/base/page_guard.h"

#include <algorithm>
#include <cstring>

namespace usdma::vfio {

static int check_area(const dma_area &a, u64 page_size)
{
	if (!a.size || a.iova + (a.size - 1) < a.iova)
		return fail(EINVAL, "DMA area of %llu bytes at %#llx is empty or wraps", ull(a.size), ull(a.iova));
	if ((a.iova | a.size | a.fd_offset | reinterpret_cast<uintptr_t>(a.vaddr)) & (page_size - 1))
		return fail(EINVAL,
			    "DMA area %#llx+%#llx at %p (file offset %#llx) is not a multiple of the page (%llu)",
			    ull(a.iova), ull(a.size), a.vaddr, ull(a.fd_offset), ull(page_size));
	if (!(a.prot & (dma_read | dma_write)) || (a.prot & ~u32(dma_read | dma_write)))
		return fail(EINVAL, "DMA area with rights %#x", a.prot);
	if (a.used && !range_within(a.skip, a.used, a.size))
		return fail(EINVAL, "DMA area of %llu bytes of which %llu at %llu are used", ull(a.size), ull(a.used),
			    ull(a.skip));
	if (!a.vaddr && a.fd < 0)
		return fail(EINVAL, "DMA area with neither memory nor file");
	return 0;
}

int user_dma::add(const dma_area &area, bool shared, u64 page_size, u64 max)
{
	std::lock_guard guard(lock_);
	const int err = check_area(area, page_size);

	if (err)
		return err;
	const auto next = areas_.lower_bound(area.iova);
	const bool meets_next = next != areas_.end() && next->first - area.iova < area.size;

	if (meets_next || find(area.iova))
		return fail(EEXIST, "DMA area %#llx+%#llx overlaps one that is mapped", ull(area.iova), ull(area.size));
	if (areas_.size() >= max)
		return fail(ENOSPC,
			    "%zu DMA areas are mapped and the vfio-user server takes no more: use fewer, larger ones",
			    areas_.size());
	return try_emplace(areas_, area.iova, mapped{area, shared}) ? 0 : no_memory("the list of DMA areas");
}

int user_dma::check(u64 iova, u64 size) const
{
	std::lock_guard guard(lock_);
	const auto it = areas_.find(iova);

	if (it == areas_.end() || it->second.size != size)
		return fail(ENOENT, "no DMA area %#llx+%#llx is mapped", ull(iova), ull(size));
	return 0;
}

bool user_dma::remove(u64 iova)
{
	std::lock_guard guard(lock_);
	const auto it = areas_.find(iova);

	if (it == areas_.end())
		return false;
	const bool shared = it->second.shared;
	areas_.erase(it);
	return shared;
}

bool user_dma::first(dma_area *out) const
{
	std::lock_guard guard(lock_);

	if (areas_.empty())
		return false;
	*out = areas_.begin()->second;
	return true;
}

const dma_area *user_dma::find(u64 iova) const
{
	auto it = areas_.upper_bound(iova);

	if (it == areas_.begin())
		return nullptr;
	it--;
	return iova - it->first < it->second.size ? &it->second : nullptr;
}

/* End of the bytes that the server may access, relative to the area's start. */
static u64 end_of(const dma_area &a)
{
	return a.used ? a.skip + a.used : a.size;
}

/* Whether every byte is mapped with the access right, possibly in several adjacent areas. */
int user_dma::covered(u64 iova, u64 len, u32 right) const
{
	while (len) {
		const dma_area *a = find(iova);
		u64 part;

		if (!a || !a->vaddr || iova - a->iova < a->skip || iova - a->iova >= end_of(*a))
			return fail(EFAULT, "vfio-user server accesses %#llx, which is not mapped", ull(iova));
		if (!(a->prot & right))
			return fail(EACCES, "vfio-user server accesses %#llx without permission", ull(iova));
		part = std::min(len, end_of(*a) - (iova - a->iova));
		if (part < len && iova + part == 0)
			return fail(EFAULT, "vfio-user server accesses beyond the end of the address space");
		iova += part;
		len -= part;
	}
	return 0;
}

/*
 * Host memory is shared with the program's threads, which may read words of it while the server writes: an
 * aligned word is copied atomically, and each store is ordered after those before it, as from a device on a
 * bus.
 */
template <class T> ordered_elsewhere static void word_to_host(u8 *&dst, const u8 *&src, u64 &len)
{
	T word;

	memcpy(&word, src, sizeof(T));
	store_release(reinterpret_cast<T *>(dst), word);
	dst += sizeof(T), src += sizeof(T), len -= sizeof(T);
}

template <class T> ordered_elsewhere static void word_from_host(u8 *&dst, const u8 *&src, u64 &len)
{
	const T word = load_acquire(reinterpret_cast<const T *>(src));

	memcpy(dst, &word, sizeof(T));
	dst += sizeof(T), src += sizeof(T), len -= sizeof(T);
}

static bool aligned(const u8 *host, u64 len, size_t word)
{
	return len >= word && !(reinterpret_cast<uintptr_t>(host) & (word - 1));
}

static void copy_to_host(u8 *dst, const u8 *src, u64 len)
{
	while (len) {
		if (likely(aligned(dst, len, 8)))
			word_to_host<u64>(dst, src, len);
		else if (aligned(dst, len, 4))
			word_to_host<u32>(dst, src, len);
		else
			word_to_host<u8>(dst, src, len);
	}
}

static void copy_from_host(u8 *dst, const u8 *src, u64 len)
{
	while (len) {
		if (likely(aligned(src, len, 8)))
			word_from_host<u64>(dst, src, len);
		else if (aligned(src, len, 4))
			word_from_host<u32>(dst, src, len);
		else
			word_from_host<u8>(dst, src, len);
	}
}

int user_dma::copy(u64 iova, u8 *buf, u64 len, bool to_host)
{
	while (len) {
		const dma_area *a = find(iova);
		u8 *const host = static_cast<u8 *>(a->vaddr) + (iova - a->iova);
		const u64 part = std::min(len, a->size - (iova - a->iova));
		const void *bad;

		if (!page_guarded(
			    {host, part}, {},
			    [&] { to_host ? copy_to_host(host, buf, part) : copy_from_host(buf, host, part); }, &bad))
			return fail(EFAULT, "the memory at %p is no longer accessible", bad);
		iova += part;
		buf += part;
		len -= part;
	}
	return 0;
}

int user_dma::serve(const user_message &cmd, message_body *reply)
{
	const bool write = cmd.head.cmd == u16(proto::command::dma_write);
	proto::dma_access_head h;
	int err;

	if (!write && cmd.head.cmd != u16(proto::command::dma_read))
		return fail(ENOTSUP, "vfio-user server sent unknown command %u", cmd.head.cmd);
	if (cmd.body.size() < sizeof(h))
		return fail(EPROTO, "vfio-user DMA command of %zu bytes", cmd.body.size());
	memcpy(&h, cmd.body.data(), sizeof(h));
	if (cmd.body.size() - sizeof(h) != (write ? h.count : 0))
		return fail(EPROTO, "vfio-user DMA command for %llu bytes carries %zu", ull(h.count),
			    cmd.body.size() - sizeof(h));
	if (!h.count || h.count > proto::our_max_data_xfer)
		return fail(EINVAL, "vfio-user DMA command for %llu bytes", ull(h.count));
	/* Held while the memory is accessed: dma_unmap takes it before it returns. */
	std::lock_guard guard(lock_);

	err = covered(h.address, h.count, write ? dma_write : dma_read);
	if (err)
		return err;
	if (!reply->resize(sizeof(h) + (write ? 0 : h.count)))
		return no_memory("a reply to the vfio-user server");
	memcpy(reply->data(), &h, sizeof(h));
	return write ? copy(h.address, const_cast<u8 *>(cmd.body.data()) + sizeof(h), h.count, true) :
		       copy(h.address, reply->data() + sizeof(h), h.count, false);
}

} // namespace usdma::vfio
