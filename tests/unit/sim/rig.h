/* SPDX-License-Identifier: BSD-3-Clause */
/* The model behind a real socket, and a minimal driver that checks nothing: a test can make any mistake with it. */
#pragma once

#include "tests/support/test.h"

#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/hw/sdma_regs.h"
#include "driver/sim/models/sdma/sdma_model.h"
#include "driver/sim/server.h"
#include "driver/vfio_user/client.h"

#include <memory>
#include <thread>

namespace usdma::test {

using dma::fault_reason;
using dma::opcode;
using dma::space;
using sdma::descriptor;

/*
 * How the model reaches host memory.  USDMA_TEST_REACH=far: rings by messages as well, and only files are shared.
 * USDMA_TEST_BEHIND: a device that runs copies and fills for the models, of files.
 */
enum class reach { shared, file, messages };

inline constexpr u64 wait_ms = 20000; /* a test that waits so long has failed */
inline constexpr u64 mem_base = 0x100000000000;

struct host_area {
	u64 iova = 0;
	u64 size = 0;
	u8 *data = nullptr;
	unique_fd fd;
	mapping map;
};

struct rig {
	explicit rig(const sim::config &cfg = small(), reach how = reach::shared, sim::faults *injected = nullptr);
	~rig();

	static sim::config small();

	/* Maps size bytes at iova; anonymous for messages. */
	host_area make(u64 iova, u64 size, u32 prot = vfio::dma_read | vfio::dma_write);
	/* As make, for a ring: mapped by the model unless remote_rings. */
	host_area make_ring_area(u64 iova, u64 size);
	void drop(host_area &a);
	u8 *mem() { return memory_.data(); }

	u32 read32(u64 offset);
	u64 read64(u64 offset);
	void write32(u64 offset, u32 v);
	void write64(u64 offset, u64 v);

	const bool remote_rings; /* the model reaches rings by messages */
	bool behind = false;     /* there is a device behind the model */
	reach how;
	std::unique_ptr<sim::sdma_model> model;
	std::unique_ptr<sim::server> link;
	std::thread thread;
	std::unique_ptr<vfio::device> dev;
	mapping memory_;
	u64 mem_size = 0;
};

struct chan {
	chan(rig &r, u32 index, u32 order = 6, u64 first_seq = 0, u32 coalesce = 0);
	~chan();

	/* Writes the descriptor; returns its sequence number. */
	u64 put(descriptor d);
	u64 put_ready(descriptor d)
	{
		const u64 seq = put(d);

		ring_doorbell();
		return seq;
	}
	void ring_doorbell();
	void wake();
	/* False: halted, or not within wait_ms. */
	bool done(u64 seq);
	bool halted();
	/* Runs one descriptor; after a fault: checks the record, resumes, returns the reason. */
	fault_reason run(descriptor d);
	/* With remote rings, or a device behind the model: returns when the record shows the effect. */
	void command(u32 cmd)
	{
		r.write32(sdma::chan_ctrl(index) + sdma::chan_command, cmd);
		if (r.remote_rings || r.behind)
			wait_command(cmd);
	}
	void wait_command(u32 cmd);
	void arm(unsigned slot, u64 seq);
	u32 state() { return r.read32(sdma::chan_ctrl(index) + sdma::chan_state); }
	u64 completed() { return load_acquire(&status->record.completed); }

	rig &r;
	u32 index;
	host_area area;
	sdma::status_block *status;
	descriptor *ring;
	u64 size, posted;
	mapping doorbell;
	unique_fd irq[2];
};

descriptor make_copy(space from, u64 src, space to, u64 dst, u64 len);
/* Reads and clears the count of the eventfd; waits up to ms for the first interrupt. */
u64 take_irq(int fd, int ms);

} // namespace usdma::test
