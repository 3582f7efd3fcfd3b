/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/edu/fake_edu.h"

#include <algorithm>
#include <cstring>
#include <unistd.h>

namespace usdma::test {

fake_edu::fake_edu(edu_behavior h) : h_(h), worker_([this] { work(); }) {}

fake_edu::~fake_edu()
{
	{
		std::lock_guard guard(lock_);

		quit_ = true;
	}
	changed_.notify_all();
	worker_.join();
}

int fake_edu::region(unsigned index, vfio::region_info *out)
{
	*out = {};
	if (index == vfio::region_bar0)
		*out = {1 * MiB, vfio::region_readable | vfio::region_writable, {}};
	if (index == vfio::region_config)
		*out = {256, vfio::region_readable | vfio::region_writable, {}};
	return 0;
}

int fake_edu::region_map(unsigned, u64, u64, mapping *)
{
	return -EOPNOTSUPP;
}

u64 *fake_edu::dma_register(u64 offset)
{
	return offset == 0x80 ? &src_ :
	       offset == 0x88 ? &dst_ :
	       offset == 0x90 ? &len_ :
	       offset == 0x98 ? &cmd_ :
				nullptr;
}

int fake_edu::region_read(unsigned index, u64 offset, void *buf, size_t len)
{
	std::lock_guard guard(lock_);
	u64 v = ~u64(0);

	if (lost_)
		return -ENODEV;
	if (index == vfio::region_config) {
		u8 config[64] = {0x34, 0x12, 0xe8, 0x11};

		memcpy(config + 4, &command_, 2);
		if (offset + len > sizeof(config))
			return -EINVAL;
		memcpy(buf, config + offset, len);
		return 0;
	}
	if (offset < 0x80 && len == 4)
		v = offset == 0 ? h_.id : offset == 4 ? echo_ : offset == 0x24 ? irq_status_ : ~0u;
	else if (offset >= 0x80 && (len == 4 || len == 8) && dma_register(offset))
		v = *dma_register(offset);
	else
		bad_accesses++;
	memcpy(buf, &v, std::min<size_t>(len, 8));
	return 0;
}

int fake_edu::region_write(unsigned index, u64 offset, const void *buf, size_t len)
{
	std::lock_guard guard(lock_);
	u64 v = 0;

	if (lost_)
		return -ENODEV;
	memcpy(&v, buf, std::min<size_t>(len, 8));
	if (index == vfio::region_config) {
		if (offset == 4)
			command_ = u16(v);
	} else if (offset == 4 && len == 4) {
		echo_ = ~u32(v);
	} else if (offset == 0x64 && len == 4) {
		irq_status_ &= ~u32(v);
	} else if (offset >= 0x80 && (len == 4 || len == 8) && dma_register(offset)) {
		if (cmd_ & 1)
			refused_writes++;
		else if (offset != 0x98 || (v & 1))
			*dma_register(offset) = v;
		changed_.notify_all();
	} else {
		bad_accesses++;
	}
	return 0;
}

int fake_edu::irq(unsigned index, vfio::irq_info *out)
{
	out->count = index == vfio::irq_msi && !h_.no_msi;
	return 0;
}

int fake_edu::irq_set(unsigned index, unsigned first, std::span<const int> fds)
{
	std::lock_guard guard(lock_);

	if (index != vfio::irq_msi || first || fds.size() > 1 || h_.no_msi)
		return -EINVAL;
	irq_fd_ = fds.empty() ? -1 : fds[0];
	return 0;
}

int fake_edu::limits(vfio::address_limits *out)
{
	*out = {{{0, 0xfedfffff}, {0xfef00000, h_.top}}, 4096, 0};
	return 0;
}

int fake_edu::dma_map(const vfio::dma_area &area)
{
	std::lock_guard guard(lock_);

	for (const auto &[iova, a] : areas_)
		if (area.iova < iova + a.size && iova < area.iova + area.size)
			return -EEXIST;
	areas_[area.iova] = area;
	return 0;
}

int fake_edu::dma_unmap(u64 iova, u64 size)
{
	std::lock_guard guard(lock_);
	auto it = areas_.find(iova);

	if (it == areas_.end() || it->second.size != size)
		return -ENOENT;
	areas_.erase(it);
	return 0;
}

int fake_edu::reset()
{
	std::lock_guard guard(lock_);

	cmd_ = 0;
	h_.hangs = false;
	return 0;
}

bool fake_edu::master()
{
	std::lock_guard guard(lock_);

	return command_ & 4;
}

size_t fake_edu::mappings()
{
	std::lock_guard guard(lock_);

	return areas_.size();
}

size_t fake_edu::nonzero_bytes()
{
	std::lock_guard guard(lock_);

	return sizeof(memory_) - size_t(std::count(std::begin(memory_), std::end(memory_), 0));
}

/* Access through the mappings, as with an IOMMU: unmapped memory reads as ones and discards writes. */
bool fake_edu::reach(u64 addr, u64 len, u8 *buf, bool to_memory)
{
	addr &= h_.mask;
	for (u64 i = 0; i < len; i++) {
		auto it = areas_.upper_bound(addr + i);
		const bool there = it != areas_.begin() && addr + i - (--it)->first < it->second.size &&
				   (it->second.prot & (to_memory ? vfio::dma_write : vfio::dma_read)) && (command_ & 4);

		if (!there) {
			unmapped_accesses++;
			return false;
		}
		if (h_.files) {
			const off_t at = off_t(it->second.fd_offset + (addr + i - it->first));
			const int fd = it->second.fd;

			if ((to_memory ? pwrite(fd, buf + i, 1, at) : pread(fd, buf + i, 1, at)) != 1) {
				unmapped_accesses++;
				return false;
			}
			continue;
		}
		u8 *p = static_cast<u8 *>(it->second.vaddr) + (addr + i - it->first);
		if (to_memory)
			__atomic_store_n(p, buf[i], __ATOMIC_RELAXED);
		else
			buf[i] = __atomic_load_n(p, __ATOMIC_RELAXED);
	}
	return true;
}

void fake_edu::transfer()
{
	const bool to_memory = cmd_ & 2;
	const u64 inside = (to_memory ? src_ : dst_) - 0x40000;

	transfers++;
	/* QEMU before version 8 aborts here. */
	if (inside >= 4096 || len_ >= 4096 - inside) {
		fprintf(stderr, "fake edu: DMA range out of bounds\n");
		abort();
	}
	reach(to_memory ? dst_ : src_, len_, memory_ + inside, to_memory);
	cmd_ &= ~u64(1);
	if (!(cmd_ & 4) || h_.silent)
		return;
	irq_status_ |= 0x100;
	const u64 one = 1;
	if (irq_fd_ >= 0 && write(irq_fd_, &one, sizeof(one)) != sizeof(one))
		abort();
}

void fake_edu::work()
{
	std::unique_lock guard(lock_);

	while (!quit_) {
		if ((cmd_ & 1) && !h_.hangs)
			transfer();
		else
			changed_.wait(guard);
	}
}

} // namespace usdma::test
