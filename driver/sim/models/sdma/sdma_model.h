/* SPDX-License-Identifier: BSD-3-Clause */
/* The sdma device in software: its PCI function, registers and memory; the engines do the work. */
#pragma once

#include "driver/sim/config.h"
#include "driver/sim/model.h"
#include "driver/sim/models/sdma/engine.h"
#include "driver/sim/models/sdma/timing.h"
#include "driver/sim/pci_config.h"

#include <memory>

namespace usdma::sim {

class sdma_model final : public device_model {
public:
	explicit sdma_model(const config &cfg, faults *wrong = nullptr);
	~sdma_model() override;

	int start() override;
	void set_in_client() override
	{
		m_.in_client = asym_barrier_ready();
		m_.irqs.set_in_client();
	}
	int share(u64 iova, void *vaddr, u64 size) override { return m_.space.share(iova, vaddr, size); }
	std::shared_ptr<shared_mapping> memory() const override { return mem_; }

	u32 region_count() const override { return vfio::region_count; }
	const region_desc &region(u32 index) const override { return regions_[index]; }
	int region_read(u32 index, u64 offset, u8 *buf, u32 len) override;
	int region_write(u32 index, u64 offset, const u8 *buf, u32 len) override;
	std::span<const doorbell_desc> doorbells(u32 region) const override;

	u32 irq_types() const override { return vfio::irq_req + 1; }
	u32 irq_count(u32 index) const override;
	int irq_set(u32 index, u32 first, std::span<unique_fd> fds) override;
	int irq_clear(u32 index, u32 first, u32 count) override;
	int irq_trigger(u32 index, u32 vector) override;

	u32 max_areas() const override;
	int dma_map(u64 iova, u64 size, u32 prot, unique_fd fd, u64 offset) override;
	bool takes_any_file() const override { return cfg_.any_file; }
	int dma_unmap(u64 iova, u64 size) override { return m_.space.unmap(iova, size); }
	int dma_unmap_all() override;

	int reset() override;
	bool is_resetting() const override { return is_stopping(); }
	void quiesce() override;
	bool is_accessed() const override { return is_accessed_; }
	reply_fault next_reply() override { return m_.wrong ? m_.wrong->reply() : reply_fault::none; }
	void connect(remote_port *port) override { m_.remote = port; }

private:
	int make_memory();
	int describe_regions();
	engine &engine_of(u32 channel) const { return *engines_[channel % engines_.size()]; }
	int all_off();
	bool is_stopping() const;
	void start_values();

	/* sdma_regs.cpp: BAR0, in words of 32 bits. */
	int read_bar0(u64 offset, u8 *buf, u32 len);
	int write_bar0(u64 offset, const u8 *buf, u32 len);
	u32 read_word(u32 offset) const;
	u64 read_global(u32 reg) const;
	u32 debug_bits(const hw_channel &ch) const;
	u64 read_channel(const hw_channel &ch, u32 reg) const;
	int write_word(u32 offset, u32 value);
	int write_global(u32 offset, u32 value);
	int write_channel(hw_channel &ch, u32 offset, u32 value);
	int write_ctrl(u32 value);
	int write_mem_base(u64 base);
	int command(hw_channel &ch, u32 cmd);
	int enable(hw_channel &ch);
	int access_doorbell(u64 offset, u8 *in, const u8 *out, u32 len);

	config cfg_;
	machine m_;
	region_desc regions_[vfio::region_count];
	pci_config pci_;
	unique_fd bar0_fd_, mem_fd_;
	unique_fd error_; /* the client's eventfd for errors */
	mapping doorbell_pages_;
	std::shared_ptr<shared_mapping> mem_; /* nullptr: it has no memory */
	std::vector<u8> msix_; /* table and pending bits: stored, without effect; the client masks vectors */
	std::vector<doorbell_desc> doorbells_;
	std::unique_ptr<u8 *[]> ring_pages_;
	std::unique_ptr<hw_channel[]> channels_;
	std::unique_ptr<timing> order_;
	std::vector<std::unique_ptr<engine>> engines_;
	u32 ctrl_ = 0;
	bool is_accessed_ = false;
};

} // namespace usdma::sim
