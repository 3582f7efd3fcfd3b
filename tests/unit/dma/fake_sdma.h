/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An sdma device that the test runs step by step: registers are bytes, commands
 * take effect in the write, and the test calls run() to execute descriptors.
 */
#pragma once

#include "driver/base/error.h"
#include "driver/hw/sdma_regs.h"
#include "driver/vfio/device.h"

#include <cerrno>
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace usdma::test {

/* The state of the device; it outlives the vfio::device, which the engine owns and frees. */
struct fake_sdma {
	static constexpr u64 mem_size = 64 * KiB;

	int bar0_fd, bar2_fd, wake_fd = -1;
	mapping bar0, bar2;
	u8 config[64] = {};
	u64 bar0_size = sdma::bar0_size, bar2_size = mem_size;
	u32 msix = 9;
	bool silent = false; /* reads return ones, as of a removed device */
	u32 msix_share = ~0u;
	u32 msix_left = ~0u; /* interrupts that the machine has left */
	std::vector<int> irqs;
	std::map<u64, vfio::dma_area> areas;
	std::vector<vfio::range> usable = {{0, 0xfedfffff}, {0xfef00000, ~u64(0) >> 9}};
	u64 page_size = 4096;
	u64 foreign_iova = 0, foreign_size = 0; /* mapped by another device in the same address space */
	bool mappable = true, lost = false, dead_commands = false, blind = false, dead_reset = false,
	     lose_on_command = false;
	bool own = false;      /* a connection of its own, as to a vfio-user server; else VFIO of the kernel */
	unsigned stopping = 0; /* reads of the state that still return stopping after a disable */
	unsigned freed_devices = 0;
	u64 next = 0; /* sequence number, on the one channel that the test runs */
	u32 channel = 0;
	std::vector<sdma::descriptor> ran;
	std::vector<u32> commands;

	static mapping map_file(int fd, u64 size)
	{
		if (ftruncate(fd, off_t(size)))
			return mapping();
		void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		return p == MAP_FAILED ? mapping() : mapping(p, size);
	}

	fake_sdma()
		: bar0_fd(memfd_create("bar0", MFD_CLOEXEC)), bar2_fd(memfd_create("bar2", MFD_CLOEXEC)),
		  bar0(map_file(bar0_fd, sdma::bar0_size)), bar2(map_file(bar2_fd, mem_size))
	{
		const u32 id = sdma::pci_vendor | u32(sdma::pci_device) << 16;

		memcpy(config, &id, sizeof(id));
		put(sdma::reg_id, sdma::id_value);
		put(sdma::reg_version, u32(sdma::version_major << 16 | 7));
		put(sdma::reg_caps, u64(sdma::hw_cap_sleep | sdma::hw_cap_memory | u64(1) << 60));
		put(sdma::reg_channels, 8u);
		put(sdma::reg_engines, 2u);
		put(sdma::reg_max_len, u64(1) << 30);
		put(sdma::reg_mem_size, mem_size);
		put(sdma::reg_status, u32(sdma::status_ready));
		put(sdma::reg_ring_order, 12u << 8 | 1);
		put(sdma::reg_vectors, 9u);
	}
	~fake_sdma()
	{
		close(bar0_fd);
		close(bar2_fd);
	}

	template <class T> T get(u64 off) const
	{
		T v;

		memcpy(&v, bar0.data() + off, sizeof(v));
		return v;
	}
	template <class T> void put(u64 off, T v) { memcpy(bar0.data() + off, &v, sizeof(v)); }

	/* ---- the device's view of the channel ---- */

	u64 page() const { return sdma::chan_ctrl(channel); }
	u8 *at(u64 iova) const
	{
		auto it = areas.upper_bound(iova);

		if (it == areas.begin())
			return nullptr;
		--it;
		return iova - it->first < it->second.size ? static_cast<u8 *>(it->second.vaddr) + (iova - it->first) :
							    nullptr;
	}
	dma::completion_record *record() const
	{
		return reinterpret_cast<dma::completion_record *>(at(get<u64>(page() + sdma::chan_record)));
	}
	u32 ring_size() const { return 1u << get<u32>(page() + sdma::chan_ring_order); }
	sdma::descriptor *slot(u64 seq) const
	{
		auto *ring = reinterpret_cast<sdma::descriptor *>(at(get<u64>(page() + sdma::chan_ring_base)));

		return &ring[seq & (ring_size() - 1)];
	}
	u64 tail() const { return get<u64>(sdma::chan_doorbell(channel) + sdma::doorbell_tail); }
	/* Runs at most n posted descriptors; returns how many. */
	unsigned run(unsigned n)
	{
		unsigned count = 0;

		for (; count < n && slot(next)->tag == u32(next); count++) {
			ran.push_back(*slot(next));
			record()->completed = next++;
		}
		return count;
	}
	void halt(dma::fault_reason reason, u64 address)
	{
		dma::completion_record *r = record();

		r->reason = u32(reason);
		r->fault_seq = next;
		r->fault_address = address;
		r->fault_cookie = slot(next)->cookie;
		r->state = dma::state_halted;
		put(page() + sdma::chan_state, u32(sdma::chan_state_halted));
	}

	void command(u32 ch, u32 cmd)
	{
		commands.push_back(cmd);
		lost = lost || lose_on_command;
		if (dead_commands)
			return;
		const u64 state = sdma::chan_ctrl(ch) + sdma::chan_state;
		channel = ch;
		if (cmd == sdma::chan_cmd_enable) {
			next = get<u64>(page() + sdma::chan_first_seq) + 1;
			put(state, u32(!blind && record() ? sdma::chan_state_running : sdma::chan_state_error));
		} else if (cmd == sdma::chan_cmd_disable) {
			put(state, u32(stopping ? sdma::chan_state_stopping : sdma::chan_state_off));
		} else if (cmd == sdma::chan_cmd_stop) {
			halt(dma::fault_reason::stopped, 0);
		} else if (cmd == sdma::chan_cmd_resume) {
			if (record()->reason != u32(dma::fault_reason::stopped))
				record()->completed = next++;
			record()->state = dma::state_running;
			put(state, u32(sdma::chan_state_running));
		}
	}
	void after_read(u64 off)
	{
		if (off == page() + sdma::chan_state && get<u32>(off) == sdma::chan_state_stopping && !--stopping)
			put(off, u32(sdma::chan_state_off));
	}
	void after_write(u64 off)
	{
		const u64 ch = (off - sdma::chan_ctrl_base) / sdma::chan_stride;

		if (off == sdma::reg_ctrl && !dead_reset)
			put(off, get<u32>(off) & ~u32(sdma::ctrl_reset));
		else if (off >= sdma::chan_ctrl_base && off < sdma::chan_doorbell_base &&
			 off == sdma::chan_ctrl(u32(ch)) + sdma::chan_command)
			command(u32(ch), get<u32>(off));
	}
};

class fake_device final : public vfio::device {
public:
	explicit fake_device(fake_sdma &f) : f_(f) {}
	~fake_device() override { f_.freed_devices++; }

	bool own_connection() const override { return f_.own; }

	int region(unsigned index, vfio::region_info *out) override
	{
		out->size = index == vfio::region_bar0 ? f_.bar0_size : index == vfio::region_bar2 ? f_.bar2_size : 0;
		return 0;
	}
	int region_map(unsigned index, u64 offset, u64 size, mapping *out) override
	{
		if (!f_.mappable)
			return fail(EOPNOTSUPP, "not mappable");
		const int fd = index == vfio::region_bar0 ? f_.bar0_fd : f_.bar2_fd;
		void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, off_t(offset));
		*out = mapping(p, size);
		return 0;
	}
	/* VFIO still returns the ids and bit 10 of the command register from its cache. */
	void copy_cached_config(u8 *buf, u64 offset, size_t len) const
	{
		for (u64 at = offset; at < offset + len && at < 6; at++)
			buf[at - offset] = at < 4 ? f_.config[at] : at == 5 ? u8(0xfb) : u8(0xff);
	}
	int region_read(unsigned index, u64 offset, void *buf, size_t len) override
	{
		if (f_.lost)
			return fail(ENODEV, "lost");
		if (f_.silent) {
			memset(buf, 0xff, len);
			if (index == vfio::region_config)
				copy_cached_config(static_cast<u8 *>(buf), offset, len);
			return 0;
		}
		memcpy(buf, (index == vfio::region_config ? f_.config : f_.bar0.data()) + offset, len);
		if (index == vfio::region_bar0)
			f_.after_read(offset);
		return 0;
	}
	int region_write(unsigned index, u64 offset, const void *buf, size_t len) override
	{
		if (f_.lost)
			return fail(ENODEV, "lost");
		memcpy((index == vfio::region_config ? f_.config : f_.bar0.data()) + offset, buf, len);
		if (index == vfio::region_bar0)
			f_.after_write(offset);
		return 0;
	}
	int region_fd(unsigned index, u64 *off) override
	{
		*off = 0;
		return index == vfio::region_bar2 && f_.mappable ? f_.bar2_fd : -1;
	}
	int region_doorbell_fd(unsigned, u64) override { return f_.wake_fd; }
	int irq(unsigned index, vfio::irq_info *out) override
	{
		out->count = index == vfio::irq_msix ? f_.msix : 0;
		out->share = f_.msix_share;
		return 0;
	}
	int irq_set(unsigned, unsigned first, std::span<const int> fds) override
	{
		if (fds.size() > f_.msix_left)
			return fail(ENOSPC, "no interrupts left");
		f_.irqs.resize(std::max(f_.irqs.size(), first + fds.size()), -1);
		std::copy(fds.begin(), fds.end(), f_.irqs.begin() + first);
		return 0;
	}
	int limits(vfio::address_limits *out) override
	{
		out->usable = f_.usable;
		out->page_size = f_.page_size;
		return 0;
	}
	int dma_map(const vfio::dma_area &a) override
	{
		if (f_.lost)
			return fail(ENODEV, "lost");
		if (f_.foreign_size && a.iova < f_.foreign_iova + f_.foreign_size && f_.foreign_iova < a.iova + a.size)
			return fail(EEXIST, "overlaps");
		for (const auto &[iova, o] : f_.areas)
			if (a.iova < iova + o.size && iova < a.iova + a.size)
				return fail(EEXIST, "overlaps");
		f_.areas[a.iova] = a;
		return 0;
	}
	int dma_unmap(u64 iova, u64 size) override
	{
		auto it = f_.areas.find(iova);

		if (f_.lost)
			return fail(ENODEV, "lost");
		if (it == f_.areas.end() || it->second.size != size)
			return fail(ENOENT, "no such mapping");
		f_.areas.erase(it);
		return 0;
	}
	int reset() override
	{
		f_.put(sdma::reg_mem_base, u64(0));
		f_.put(sdma::reg_ctrl, 0u);
		f_.config[4] = 0;
		return f_.lost ? -ENODEV : 0;
	}
	bool lost() const override { return f_.lost; }
	int lost_fd() const override { return -1; }
	const char *name() const override { return "fake"; }
	const char *backend() const override { return "test"; }

private:
	fake_sdma &f_;
};

} // namespace usdma::test
