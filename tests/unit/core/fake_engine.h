/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device that moves no data: it records its mappings, and fails on demand.  Its hardware queues have no ring.
 */
#pragma once

#include "driver/base/error.h"
#include "lib/core/device/device.h"
#include "lib/core/memory/memory.h"

#include <functional>
#include <map>
#include <mutex>

namespace usdma::test {

class fake_device : public vfio::device {
public:
	std::map<u64, vfio::dma_area> areas;
	vfio::address_limits lim;
	int fail_map_at = 0; /* the n-th map from now fails; 0: none */
	int fail_unmap_at = 0;
	int lose_at_map = 0; /* the device is lost at the n-th map from now, after it is done, before the reply */
	int lose_at_unmap = 0;
	unsigned maps = 0, unmaps = 0, wrong = 0;
	bool is_lost = false;
	bool can_quiesce = true;      /* once it is lost, quiesce() succeeds */
	bool silent = false;          /* it is lost, and only answers() detects that */
	unsigned queries = 0;         /* calls of answers() */
	std::function<void()> on_map; /* before each map */
	mutable std::mutex lock;

	fake_device() { lim.usable.push_back({0, ~u64(0)}); }

	int region(unsigned, vfio::region_info *) override { return fail(ENODEV, "fake"); }
	int region_map(unsigned, u64, u64, mapping *) override { return fail(ENODEV, "fake"); }
	int region_read(unsigned, u64, void *, size_t) override { return fail(ENODEV, "fake"); }
	int region_write(unsigned, u64, const void *, size_t) override { return fail(ENODEV, "fake"); }
	int region_fd(unsigned, u64 *) override { return -1; }
	int region_doorbell_fd(unsigned, u64) override { return -1; }
	int irq(unsigned, vfio::irq_info *) override { return fail(ENODEV, "fake"); }
	int irq_set(unsigned, unsigned, std::span<const int>) override { return fail(ENODEV, "fake"); }
	int limits(vfio::address_limits *out) override
	{
		*out = lim;
		return 0;
	}
	int dma_map(const vfio::dma_area &a) override;
	int dma_unmap(u64 iova, u64 size) override;
	int reset() override { return 0; }
	bool lost() const override { return is_lost; }
	int answers() override
	{
		queries++;
		is_lost = is_lost || silent;
		return is_lost ? fail(ENODEV, "fake: lost") : 0;
	}
	int lost_fd() const override { return -1; }
	int quiesce() override { return can_quiesce ? 0 : -EAGAIN; }
	const char *name() const override { return "fake"; }
	const char *backend() const override { return "fake"; }

	/* The host memory that the device accesses at this address; nullptr: nothing is mapped. */
	u8 *reach(u64 iova, u32 prot = vfio::dma_read) const
	{
		std::lock_guard guard(lock);
		auto it = areas.upper_bound(iova);

		if (it == areas.begin() || iova - (--it)->first >= it->second.size || !(it->second.prot & prot))
			return nullptr;
		return static_cast<u8 *>(it->second.vaddr) + (iova - it->first);
	}
	size_t count() const
	{
		std::lock_guard guard(lock);

		return areas.size();
	}

private:
	bool overlaps(const vfio::dma_area &a) const
	{
		const auto next = areas.lower_bound(a.iova);

		if (next != areas.end() && next->first < a.iova + a.size)
			return true;
		return next != areas.begin() && std::prev(next)->first + std::prev(next)->second.size > a.iova;
	}
	bool usable(const vfio::dma_area &a) const
	{
		for (const vfio::range &r : lim.usable)
			if (a.iova >= r.start && a.iova + a.size - 1 <= r.last)
				return true;
		return false;
	}
};

inline int fake_device::dma_map(const vfio::dma_area &a)
{
	if (on_map)
		on_map();
	std::lock_guard guard(lock);

	maps++;
	if (is_lost)
		return fail(ENODEV, "fake: lost");
	if (fail_map_at && !--fail_map_at)
		return fail(ENOSPC, "fake: no more mappings");
	if (overlaps(a) || !usable(a) || !a.size || (a.iova | a.size | reinterpret_cast<u64>(a.vaddr)) % 4096) {
		wrong++;
		return fail(EINVAL, "fake: bad mapping");
	}
	areas[a.iova] = a;
	if (lose_at_map && !--lose_at_map)
		is_lost = true;
	return is_lost ? fail(ENODEV, "fake: lost before its reply") : 0;
}

inline int fake_device::dma_unmap(u64 iova, u64 size)
{
	std::lock_guard guard(lock);
	const auto it = areas.find(iova);

	unmaps++;
	if (is_lost)
		return fail(ENODEV, "fake: lost");
	if (fail_unmap_at && !--fail_unmap_at)
		return fail(EIO, "fake: unmap fails");
	if (lose_at_unmap && !--lose_at_unmap) {
		is_lost = true;
		return fail(ENODEV, "fake: lost before its reply");
	}
	if (it == areas.end() || it->second.size != size) {
		wrong++;
		return fail(ENOENT, "fake: no such mapping");
	}
	areas.erase(it);
	return 0;
}

class fake_engine : public dma::engine {
public:
	u64 base = 0;
	int base_error = 0;

	explicit fake_engine(u64 memory) : engine(std::make_unique<fake_device>())
	{
		limits_.memory_size = memory;
		limits_.caps = memory ? u32(dma::cap_memory) : 0;
		limits_.channels = 4;
	}
	void set_node(int node) { limits_.numa_node = node; }
	const char *driver_name() const override { return "fake"; }
	int channel_open(unsigned, const dma::channel_config &, dma::channel **) override
	{
		return fail(EOPNOTSUPP, "fake");
	}
	int set_memory_base(u64 b) override
	{
		base = b;
		return base_error ? fail(base_error, "fake: no base") : 0;
	}
};

/* Its last request that accesses host memory, and where. */
struct fake_channel : dma::channel {
	u64 use_seq, use_at;
};

/* A core device with this engine, and one hardware queue whose progress the test sets. */
struct fake {
	core::device dev;
	dma::completion_record record = {};
	dma::channel_ops ops = {};
	fake_channel ch = {};

	fake(unsigned slot, u64 memory, bool isolated = false)
	{
		dev.slot = slot;
		dev.reaches = 1u << slot | (isolated ? 0 : core::reach_common);
		dev.host_reach = isolated ? dev.reaches : core::reach_common;
		dev.spec = "fake";
		dev.eng = std::make_unique<fake_engine>(memory);
		dev.hw_queues.resize(4);
		auto l = std::make_unique<core::hw_queue>();
		l->dev = &dev;
		ch.ops = &ops;
		ch.record = &record;
		ops.last_use = [](const dma::channel *c, const dma::iova_range &where, u64 *seq) {
			const auto *f = static_cast<const fake_channel *>(c);

			*seq = f->use_seq;
			return f->use_at - where.first < where.size && dma::completed(c) < f->use_seq;
		};
		l->ch = &ch;
		dev.add(1, std::move(l));
	}
	fake_device &vfio() { return static_cast<fake_device &>(dev.eng->transport()); }
	fake_engine &engine() { return static_cast<fake_engine &>(*dev.eng); }
	void post(u64 n)
	{
		std::lock_guard guard(dev.hw_queues[1]->lock);

		store_relaxed(&ch.posted, ch.posted + n);
	}
	/* Posts a request that accesses host memory. */
	void post_use(u64 iova)
	{
		ch.use_at = iova;
		ch.use_seq = ch.posted + 1;
		post(1);
	}
	void complete() { store_release(&record.completed, ch.posted); }
};

} // namespace usdma::test
