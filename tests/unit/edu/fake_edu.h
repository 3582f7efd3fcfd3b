/* SPDX-License-Identifier: BSD-3-Clause */
/* A device that behaves as QEMU's edu, with optional faults. */
#pragma once

#include "driver/vfio/device.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

namespace usdma::test {

struct edu_behavior {
	u64 mask = ~u64(0);  /* of addresses */
	bool silent = false; /* transfers end without an interrupt */
	bool no_msi = false;
	bool hangs = false; /* transfers never end */
	bool files = false; /* memory is accessed only through its file, as by another process */
	u64 top = ~u64(0);  /* last usable IOVA */
	u32 id = 0x010000ed;
};

class fake_edu final : public vfio::device {
public:
	explicit fake_edu(edu_behavior h = {});
	~fake_edu() override;

	int region(unsigned index, vfio::region_info *out) override;
	int region_map(unsigned index, u64 offset, u64 size, mapping *out) override;
	int region_read(unsigned index, u64 offset, void *buf, size_t len) override;
	int region_write(unsigned index, u64 offset, const void *buf, size_t len) override;
	int region_fd(unsigned, u64 *) override { return -1; }
	int region_doorbell_fd(unsigned, u64) override { return -1; }
	int irq(unsigned index, vfio::irq_info *out) override;
	int irq_set(unsigned index, unsigned first, std::span<const int> fds) override;
	int limits(vfio::address_limits *out) override;
	int dma_map(const vfio::dma_area &area) override;
	int dma_unmap(u64 iova, u64 size) override;
	int reset() override;
	bool lost() const override { return lost_; }
	int lost_fd() const override { return -1; }
	const char *name() const override { return "fake"; }
	const char *backend() const override { return "fake"; }

	/* Read by the test. */
	std::atomic<bool> lost_{false};
	std::atomic<u64> transfers{0}, unmapped_accesses{0}, bad_accesses{0}, refused_writes{0};
	bool master();
	size_t mappings();
	/* Bytes of its memory that are not zero. */
	size_t nonzero_bytes();

private:
	void work();
	void transfer();
	bool reach(u64 addr, u64 len, u8 *buf, bool to_memory);
	u64 *dma_register(u64 offset);

	edu_behavior h_;
	std::mutex lock_;
	std::condition_variable changed_;
	std::map<u64, vfio::dma_area> areas_;
	u16 command_ = 0;
	u32 echo_ = 0, irq_status_ = 0;
	u64 src_ = 0, dst_ = 0, len_ = 0, cmd_ = 0;
	int irq_fd_ = -1;
	bool quit_ = false;
	u8 memory_[4096] = {};
	std::thread worker_;
};

} // namespace usdma::test
