/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * With any contents of a ring, the engine accesses only mapped memory, and writes
 * only where it may.  The input: a byte of settings, then descriptors of 64 bytes.
 * The input is also copied into mapped data, for indirect descriptors.  Each area
 * is between two pages without access; one area is read-only.
 */
#include "tests/fuzz/fuzz.h"

#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/base/log.h"
#include "driver/sim/models/sdma/sdma_model.h"

#include <sched.h>
#include <sys/mman.h>

using namespace usdma;
using namespace usdma::fuzz;
using namespace usdma::sdma;

static constexpr u64 page = 4096, area_size = 4 * page, mem_base = 0x100000000000;
static constexpr u64 rw_iova = 0x10000, ro_iova = 0x20000, ring_iova = 0x30000;
static constexpr u32 order = 4, ring_size = 1u << order;
static constexpr u64 one_ms = 1000; /* the channel is disabled if descriptors take longer */

/* Not used: no memory is mapped for access by messages. */
struct no_port final : sim::remote_port {
	u32 max_len() const override { return 4096; }
	int begin(sim::remote_access *) override { return -ENODEV; }
	void end(sim::remote_access *) override {}
	bool take_back(sim::remote_access *) override { return true; }
	bool counts_valid() const override { return true; }
};

struct world {
	world() : model(settings())
	{
		must_hold(!model.start());
		model.connect(&port);
		rw = make(rw_iova, vfio::dma_read | vfio::dma_write);
		ro = make(ro_iova, vfio::dma_read);
		ring = make(ring_iova, vfio::dma_read | vfio::dma_write);
		const u16 command = 6; /* memory space and bus master */
		must_hold(!model.region_write(vfio::region_config, 4, reinterpret_cast<const u8 *>(&command), 2));
		put(reg_ctrl, u32(ctrl_enable));
		put(reg_mem_base, mem_base);
	}
	static sim::config settings()
	{
		sim::config c;

		c.mem = 64 * KiB;
		c.channels = 1;
		c.engines = 1;
		c.spin_us = 0;
		return c;
	}
	u8 *make(u64 iova, u32 prot)
	{
		auto *p = static_cast<u8 *>(
			mmap(nullptr, area_size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

		must_hold(p != MAP_FAILED && !mprotect(p + page, area_size, PROT_READ | PROT_WRITE));
		model.share(iova, p + page, area_size);
		must_hold(!model.dma_map(iova, area_size, prot, unique_fd(), 0));
		return p + page;
	}
	template <class T> void put(u64 at, T v)
	{
		model.region_write(vfio::region_bar0, at, reinterpret_cast<const u8 *>(&v), sizeof(v));
	}
	template <class T> T get(u64 at)
	{
		T v = 0;

		model.region_read(vfio::region_bar0, at, reinterpret_cast<u8 *>(&v), sizeof(v));
		return v;
	}

	sim::sdma_model model;
	no_port port;
	u8 *rw, *ro, *ring;
};

static world &common()
{
	static world w;

	return w;
}

static u8 canary(u64 i)
{
	return u8(i * 7 + 3);
}

static u32 fill_ring(world &w, input in)
{
	u32 n = 0;

	for (; !in.empty() && n < ring_size; n++) {
		auto d = in.get<descriptor>();

		/* A wait without a timeout is valid, but would take too long. */
		if (d.op == u8(dma::opcode::wait))
			d.height = 1;
		d.tag = n + 1;
		memcpy(w.ring + page + ((n + 1) & (ring_size - 1)) * sizeof(d), &d, sizeof(d));
	}
	return n;
}

static void start(world &w, u8 how)
{
	const u64 c = chan_ctrl(0);

	w.put(c + chan_ring_base, ring_iova + page);
	w.put(c + chan_ring_order, order);
	w.put(c + chan_record, ring_iova);
	w.put(c + chan_first_seq, u64(0));
	w.put(c + chan_coalesce, u32(how & 0x0f));
	w.put(c + chan_command, u32(chan_cmd_enable));
	/* It may already be halted by a descriptor: a running engine reads it once its tag is valid. */
	must_hold(w.get<u32>(c + chan_state) == chan_state_running || w.get<u32>(c + chan_state) == chan_state_halted);
}

/* Runs until the last descriptor has ended, or the time is over. */
static void run(world &w, u32 n)
{
	const u64 c = chan_ctrl(0);
	const deadline until = deadline::in_ms(one_ms);

	w.put(chan_doorbell(0) + doorbell_tail, u64(n));
	while (!until.passed()) {
		const u32 state = w.get<u32>(c + chan_state);

		if (state == chan_state_halted && w.get<u64>(c + chan_head) >= n)
			break;
		if (state == chan_state_halted)
			w.put(c + chan_command, u32(chan_cmd_resume));
		else if (w.get<u64>(c + chan_head) >= n)
			break;
		else
			sched_yield();
	}
	w.put(c + chan_command, u32(chan_cmd_disable));
	must_hold(w.get<u32>(c + chan_state) == chan_state_off);
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	world &w = common();
	input in(data, size);
	const u8 how = in.get<u8>();

	log_set_level(log_level::none);
	memset(w.ring, 0, area_size);
	memset(w.rw, 0, area_size);
	memcpy(w.rw, data, size < area_size ? size : area_size);
	for (u64 i = 0; i < area_size; i++)
		w.ro[i] = canary(i);
	const u32 n = fill_ring(w, in);
	if (!n)
		return 0;
	start(w, how);
	run(w, n);
	for (u64 i = 0; i < area_size; i++)
		must_hold(w.ro[i] == canary(i));
	return 0;
}
