/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A model whose registers act on access, so that each access is a message, and whose queues are run by one thread. It
 * has what does not depend on the device: the PCI function, the client's interrupts and memory, the thread, injected
 * faults. A device's model adds its registers and what its queues do.
 */
#pragma once

#include "driver/base/clock.h"
#include "driver/sim/client_memory.h"
#include "driver/sim/config.h"
#include "driver/sim/engine_thread.h"
#include "driver/sim/interrupts.h"
#include "driver/sim/model.h"
#include "driver/sim/pci_config.h"

#include <mutex>

namespace usdma::sim {

class threaded_model : public device_model {
public:
	void set_in_client() override { in_client_ = true; }
	int share(u64 iova, void *vaddr, u64 size) override { return space_.share(iova, vaddr, size); }

	u32 region_count() const override { return vfio::region_count; }
	const region_desc &region(u32 index) const override { return regions_[index]; }
	int region_read(u32 index, u64 offset, u8 *buf, u32 len) override;
	int region_write(u32 index, u64 offset, const u8 *buf, u32 len) override;
	std::span<const doorbell_desc> doorbells(u32) const override { return {}; }

	u32 irq_types() const override { return vfio::irq_req + 1; }
	u32 irq_count(u32 index) const override;
	int irq_set(u32 index, u32 first, std::span<unique_fd> fds) override;
	int irq_clear(u32 index, u32 first, u32 count) override;
	int irq_trigger(u32 index, u32 vector) override;

	u32 max_areas() const override { return dma_bounds().areas; }
	int dma_map(u64 iova, u64 size, u32 prot, unique_fd fd, u64 offset) override;
	bool takes_any_file() const override { return cfg_.any_file; }
	int dma_unmap(u64 iova, u64 size) override { return space_.unmap(iova, size); }
	int dma_unmap_all() override { return space_.unmap_all(); }

	void quiesce() override;
	reply_fault next_reply() override { return wrong_ ? wrong_->reply() : reply_fault::none; }
	void connect(remote_port *port) override;

protected:
	/* queues: that the thread runs. */
	threaded_model(const config &cfg, faults *wrong, u32 queues, u32 vectors);
	/* Makes the function and starts the thread; its name is that of the engine, too. The MSI-X table is with the
	 * registers. */
	int start_function(const char *name, const pci_layout &layout, u64 msix_bytes);

	/* ---- the device: with lock_ held, unless said otherwise ---- */
	/* The BAR of registers but the MSI-X table: 1, 2, 4 or 8 bytes, aligned. */
	virtual u64 read_register(u32 offset, u32 len) = 0;
	virtual void write_register(u32 offset, u64 value, u32 len) = 0;
	/* The server's thread, without the lock: another BAR. */
	virtual int read_bar(u32 index, u64 offset, u8 *buf, u32 len);
	virtual int write_bar(u32 index, u64 offset, const u8 *buf, u32 len);
	/* Bus mastering was switched off; no access comes any more. */
	virtual void bus_master_off() {}
	/* The thread, without the lock, in a pass: the next step of a queue. False: it has nothing to do. */
	virtual bool run_queue(u32 index) = 0;
	/* It hangs by an injected fault, and checks again whether it still does. */
	virtual bool is_hung(u32 index) const = 0;
	/* What it runs is to end now: a delay is cancelled. */
	virtual bool is_cancelled(u32 index) const = 0;

	/* The thread has something to do. */
	void kick();

	/* ---- the thread, without the lock ---- */
	/* A message, if it may access memory. */
	void raise(u32 vector);
	/* Outside of a pass, so that areas can be unmapped. */
	void delay(u32 index, u64 until_ns);
	/* Until the client has checked what was copied, on a busy machine too. */
	void delay_early(u32 index);
	/* How long a descriptor of so many bytes takes at least; ns: by an injected fault. */
	u64 pace_from() const { return wrong_ || cfg_.latency_us || cfg_.rate ? now_ns() : 0; }
	void pace(u32 index, u64 from, u64 ns, u64 bytes);
	/* wrong_ is set: descriptor seq hangs, or the device vanishes. */
	bool injected_hang(u32 index, u64 seq);

	config cfg_;
	const u32 queues_count_;
	dma_space space_;
	interrupts irqs_;
	client_memory memory_;
	faults *wrong_;
	pci_config pci_;
	engine_thread thread_{memory_.reader()};

	mutable std::mutex lock_; /* protects the device's state, and what follows */
	u64 due_ = 0;             /* vectors that the thread raises … */

private:
	void end_accesses();
	int write_config(u32 offset, const u8 *buf, u32 len);
	static void *thread_main(void *arg);
	void run();
	bool run_queues();
	void raise_due();
	void sleep();

	u64 triggered_ = 0; /* … and those of the client's own request */

	const char *name_ = nullptr;
	bool in_client_ = false;
	u32 registers_ = 0, irq_type_ = 0; /* indexes of a region and of interrupts */
	region_desc regions_[vfio::region_count];
	u64 msix_at_ = 0;
	std::vector<u8> msix_; /* table and pending bits: stored, without effect; the client masks vectors */
	unique_fd error_;      /* the client's eventfd for errors */
	remote_port *remote_ = nullptr;
	unique_fd wake_;
};

} // namespace usdma::sim
