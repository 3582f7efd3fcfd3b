/* SPDX-License-Identifier: BSD-3-Clause */
/* A device of the kernel's VFIO, for both backends. kernel_irq.cpp has interrupts and loss detection. */
#pragma once

#include "driver/base/barrier.h"
#include "driver/base/unique_fd.h"
#include "driver/pci/sysfs.h"
#include "driver/vfio/bar_guard.h"
#include "driver/vfio/claim.h"
#include "driver/vfio/kernel.h"
#include "driver/vfio/kernel_space.h"

#include <deque>
#include <pthread.h>
#include <set>

namespace usdma::vfio {

class kernel_device final : public device {
public:
	/* group: stays open as long as the device; empty for iommufd. */
	kernel_device(const pci::function &f, device_claim claim, unique_fd fd, std::shared_ptr<dma_space> space,
		      std::shared_ptr<void> group);
	~kernel_device() override;

	int start();

	int region(unsigned index, region_info *out) override;
	int region_map(unsigned index, u64 offset, u64 size, mapping *out) override;
	int region_read(unsigned index, u64 offset, void *buf, size_t len) override;
	int region_write(unsigned index, u64 offset, const void *buf, size_t len) override;
	/* The kernel's file contains all regions, including config space, so it is not shared with peers. */
	int region_fd(unsigned index, u64 *fd_offset) override;
	int region_doorbell_fd(unsigned index, u64 offset) override;

	int irq(unsigned index, irq_info *out) override;
	int irq_set(unsigned index, unsigned first, std::span<const int> fds) override;

	int limits(address_limits *out) override;
	int dma_map(const dma_area &area) override;
	int dma_unmap(u64 iova, u64 size) override;
	int reset() override;

	int answers() override;
	bool lost() const override { return load_acquire(&lost_); }
	bool is_leaving() const override { return load_seq_cst(&leaving_) || lost(); }
	int lost_fd() const override { return lost_fd_.get(); }
	int quiesce() override;
	const char *name() const override { return name_.c_str(); }
	const char *backend() const override { return space_->backend(); }
	int numa_node() const override { return node_; }

private:
	struct region_state {
		bool queried = false;
		region_info info;
		u64 fd_offset = 0;
	};
	/* Vectors of one interrupt type; -1: disabled. */
	struct vectors {
		std::vector<unique_fd> fd;
		unsigned enabled = 0; /* vectors [0, enabled) are configured in the kernel */
	};

	int lost_error() const;
	int failed(const char *what);
	int get_region(unsigned index, const region_state **out);
	int query_region(unsigned index, region_state *out);
	int find_access(unsigned index, u64 offset, u64 len, u32 right, u64 *fd_offset);
	template <class F>
	int access(unsigned index, u64 offset, u8 *p, size_t len, u32 right, const char *what, const F &move);
	bool bus_master_off();
	void release_areas();
	bool revoke_areas();

	int irq_count(unsigned index, u32 *count);
	int irq_ioctl(unsigned index, u32 flags, unsigned first, std::span<const int> fds);
	int irq_apply(unsigned index, vectors *v, unsigned first, size_t count, bool *gap);
	static void irq_raise_all(const vectors &v);
	void irq_drop(vectors *v, unsigned first, size_t count);
	int irq_take(vectors *v, unsigned first, std::span<const int> fds);
	int irqs_off();
	int monitor_start();
	void monitor_stop();
	static void *monitor_main(void *arg);
	void mark_lost(const char *why);

	device_claim claim_; /* first: released after all other members */
	std::string name_;
	int node_;
	std::shared_ptr<void> group_;
	std::shared_ptr<dma_space> space_;
	std::shared_ptr<bar_guard> bars_;
	unique_fd fd_;
	u32 num_regions_ = 0, num_irqs_ = 0;
	bool can_reset_ = false;

	std::mutex region_lock_; /* protects regions_ */
	std::deque<region_state> regions_;
	std::mutex irq_lock_; /* protects vectors_, and their configuration in the kernel */
	std::mutex fd_lock_;  /* nests in irq_lock_; protects vectors_ for mark_lost(), which may run under irq_lock_ */
	std::deque<vectors> vectors_;
	std::mutex area_lock_;                /* protects areas_ */
	std::set<std::pair<u64, u64>> areas_; /* (iova, size) that this device mapped */

	bool lost_ = false, leaving_ = false; /* atomic */
	unique_fd lost_fd_, request_fd_, stop_fd_;
	pthread_t monitor_{};
	bool monitoring_ = false;
};

} // namespace usdma::vfio
